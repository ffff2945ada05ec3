//! How large an alternate signal stack must be for the handler to run on it. On a smaller one the kernel ends the process: it is
//! looked at before each signal, since programs that run already have set theirs up unseen by the shim.

use std::arch::x86_64::__cpuid_count;

/// What the handler itself uses, with a margin.
const HANDLER: u32 = 2048;
/// The kernel's frame where it does not say how large that is.
const USUAL_FRAME: u32 = 3632;
/// Number of the state component XTILEDATA (Intel SDM, volume 1, section 13.1).
const XTILEDATA: u32 = 18;

/// The least size in bytes, for a process that has not asked for AMX.
#[must_use]
pub fn least() -> u32 {
    // SAFETY: reads the auxiliary vector.
    let frame = u32::try_from(unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) }).unwrap_or(0);
    least_for(frame, tiles())
}

fn least_for(frame: u32, tiles: u32) -> u32 {
    let frame = if frame == 0 { USUAL_FRAME } else { frame };
    // Whoever takes the kernel's number at its word has room for us in the tiles that it does not use.
    frame.checked_sub(tiles).unwrap_or(frame) + HANDLER
}

/// The part of the largest frame that only users of AMX need: it is the last, where it is there at all.
fn tiles() -> u32 {
    if __cpuid_count(0, 0).eax < 0xD {
        return 0;
    }
    let (all, tiles) = (__cpuid_count(0xD, 0), __cpuid_count(0xD, XTILEDATA));
    if tiles.eax != 0 && tiles.ebx.checked_add(tiles.eax) == Some(all.ebx) { tiles.eax } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_of_the_size_that_the_kernel_names_has_room_where_there_are_tiles() {
        assert!(least_for(11_952, 8192) < 11_952);
        assert_eq!(least_for(3632, 0), 3632 + HANDLER);
        assert_eq!(least_for(0, 0), USUAL_FRAME + HANDLER, "an old kernel");
        // `SIGSTKSZ`, which programs take that do not ask.
        assert!(least() < 8192, "{}", least());
    }
}

//! Restartable sequences: a thread that is stopped within one must go on at its abort address.
//!
//! The kernel does that itself when it interrupts a thread; but by the time that it looks, the thread is somewhere else, at
//! the system call that we make it run. Without the abort it would go on in the middle, with another CPU's data.

use super::trace::RseqConfiguration;

/// `struct rseq`: where the address of the sequence's description is.
const DESCRIPTION_AT: u64 = 8;
/// `struct rseq_cs`.
const DESCRIPTION: usize = 32;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Where to go on instead of at `pc`; `None`: it is in no sequence. `read` reads the thread's memory.
pub fn abort(
    configuration: &RseqConfiguration,
    pc: u64,
    read: impl Fn(u64, &mut [u8]) -> Option<()>,
) -> Option<u64> {
    let mut pointer = [0; 8];
    read(configuration.area.checked_add(DESCRIPTION_AT)?, &mut pointer)?;
    let description = u64::from_le_bytes(pointer);
    if description == 0 {
        return None;
    }
    let mut bytes = [0; DESCRIPTION];
    read(description, &mut bytes)?;
    let (start, length, abort) = (word(&bytes, 8)?, word(&bytes, 16)?, word(&bytes, 24)?);
    (pc.wrapping_sub(start) < length).then_some(abort)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An area at 0x1000 whose sequence, described at 0x2000, is from 0x500 to 0x510 and aborts at 0x900.
    fn read(at: u64, into: &mut [u8]) -> Option<()> {
        let mut area = [0u8; 32];
        let mut description = [0u8; DESCRIPTION];
        area[8..16].copy_from_slice(&0x2000u64.to_le_bytes());
        for (place, value) in [(8, 0x500u64), (16, 0x10), (24, 0x900)] {
            description[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        let (base, memory) = if at < 0x2000 { (0x1000, &area) } else { (0x2000, &description) };
        into.copy_from_slice(memory.get((at - base) as usize..)?.get(..into.len())?);
        Some(())
    }

    #[test]
    fn within_a_sequence_it_goes_on_at_the_abort() {
        let configuration = RseqConfiguration { area: 0x1000, ..RseqConfiguration::default() };
        for (pc, goes_on) in [(0x4ff, None), (0x500, Some(0x900)), (0x50f, Some(0x900)), (0x510, None)] {
            assert_eq!(abort(&configuration, pc, read), goes_on, "{pc:#x}");
        }
    }

    #[test]
    fn no_sequence_no_abort() {
        let configuration = RseqConfiguration { area: 0x1008, ..RseqConfiguration::default() };
        assert_eq!(abort(&configuration, 0, read), None);
        assert_eq!(abort(&configuration, 0x500, |_, _| None), None, "memory that cannot be read");
    }
}

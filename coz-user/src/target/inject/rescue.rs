//! What becomes of a thread whose holder is killed: it puts itself right.
//!
//! While a thread runs calls of ours, its registers are not its own. The kernel lets it go wherever it is when its holder
//! ends, in whatever way. So it makes our calls from a piece of code that goes on, behind the call, by undoing what has been done,
//! and then loads the registers that the thread was stopped with. As long as its holder lives it is stopped before that.
//!
//! The code needs a place before anything can be mapped: the zeros that fill up the last page of the vDSO, of which the process
//! gets a copy of its own (as of one in which a debugger sets a breakpoint). They are zeros again afterwards.

use super::trace::Registers;

// Flags, stack and floating point are never touched, so they need not be restored.
core::arch::global_asm!(
    ".pushsection .rodata.coz_rescue, \"a\", @progbits",
    ".balign 16",
    ".globl coz_rescue_begin",
    ".hidden coz_rescue_begin",
    "coz_rescue_begin:",
    ".ascii \"coz-bpf\\0\"",
    ".globl coz_rescue_call",
    ".hidden coz_rescue_call",
    "coz_rescue_call:",
    "syscall",
    ".globl coz_rescue_undo",
    ".hidden coz_rescue_undo",
    "coz_rescue_undo:",
    "lea rbx, [rip + coz_rescue_data + 96]",
    "2:",
    "mov rcx, [rbx]",
    "jrcxz 3f",
    "lea rax, [rcx - 1]",
    "mov rdi, [rbx + 8]",
    "mov rsi, [rbx + 16]",
    "mov rdx, [rbx + 24]",
    "mov r10, [rbx + 32]",
    "lea rbx, [rbx + 40]",
    "syscall",
    "jmp 2b",
    "3:",
    "mov rax, [rip + coz_rescue_data]",
    "mov rbx, [rip + coz_rescue_data + 8]",
    "mov rcx, [rip + coz_rescue_data + 16]",
    "mov rdx, [rip + coz_rescue_data + 24]",
    "mov rsi, [rip + coz_rescue_data + 32]",
    "mov rdi, [rip + coz_rescue_data + 40]",
    "mov r8, [rip + coz_rescue_data + 48]",
    "mov r9, [rip + coz_rescue_data + 56]",
    "mov r10, [rip + coz_rescue_data + 64]",
    "mov r11, [rip + coz_rescue_data + 72]",
    "jmp [rip + coz_rescue_data + 80]",
    ".balign 8",
    // Ten registers, where to go on, the mask; then the list.
    ".globl coz_rescue_data",
    ".hidden coz_rescue_data",
    "coz_rescue_data:",
    ".popsection",
);

unsafe extern "C" {
    static coz_rescue_begin: u8;
    static coz_rescue_call: u8;
    static coz_rescue_undo: u8;
    static coz_rescue_data: u8;
}

/// The first bytes of the code, which is never executed from there.
pub const MARK: &[u8; 8] = b"coz-bpf\0";
/// Registers and mask.
const DATA: usize = 12 * WORD;
const WORD: usize = 8;
/// A call in the list: number plus one, four arguments.
const ENTRY: usize = 5 * WORD;
/// Calls that are made in any case: priority and mask.
const LAST: usize = 2;
/// As much room is enough for all that there ever is to undo.
pub const MOST: usize = 768;

/// A system call with no more than four arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undo {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 4],
}

/// What stands in the process, and what is to be in it.
#[derive(Clone, Debug)]
pub struct Rescue {
    at: u64,
    room: usize,
    code: &'static [u8],
    resumed: Registers,
    mask: u64,
    /// The nice value to go back to.
    pub nice: Option<i32>,
}

/// The code.
fn code() -> &'static [u8] {
    let length = offset(&raw const coz_rescue_data);
    // SAFETY: from its first to its last label, in read-only data.
    unsafe { std::slice::from_raw_parts(&raw const coz_rescue_begin, length) }
}

fn offset(label: *const u8) -> usize {
    label.addr() - (&raw const coz_rescue_begin).addr()
}

/// The least room that it takes.
#[must_use]
pub fn least() -> usize {
    code().len() + DATA + LAST * ENTRY + WORD
}

impl Rescue {
    /// For a thread that goes on with these registers (`restart::resumed`) and this mask of signals, at a place with so much room.
    #[must_use]
    pub fn new(at: u64, room: usize, resumed: Registers, mask: u64) -> Self {
        Self { at, room, code: code(), resumed, mask, nice: None }
    }

    /// Where it is.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Where a system call is made.
    #[must_use]
    pub fn call(&self) -> u64 {
        self.at + offset(&raw const coz_rescue_call) as u64
    }

    /// Where it goes on behind the call.
    #[must_use]
    pub fn undo(&self) -> u64 {
        self.at + offset(&raw const coz_rescue_undo) as u64
    }

    /// All of it. What there is no room for in the list is left out from its end.
    #[must_use]
    pub fn bytes(&self, undo: &[Undo]) -> Vec<u8> {
        let mut bytes = self.code.to_vec();
        let r = &self.resumed;
        for word in [r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.rip, self.mask] {
            bytes.extend(word.to_ne_bytes());
        }
        let room = self.room.saturating_sub(least()) / ENTRY;
        let nice = self.nice.map(|nice| Undo {
            number: libc::SYS_setpriority,
            // Of the calling thread.
            arguments: [libc::PRIO_PROCESS as u64, 0, i64::from(nice).cast_unsigned(), 0],
        });
        let mask = Undo {
            number: libc::SYS_rt_sigprocmask,
            arguments: [libc::SIG_SETMASK as u64, self.mask_at(), 0, WORD as u64],
        };
        for Undo { number, arguments } in undo.iter().take(room).copied().chain(nice).chain([mask]) {
            bytes.extend((number + 1).to_ne_bytes());
            bytes.extend(arguments.iter().flat_map(|word| word.to_ne_bytes()));
        }
        bytes.extend([0; WORD]);
        bytes
    }

    /// What was there before.
    #[must_use]
    pub fn zeros(&self) -> Vec<u8> {
        vec![0; self.room]
    }

    fn mask_at(&self) -> u64 {
        self.at + (self.code.len() + DATA - WORD) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rescue(room: usize) -> Rescue {
        // SAFETY: plain integers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        (registers.rax, registers.rip) = (0xaaaa, 0xbbbb);
        Rescue::new(0x1000, room, registers, 0xcccc)
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn it_begins_with_its_mark_and_a_call_and_is_followed_by_what_the_thread_had() {
        let rescue = rescue(MOST);
        let bytes = rescue.bytes(&[]);
        assert_eq!(bytes[..8], *MARK);
        assert_eq!(bytes[8..10], [0x0f, 0x05], "syscall");
        assert_eq!((rescue.call(), rescue.undo()), (0x1008, 0x100a));
        let data = code().len();
        assert_eq!(data % 8, 0);
        assert_eq!((word(&bytes, data), word(&bytes, data + 80)), (0xaaaa, 0xbbbb));
        let mask = (rescue.mask_at() - 0x1000) as usize;
        assert_eq!(word(&bytes, mask), 0xcccc);
        assert_eq!(mask + 8, data + DATA, "the list follows");
    }

    #[test]
    fn the_mask_is_restored_last_and_however_little_room_there_is() {
        let close = |fd| Undo { number: libc::SYS_close, arguments: [fd, 0, 0, 0] };
        let list = code().len() + DATA;
        for (room, fits) in [(least(), 0), (least() + 2 * ENTRY + 7, 2), (MOST, 3)] {
            let mut rescue = rescue(room);
            rescue.nice = Some(-3);
            let bytes = rescue.bytes(&[close(5), close(6), close(7)]);
            assert!(bytes.len() <= room);
            let calls: Vec<u64> = bytes[list..].chunks(ENTRY).map(|entry| word(entry, 0)).collect();
            let (close, nice, mask) = (libc::SYS_close, libc::SYS_setpriority, libc::SYS_rt_sigprocmask);
            let expected = std::iter::repeat_n(close, fits).chain([nice, mask]);
            let expected = expected.map(|number| number as u64 + 1).chain([0]);
            assert_eq!(calls, expected.collect::<Vec<_>>(), "{room} bytes");
        }
    }

    #[test]
    fn all_that_is_ever_undone_fits() {
        // Five descriptors, six mappings.
        assert!(least() + 11 * ENTRY <= MOST, "{}", least());
    }
}

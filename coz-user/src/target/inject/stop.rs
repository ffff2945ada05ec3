//! One thread, stopped, and made to run system calls of ours; then let go as if nothing had been.
//!
//! It is stopped by a request (`PTRACE_INTERRUPT`), not by a signal, on its way back to its own code; it runs nothing but
//! `syscall` instructions, one at a time; its stack is not touched; every signal waits until it is let go. It
//! is let go from the same kind of stop: there the kernel makes a system call that was broken off begin again, by what stands
//! in its registers.
//!
//! Whoever holds it may be killed at any moment. So its registers are either its own, or such that it puts everything right by itself
//! (`rescue`); mask and priority are only changed while they are the latter.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    gate::Gate,
    holds::Hold,
    priority::{self, First},
    program::Program,
    rescue::{Rescue, Undo},
    restart, rseq,
    trace::{self, Registers, Stop},
};
use crate::target::{frozen::is_frozen, seccomp};

/// How long a thread may take to stop: it does so at once, unless it waits for a disk or the like, or for a CPU.
const PATIENCE: Duration = Duration::from_secs(2);
/// And how long a tracer of ours to let go of it.
const LETTING_GO: Duration = Duration::from_millis(100);
/// Code segment of 64-bit code.
const CODE_64: u64 = 0x33;
/// `TF` in the flags: single steps.
const TRAP: u64 = 1 << 8;

/// Takes a thread over. A tracer of ours lets go of a thread that could not be stopped when it ends itself, which is a moment after the
/// process is another one's to hold; until then, as where we have no right to, the kernel says `EPERM`.
fn seize(pid: i32, tid: i32) -> io::Result<()> {
    let since = Instant::now();
    loop {
        let result = trace::seize(tid);
        let refused = result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
        let others =
            || trace::tracer(pid).is_some_and(|by| !Path::new(&format!("/proc/self/task/{by}")).exists());
        if !refused || since.elapsed() > LETTING_GO || others() {
            return result;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that is stopped.
#[derive(Debug)]
pub struct Held {
    pid: i32,
    tid: i32,
    memory: File,
    gate: Gate,
    /// What it goes on with.
    registers: Registers,
    since: Instant,
    /// It runs calls of ours, so it is not where it was stopped.
    moved: Option<Moved>,
    /// Somebody has stopped the process meanwhile.
    stopped: bool,
    over: bool,
    /// Whether its filters allow it to take back the priority that it is given.
    may_go_first: bool,
    _hold: Hold,
}

/// A thread whose registers are not its own.
#[derive(Debug)]
struct Moved {
    /// Its own mask.
    mask: u64,
    /// Where it makes calls.
    call: u64,
    /// `None`: there is no room for it.
    rescue: Option<Rescue>,
    /// It has many short ways to go, for each of which it needs a CPU.
    first: Option<First>,
}

impl Held {
    /// Stops a thread of the process, if that still runs `program`; `gate`: what to use in it.
    ///
    /// # Errors
    /// `ESRCH`: it is gone, or runs another program. `EPERM`: somebody traces it, or we may not. `TimedOut`: it does not
    /// stop; it is let go of when the calling thread ends. `Unsupported`: it is in 32-bit code. `ResourceBusy`: it is frozen.
    pub fn stop(pid: i32, tid: i32, program: &Program, gate: Gate) -> io::Result<Self> {
        // It might stop, but would run nothing.
        if is_frozen(pid) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let hold = Hold::begin(pid).ok_or(io::ErrorKind::TimedOut)?;
        seize(pid, tid)?;
        let since = Instant::now();
        trace::interrupt(tid)?;
        loop {
            match trace::wait(tid, PATIENCE)? {
                Some(Stop::Event) => break,
                Some(Stop::Signal(signal)) => trace::go_on(tid, signal)?,
                Some(Stop::Call) => trace::go_on(tid, 0)?,
                Some(Stop::Gone) => return Err(gone()),
                None => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        let held = Self::take(pid, tid, program, gate, since, hold);
        if held.is_err() {
            // It has run nothing: its registers are its own.
            let _ = trace::detach(tid);
        }
        held
    }

    fn take(
        pid: i32,
        tid: i32,
        program: &Program,
        gate: Gate,
        since: Instant,
        hold: Hold,
    ) -> io::Result<Self> {
        if Program::of(pid)? != *program {
            return Err(gone());
        }
        let stopped_with = trace::registers(tid)?;
        if stopped_with.cs != CODE_64 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // Opened now: it is this program's memory, whatever the process executes later.
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        if !gate.is_in(&memory) {
            return Err(gone());
        }
        let mut registers = restart::mended(&stopped_with);
        if let Some(configuration) = trace::rseq(tid) {
            let read = |at, bytes: &mut [u8]| memory.read_exact_at(bytes, at).ok();
            if let Some(abort) = rseq::abort(&configuration, registers.rip, read) {
                registers.rip = abort;
            }
        }
        Ok(Self {
            pid,
            tid,
            memory,
            gate,
            registers,
            since,
            moved: None,
            stopped: false,
            over: false,
            may_go_first: false,
            _hold: hold,
        })
    }

    /// Has it ready to run calls of ours. The order is what matters: see above.
    fn prepare(&mut self) -> io::Result<()> {
        let tid = self.tid;
        let mask = trace::mask(tid)?;
        let rescue = self.gate.room.map(|(at, room)| {
            let resumed = restart::resumed(&self.registers);
            Rescue::new(at, room, resumed, mask)
        });
        // Where that memory cannot be written we do without, as where there is none.
        let mut rescue = rescue.filter(|rescue| self.write(rescue.at(), &rescue.bytes(&[])).is_ok());
        if let Some(rescue) = &rescue {
            let mut registers = self.registers;
            registers.rip = rescue.undo();
            registers.orig_rax = u64::MAX;
            trace::set_registers(tid, &registers)?;
        }
        let call = rescue.as_ref().map_or(self.gate.call, Rescue::call);
        let nice = rescue.as_ref().filter(|_| self.may_go_first).and_then(|_| priority::nice(tid));
        if let Some(rescue) = &mut rescue {
            rescue.nice = nice;
        }
        self.moved = Some(Moved { mask, call, rescue, first: None });
        trace::set_mask(tid, !0)?;
        if nice.is_some() {
            self.if_we_die(&[])?;
            let first = First::thread(tid);
            self.moved.as_mut().map(|moved| moved.first.insert(first));
        }
        Ok(())
    }

    /// It may be given priority: its filters allow that it takes it back by itself.
    pub const fn may_go_first(&mut self) {
        self.may_go_first = true;
    }

    /// What it is to do if we are killed from here on, once it has made the call that it is at.
    ///
    /// # Errors
    /// Its memory cannot be written.
    pub fn if_we_die(&mut self, undo: &[Undo]) -> io::Result<()> {
        if self.moved.is_none() {
            self.prepare()?;
        }
        match self.moved.as_ref().and_then(|moved| moved.rescue.as_ref()) {
            Some(rescue) => self.write(rescue.at(), &rescue.bytes(undo)),
            None => Ok(()),
        }
    }

    /// Where it goes on in its own code.
    #[must_use]
    pub const fn pc(&self) -> u64 {
        self.registers.rip
    }

    /// The system call that it was met in; -1: none.
    #[must_use]
    pub const fn in_call(&self) -> i64 {
        self.registers.orig_rax.cast_signed()
    }

    /// Its thread id.
    #[must_use]
    pub const fn tid(&self) -> i32 {
        self.tid
    }

    /// A sleep that was broken off begins anew, with all of its time, by its own number: not by `restart_syscall`.
    pub fn begin_anew(&mut self) {
        self.registers = restart::anew(&self.registers);
    }

    /// Has it run a system call, one of [`seccomp::ENTER`]; what that gives.
    ///
    /// # Errors
    /// The call's own, or `ESRCH`: it is gone.
    pub fn call(&mut self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        debug_assert!(
            seccomp::ENTER.iter().any(|call| call.covers(number, arguments)),
            "filters are not asked about {number} {arguments:x?}"
        );
        if self.moved.is_none() {
            self.prepare()?;
        }
        let mut registers = self.registers;
        registers.rip = self.moved.as_ref().map_or(self.gate.call, |moved| moved.call);
        registers.rax = number.cast_unsigned();
        // In no call: nothing is to begin again here.
        registers.orig_rax = u64::MAX;
        registers.eflags &= !TRAP;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        trace::set_registers(self.tid, &registers)?;
        self.to(Stop::Call, || trace::go_to_call(self.tid))?;
        self.to(Stop::Call, || trace::go_to_call(self.tid))?;
        let answer = trace::registers(self.tid)?.rax;
        match answer.cast_signed() {
            error @ -4095..0 => Err(io::Error::from_raw_os_error(-error as i32)),
            _ => Ok(answer),
        }
    }

    /// Lets it run, by `go`, to a stop of this kind. Takes as long as it takes: it is not where it was, and must not be left there.
    fn to(&self, wanted: Stop, go: impl Fn() -> io::Result<()>) -> io::Result<bool> {
        let mut stopped = false;
        go()?;
        loop {
            match trace::wait(self.tid, Duration::MAX)? {
                Some(Stop::Gone) => return Err(gone()),
                Some(stop) if stop == wanted => return Ok(stopped),
                // The one signal that comes nevertheless: kept for later.
                Some(Stop::Signal(_)) => stopped = true,
                Some(Stop::Event | Stop::Call) | None => {}
            }
            go()?;
        }
    }

    /// Reads its memory.
    ///
    /// # Errors
    /// There is none at that address.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(bytes, address)
    }

    /// Writes its memory, where it could not itself, too.
    ///
    /// # Errors
    /// There is none at that address.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }

    /// Lets it go on as it would have; how long it was stopped.
    ///
    /// # Errors
    /// `ESRCH`: it is gone.
    pub fn let_go(mut self) -> io::Result<Duration> {
        self.release()?;
        Ok(self.since.elapsed())
    }

    fn release(&mut self) -> io::Result<()> {
        self.over = true;
        let mut moved = self.moved.take();
        if let Some(Moved { mask, first, .. }) = &mut moved {
            trace::interrupt(self.tid)?;
            self.stopped |= self.to(Stop::Event, || trace::go_on(self.tid, 0))?;
            trace::set_mask(self.tid, *mask)?;
            first.take();
        }
        trace::set_registers(self.tid, &self.registers)?;
        if let Some(rescue) = moved.and_then(|moved| moved.rescue) {
            let _ = self.write(rescue.at(), &rescue.zeros());
        }
        trace::detach(self.tid)?;
        if self.stopped {
            // SAFETY: numbers only.
            unsafe { libc::kill(self.pid, libc::SIGSTOP) };
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.release();
        }
    }
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

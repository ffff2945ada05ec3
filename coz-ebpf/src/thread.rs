//! From a thread to its slot, and the slot's birth and death.

use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd};

use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_task_pt_regs};
use coz_common::{
    abi::{self, KernelSlot, SLOT_PROBES, STATE_RUNNING, Stat, TargetSlot},
    clock::{self, Experiment, TaggedDelay},
    stretch,
};

use crate::{
    kernel::{Task, read},
    maps::{CPU_CLOCK, DISBELIEVED, GLOBAL, PAYMENTS, SLOTS, TIDS, control, count, offsets},
};

/// Offsets of instruction and stack pointer in the registers that a thread left user mode with (x86-64
/// `struct pt_regs`).
const PT_REGS_IP: u32 = 128;
/// See [`PT_REGS_IP`].
const PT_REGS_SP: u32 = 152;

/// A thread of the profiled set, at an event in its own context or on its own CPU.
pub struct Thread {
    /// Where it stands in the tables.
    index: u32,
    /// What the kernel knows of it.
    pub slot: &'static mut KernelSlot,
    /// What it says of itself.
    pub target: &'static TargetSlot,
}

/// Index of a thread's slot, `None` outside the set.
#[inline(always)]
pub fn index_of(tid: u32) -> Option<u32> {
    // SAFETY: the pointer is into the map, which lives as long as the programs do.
    TIDS.get_ptr(tid).map(|index| unsafe { *index }).filter(|&index| index != 0).map(|index| index - 1)
}

/// The thread of a slot.
#[inline(always)]
pub fn at(index: u32) -> Option<Thread> {
    let slot = slot_at(index)?;
    let target = written(slot.book, index)?;
    Some(Thread { index, slot, target })
}

/// What the kernel knows of the thread of a slot.
#[inline(always)]
pub fn slot_at(index: u32) -> Option<&'static mut KernelSlot> {
    // SAFETY: a pointer into a map, which lives as long as the programs do. A slot is changed only in its thread's own context (or
    // on its CPU, at a switch); its waker's CPU touches other fields.
    unsafe { Some(&mut *SLOTS.get_ptr_mut(index)?) }
}

/// What stands at this place in a book.
#[inline(always)]
fn written(book: u8, index: u32) -> Option<&'static TargetSlot> {
    let words = PAYMENTS.get_value(u32::from(book), &index)?;
    // SAFETY: a book's values are such structs, of as many words; every bit pattern is one.
    Some(unsafe { &*(&raw const *words).cast() })
}

impl Thread {
    /// Brings the slot of the current thread up to date: the epoch, what was paid, the CPU time. Every event in its
    /// context starts here. Returns what is required of everyone now.
    #[inline(always)]
    pub fn catch_up(&mut self, experiment: &Experiment, now: u64) -> u64 {
        if let Some(since) = clock::missed_switch(self.slot, now) {
            count(Stat::SwitchesMissed, 1);
            get_cpu(self.slot, self.target, experiment, false, since);
        }
        let ran = clock::account_cpu(self.slot, self.target, now);
        count(Stat::CpuNs, ran);
        clock::enter_epoch(self.slot, self.target, experiment, now);
        let required = required(experiment.epoch);
        match clock::fold_payment(self.slot, self.target, required, now.saturating_sub(experiment.started_ns))
        {
            Some(paid) => count(Stat::PaidNs, paid),
            None => self.disbelieve(),
        }
        count(Stat::InheritedNs, clock::absorb_spinning(self.slot, required, ran));
        required
    }

    /// It claims what cannot be.
    #[inline(always)]
    fn disbelieve(&self) {
        count(Stat::PaidAbsurd, 1);
        if let Some(by_book) = DISBELIEVED.get_ptr_mut(self.slot.book.into()) {
            // SAFETY: a word of a map that every CPU adds to: one instruction.
            unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(by_book, 1) };
        }
    }

    /// Sees to it that the thread's payments are looked for in this book: its process has been given one, or has lost it.
    #[inline(always)]
    pub fn keep_book(&mut self, book: u32) {
        if u32::from(self.slot.book) == book {
            return;
        }
        if let Some(target) = written(book as u8, self.index) {
            self.target = target;
            self.slot.open_book(book as u8, target);
        }
    }

    /// The thread, which is the current one, blocks here or has woken somebody: what comes now is another stretch.
    #[inline(always)]
    pub fn begin_stretch(&mut self, woke: bool) {
        // SAFETY: helpers; the task is the current one, so its registers stay where they are.
        let registers = unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) } as *const u8;
        let (Some(ip), Some(sp)) = (read(registers, PT_REGS_IP), read(registers, PT_REGS_SP)) else { return };
        stretch::begin(self.slot, stretch::place(ip, sp, woke));
    }

    /// Leaves its CPU, up to date.
    #[inline(always)]
    pub fn leave_cpu(&self, required: u64, now: u64) {
        if let Some(cpu) = CPU_CLOCK.get_ptr_mut(0) {
            // SAFETY: this CPU's own element.
            clock::leave_cpu(self.slot, unsafe { &mut *cpu }, required, now);
        }
    }

    /// Charges the line's share of the CPU time since the last charge; the present stretch has ended. Returns the new `G`.
    #[inline(always)]
    pub fn charge(&mut self, experiment: &Experiment, required: u64) -> u64 {
        let charged = clock::charge(self.slot, experiment, required);
        self.charged(charged, experiment, required)
    }

    /// It loses its CPU, and the stretch goes on.
    #[inline(always)]
    pub fn charge_ahead(&mut self, experiment: &Experiment, required: u64) -> u64 {
        let charged = clock::charge_ahead(self.slot, experiment, required);
        self.charged(charged, experiment, required)
    }

    /// A sample: the stretch goes on.
    #[inline(always)]
    pub fn charge_at_sample(&mut self, experiment: &Experiment, required: u64, threshold: u64) -> u64 {
        let charged = clock::charge_at_sample(self.slot, experiment, required, threshold);
        self.charged(charged, experiment, required)
    }

    #[inline(always)]
    fn charged(&self, charged: u64, experiment: &Experiment, required: u64) -> u64 {
        if charged == 0 {
            return required;
        }
        count(Stat::ChargedNs, charged);
        raise(experiment.epoch, self.slot.local)
    }
}

/// A thread gets a CPU, which had been `idle` until now.
#[inline(always)]
pub fn get_cpu(slot: &mut KernelSlot, target: &TargetSlot, experiment: &Experiment, idle: bool, now: u64) {
    let required = required(experiment.epoch);
    let Some(clock) = CPU_CLOCK.get_ptr(0) else { return };
    // SAFETY: this CPU's own element.
    let cpu = clock::Place { clock: unsafe { &*clock }, idle };
    let began = clock::get_cpu(slot, target, experiment, required, cpu, now);
    count(Stat::RunqueueNs, began.waited);
    count(Stat::InheritedNs, began.inherited);
}

/// The experiment as it is now.
#[inline(always)]
pub fn experiment() -> Option<Experiment> {
    control().map(|control| {
        let mut experiment = Experiment::of(control);
        // SAFETY: plain loads of a page that the controller writes; volatile, so that each event sees the present.
        unsafe {
            experiment.epoch = core::ptr::read_volatile(&raw const control.epoch);
            experiment.running = core::ptr::read_volatile(&raw const control.state) == STATE_RUNNING;
        }
        experiment
    })
}

/// `G` in this epoch.
#[inline(always)]
pub fn required(epoch: u32) -> u64 {
    match GLOBAL.get_ptr(0) {
        // SAFETY: a word of a map, written with compare-and-exchange.
        Some(global) => {
            TaggedDelay(unsafe { core::ptr::read_volatile(&raw const (*global).required) }).in_epoch(epoch)
        }
        None => 0,
    }
}

/// A sample of a thread: whether it `hit` the selected line is noted for the others. Returns whether another one is in the line.
#[inline(always)]
pub fn meet(tid: u32, hit: bool, now: u64, period: u64) -> bool {
    let Some(global) = GLOBAL.get_ptr_mut(0) else { return false };
    let tid = u64::from(tid);
    // SAFETY: words of a map; a torn pair names a thread that was in the line a moment ago, or makes it seem elsewhere.
    unsafe {
        let (at, who) = (&raw mut (*global).hit_at, &raw mut (*global).hit_tid);
        if hit {
            at.write_volatile(now);
            who.write_volatile(tid);
            return false;
        }
        let hitter = who.read_volatile();
        if hitter == tid {
            // It has left the line.
            who.write_volatile(0);
        }
        clock::line_runs_elsewhere(hitter, at.read_volatile(), tid, now, period)
    }
}

/// `G = max(G, local)`, atomically: read-then-write doubles it when two CPUs hit at once. Returns the new `G`.
#[inline(always)]
pub fn raise(epoch: u32, local: u64) -> u64 {
    let Some(global) = GLOBAL.get_ptr_mut(0) else { return 0 };
    // SAFETY: as in `required`.
    let mut seen = unsafe { core::ptr::read_volatile(&raw const (*global).required) };
    // As many tries as there can be rivals in a row; one that loses them all is charged at its next event, because
    // `local` stays raised.
    for _ in 0..8 {
        let Some(raised) = TaggedDelay(seen).raised(epoch, local) else { break };
        // SAFETY: as above; the intrinsic becomes one BPF instruction.
        let (found, done) = unsafe {
            atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(
                &raw mut (*global).required,
                seen,
                raised.0,
            )
        };
        if done {
            return raised.in_epoch(epoch);
        }
        seen = found;
    }
    TaggedDelay(seen).in_epoch(epoch)
}

/// Key of a task's slot: pid namespace and the id in there, which is what the thread itself sees.
#[inline(always)]
fn key_of(task: Task) -> Option<u64> {
    let at = offsets();
    let pid: *const u8 = read(task, at.task_thread_pid)?;
    let level: u32 = read(pid, at.pid_level)?;
    // Namespaces nest 32 deep at most (MAX_PID_NS_LEVEL).
    let number = pid.wrapping_add(at.pid_numbers as usize + (level & 63) as usize * at.upid_size as usize);
    let nr: u32 = read(number, at.upid_nr)?;
    let namespace: *const u8 = read(number, at.upid_ns)?;
    Some(abi::slot_key(read(namespace, at.pid_namespace_inum)?, nr))
}

/// A thread's word in `TIDS` while its slot is being made: no index.
const TAKEN: u32 = u32::MAX;

/// Makes a slot for a task that joins the set. `None`: no place (counted), or it is just joining elsewhere.
#[inline(always)]
pub fn join(task: Task, tid: u32, tgid: u32, book: u8) -> Option<Thread> {
    let (index, thread) = claim(task, tid, tgid, book)?;
    publish(tid, index);
    Some(thread)
}

/// The first half of [`join`]: the slot is made, and nobody sees it yet. A thread can join from two sides at once, when it is
/// born while those that run already are admitted: it gets one slot.
#[inline(always)]
pub fn claim(task: Task, tid: u32, tgid: u32, book: u8) -> Option<(u32, Thread)> {
    let key = key_of(task)?;
    let word = TIDS.get_ptr_mut(tid)?;
    // SAFETY: a word of a map, claimed by compare-and-exchange.
    let (before, ours) = unsafe {
        atomic_cxchg::<u32, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(word, 0, TAKEN)
    };
    if !ours {
        let index = before.wrapping_sub(1);
        // `None`: it is joining just now.
        let known = slot_at(index)?;
        if known.key == key {
            return owned(index, known, tid, tgid, book);
        }
        // What a dead thread has left whose last switch was not seen. SAFETY: as in `leave`.
        unsafe { core::ptr::write_volatile(&raw mut known.key, 0) };
    }
    for probe in 0..SLOT_PROBES {
        let index = abi::slot_place(key, probe);
        let Some(slot) = slot_at(index) else { continue };
        // SAFETY: the key is claimed by compare-and-exchange; whoever gets it owns the slot.
        let (_, claimed) = unsafe {
            atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(
                &raw mut slot.key,
                0,
                key,
            )
        };
        if claimed {
            return owned(index, slot, tid, tgid, book);
        }
    }
    // SAFETY: a word of a map, ours until now.
    unsafe { core::ptr::write_volatile(word, 0) };
    count(Stat::SlotsFull, 1);
    None
}

/// The slot has a new owner.
#[inline(always)]
fn owned(index: u32, slot: &'static mut KernelSlot, tid: u32, tgid: u32, book: u8) -> Option<(u32, Thread)> {
    let target = written(book, index)?;
    slot.reset(tid, tgid, book, target);
    Some((index, Thread { index, slot, target }))
}

/// The second half: from now on the thread's events are seen.
#[inline(always)]
pub fn publish(tid: u32, index: u32) {
    if let Some(word) = TIDS.get_ptr_mut(tid) {
        // SAFETY: a word of a map, ours until now.
        unsafe { core::ptr::write_volatile(word, index + 1) };
    }
}

/// Frees the slot of a thread that leaves the set.
#[inline(always)]
pub fn leave(tid: u32, thread: &mut Thread) {
    if let Some(index) = TIDS.get_ptr_mut(tid) {
        // SAFETY: a word of a map; only this thread's own events read it.
        unsafe { core::ptr::write_volatile(index, 0) };
    }
    // SAFETY: last, so that whoever claims the slot next finds nobody else in it.
    unsafe { core::ptr::write_volatile(&raw mut thread.slot.key, 0) };
}

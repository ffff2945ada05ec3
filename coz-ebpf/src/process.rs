//! Births, execs and deaths in the profiled set.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_current_uid_gid, bpf_ktime_get_ns};
use aya_log_ebpf::{info, warn};
use coz_common::{
    abi::{EVENT_EXEC, EVENT_EXIT, EVENT_FORK, EVENT_LEFT, Event, NO_BOOK, Process, Stat, flags},
    clock,
    unwind::{OTHER_USER, Wanted},
};

use crate::{
    kernel::{Task, read},
    maps::{EVENTS, PROCESSES, control, count, offsets},
    set, thread, unwind,
};

#[inline(always)]
fn current() -> (u32, u32) {
    let both = bpf_get_current_pid_tgid();
    ((both >> 32) as u32, both as u32)
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_ns() }
}

#[inline(always)]
fn tell(kind: u32, tgid: u32, tid: u32, other: u32) {
    let event = Event { kind, tgid, tid, other, time: now() };
    if EVENTS.output::<Event>(event, 0).is_err() {
        count(Stat::EventsLost, 1);
        warn!((), "event {} of process {} is lost: the ring buffer is full", kind, tgid);
    }
    if kind == EVENT_EXEC {
        info!((), "process {} of the profiled set has executed a program", tgid);
    }
}

/// Where it is looked for what the current thread has paid: in the book of its process. Not so if it is another user's by now than the one
/// whose book that is: it has no business to write there, and is given one of its own.
#[inline(always)]
pub fn book_of_current(process: &Process, tgid: u32) -> u32 {
    let uid = bpf_get_current_uid_gid() as u32;
    if process.book == u32::from(NO_BOOK) || uid == process.uid {
        return process.book;
    }
    unwind::want(tgid, Wanted { module: OTHER_USER, what: tgid });
    NO_BOOK.into()
}

/// The current thread has made another one: it joins the set, where its parent is in virtual time.
#[inline(always)]
pub fn try_fork(child: Task) -> Option<()> {
    let (tgid, tid) = current();
    let mut parent = thread::at(thread::index_of(tid)?)?;
    let experiment = thread::experiment()?;
    let now = now();
    let required = parent.catch_up(&experiment, now);
    parent.charge(&experiment, required);
    parent.begin_stretch(true);

    let at = offsets();
    let child_tid: u32 = read(child, at.task_pid)?;
    let child_tgid: u32 = read(child, at.task_tgid)?;
    let process = PROCESSES.get_ptr(tgid);
    // A process shares its parent's mapping of the book.
    // SAFETY: a pointer into the map.
    let book = process.map_or(parent.slot.book, |process| unsafe { (*process).book } as u8);
    let Some(joined) = thread::join(child, child_tid, child_tgid, book) else {
        warn!((), "thread {} of process {} is not followed: no free slot", child_tid, child_tgid);
        return None;
    };
    clock::inherit(joined.slot, parent.slot);
    joined.slot.ready_at = now;
    if child_tgid != tgid {
        if let Some(process) = process {
            // SAFETY: a pointer into the map, copied by the kernel.
            if PROCESSES.insert(child_tgid, unsafe { &*process }, 0).is_err() {
                count(Stat::ProcessesFull, 1);
            }
        }
        tell(EVENT_FORK, child_tgid, child_tid, tgid);
    }
    Some(())
}

/// The current process has executed another program: no handler of ours is there, and its code is elsewhere.
/// The first exec of the root process is where the profiled set begins; others join at an exec by a rule. An exec in another
/// thread than the first takes over the first one's id. A program with other rights than its caller's leaves the set: nothing of ours
/// gets into it.
#[inline(always)]
pub fn try_exec(task: Task, old_tid: u32) -> Option<()> {
    let (tgid, tid) = current();
    let Some(mut thread) = thread::index_of(old_tid).and_then(thread::at) else {
        let control = control()?;
        if (control.root == tgid || set::joins(control, tgid)) && !set::has_other_rights(task) {
            let joined = thread::join(task, tid, tgid, NO_BOOK)?;
            joined.slot.on_cpu_since = now();
            if PROCESSES.insert(tgid, &Process::default(), 0).is_err() {
                count(Stat::ProcessesFull, 1);
            }
            tell(EVENT_EXEC, tgid, tid, old_tid);
        }
        return Some(());
    };
    let experiment = thread::experiment()?;
    let required = thread.catch_up(&experiment, now());
    thread.charge(&experiment, required);
    if set::has_other_rights(task) {
        thread::leave(old_tid, &mut thread);
        let _ = PROCESSES.remove(tgid);
        tell(EVENT_LEFT, tgid, tid, old_tid);
        return Some(());
    }
    if old_tid != tid {
        // The slot's key is the thread's id: it moves. The clock goes with it.
        let (local, credit, since) = (thread.slot.local, thread.slot.credit, thread.slot.on_cpu_since);
        thread::leave(old_tid, &mut thread);
        let moved = thread::join(task, tid, tgid, NO_BOOK)?;
        moved.slot.local = local;
        moved.slot.credit = credit;
        moved.slot.epoch = experiment.epoch;
        moved.slot.on_cpu_since = since;
    } else {
        // The mapping is gone.
        thread.keep_book(NO_BOOK.into());
    }
    if let Some(process) = PROCESSES.get_ptr_mut(tgid) {
        // SAFETY: a pointer into the map; this process has one thread now.
        unsafe {
            (*process).handler = 0;
            (*process).space = 0;
            (*process).book = NO_BOOK.into();
        }
    }
    tell(EVENT_EXEC, tgid, tid, old_tid);
    Some(())
}

/// The current thread is gone.
#[inline(always)]
pub fn try_exit() {
    let (tgid, tid) = current();
    let Some(mut thread) = thread::index_of(tid).and_then(thread::at) else { return };
    if let Some(experiment) = thread::experiment() {
        let required = thread.catch_up(&experiment, now());
        let charged = clock::charge_exit(thread.slot, &experiment, required);
        if charged != 0 {
            count(Stat::ChargedNs, charged);
            thread::raise(experiment.epoch, thread.slot.local);
        }
    }
    // Who joins a thread is woken by it, and recent kernels come here before that: its clock is needed until its last
    // switch (`sched::leaves_cpu`). Not so a process's first thread: nobody joins it, and an exec in another thread
    // takes over its id.
    thread.slot.flags |= flags::LEAVING;
    if tgid == tid {
        thread::leave(tid, &mut thread);
        tell(EVENT_EXIT, tgid, tid, 0);
    }
}

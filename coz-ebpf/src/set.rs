//! Who belongs to the profiled set, besides the descendants of its members.

use aya_ebpf::helpers::{
    bpf_get_current_comm, bpf_ktime_get_ns, generated::bpf_get_current_ancestor_cgroup_id,
};
use coz_common::abi::{COMM_LEN, Control, MAX_NAMED, Stat, rule};

use crate::{
    kernel::{Task, read},
    maps::{PROCESSES, count, offsets},
    thread,
};

/// `PF_EXITING` (include/linux/sched.h).
const PF_EXITING: u32 = 0x4;
/// `TASK_INTERRUPTIBLE`, `TASK_UNINTERRUPTIBLE`, stopped and traced (include/linux/sched.h).
const WAITING: u32 = 0x1 | 0x2 | 0x4 | 0x8;

/// Whether the current process, which has just executed a program, joins by the rule.
#[inline(always)]
pub fn joins(control: &Control, tgid: u32) -> bool {
    match control.rule {
        rule::NAMED => has_name(control) || is_in_group(control),
        rule::ALL => tgid != control.ourselves,
        _ => false,
    }
}

#[inline(always)]
fn has_name(control: &Control) -> bool {
    let Ok(name) = bpf_get_current_comm() else { return false };
    let words = |name: &[u8; COMM_LEN]| (half(name, 0), half(name, 8));
    let ours = words(&name);
    (0..MAX_NAMED).any(|i| i < usize::from(control.comm_count) && words(&control.comms[i]) == ours)
}

/// Eight letters of a name, as a number.
#[inline(always)]
fn half(name: &[u8; COMM_LEN], from: usize) -> u64 {
    // SAFETY: within the name: `from` is 0 or 8.
    unsafe { name.as_ptr().add(from).cast::<u64>().read_unaligned() }
}

#[inline(always)]
fn is_in_group(control: &Control) -> bool {
    (0..MAX_NAMED).any(|i| {
        let group = &control.groups[i];
        // SAFETY: a helper with a plain number.
        i < usize::from(control.group_count)
            && unsafe { bpf_get_current_ancestor_cgroup_id(group.level as i32) } == group.number
    })
}

/// Whether a task runs with other rights than those of who has started it: the kernel lets nobody reach into such a program.
#[inline(always)]
pub fn has_other_rights(task: Task) -> bool {
    let at = offsets();
    let Some(cred) = read::<*const u8>(task, at.task_cred) else { return false };
    // Values, not options of them: the compiler would compare what was not read, too, which verifiers before kernel 6.3 forbid.
    let id = |offset| read::<u32>(cred, offset).unwrap_or_default();
    id(at.cred_uid) != id(at.cred_euid) || id(at.cred_gid) != id(at.cred_egid)
}

/// A task that runs already: it joins if its process is of the set. Its clock starts at the next experiment.
#[inline(always)]
pub fn try_admit(task: Task) -> Option<()> {
    let at = offsets();
    let tgid: u32 = read(task, at.task_tgid)?;
    // SAFETY: a pointer into the map.
    let book = unsafe { (*PROCESSES.get_ptr(tgid)?).book } as u8;
    let tid: u32 = read(task, at.task_pid)?;
    let flags: u32 = read(task, at.task_flags)?;
    if thread::index_of(tid).is_some() || flags & PF_EXITING != 0 {
        return None;
    }
    let (index, thread) = thread::claim(task, tid, tgid, book)?;
    // What it does at this moment its first event will tell. One that waits is taken to have begun now.
    if read::<u32>(task, at.task_state)? & WAITING != 0 {
        // SAFETY: a helper without arguments.
        thread.slot.blocked_at = unsafe { bpf_ktime_get_ns() };
    }
    thread::publish(tid, index);
    count(Stat::Admitted, 1);
    Some(())
}

//! Offsets in the kernel's structs, from its BTF.

use anyhow::Result;
use coz_common::abi::Offsets;

use super::{btf::Btf, signal_stack};

/// Looks up every offset that the kernel side needs.
///
/// # Errors
/// Where this kernel's structs are not as expected: names the field.
pub fn find(btf: &Btf) -> Result<Offsets> {
    Ok(Offsets {
        task_pid: btf.offset("task_struct", "pid")?,
        task_tgid: btf.offset("task_struct", "tgid")?,
        task_thread_pid: btf.offset("task_struct", "thread_pid")?,
        task_sighand: btf.offset("task_struct", "sighand")?,
        task_blocked: btf.offset("task_struct", "blocked")?,
        task_seccomp_mode: btf.offset("task_struct", "seccomp.mode")?,
        task_seccomp_filters: btf.offset("task_struct", "seccomp.filter_count")?,
        sighand_action: btf.offset("sighand_struct", "action")?,
        k_sigaction_size: btf.size("k_sigaction")?,
        k_sigaction_handler: btf.offset("k_sigaction", "sa.sa_handler")?,
        pid_level: btf.offset("pid", "level")?,
        pid_numbers: btf.offset("pid", "numbers")?,
        upid_size: btf.size("upid")?,
        upid_nr: btf.offset("upid", "nr")?,
        upid_ns: btf.offset("upid", "ns")?,
        pid_namespace_inum: btf.offset("pid_namespace", "ns.inum")?,
        task_state: btf.offset("task_struct", "__state").or_else(|_| btf.offset("task_struct", "state"))?,
        task_flags: btf.offset("task_struct", "flags")?,
        task_cred: btf.offset("task_struct", "cred")?,
        cred_uid: btf.offset("cred", "uid")?,
        cred_euid: btf.offset("cred", "euid")?,
        cred_gid: btf.offset("cred", "gid")?,
        cred_egid: btf.offset("cred", "egid")?,
        task_alternate: btf.offset("task_struct", "sas_ss_size")?,
        alternate_least: signal_stack::least(),
    })
}

//! What a kernel can, asked of itself: versions say little, since distributions put features into old kernels.

mod allocation;

use std::env;

use aya::{
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};

use super::btf::Btf;

/// Features that are not to be used, by name, with commas between: to test on a new kernel what is done on an old one.
const WITHOUT: &str = "COZ_BPF_WITHOUT";

/// What the kernel side does in one way or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// There is `bpf_loop` (5.17): call chains are followed with it. Else with `bpf_for_each_map_elem`.
    pub loops: bool,
    /// A switch tells what state the thread is in that loses its CPU (5.18). Else it is read from the thread.
    pub switch_state: bool,
    /// Programs for samples may use maps whose entries are allocated as they are made (6.1). Else all are allocated beforehand.
    pub late_allocation: bool,
}

impl Features {
    /// Asks the kernel. Where it does not say, it is taken to be the older one.
    #[must_use]
    pub fn ask(btf: &Btf) -> Self {
        let without = env::var(WITHOUT).ok();
        let wanted = |feature| !is_ruled_out(without.as_deref(), feature);
        Self {
            loops: wanted("loops") && has(BpfHelper::BPF_FUNC_loop) == Some(true),
            // What is handed to every tracepoint's functions, and four of its own.
            switch_state: wanted("switch_state") && btf.parameters("btf_trace_sched_switch") == Some(5),
            late_allocation: wanted("late_allocation") && allocation::may_be_late(),
        }
    }

    /// What is done otherwise than on a new kernel, and what it costs.
    #[must_use]
    pub fn shortfalls(self) -> Vec<&'static str> {
        let mut words = Vec::new();
        if !self.loops {
            words.push("no bpf_loop (5.17): a sample costs a little more");
        }
        if !self.switch_state {
            words.push("switches do not tell a thread's state (5.18): it is read from the thread");
        }
        if !self.late_allocation {
            words.push(
                "samples take maps that are allocated beforehand (until 6.1): 50 MB of kernel memory more",
            );
        }
        words
    }
}

/// Helpers without which there is no profile, those that came last first, with the kernel that they came with.
const NEEDED: [(BpfHelper, &str); 4] = [
    (BpfHelper::BPF_FUNC_get_attach_cookie, "bpf_get_attach_cookie (5.15)"),
    (BpfHelper::BPF_FUNC_task_pt_regs, "bpf_task_pt_regs (5.15)"),
    (BpfHelper::BPF_FUNC_for_each_map_elem, "bpf_for_each_map_elem (5.13)"),
    (BpfHelper::BPF_FUNC_ringbuf_output, "bpf_ringbuf_output (5.8)"),
];

/// Which of the functions that the kernel's side needs this kernel does not have, each with the first version that does; `None` where it does
/// not say.
#[must_use]
pub fn missing_helpers() -> Option<Vec<&'static str>> {
    let mut missing = Vec::new();
    for (helper, name) in NEEDED {
        if !has(helper)? {
            missing.push(name);
        }
    }
    Some(missing)
}

fn has(helper: BpfHelper) -> Option<bool> {
    is_helper_supported(ProgramType::PerfEvent, helper).ok()
}

fn is_ruled_out(without: Option<&str>, feature: &str) -> bool {
    without.is_some_and(|names| names.split(',').any(|name| name.trim() == feature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_ruled_out_by_name() {
        assert!(is_ruled_out(Some("loops"), "loops"));
        assert!(is_ruled_out(Some("other, loops"), "loops"));
        assert!(!is_ruled_out(Some("loopss"), "loops"));
        assert!(!is_ruled_out(None, "loops"));
    }
}

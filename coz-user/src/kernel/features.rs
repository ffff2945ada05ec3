//! What a kernel can, asked of itself: versions say little, since distributions put features into old kernels.

use std::env;

use aya::{
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};

/// Features that are not to be used, by name, with commas between: to test on a new kernel what is done on an old one.
const WITHOUT: &str = "COZ_BPF_WITHOUT";

/// Whether the kernel has `bpf_loop` (5.17). There is another way without, and it is taken where the kernel does not say.
#[must_use]
pub fn has_loops() -> bool {
    !is_ruled_out(env::var(WITHOUT).ok().as_deref(), "bpf_loop")
        && has(BpfHelper::BPF_FUNC_loop) == Some(true)
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
        assert!(is_ruled_out(Some("bpf_loop"), "bpf_loop"));
        assert!(is_ruled_out(Some("other, bpf_loop"), "bpf_loop"));
        assert!(!is_ruled_out(Some("bpf_loops"), "bpf_loop"));
        assert!(!is_ruled_out(None, "bpf_loop"));
    }
}

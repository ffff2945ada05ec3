//! Progress points.

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_attach_cookie, bpf_get_current_pid_tgid},
    programs::ProbeContext,
};
use coz_common::abi::Stat;

use crate::{
    maps::{VISITS, count},
    thread,
};

/// A thread passes a point.
#[inline(always)]
pub fn visit(ctx: &ProbeContext) {
    let Some(thread) = thread::index_of(bpf_get_current_pid_tgid() as u32).and_then(thread::at) else {
        count(Stat::ForeignVisits, 1);
        return;
    };
    // SAFETY: the context is the program's own.
    let point = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } as u32;
    if let Some(visits) = VISITS.get_ptr_mut(point) {
        // SAFETY: this CPU's own element.
        unsafe { *visits += 1 };
    }
    thread.slot.visits = thread.slot.visits.wrapping_add(1);
}

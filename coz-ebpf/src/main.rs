//! The kernel side of coz-bpf: entry points only. Each program is a few lines over a `try_` function; the rules
//! are pure functions of `coz-common`.
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(core_intrinsics), allow(internal_features))]

#[cfg(target_arch = "bpf")]
mod chain;
#[cfg(target_arch = "bpf")]
mod interrupts;
#[cfg(target_arch = "bpf")]
mod kernel;
#[cfg(target_arch = "bpf")]
mod latency;
#[cfg(target_arch = "bpf")]
mod levels;
#[cfg(target_arch = "bpf")]
mod lines;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod process;
#[cfg(target_arch = "bpf")]
mod progress;
#[cfg(target_arch = "bpf")]
mod sample;
#[cfg(target_arch = "bpf")]
mod sched;
#[cfg(target_arch = "bpf")]
mod set;
#[cfg(target_arch = "bpf")]
mod signal;
#[cfg(target_arch = "bpf")]
mod spin;
#[cfg(target_arch = "bpf")]
mod steps;
#[cfg(target_arch = "bpf")]
mod thread;
#[cfg(target_arch = "bpf")]
mod unwind;

/// On the host there is nothing to run: the crate exists there for `cargo check` only.
#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod entry {
    use aya_ebpf::{
        macros::{btf_tracepoint, perf_event, uprobe},
        programs::{BtfTracePointContext, PerfEventContext, ProbeContext},
    };

    use aya_ebpf::helpers::bpf_get_current_pid_tgid;

    use crate::{
        interrupts, kernel::Task, latency, levels, maps::switch_has_state, process, progress, sample, sched,
        set, thread,
    };

    /// A tick of a CPU's clock.
    #[perf_event]
    pub fn sample(ctx: PerfEventContext) -> u32 {
        levels::tick();
        if thread::index_of(bpf_get_current_pid_tgid() as u32).is_some_and(latency::is_busy) {
            return 0;
        }
        sample::try_sample(&ctx).unwrap_or_default();
        0
    }

    /// `(preempt, prev, next, prev_state)`; before kernel 5.18 without the last.
    #[btf_tracepoint(function = "sched_switch")]
    pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
        let state = if switch_has_state() { ctx.arg::<u32>(3) } else { sched::state_of(ctx.arg(1)) };
        sched::try_switch(ctx.arg(2), state, ctx.arg::<u64>(0) != 0);
        0
    }

    /// `(task)`
    #[btf_tracepoint(function = "sched_waking")]
    pub fn sched_waking(ctx: BtfTracePointContext) -> i32 {
        sched::try_waking(ctx.arg(0));
        0
    }

    /// `(parent, child)`
    #[btf_tracepoint(function = "sched_process_fork")]
    pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
        process::try_fork(ctx.arg(1)).unwrap_or_default();
        0
    }

    /// `(task, old_pid, bprm)`
    #[btf_tracepoint(function = "sched_process_exec")]
    pub fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
        process::try_exec(ctx.arg(0), ctx.arg::<u32>(1)).unwrap_or_default();
        0
    }

    /// `(task, ...)`
    #[btf_tracepoint(function = "sched_process_exit")]
    pub fn sched_process_exit(_ctx: BtfTracePointContext) -> i32 {
        process::try_exit();
        0
    }

    /// `(regs, ret)`: attached only where a system call is a point.
    #[btf_tracepoint(function = "sys_exit")]
    pub fn sys_exit(ctx: BtfTracePointContext) -> i32 {
        progress::syscall(ctx.arg(0), ctx.arg(1));
        0
    }

    /// What an iterator over all tasks hands over (`struct bpf_iter__task`).
    #[repr(C)]
    pub struct EachTask {
        meta: *const u8,
        task: Task,
    }

    /// Every task that runs, one after the other: read by the controller when processes are to join the set.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    pub extern "C" fn admit(ctx: *const EachTask) -> i32 {
        // SAFETY: the kernel hands over such a struct; after the last task its pointer is null.
        let task = unsafe { (*ctx).task };
        if !task.is_null() {
            set::try_admit(task).unwrap_or_default();
        }
        0
    }

    /// A probe is passed, at an instruction or at a function's return; the cookie says what it stands for.
    #[uprobe]
    pub fn visit(ctx: ProbeContext) -> u32 {
        progress::visit(&ctx);
        0
    }

    macro_rules! interrupt {
        ($($name:ident $tracepoint:literal $call:ident),* $(,)?) => {$(
            #[doc = concat!("Interrupt depth: `", $tracepoint, "`.")]
            #[btf_tracepoint(function = $tracepoint)]
            pub fn $name(_ctx: BtfTracePointContext) -> i32 {
                interrupts::$call();
                0
            }
        )*};
    }

    interrupt! {
        irq_handler_entry "irq_handler_entry" hard_enter,
        irq_handler_exit "irq_handler_exit" hard_leave,
        local_timer_entry "local_timer_entry" hard_enter,
        local_timer_exit "local_timer_exit" hard_leave,
        irq_work_entry "irq_work_entry" hard_enter,
        irq_work_exit "irq_work_exit" hard_leave,
        reschedule_entry "reschedule_entry" hard_enter,
        reschedule_exit "reschedule_exit" hard_leave,
        call_function_entry "call_function_entry" hard_enter,
        call_function_exit "call_function_exit" hard_leave,
        call_function_single_entry "call_function_single_entry" hard_enter,
        call_function_single_exit "call_function_single_exit" hard_leave,
        x86_platform_ipi_entry "x86_platform_ipi_entry" hard_enter,
        x86_platform_ipi_exit "x86_platform_ipi_exit" hard_leave,
    }

    /// `(vec)`
    #[btf_tracepoint(function = "softirq_entry")]
    pub fn softirq_entry(ctx: BtfTracePointContext) -> i32 {
        interrupts::soft_enter(ctx.arg::<u32>(0));
        0
    }

    /// `(vec)`
    #[btf_tracepoint(function = "softirq_exit")]
    pub fn softirq_exit(ctx: BtfTracePointContext) -> i32 {
        interrupts::soft_leave(ctx.arg::<u32>(0));
        0
    }

    /// `(vec)`
    #[btf_tracepoint(function = "softirq_raise")]
    pub fn softirq_raise(ctx: BtfTracePointContext) -> i32 {
        interrupts::soft_raise(ctx.arg::<u32>(0));
        0
    }
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // The verifier rejects an endless loop: a panic that could be reached does not load.
    loop {}
}

#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

//! Having the kernel check the eBPF programs, and what it has against one.

use std::thread;

use anyhow::{Context, Result, anyhow};
use aya::{
    Ebpf, Endianness,
    programs::{Program, ProgramError},
};

use super::{
    admission::ADMIT,
    btf::Btf,
    load::{Loader, object},
};

/// Programs without which there is no virtual clock.
pub(super) const REQUIRED: [&str; 5] =
    ["sched_switch", "sched_waking", "sched_process_fork", "sched_process_exec", "sched_process_exit"];
/// Programs that tell wakers from interrupts. Which of them a kernel has depends on its configuration; without
/// softirq and timer ones the answer suffers, the others are rare. In the order of attaching, exits first: an entry
/// that is counted while its exit is not would leave the depth too high for good.
pub(super) const INTERRUPTS: [&str; 17] = [
    "irq_handler_exit",
    "softirq_exit",
    "local_timer_exit",
    "irq_work_exit",
    "reschedule_exit",
    "call_function_exit",
    "call_function_single_exit",
    "x86_platform_ipi_exit",
    "irq_handler_entry",
    "softirq_entry",
    "softirq_raise",
    "local_timer_entry",
    "irq_work_entry",
    "reschedule_entry",
    "call_function_entry",
    "call_function_single_entry",
    "x86_platform_ipi_entry",
];
/// Loaded only where a system call is a point: it makes every one of them slower.
pub(super) const SYSCALLS: &str = "sys_exit";
/// What is not loaded at once.
const ON_DEMAND: [&str; 2] = [SYSCALLS, ADMIT];

/// So often a check of a program that a signal has broken off is begun anew.
const INTERRUPTED_CHECKS: usize = 10;
/// So many of the verifier's last lines are shown; before them stands every step that it took, thousands.
const LAST_WORDS: usize = 6;

/// The tracepoints' numbers: to find them in all of the kernel's type information takes as long as to make the loader.
pub(super) fn numbers(btf: &Btf) -> Result<aya::Btf> {
    let names = REQUIRED.iter().chain(&INTERRUPTS).chain([&SYSCALLS]);
    let names: Vec<String> = names.map(|name| format!("btf_trace_{name}")).collect();
    aya::Btf::parse(&btf.only_typedefs(&names), Endianness::default())
        .context("cannot read the tracepoints' numbers in the kernel's type information")
}

/// Has the kernel check all programs; the interrupt tracepoints that it does not have. The one for samples takes as long as
/// all others together: two threads.
pub(super) fn load_all(ebpf: &mut Ebpf, numbers: &aya::Btf) -> Result<Vec<&'static str>> {
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for (name, program) in ebpf.programs_mut() {
        if ON_DEMAND.contains(&name) {
            continue;
        }
        if name == "sample" {
            first.push((name.to_owned(), program))
        } else {
            others.push((name.to_owned(), program))
        }
    }
    let (first, others) = thread::scope(|scope| {
        let first = scope.spawn(move || load_each(first, numbers));
        let others = load_each(others, numbers);
        (first.join().unwrap_or_else(|_| Err(anyhow!("loading the eBPF program sample failed"))), others)
    });
    first?;
    let refused = others?;
    Ok(INTERRUPTS.into_iter().filter(|&name| refused.iter().any(|refused| refused == name)).collect())
}

/// Loads these programs; those of [`INTERRUPTS`] that were refused.
fn load_each(programs: Vec<(String, &mut Program)>, numbers: &aya::Btf) -> Result<Vec<String>> {
    let mut without = Vec::new();
    for (name, program) in programs {
        match load(&name, program, numbers) {
            Ok(()) => {}
            Err(_) if INTERRUPTS.contains(&name.as_str()) => without.push(name),
            Err(error) => return Err(refused(&name, &error)),
        }
    }
    Ok(without)
}

fn load(name: &str, program: &mut Program, numbers: &aya::Btf) -> Result<(), ProgramError> {
    let mut once = || match program {
        Program::BtfTracePoint(program) => program.load(name, numbers),
        Program::PerfEvent(program) => program.load(),
        Program::UProbe(program) => program.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    };
    let mut loaded = once();
    for _ in 0..INTERRUPTED_CHECKS {
        if !loaded.as_ref().is_err_and(was_interrupted) {
            break;
        }
        loaded = once();
    }
    loaded
}

/// Whether the kernel broke off the check because of a signal: it lets nobody wait, not even one who is only stopped and continued.
fn was_interrupted(error: &ProgramError) -> bool {
    matches!(error, ProgramError::LoadError { io_error, .. } if io_error.raw_os_error() == Some(libc::EAGAIN))
}

/// A program that the kernel does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub program: String,
    /// What the kernel has against it.
    pub why: String,
}

/// Has the kernel check every program that can be loaded, also those that a run takes only if they are asked for. Nothing stays
/// there.
///
/// # Errors
/// Where the kernel does not even make the maps.
pub fn trial(btf: &Btf, pid_max: u32) -> Result<Vec<Refused>> {
    let numbers = numbers(btf)?;
    let mut refused = Vec::new();
    for inclusive in [false, true] {
        let mut ebpf = object(Loader::begin(), btf, pid_max, inclusive, false)?;
        for (name, program) in ebpf.programs_mut() {
            // The option changes what a sample does, nothing else.
            if inclusive && name != "sample" {
                continue;
            }
            let loaded = match program {
                Program::Iter(iterator) => aya::Btf::from_sys_fs()
                    .map_err(ProgramError::from)
                    .and_then(|all| iterator.load("task", &all)),
                other => load(name, other, &numbers),
            };
            if let Err(error) = loaded {
                refused.push(Refused { program: name.to_owned(), why: words(&error) });
            }
        }
    }
    Ok(refused)
}

/// The error of a program that the kernel does not take.
pub(super) fn refused(name: &str, error: &ProgramError) -> anyhow::Error {
    anyhow!(
        "the kernel refused the eBPF program {name}; `coz-bpf doctor` shows what is missing: {}",
        words(error)
    )
}

/// What the kernel has against a program: of its verifier's words the last.
fn words(error: &ProgramError) -> String {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            let last = last_words(&verifier_log.to_string());
            if last.is_empty() { io_error.to_string() } else { format!("{io_error}\n{last}") }
        }
        // The source of an error of the library's says more than its own text.
        other => format!("{:#}", anyhow!(other.to_string())),
    }
}

/// The last lines that say something, without the figures behind them.
fn last_words(log: &str) -> String {
    let figures = ["processed ", "verification time", "stack depth"];
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim_end)
        .filter(|line| !matches!(*line, "" | ";") && !figures.iter().any(|figure| line.starts_with(figure)))
        .collect();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_verifiers_words_the_last_are_shown() {
        let steps: String = (0..5000).map(|at| format!("{at}: (bf) r6 = r1   \n; \n")).collect();
        let log =
            format!("{steps}R4 unbounded memory access\nverification time 9 usec\nprocessed 5000 insns\n");
        let last = last_words(&log);
        assert!(last.ends_with("4999: (bf) r6 = r1\nR4 unbounded memory access"), "{last}");
        assert_eq!(last.lines().count(), LAST_WORDS);
        assert_eq!(last_words(""), "");
    }
}

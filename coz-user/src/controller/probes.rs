//! From the points that were asked for to probes in the kernel.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use coz_common::{
    abi::MAX_POINTS,
    latency::MAX_LATENCIES,
    point::{Code, SYSCALL_POINTS},
    units::{LineId, Nanos},
};

use super::{attribution::Attribution, fixed, points::Points};
use crate::{
    cli::{Exit, Fixed, Granularity, RunConfig, Subject},
    kernel::{load::Kernel, probe::Spot},
    points::{self, Latency, Resolved, Source, Spec},
    symbols::{Module, Scope},
};

/// All that was asked for, found.
#[derive(Debug, Default)]
pub struct Asked {
    throughput: Vec<Resolved>,
    sampled: Vec<(String, LineId)>,
    latency: Vec<Latency>,
}

/// Finds the points that the user has named; what is to be said about them goes to `notices`.
///
/// # Errors
/// Wrong usage, where one is not there.
pub fn resolve(
    config: &RunConfig,
    main: Option<Arc<Module>>,
    loaded: Vec<(PathBuf, PathBuf)>,
    scope: Scope,
    attribution: &mut Attribution,
    notices: &mut Vec<String>,
) -> Result<Asked> {
    let mut asked = Asked::default();
    if config.progress.is_empty() && config.latency.is_empty() {
        if let (Subject::Running(_), Some(main)) = (&config.subject, &main) {
            let mut binaries =
                points::Binaries::new(Some(Arc::clone(main)), scope, config.debug_dirs.clone());
            binaries.add_files(loaded);
            asked = of_coz_h(main, &binaries, notices)?;
        }
        return Ok(asked);
    }
    if main.is_none() && matches!(config.subject, Subject::Program { .. }) {
        return Err(
            Exit::failure("--progress: the program is not an ELF file whose symbols can be read").into()
        );
    }
    let usage = |error: anyhow::Error| Exit::usage(format!("{error:#}"));
    let mut binaries = points::Binaries::new(main.clone(), scope, config.debug_dirs.clone());
    binaries.add_files(loaded);
    for text in &config.progress {
        let spec: Spec = text.parse().map_err(|error| Exit::usage(format!("--progress {text}: {error}")))?;
        let point = points::resolve(&spec, &binaries).map_err(usage)?;
        notices.extend(point.note.clone());
        match &point.source {
            Source::Sampled { file, line } => {
                // That there is one was seen when the point was resolved.
                let Some(main) = &main else { continue };
                let line = sampled(config, file, *line, main, attribution)
                    .with_context(|| format!("progress point '{}' cannot be used", spec.name));
                asked.sampled.push((point.name.clone(), line.map_err(usage)?));
            }
            _ => asked.throughput.push(point),
        }
    }
    for text in &config.latency {
        let mut point = points::resolve_latency(text, &binaries).map_err(usage)?;
        // The same function counted and timed is two things.
        let counted = asked.throughput.iter().map(|point| &point.name);
        if counted.chain(asked.sampled.iter().map(|(name, _)| name)).any(|name| *name == point.name) {
            point.name += " (latency)";
        }
        notices.extend(point.note.clone());
        asked.latency.push(point);
    }
    asked.check()?;
    Ok(asked)
}

/// The points of a program that is instrumented with coz.h and runs already: by probes, for it cannot be made to count.
fn of_coz_h(main: &Module, binaries: &points::Binaries, notices: &mut Vec<String>) -> Result<Asked> {
    let Some(instrumented) = points::instrumented(main) else { return Ok(Asked::default()) };
    let (throughput, latency) = instrumented.resolve(binaries);
    let program = main.path().file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let too_late = format!(
        "{program} is instrumented with coz.h, which asks once, early, whether somebody counts: too late for a program that runs already"
    );
    if throughput.is_empty() && latency.is_empty() {
        notices.push(format!(
            "{too_late}, and where its points are is not known either (that takes debug information, and coz.h, not the Rust crate). Name a \
             place that it passes, -P FILE:LINE or -P FUNCTION, or start it under `coz-bpf run`"
        ));
        return Ok(Asked::default());
    }
    let names: Vec<&str> = throughput
        .iter()
        .map(|point| point.name.as_str())
        .chain(latency.iter().map(|point| point.name.as_str()))
        .collect();
    notices.push(format!("{too_late}. Probes on their lines count its points instead: {}", names.join(", ")));
    let asked = Asked { throughput, latency, ..Asked::default() };
    asked.check()?;
    Ok(asked)
}

/// The line whose samples are counted.
fn sampled(
    config: &RunConfig,
    file: &str,
    line: u32,
    main: &Arc<Module>,
    attribution: &mut Attribution,
) -> Result<LineId> {
    if config.granularity == Granularity::Function {
        bail!("samples of single lines are not told apart with --granularity function");
    }
    let wanted = Fixed::Line { file: file.to_owned(), line };
    let located = fixed::locate(&wanted, main, attribution)?;
    attribution.look_ahead(main, &located.addresses);
    Ok(located.line)
}

impl Asked {
    fn check(&self) -> Result<()> {
        let names = self.throughput.iter().map(|point| &point.name);
        let names: Vec<&String> = names
            .chain(self.sampled.iter().map(|(name, _)| name))
            .chain(self.latency.iter().map(|point| &point.name))
            .collect();
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            let name = twice.1;
            return Err(Exit::usage(format!("two points are called '{name}'"))
                .hint("give one of them another name: NAME=SPEC")
                .into());
        }
        let mut calls: Vec<u32> = self.sources().filter_map(call).collect();
        calls.sort_unstable();
        if calls.windows(SYSCALL_POINTS + 1).any(|some| some[0] == some[SYSCALL_POINTS]) {
            return Err(Exit::usage(format!("a system call can be at most {SYSCALL_POINTS} points")).into());
        }
        for (what, count, most) in
            [("progress", self.throughput.len(), MAX_POINTS), ("latency", self.latency.len(), MAX_LATENCIES)]
        {
            if count > most as usize {
                return Err(
                    Exit::usage(format!("at most {most} {what} points can be watched at once")).into()
                );
            }
        }
        Ok(())
    }

    fn sources(&self) -> impl Iterator<Item = &Source> {
        let throughput = self.throughput.iter().map(|point| &point.source);
        throughput.chain(self.latency.iter().flat_map(|point| [&point.begin, &point.end]))
    }

    /// Whether no point was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.throughput.is_empty() && self.latency.is_empty() && self.sampled.is_empty()
    }

    /// Whether any of the points is counted by probes; whether any of these is at a function's return.
    #[must_use]
    pub fn probes(&self) -> (bool, bool) {
        let sites = || {
            self.sources().flat_map(|source| match source {
                Source::Probes(sites) => &sites[..],
                _ => &[],
            })
        };
        (sites().next().is_some(), sites().any(|site| site.at_return))
    }

    /// Attaches them all. `period`: CPU time that a sample stands for.
    ///
    /// # Errors
    /// Where the kernel refuses one.
    pub fn attach(self, kernel: &mut Kernel, period: Nanos) -> Result<Points> {
        for (number, point) in (0..).zip(&self.throughput) {
            attach(kernel, Code::visit(number), &point.source)?;
        }
        for (number, point) in (0..).zip(&self.latency) {
            // The end first: a begin whose end is not seen would be under way for good.
            attach(kernel, Code::end(number, point.framed), &point.end)?;
            attach(kernel, Code::begin(number, point.framed), &point.begin)?;
        }
        let names = self.throughput.into_iter().map(|point| point.name).collect();
        let mut points = Points::new(names, period);
        points.latencies = self.latency.into_iter().map(|point| point.name).collect();
        points.sampled = self.sampled;
        Ok(points)
    }
}

fn call(source: &Source) -> Option<u32> {
    match source {
        Source::Syscall(number) => Some(*number),
        _ => None,
    }
}

fn attach(kernel: &mut Kernel, code: Code, source: &Source) -> Result<()> {
    match source {
        Source::Syscall(number) => kernel.attach_syscall(code, *number),
        Source::Sampled { .. } => Ok(()),
        Source::Probes(sites) => sites.iter().try_for_each(|site| {
            let code = if site.at_return { code.after_return() } else { code };
            let spot = Spot {
                file: &site.path,
                offset: site.file_offset,
                at_return: site.at_return,
                semaphore: site.semaphore,
            };
            kernel.attach_point(code, &spot)
        }),
    }
}

//! From a spec to the places in files where probes go.

use super::binaries::Binaries;
use super::code::Body;
use super::spec::{Place, Spec};
use super::{by_line, by_symbol, returns, syscalls, usdt};
use crate::symbols::Module;
use anyhow::{Context, Result, bail};
use object::{Object as _, ObjectSection as _, SectionKind};
use std::path::PathBuf;

/// A place for a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The file.
    pub path: PathBuf,
    /// Where in the file, bytes: what the kernel's uprobes want.
    pub file_offset: u64,
    /// ELF virtual address of the same place.
    pub address: u64,
    /// What stands there, for people.
    pub what: String,
    /// The probe is to fire when the function that begins there returns.
    pub at_return: bool,
    /// Where in the file the counter stands that the kernel is to keep above zero meanwhile.
    pub semaphore: Option<u64>,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Passes of probes: at least one place, each once.
    Probes(Vec<Site>),
    /// Completed system calls of this number.
    Syscall(u32),
    /// Samples of a line.
    Sampled {
        /// The end of a path, in whole components.
        file: String,
        /// From 1 on.
        line: u32,
    },
}

/// A progress point, ready to be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// What the reports call it.
    pub name: String,
    /// What its visits are.
    pub source: Source,
    /// What the user should know, in one line: that several places are meant, for instance.
    pub note: Option<String>,
}

impl Resolved {
    /// Where its probes go.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        match &self.source {
            Source::Probes(sites) => sites,
            _ => &[],
        }
    }
}

/// A place within a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) address: u64,
    pub(crate) what: String,
}

/// Finds the places that a spec means.
///
/// # Errors
/// When its binary cannot be found, nothing in it is meant (with the nearest names or lines), or no probe can stand
/// there.
pub fn resolve(spec: &Spec, binaries: &Binaries) -> Result<Resolved> {
    let failed = || format!("progress point '{}' cannot be used", spec.name);
    resolve_in(spec, binaries).with_context(failed)
}

fn resolve_in(spec: &Spec, binaries: &Binaries) -> Result<Resolved> {
    let only_ours = |kind: &str| match &spec.binary {
        Some(binary) => bail!("{kind} are of the program as a whole: leave out '{binary}@'"),
        None => Ok(()),
    };
    let plain = |source| Ok(Resolved { name: spec.name.clone(), source, note: None });
    match &spec.place {
        Place::Syscall { name } => {
            only_ours("system calls")?;
            return plain(Source::Syscall(syscalls::number(name)?));
        }
        Place::Sampled { file, line } => {
            only_ours("sampled lines")?;
            // That there is such a line is seen here, not when the run is over.
            by_line::find(binaries.main()?, file, *line)?;
            return plain(Source::Sampled { file: file.clone(), line: *line });
        }
        _ => {}
    }
    let module = binaries.find(spec.binary.as_deref())?;
    let whole = |(found, remark): by_symbol::Sites| -> Result<(Vec<Site>, Option<String>)> {
        let sites = found.into_iter().map(|found| site(&module, found)).collect::<Result<Vec<_>>>()?;
        Ok((sites, remark))
    };
    let (mut sites, remark) = match &spec.place {
        Place::Symbol { symbol, offset } => whole(by_symbol::find(&module, symbol, *offset)?)?,
        Place::Line { file, line } => whole(by_line::find(&module, file, *line)?)?,
        Place::Return { symbol } => returns::find(&module, symbol)?,
        Place::Usdt { provider, name } => {
            let what = format!("{provider}:{name}");
            let places = usdt::find(&module, provider, name)?.into_iter().map(|probe| {
                let found = site(&module, Found { address: probe.address, what: what.clone() })?;
                Ok(Site { semaphore: probe.semaphore, ..found })
            });
            (places.collect::<Result<Vec<_>>>()?, None)
        }
        Place::Syscall { .. } | Place::Sampled { .. } => (Vec::new(), None),
    };
    sites.sort_by_key(|site| site.address);
    sites.dedup_by_key(|site| site.address);
    let several = match &spec.place {
        // The places of one function's returns are one thing.
        Place::Return { .. } => None,
        _ => note(&spec.name, &sites),
    };
    let notes: Vec<String> = several.into_iter().chain(remark).collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(Resolved { name: spec.name.clone(), source: Source::Probes(sites), note })
}

/// A place for a probe at an address.
///
/// # Errors
/// Where none can stand.
pub(crate) fn site(module: &Module, found: Found) -> Result<Site> {
    let Some(file_offset) =
        module.elf().file_offset(found.address).filter(|_| is_code(module, found.address))
    else {
        bail!("'{}' in {} is not code: no probe can stand there", found.what, module.path().display());
    };
    let (address, file_offset) = if unfit_for_probe(module.elf().code(found.address)) {
        let behind = behind_unfit(module, found.address);
        let place = behind.and_then(|address| Some((address, module.elf().file_offset(address)?)));
        let Some(place) = place else {
            bail!(
                "'{}' in {} begins with an instruction that the kernel can not put a probe on (an atomic one, most likely), \
                 and what stands behind it is reached in other ways too: name the function that calls it, or a line",
                found.what,
                module.path().display()
            );
        };
        place
    } else {
        (found.address, file_offset)
    };
    Ok(Site {
        path: module.path().to_owned(),
        file_offset,
        address,
        what: found.what,
        at_return: false,
        semaphore: None,
    })
}

/// Whether an instruction stands there: in a section of code where there are sections (data can be in the same segment),
/// and one that can be decoded.
fn is_code(module: &Module, address: u64) -> bool {
    let Ok(object) = module.elf().object() else { return false };
    let mut around = object.sections().filter(|section| {
        let inside = |offset| offset < section.size();
        address.checked_sub(section.address()).is_some_and(inside) && section.address() != 0
    });
    let in_code = around.next().is_none_or(|section| section.kind() == SectionKind::Text);
    in_code && Body { address, bytes: module.elf().code(address) }.is_code()
}

/// Whether an instruction has one of the prefixes for which the kernel refuses a uprobe: LOCK and the segments CS, SS, DS, ES
/// (arch/x86/kernel/uprobes.c). It does so when the code is mapped, long after the probe was accepted, and tells nobody.
fn unfit_for_probe(code: &[u8]) -> bool {
    const REFUSED: [u8; 5] = [0xF0, 0x2E, 0x36, 0x3E, 0x26];
    const OTHER_PREFIXES: [u8; 6] = [0x66, 0x67, 0x64, 0x65, 0xF2, 0xF3];
    code.iter()
        .take_while(|byte| REFUSED.contains(byte) || OTHER_PREFIXES.contains(byte))
        .any(|byte| REFUSED.contains(byte))
}

/// The first place behind these instructions that can hold a probe and is passed as often as they are.
fn behind_unfit(module: &Module, address: u64) -> Option<u64> {
    let function = module.symbols().containing(address)?;
    by_symbol::body(module, function).behind(address, unfit_for_probe)
}

/// What is said of a point with several places.
fn note(name: &str, sites: &[Site]) -> Option<String> {
    const SHOWN: usize = 6;
    if sites.len() < 2 {
        return None;
    }
    let shown: Vec<&str> = sites.iter().take(SHOWN).map(|site| site.what.as_str()).collect();
    let more = if sites.len() > SHOWN { format!(" and {} more", sites.len() - SHOWN) } else { String::new() };
    Some(format!("'{name}' means {} places, all are counted: {}{more}", sites.len(), shown.join(", ")))
}

/// The names most like the one that was asked for, best first.
pub(crate) fn nearest(name: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    const SHOWN: usize = 5;
    const LIKE: f64 = 0.7;
    let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_lowercase();
    let (whole, end) = (name.to_lowercase(), last(name));
    let likeness = |other: &str| {
        let whole = strsim::jaro_winkler(&whole, &other.to_lowercase());
        whole.max(strsim::jaro_winkler(&end, &last(other)))
    };
    let mut rated: Vec<(f64, String)> =
        names.map(|other| (likeness(&other), other)).filter(|(like, _)| *like >= LIKE).collect();
    rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    rated.dedup();
    rated.into_iter().take(SHOWN).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_known_beforehand() {
        assert!(unfit_for_probe(&[0xF0, 0x48, 0xFF, 0x07]), "lock incq (%rdi)");
        assert!(unfit_for_probe(&[0x66, 0xF0, 0x0F, 0xB1, 0x37]), "lock cmpxchg %si, (%rdi)");
        assert!(unfit_for_probe(&[0x3E, 0xFF, 0xE0]), "notrack jmp *%rax");
        assert!(!unfit_for_probe(&[0xF3, 0x0F, 0x1E, 0xFA]), "endbr64");
        assert!(!unfit_for_probe(&[0x55, 0xF0]), "push %rbp; the next one does not count");
        assert!(!unfit_for_probe(&[]));
    }

    #[test]
    fn the_likest_names_come_first() {
        let names = ["parse_file", "parse_line", "app::proces", "main"];
        let near = nearest("process", names.iter().map(|n| (*n).to_owned()));
        assert_eq!(near.first().map(String::as_str), Some("app::proces"));
        assert!(!near.contains(&"main".to_owned()));
    }
}

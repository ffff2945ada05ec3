//! Latency points: `[NAME=]BEGIN,END`, two specs, or `FUNCTION`, from its entry to its return.

use super::binaries::Binaries;
use super::resolve::{Found, Resolved, Source, resolve, site};
use super::spec::{Place, Spec, split_pair};
use super::{by_symbol, returns};
use anyhow::{Context as _, Result, bail};

/// A latency point, ready to be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// What the reports call it.
    pub name: String,
    /// Where intervals begin.
    pub begin: Source,
    /// Where they end.
    pub end: Source,
    /// Begin and end are of one call, which the stack pointer tells from others.
    pub framed: bool,
    /// What the user should know.
    pub note: Option<String>,
}

/// Finds the places that a latency point means.
///
/// # Errors
/// As [`resolve`]; where the text cannot be read; where a place cannot be the begin or end of anything.
pub fn resolve_latency(text: &str, binaries: &Binaries) -> Result<Latency> {
    resolve_in(text, binaries).with_context(|| format!("latency point '{text}' cannot be used"))
}

fn resolve_in(text: &str, binaries: &Binaries) -> Result<Latency> {
    match split_pair(text)? {
        (begin, Some(end)) => pair(text, &begin.parse()?, &end.parse()?, binaries),
        (function, None) => whole(&function.parse()?, binaries),
    }
}

fn pair(text: &str, begin: &Spec, end: &Spec, binaries: &Binaries) -> Result<Latency> {
    let place = |spec: &Spec| -> Result<Resolved> {
        match spec.place {
            Place::Sampled { .. } => bail!("'{}': samples are no begin and no end", spec.name),
            _ => resolve(spec, binaries),
        }
    };
    let (first, last) = (place(begin)?, place(end)?);
    if first.source == last.source {
        bail!("its begin and its end are the same place");
    }
    // A name before the pair is the pair's.
    let named = begin.name != text && text.starts_with(&format!("{}=", begin.name));
    let name = if named { begin.name.clone() } else { text.to_owned() };
    let notes: Vec<String> = first.note.into_iter().chain(last.note).collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(Latency { name, begin: first.source, end: last.source, framed: false, note })
}

fn whole(spec: &Spec, binaries: &Binaries) -> Result<Latency> {
    let Place::Symbol { symbol, offset: 0 } = &spec.place else {
        bail!("it is neither a function nor two places (BEGIN,END)");
    };
    let module = binaries.find(spec.binary.as_deref())?;
    let (ends, note) = returns::find(&module, symbol)?;
    // The same functions as have returns; inlined copies have none.
    let begins = by_symbol::meant(&module, symbol, false)?.functions.into_iter().map(|function| {
        let address = by_symbol::begin(&module, function);
        site(&module, Found { address, what: by_symbol::full_name(&function.symbol) })
    });
    let begin = Source::Probes(begins.collect::<Result<_>>()?);
    // A goroutine's call may end in another thread, and on another stack.
    let framed = !module.elf().is_go();
    Ok(Latency { name: spec.name.clone(), begin, end: Source::Probes(ends), framed, note })
}

//! Returns of a function: each way out of it, counted once a call.
//!
//! Where all ways out are instructions that return, probes go onto these. Else the kernel replaces the return address at
//! the function's entry: that catches jumps to another function at the end too (a call that returns from there counts
//! once, when it does), but a stack that is unwound through such a frame can not be followed any further. Go's runtime ends the
//! program when it meets one.

use super::by_symbol;
use super::code::{self, Body};
use super::resolve::{Found, Site, site};
use crate::symbols::{Function, Module, split_clone};
use anyhow::{Result, bail};

/// The places at which the functions of a name are left, and what is to be said about them.
///
/// # Errors
/// When there is no such function, or it was inlined everywhere.
pub(crate) fn find(module: &Module, name: &str) -> Result<(Vec<Site>, Option<String>)> {
    let meant = by_symbol::meant(module, name, true)?;
    if meant.functions.is_empty() {
        let within = meant.copies.first().map(|copy| copy.within.clone()).unwrap_or_default();
        bail!(
            "'{name}' was inlined everywhere ({} places, one of them in {within}): code that was inlined has no return; \
             name its entry, or the function around it",
            meant.copies.len()
        );
    }
    let mut notes: Vec<String> = meant.note.into_iter().collect();
    if !meant.copies.is_empty() {
        notes.push(format!(
            "'{name}' was inlined in {} places, where it has no return: those are not counted",
            meant.copies.len()
        ));
    }
    if meant.functions.len() > 1 {
        let names: Vec<String> = meant.functions.iter().map(|f| by_symbol::full_name(&f.symbol)).collect();
        notes.push(format!(
            "'{name}' means {} functions, all are counted: {}",
            names.len(),
            names.join(", ")
        ));
    }
    let mut sites = Vec::new();
    let is_go = module.elf().is_go();
    for function in meant.functions {
        by_symbol::check_direct(module, function)?;
        let what = format!("{} returns", by_symbol::full_name(&function.symbol));
        match code::returns(&parts(module, function), is_go) {
            Ok(places) => {
                for address in places {
                    sites.push(site(module, Found { address, what: what.clone() })?);
                }
            }
            // It walks its stacks and ends where it does not know a return address: always, and soon.
            Err(why) if is_go => bail!(
                "the returns of '{name}' cannot be seen, because {}: in a Go program the kernel must not replace the address that \
                 a function returns to; name two places instead (-L BEGIN,END), or another function",
                why.as_str()
            ),
            Err(why) => {
                let entry = site(module, Found { address: function.address, what })?;
                sites.push(Site { at_return: true, ..entry });
                notes.extend(throws(module).then(|| {
                    format!(
                        "'{name}': its returns are caught by their address on the stack, because {}: an exception or panic \
                         that passes through it would end the program",
                        why.as_str()
                    )
                }));
            }
        }
    }
    Ok((sites, (!notes.is_empty()).then(|| notes.join("; "))))
}

/// The function's body and the pieces that were split off it.
fn parts<'a>(module: &'a Module, function: &Function) -> Vec<Body<'a>> {
    let is_piece = |other: &&Function| {
        other.symbol.strip_prefix(&function.symbol).is_some_and(|rest| rest.starts_with(".cold"))
    };
    let body = |function| by_symbol::body(module, function);
    let functions = module.symbols().functions();
    let pieces = functions.iter().filter(|other| !split_clone(&other.symbol).1.is_empty()).filter(is_piece);
    std::iter::once(body(function)).chain(pieces.map(body)).filter(|body| !body.bytes.is_empty()).collect()
}

/// Whether stacks are unwound in this program.
fn throws(module: &Module) -> bool {
    let undefined = |name| module.symbols().is_undefined(name);
    undefined("_Unwind_Resume") || undefined("_Unwind_RaiseException") || undefined("__cxa_throw")
}

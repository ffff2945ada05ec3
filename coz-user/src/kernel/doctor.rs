//! `coz-bpf doctor`: what this kernel, these privileges and this program allow, and the command that mends each gap.

mod frame;
mod machine;
mod program;
mod programs;
mod table;

use std::ffi::OsStr;

pub use self::table::{failures, render};
use super::{
    btf::{Btf, BtfError},
    environment::{self, Machine},
    features::Features,
    programs::trial,
};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing is lost.
    Note,
    /// The profile will be worse for it.
    Warn,
    /// No profile is possible.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// How it came out.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What is needed, and for what.
    pub needed: String,
    /// The command (or setting) that mends it.
    pub fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, level: Level, found: impl Into<String>, needed: impl Into<String>) -> Self {
        Self { name, level, found: found.into(), needed: needed.into(), fix: None }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Looks at the machine. `run` and `attach` do so first, and stop where [`failures`] has something to say. `btf`: the
/// kernel's type information, as [`Btf::load`] gave it.
#[must_use]
pub fn machine(btf: &Result<Btf, BtfError>) -> Vec<Check> {
    machine::judge(&Machine::look(btf))
}

/// Has the kernel check everything that could be loaded, which `run` and `attach` do with what they need. Nothing is tried where
/// these checks of the machine have failed.
#[must_use]
pub fn programs(btf: &Result<Btf, BtfError>, machine: &[Check]) -> Vec<Check> {
    let Ok(btf) = btf else { return Vec::new() };
    if exit_code(machine) != 0 {
        return Vec::new();
    }
    let tried = environment::pid_max().and_then(|pid_max| trial(btf, pid_max));
    vec![programs::judge(tried.map_err(|error| format!("{error:#}")), &Features::ask(btf).shortfalls())]
}

/// Looks at a program, named as on the command line of `run`.
#[must_use]
pub fn program(name: &OsStr) -> Vec<Check> {
    program::judge(name)
}

/// 1 where a check failed, else 0.
#[must_use]
pub fn exit_code(checks: &[Check]) -> u8 {
    u8::from(checks.iter().any(|check| check.level == Level::Fail))
}

//! Names of system calls.

use super::resolve::nearest;
use anyhow::{Result, bail};
use std::str::FromStr as _;
use syscalls::Sysno;

/// The number of a system call on this machine; `name` may begin with `sys_`.
///
/// # Errors
/// When there is none of that name, with the nearest.
pub(crate) fn number(name: &str) -> Result<u32> {
    let bare = name.strip_prefix("sys_").unwrap_or(name);
    if let Ok(known) = Sysno::from_str(bare) {
        if NEVER.contains(&bare) {
            bail!("the system call '{bare}' never returns: it can not be counted when it is complete");
        }
        return Ok(known.id() as u32);
    }
    let near = nearest(bare, Sysno::iter().map(|call| call.name().to_owned()));
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
    bail!("no system call '{bare}'{hint}")
}

/// Calls that do not come back.
const NEVER: [&str; 2] = ["exit", "exit_group"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_manual() {
        assert_eq!(number("read").expect("it is there"), 0);
        assert_eq!(number("sys_futex").expect("it is there"), 202);
        let error = number("futx").expect_err("there is none").to_string();
        assert!(error.contains("futex"), "{error}");
        assert!(number("exit_group").is_err());
    }
}

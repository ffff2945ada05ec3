//! Enters a process, says where its handler is, and leaves it when its input ends.
//!
//! `coz-test-enter PID [ROUNDS]`; it ends with 1 and says why where the process is not to be entered.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result};
use coz_tests::entering::Files;
use coz_user::target::inject;

const SIGNAL: u32 = 62;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("enter: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let pid: i32 = words.next().context("a process id")?.parse()?;
    let rounds: u32 = words.next().map_or(Ok(1), |word| word.parse())?;
    let files = Files::default();
    for round in 1..=rounds {
        let entered = inject::enter(pid, &files.maps(), SIGNAL)?;
        println!("entered {:#x} {} ns", entered.handler(), entered.stopped_for().0);
        entered.notices().iter().for_each(|notice| println!("{notice}"));
        if round == rounds {
            std::io::stdin().read_to_end(&mut Vec::new())?;
        }
        println!("{:?}", entered.leave()?);
    }
    Ok(())
}

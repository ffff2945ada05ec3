//! `coz-fuzz TARGET [LIBFUZZER OPTIONS] [CORPUS]...`: feeds a target with whatever reaches new code.

#![no_main]

use std::sync::OnceLock;

use coz_fuzz::{TARGETS, Target};

fn target() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("COZ_FUZZ").unwrap_or_default();
        let found = TARGETS.iter().find(|target| target.name == name);
        found.unwrap_or_else(|| {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("COZ_FUZZ names the target: one of {}", names.join(", "));
            std::process::exit(2)
        })
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| (target().run)(data));

//! Real programs, built or written here, told apart.

use std::process::Command;

use super::*;
use crate::target::identity::Reason;

fn user(uid: u32) -> Identity {
    Identity { uid, gid: uid, groups: vec![uid], account: None, reason: Reason::Asked }
}

fn look(path: &Path) -> Program {
    Program::find(path.as_os_str(), Some(OsStr::new("/usr/bin:/bin")), &user(1000)).unwrap()
}

fn write(path: &Path, text: &[u8]) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn compile(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = folder.join("main.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let out = folder.join(name);
    let done = Command::new("gcc").args(flags).arg("-o").arg(&out).arg(&source).status();
    assert!(done.expect("gcc is there").success(), "gcc {flags:?}");
    out
}

#[test]
fn compiled_programs_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let plain = look(&compile(folder.path(), "plain", &["-g"]));
    let (_, elf) = plain.image().unwrap();
    assert_eq!((elf.bits, elf.machine, elf.has_symbols), (64, None, true));
    assert!(elf.debug.info && elf.debug.line && elf.debug.link.is_none());
    assert!(matches!(&elf.linkage, Linkage::Dynamic(loader) if loader.contains("ld-linux")), "{elf:?}");
    assert_eq!(plain.can_preload, Ok(()));

    let stripped = look(&compile(folder.path(), "stripped", &["-s"]));
    let (_, elf) = stripped.image().unwrap();
    assert!(!elf.has_symbols && !elf.debug.info, "{elf:?}");
    assert_eq!(stripped.can_preload, Ok(()));

    for (name, flag) in [("static", "-static"), ("static-pie", "-static-pie")] {
        let program = look(&compile(folder.path(), name, &[flag]));
        assert_eq!(program.can_preload, Err(Why::Static), "{flag}");
        assert_eq!(program.image().unwrap().1.position_independent, flag == "-static-pie");
    }
}

#[test]
fn other_machines_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let x86_64 = std::fs::read(compile(folder.path(), "plain", &[])).unwrap();
    let path = folder.path().join("arm");
    let mut arm = x86_64.clone();
    arm[18..20].copy_from_slice(&183u16.to_le_bytes());
    write(&path, &arm);
    assert_eq!(look(&path).can_preload, Err(Why::OtherMachine("arm64".into())));

    // A 32-bit header by hand: gcc's 32-bit libraries are not installed everywhere.
    let mut i386 = vec![0u8; 52];
    i386[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    i386[16..18].copy_from_slice(&2u16.to_le_bytes());
    i386[18..20].copy_from_slice(&3u16.to_le_bytes());
    i386[20..24].copy_from_slice(&1u32.to_le_bytes());
    let path = folder.path().join("i386");
    write(&path, &i386);
    assert_eq!(look(&path).can_preload, Err(Why::Bits32));
}

#[test]
fn a_damaged_program_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(compile(folder.path(), "plain", &[])).unwrap();
    let path = folder.path().join("cut");
    for length in (0..whole.len()).step_by(97).chain(0..70) {
        write(&path, &whole[..length]);
        let program = look(&path);
        // Without a whole header it is no program; without the magic number the shell would read it.
        assert!(!(4..64).contains(&length) || program.kind == Kind::Unknown, "{length}: {program:?}");
    }
}

#[test]
fn a_scripts_interpreter_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    for (text, interpreter, runs) in [
        (&b"#!/bin/sh\nexit 0\n"[..], "/bin/sh", "/bin/sh"),
        (b"#! /bin/sh -e\nexit 0\n", "/bin/sh", "/bin/sh"),
        (b"#!/usr/bin/env sh\n", "/usr/bin/env", "/usr/bin/sh"),
        (b"#!/usr/bin/env -S A=1 sh -e\n", "/usr/bin/env", "/usr/bin/sh"),
    ] {
        write(&path, text);
        let program = look(&path);
        let Kind::Script { interpreter: found, named: true, runs: inner } = &program.kind else {
            panic!("{program:?}")
        };
        assert_eq!((found.as_path(), inner.path.as_path()), (Path::new(interpreter), Path::new(runs)));
        assert_eq!(program.can_preload, Ok(()));
        let (file, argv) = program.command(OsStr::new("script"), &["x".into()]);
        assert_eq!((file, argv), (path.clone(), vec!["script".into(), "x".into()]));
    }
}

#[test]
fn a_text_without_a_first_line_goes_to_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    write(&path, b"exit 3\n");
    let (file, argv) = look(&path).command(OsStr::new("./text"), &["x".into()]);
    assert_eq!(file, Path::new("/bin/sh"));
    assert_eq!(argv, ["/bin/sh".into(), path.clone().into_os_string(), "x".into()]);
    write(&path, b"\x00\x01\x02");
    assert_eq!(look(&path).can_preload, Err(Why::NotElf));
}

#[test]
fn a_missing_or_circular_interpreter_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    write(&path, b"#!/no/such/python\n");
    let why = look(&path).can_preload.unwrap_err();
    assert_eq!(why, Why::Interpreter { path: "/no/such/python".into(), why: None });
    write(&path, format!("#!{}\n", path.display()).as_bytes());
    assert!(look(&path).can_preload.is_err());
}

#[test]
fn privileges_count_only_where_they_are_gained() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain", &[]);
    let owner = std::fs::metadata(&path).unwrap().uid();
    let nosuid = statvfs(&path).unwrap().flags().contains(FsFlags::ST_NOSUID);
    assert!(!nosuid, "the test's folder for temporary files must allow setuid; set TMPDIR to one that does");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
    assert_eq!(privilege(&path, &user(owner + 1)), Some(Privilege::SetUid));
    assert_eq!(privilege(&path, &user(owner)), None);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o2755)).unwrap();
    assert_eq!(privilege(&path, &user(owner + 1)), Some(Privilege::SetGid));
    // No group execute bit: not setgid in the kernel's eyes.
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o2745)).unwrap();
    assert_eq!(privilege(&path, &user(owner + 1)), None);
}

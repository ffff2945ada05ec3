//! Who is not to be entered, and is not.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use coz_tests::entering::Files;
use coz_tests::turn;
use coz_user::target::inject::{self, Refused};
use coz_user::target::process;

use crate::elf32;
use crate::target::{KINDS, SIGNAL, Target, compile, enter, folder, leave, surroundings};

#[test]
fn who_is_not_to_be_entered_is_refused_with_words_and_unharmed() {
    let _turn = turn::beside_others();
    let files = Files::default();
    let refused = |pid| inject::enter(pid, &files.maps(), SIGNAL).expect_err("it is refused");
    for (how, words) in [
        ("apart", "does not allow clock_nanosleep"),
        ("strict", "none but four"),
        ("handler", "uses signal 62"),
        ("descriptors", "no room for"),
        ("memory", "no room for"),
    ] {
        let target = Target::begin(&compile("refuses", KINDS[0]), [how]);
        let before = surroundings(target.pid());
        let why = refused(target.pid()).to_string();
        assert!(why.contains(words), "{how}: {why}");
        assert_eq!(surroundings(target.pid()), before);
        assert_eq!(target.finish(), "ended\n");
    }

    let target = Target::begin(&compile("refuses", KINDS[0]), ["nothing"]);
    let pid = target.pid();
    // SAFETY: takes over a child of ours, by number.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) }, 0);
    assert!(matches!(refused(pid), Refused::Traced { .. }));
    assert!(refused(pid).to_string().contains("traces it"));
    // SAFETY: as above; it must stop to be let go of.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::__WALL), pid);
        assert_eq!(libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0), 0);
    }
    let entered = enter(pid, &files);
    assert!(matches!(refused(pid), Refused::AlreadyProfiled), "twice");
    leave(&entered);
    assert_eq!(target.finish(), "ended\n");

    let gone = Target::begin(&compile("refuses", KINDS[0]), ["nothing"]);
    let pid = gone.pid();
    gone.finish();
    assert!(matches!(refused(pid), Refused::Gone));
    assert!(matches!(refused(2), Refused::KernelThread), "kthreadd");
}

#[test]
fn a_32_bit_program_is_refused() {
    let _turn = turn::beside_others();
    // Without a compiler for it: one that waits for a signal.
    let (bytes, file) = (folder().join("bytes"), folder().join("bits32"));
    fs::write(&bytes, elf32::waits()).expect("it is ours");
    // By another process: who starts programs in other threads could have it open for writing a moment longer.
    assert!(Command::new("cp").args([&bytes, &file]).status().expect("cp is there").success());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&file, mode).expect("it is ours");
    let target = Target::start(&mut Command::new(&file));
    let deadline = Instant::now() + Duration::from_secs(10);
    while process::executable(target.pid()).unwrap().is_none_or(|exe| exe != file) {
        assert!(Instant::now() < deadline, "it starts");
    }
    let why = inject::enter(target.pid(), &Files::default().maps(), SIGNAL).expect_err("it is refused");
    assert!(matches!(why, Refused::NotX86), "{why}");
    let status = process::status(target.pid()).unwrap().expect("it lives");
    assert!(!status.is_over());
}

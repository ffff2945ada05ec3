//! Who is not attached to, or not delayed, and is told why.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use coz_tests::run::Place;
use coz_tests::turn;
use coz_tests::{profiler, program};

use crate::target::{LONG, Target, attach};

#[test]
fn who_cannot_be_attached_to_is_told_why() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let refused = |pid: &str, code, says: &[&str]| {
        place.run(attach(&place, &["-p", pid, "-d", "1"])).assert_says(code, says);
        assert!(!place.profile().exists(), "no empty profile is left");
    };
    refused("4194303", 125, &["there is none of that number", "pgrep"]);
    refused("2", 125, &["thread of the kernel"]);
    refused("0", 2, &[]);
    let target = Target::start("pipeline_condvar", LONG);
    let threads = fs::read_dir(format!("/proc/{}/task", target.pid())).expect("it runs");
    let names = threads.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let thread = names.into_iter().find(|tid| *tid != target.pid()).expect("it has two");
    refused(&thread, 125, &["it is a thread of process", &format!("-p {}", target.pid())]);
    place
        .run(attach(&place, &["-p", &target.pid(), "-P", "no_such_function"]))
        .assert_says(2, &["no_such_function"]);
    assert!(!place.profile().exists());
    target.ends_as_it_should();
}

#[test]
fn who_is_traced_is_watched_and_not_delayed() {
    let _turn = turn::beside_others();
    let (place, target) = (Place::new(), Target::start("single", LONG));
    // SAFETY: plain numbers; the tracee is our child and runs on.
    let traced = unsafe { libc::ptrace(libc::PTRACE_SEIZE, target.running.pid(), 0, 0) };
    assert_eq!(traced, 0, "{}", io::Error::last_os_error());
    let ended = place.run(attach(&place, &["-p", &target.pid(), "-P", "progress", "-d", "2"]));
    ended.assert_says(0, &["is not delayed", "traces it already", "No experiment was made", "single.c:"]);
    // SAFETY: as above. It can only be let go while it is stopped.
    unsafe {
        libc::ptrace(libc::PTRACE_INTERRUPT, target.running.pid(), 0, 0);
        libc::waitpid(target.running.pid(), std::ptr::null_mut(), libc::__WALL);
        libc::ptrace(libc::PTRACE_DETACH, target.running.pid(), 0, 0);
    }
    target.ends_as_it_should();
}

#[test]
fn a_set_user_id_program_leaves_the_set() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let file = place.copy(&program("single"), "other-rights");
    let open = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(&file, open(0o4755)).expect("it is ours");
    fs::set_permissions(place.path(), open(0o755)).expect("it is ours");
    let script = format!("{} --seconds 1; echo ended $?", file.display());
    let ended = place.run(place.profiled(["--user", "65534", "--", "/bin/sh", "-c", &script]));
    ended.assert_says(0, &["left the profile", "other rights"]);
    assert!(ended.output().ends_with("ended 0\n"), "{}", ended.output());
}

#[test]
fn only_with_the_rights_that_it_takes() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let target = Target::start("single", LONG);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let binary = place.copy(&profiler(), "coz-bpf");
    let mut command = place.plain("/usr/bin/setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(binary).args(["attach", "-p", &target.pid(), "-d", "1"]);
    place.run(command).assert_says(125, &["CAP_BPF", "CAP_PERFMON", "setcap"]);
    target.ends_as_it_should();
}

/// There, processes have other numbers than in the kernel.
#[test]
fn in_a_pid_namespace_of_its_own_it_says_so() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let mut command = place.plain("unshare", ["-pf", "--mount-proc"]);
    command.arg(profiler()).args(["run", "-P", "progress", "--"]).arg(program("single"));
    place.run(command).assert_says(125, &["pid namespace", "--pid=host"]);
}

//! The shim in real programs. Files without a name stand in for the kernel's maps: the shim cannot tell.

mod stage;

use std::ffi::OsString;
use std::process::{Command, Output};
use std::time::Duration;

use coz_common::abi::STATE_IDLE;
use coz_user::target::shim;
use stage::{Program, SIGNAL, Stage, compile, compile_with};

const MILLI: u64 = 1_000_000;
/// What the programs owe, where it matters only that they pay. Bounds on real time are wide: tests run side by
/// side, on machines that do other things too.
const DEBT: u64 = 200 * MILLI;
const PAID: (f64, f64) = (200.0, 400.0);
const UNPAID: f64 = 100.0;

/// Output and exit status as text, to be compared as a whole.
fn seen(output: &Output) -> String {
    format!(
        "{}{}{:?}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status
    )
}

/// Thread, milliseconds and errno of each payment that `pay.c` reports.
fn payments(output: &Output) -> Vec<(u32, f64, i32)> {
    assert!(output.status.success(), "{}", seen(output));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [tid, spent, errno] = words[..] else { panic!("{line}") };
            (tid.parse().unwrap(), spent.parse().unwrap(), errno.parse().unwrap())
        })
        .collect()
}

fn run(stage: &Stage, how: &str) -> Vec<(u32, f64, i32)> {
    payments(&stage.run(Program::new(&compile("pay")).arg(SIGNAL.to_string()).arg(how)))
}

#[track_caller]
fn took(payment: (u32, f64, i32), least: f64, most: f64) {
    let (_, spent, errno) = payment;
    assert!((least..most).contains(&spent), "{spent} ms, not {least} to {most}");
    assert_eq!(errno, 1234, "errno is the program's");
}

#[track_caller]
fn pays(payment: (u32, f64, i32)) {
    took(payment, PAID.0, PAID.1);
}

#[test]
fn the_environment_and_the_descriptors_are_the_users() {
    let program = compile("surroundings");
    let theirs = compile_with("nothing", &["-shared", "-fPIC"]);
    let theirs = theirs.to_str().unwrap();
    for preload in [None, Some(""), Some(theirs)] {
        let program = Program::new(&program).arg("x").preload(preload);
        let stage = Stage::new();
        let with = stage.run(program.clone());
        assert_eq!(seen(&with), seen(&program.alone()), "LD_PRELOAD={preload:?}");
        assert_eq!(stage.registered().len(), 1, "and yet it was there");
    }
}

#[test]
fn with_no_controller_at_the_socket_the_program_runs_as_if_alone() {
    let program = Program::new(&compile("surroundings")).arg("x");
    assert_eq!(seen(&Stage::deaf().run(program.clone())), seen(&program.alone()));
    let signals = Program::new(&compile("signals")).arg(SIGNAL.to_string());
    assert_eq!(seen(&Stage::deaf().run(signals.clone())), seen(&signals.alone()));
}

#[test]
fn a_controller_that_refuses_or_is_silent_or_of_another_version_is_no_controller() {
    let program = Program::new(&compile("surroundings")).arg("x");
    for stage in [Stage::refusing(), Stage::silent(), Stage::of_another_version()] {
        assert_eq!(seen(&stage.run(program.clone())), seen(&program.alone()));
    }
}

#[test]
fn without_the_invitation_the_shim_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("shim.so");
    std::fs::write(&library, shim::image()).unwrap();
    for (name, argument) in [("surroundings", "x".to_owned()), ("signals", SIGNAL.to_string())] {
        let program = Program::new(&compile(name)).arg(argument).preload(library.to_str());
        let without = program.clone().preload(None);
        let masked = |text: String| text.replace(library.to_str().unwrap(), "");
        let with = masked(seen(&program.alone()));
        let with: Vec<&str> = with.lines().filter(|l| !l.contains("LD_PRELOAD=")).collect();
        let without = seen(&without.alone());
        let without: Vec<&str> = without.lines().filter(|l| !l.contains("LD_PRELOAD=")).collect();
        assert_eq!(with, without);
    }
}

#[test]
fn a_debt_is_paid_in_full_and_credited() {
    let stage = Stage::owing(DEBT);
    let paid = run(&stage, "plain");
    pays(paid[0]);
    let slot = stage.target_slot(paid[0].0);
    assert_eq!((slot.acked, slot.paying), (1, 0), "the signal is answered");
    let credited = slot.paid as f64 / 1e6;
    assert!(credited >= PAID.0 && credited <= paid[0].1, "{credited} ms of {}", paid[0].1);
    assert!(paid[0].1 - credited < 5.0, "what is not credited is lost: {credited} of {}", paid[0].1);
}

#[test]
fn a_small_debt_is_paid_to_the_microsecond() {
    let stage = Stage::owing(200_000);
    let paid = run(&stage, "plain");
    let credited = stage.target_slot(paid[0].0).paid;
    assert!((200_000..5 * MILLI).contains(&credited), "{credited} ns");
}

#[test]
fn nobody_pays_who_owes_nothing() {
    let stage = Stage::new();
    let paid = run(&stage, "plain");
    took(paid[0], 0.0, UNPAID);
    assert_eq!(stage.target_slot(paid[0].0).acked, 1, "the answer comes all the same");
}

#[test]
fn the_time_counts_from_the_sending_of_the_signal() {
    let stage = Stage::owing(DEBT);
    // "Sent" when the program registers: what its start takes until it asks is paid already.
    stage.sent_at_registration();
    let paid = run(&stage, "plain");
    let credited = stage.target_slot(paid[0].0).paid as f64 / 1e6;
    assert!(credited >= PAID.0 && credited > paid[0].1, "{credited} ms of {}", paid[0].1);
}

#[test]
fn the_deadline_ends_what_a_dead_controller_has_left() {
    let stage = Stage::owing(60_000 * MILLI);
    stage.deadline_in(Duration::from_millis(300));
    took(run(&stage, "plain")[0], 50.0, 600.0);
}

#[test]
fn the_end_of_the_experiment_ends_the_payment() {
    let stage = Stage::owing(60_000 * MILLI);
    let paid = std::thread::scope(|scope| {
        scope.spawn(|| {
            stage.wait_for_payer();
            std::thread::sleep(Duration::from_millis(100));
            stage.set_state(STATE_IDLE);
        });
        run(&stage, "plain")
    });
    took(paid[0], 50.0, 400.0);
}

#[test]
fn a_slot_of_another_epoch_owes_nothing() {
    let stage = Stage::owing(60_000 * MILLI);
    stage.set_epoch(stage.epoch() + 1);
    took(run(&stage, "plain")[0], 0.0, UNPAID);
}

#[test]
fn it_pays_with_everything_blocked_and_every_handler_replaced() {
    for how in ["blocked", "replaced"] {
        let stage = Stage::owing(DEBT);
        let paid = run(&stage, how);
        pays(paid[0]);
        took(paid[1], 0.0, UNPAID);
    }
}

#[test]
fn threads_pay_each_for_itself_and_end_well() {
    let stage = Stage::owing(DEBT);
    let paid = run(&stage, "thread");
    assert_eq!(paid.len(), 3, "plain, by pthread_exit, born with everything blocked");
    paid.iter().for_each(|&p| pays(p));
}

#[test]
fn a_forked_child_pays_for_itself() {
    let stage = Stage::owing(DEBT);
    let paid = run(&stage, "fork");
    pays(paid[0]);
    pays(paid[1]);
    assert_ne!(paid[0].0, paid[1].0);
}

#[test]
fn a_program_that_closes_everything_still_pays() {
    let stage = Stage::owing(DEBT);
    pays(run(&stage, "closed")[0]);
}

#[test]
fn a_tiny_alternate_stack_does_not_kill() {
    let stage = Stage::owing(DEBT);
    let paid = run(&stage, "altstack");
    pays(paid[0]);
    took(paid[1], 0.0, UNPAID);
    took(paid[2], 0.0, UNPAID);
    assert_eq!(stage.target_slot(paid[0].0).acked, 1);
}

#[test]
fn a_storm_of_signals_changes_no_result() {
    let storm = compile("storm");
    let alone = seen(&Program::new(&storm).arg("calm").alone());
    let stage = Stage::owing(MILLI);
    stage.set_signal(libc::SIGIO);
    assert_eq!(seen(&stage.run(Program::new(&storm).arg("storm"))), alone);
    assert!(stage.paid() > 40 * MILLI, "each of 40 threads has paid: {} ns in all", stage.paid());
}

#[test]
fn a_program_can_pay_unasked() {
    let stage = Stage::owing(DEBT);
    // The function exists only with the shim: the program declares it weak.
    let paid = run(&stage, "volunteer");
    pays(paid[0]);
    assert_eq!(stage.target_slot(paid[0].0).acked, 0, "no signal, no answer");
}

#[test]
fn a_program_that_uses_our_signal_itself_sees_what_it_would_alone() {
    let program = Program::new(&compile("signals")).arg(SIGNAL.to_string());
    let alone = seen(&program.alone());
    assert!(
        alone.ends_with(&format!("ExitStatus(unix_wait_status({SIGNAL}))")),
        "it dies by that signal: {alone}"
    );
    assert_eq!(seen(&Stage::new().run(program.clone())), alone);
    assert_eq!(seen(&Stage::new().run(program.arg("ask"))), alone, "with payments in between");
}

#[test]
fn executed_programs_get_the_shim_again_and_do_not_see_it() {
    let (exec, surroundings) = (compile("exec"), compile("surroundings"));
    let ways = [
        "execve",
        "execv",
        "execvp",
        "execvpe",
        "execl",
        "execlp",
        "execle",
        "fexecve",
        "vfork",
        "posix_spawn",
        "posix_spawnp",
    ];
    for way in ways {
        // `vfork` is not interposed: its child starts with no wishes.
        let with_mask = (way != "vfork").then(|| format!("{way}!{SIGNAL}"));
        for how in [Some(way.to_owned()), with_mask].into_iter().flatten() {
            let program = Program::new(&exec).arg(how.clone()).arg(&surroundings);
            let stage = Stage::new();
            assert_eq!(seen(&stage.run(program.clone())), seen(&program.alone()), "{how}");
            assert_eq!(stage.registered().len(), 2, "{how}");
        }
    }
}

#[test]
fn what_would_not_load_the_shim_is_executed_untouched() {
    let exec = compile("exec");
    let fixed = compile_with("surroundings", &["-static"]);
    for (how, target) in [("execv", &fixed), ("posix_spawn", &fixed), ("closefrom", &compile("surroundings"))]
    {
        let program = Program::new(&exec).arg(how).arg(target);
        let stage = Stage::new();
        assert_eq!(seen(&stage.run(program.clone())), seen(&program.alone()), "{how}");
        assert_eq!(stage.registered().len(), 1, "{how}");
    }
}

#[test]
fn scripts_are_executed_with_the_shim_in_their_interpreter() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh\necho script $1 ${LD_PRELOAD-unset}\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = Program::new(&compile("exec")).arg("execv").arg(&script);
    let stage = Stage::new();
    assert_eq!(seen(&stage.run(program.clone())), seen(&program.alone()));
    assert_eq!(stage.registered().len(), 2);
}

#[test]
fn an_exec_that_fails_fails_as_it_would_alone() {
    let program = Program::new(&compile("exec")).arg("missing").arg("/nonexistent");
    assert_eq!(seen(&Stage::new().run(program.clone())), seen(&program.alone()));
}

#[test]
fn counters_are_counted_where_the_controller_reads() {
    let stage = Stage::new();
    let output = stage.run(Program::new(&compile("count")));
    assert!(output.status.success(), "{}", seen(&output));
    let counters = stage.counters();
    let count = |kind, name: &str| {
        let found: Vec<u64> =
            counters.iter().filter(|c| c.kind == kind && c.name == name).map(|c| c.count).collect();
        assert_eq!(found.len(), 1, "{name} has one place");
        found[0]
    };
    assert_eq!(count(1, "a"), 13, "the child counts with its parent");
    assert_eq!(count(2, "a"), 5);
    assert_eq!(count(1, "b"), 7);
    assert_eq!(count(1, "child"), 1);
    assert_eq!(count(3, &"w".repeat(104)), 9, "long names are cut");
    assert_eq!(counters.len(), 256, "the table is full, the rest is counted where nobody reads");
}

#[test]
fn counting_works_without_a_profiler() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("shim.so");
    std::fs::write(&library, shim::image()).unwrap();
    let output = Program::new(&compile("count")).preload(library.to_str()).alone();
    assert!(output.status.success(), "{}", seen(&output));
}

#[test]
fn the_shim_needs_nothing_but_libc() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("shim.so");
    std::fs::write(&library, shim::image()).unwrap();
    println!("the shim has {} bytes", shim::image().len());
    let text = |program: &str, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).arg(&library).output().expect("binutils are there");
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let imports = text("nm", &["-D", "--undefined-only"]);
    assert!(imports.lines().all(|line| line.contains("@GLIBC_")), "{imports}");
    let needed: Vec<String> = text("readelf", &["-dW"])
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .map(|line| line.rsplit(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(needed, ["[libc.so.6]"]);
    assert!(!text("nm", &[]).contains("panic_fmt"), "nothing in it panics");
    let segments = text("readelf", &["-lW"]);
    assert!(!segments.contains(" TLS "), "no thread-local variables: {segments}");
    assert!(shim::image().len() < 64 << 10, "it has grown to {} bytes", shim::image().len());
}

#[test]
fn the_launchers_variables_are_those_that_the_shim_removes() {
    // `Stage` uses them too; this is about where they go.
    let added = shim::variables(77, "name", None);
    assert!(added.iter().all(|(name, _)| name == "LD_PRELOAD" || name == "COZ_BPF_SOCKET"));
    assert_eq!(shim::variables(77, "name", Some(&OsString::from("x")))[1].0, "LD_PRELOAD");
}

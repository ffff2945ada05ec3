//! What is said of machines as they may be.

use super::*;
use crate::kernel::{
    btf::BtfError,
    doctor::{Level, exit_code, failures},
    environment::{BtfFacts, Probes},
};

fn good() -> Machine {
    Machine {
        uid: 0,
        capabilities: Reading::Value(Capabilities(0x1ff_ffff_ffff)),
        filtered: Reading::Value(false),
        user_namespace: Reading::Value(false),
        architecture: "x86_64",
        release: Reading::Value("6.1.0-18-amd64".into()),
        btf: Ok(BtfFacts { needed_missing: vec![], interrupt_missing: vec![] }),
        tracefs: Reading::Value(vec![]),
        hidepid: Reading::Value(None),
        uprobe_source: Reading::Value(8),
        hardware_counters: true,
        paranoid: Reading::Value(4),
        max_sample_rate: Reading::Value(100_000),
        cpu_time_max_percent: Reading::Value(25),
        unprivileged_bpf_disabled: Reading::Value(2),
        lockdown: Reading::Value(Lockdown::Integrity),
        jit: Reading::Value(1),
        memfd_noexec: Reading::Value(1),
        cpus: 4,
        steal: Reading::Value(0.001),
        probes: Probes { map: Ok(()), sampling: Ok(()), shim: Ok(()), uprobe: Ok(()) },
        missing_helpers: Some(vec![]),
    }
}

fn level(machine: &Machine, name: &str) -> Level {
    judge(machine).into_iter().find(|check| check.name == name).expect("such a check").level
}

#[test]
fn a_usual_machine_passes_without_a_word() {
    let checks = judge(&good());
    assert!(checks.iter().all(|check| check.level == Good), "{checks:#?}");
    assert!(checks.iter().all(|check| check.fix.is_none()));
    assert_eq!((exit_code(&checks), failures(&checks)), (0, None));
}

#[test]
fn missing_capabilities_are_named() {
    let held = |bits: &[(u32, &str)]| Machine {
        uid: 1000,
        capabilities: Reading::Value(Capabilities(bits.iter().fold(0, |set, one| set | 1 << one.0))),
        ..good()
    };
    let nobody = held(&[]);
    let check = privileges(&nobody);
    assert_eq!((check.level, check.found.as_str()), (Fail, "user 1000 without CAP_BPF, CAP_PERFMON"));
    assert_eq!(privileges(&held(&[capability::BPF])).found, "user 1000 without CAP_PERFMON");
    // What they were split from is enough for both.
    assert_eq!(privileges(&held(&[capability::SYS_ADMIN, capability::SYS_PTRACE])).level, Good);
    assert_eq!(privileges(&held(&[capability::BPF, capability::PERFMON])).level, Warn);
    assert_eq!(level(&nobody, "perf paranoia"), Warn);
}

#[test]
fn what_only_root_may_is_told_apart() {
    let held =
        |bits: &[(u32, &str)]| Reading::Value(Capabilities(bits.iter().fold(0, |set, one| set | 1 << one.0)));
    let some = [capability::BPF, capability::PERFMON, capability::SYS_PTRACE];
    let user = Machine {
        uid: 1000,
        capabilities: held(&some),
        probes: Probes { uprobe: Err(Refusal::NotPermitted), ..good().probes },
        ..good()
    };
    assert_eq!(
        (level(&user, "privileges"), level(&user, "attach"), level(&user, "uprobes")),
        (Good, Note, Warn)
    );
    let check = judge(&user).into_iter().find(|check| check.name == "uprobes").unwrap();
    assert!(check.fix.is_some_and(|fix| fix.contains("setcap") && fix.contains("cap_sys_admin")));
}

#[test]
fn a_filter_on_coz_bpf_itself_is_said_to_forbid_delays() {
    let check = filters(&Machine { filtered: Reading::Value(true), ..good() });
    assert_eq!(check.level, Warn, "it profiles all the same");
    assert!(check.found.contains("neither what it starts"), "{check:?}");
    assert!(check.fix.is_some_and(|fix| fix.contains("--security-opt seccomp=unconfined")));
    let few = [capability::BPF, capability::PERFMON, capability::SYS_PTRACE];
    let few = Capabilities(few.iter().fold(0, |set, one| set | 1 << one.0));
    let user = Machine { capabilities: Reading::Value(few), ..good() };
    assert_eq!(filters(&user).level, Note);
    assert_eq!(filters(&Machine { filtered: Reading::Refused(String::new()), ..user }).level, Good);
}

#[test]
fn what_an_older_kernel_lacks_is_named_whatever_its_version_says() {
    let lacking = |missing| Machine {
        release: Reading::Value("5.14.0-503.el9".into()),
        missing_helpers: missing,
        ..good()
    };
    // A distribution's kernel with what is needed.
    assert_eq!(level(&lacking(Some(vec![])), "BPF helpers"), Good);
    assert_eq!(exit_code(&judge(&lacking(Some(vec![])))), 0);
    let text = failures(&judge(&lacking(Some(vec!["bpf_task_pt_regs (5.15)"])))).unwrap();
    assert!(text.contains("bpf_task_pt_regs (5.15)") && text.contains("a kernel from 5.15 on"), "{text}");
    assert_eq!(level(&lacking(None), "BPF helpers"), Note);
}

#[test]
fn a_refusal_is_not_called_unsupported() {
    let probes = Probes { map: Err(Refusal::NotPermitted), ..good().probes };
    let check = probe("BPF maps", probes.map, "", false);
    assert_eq!(check.level, Fail);
    assert!(check.found.contains("not known") && check.fix.is_some(), "{check:?}");
    assert!(probe("BPF maps", Err(Refusal::NotSupported), "", false).found.contains("cannot"));
    // Said once, where privileges are missing anyway.
    let nobody = Machine { uid: 7, capabilities: Reading::Value(Capabilities(0)), probes, ..good() };
    let failed: Vec<_> = judge(&nobody).into_iter().filter(|check| check.level == Fail).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    // What cannot be read is no failure.
    let unread = Machine {
        capabilities: Reading::Refused("Permission denied".into()),
        lockdown: Reading::Refused("Permission denied".into()),
        jit: Reading::Refused("Permission denied".into()),
        ..good()
    };
    assert_eq!(exit_code(&judge(&unread)), 0);
}

#[test]
fn commands_can_be_copied_as_they_stand() {
    let slow = |uid| Machine { uid, jit: Reading::Value(0), ..good() };
    let fix = |machine: &Machine| judge(machine).into_iter().find_map(|check| check.fix);
    assert_eq!(fix(&slow(0)).as_deref(), Some("sysctl net.core.bpf_jit_enable=1"));
    assert_eq!(fix(&slow(1000)).as_deref(), Some("sudo sysctl net.core.bpf_jit_enable=1"));
}

#[test]
fn what_makes_a_profile_impossible_fails() {
    let no_btf = Machine { btf: Err(BtfError::Unreadable("No such file".into())), ..good() };
    assert_eq!((level(&no_btf, "BTF"), level(&no_btf, "tracepoints")), (Fail, Fail));
    let facts = BtfFacts { needed_missing: vec!["sched_waking"], interrupt_missing: vec!["softirq_raise"] };
    let lacking = Machine { btf: Ok(facts), ..good() };
    assert_eq!((level(&lacking, "tracepoints"), level(&lacking, "interrupts")), (Fail, Warn));
    for machine in [
        Machine { user_namespace: Reading::Value(true), ..good() },
        Machine { architecture: "aarch64", ..good() },
        Machine { release: Reading::Value("4.19.0".into()), ..good() },
        Machine { lockdown: Reading::Value(Lockdown::Confidentiality), ..good() },
    ] {
        assert_eq!(exit_code(&judge(&machine)), 1);
    }
}

#[test]
fn what_makes_it_worse_warns_and_says_how_to_mend_it() {
    for (name, machine) in [
        ("kernel", Machine { release: Reading::Value("5.14.0-362.el9".into()), ..good() }),
        ("uprobes", Machine { uprobe_source: Reading::Absent, ..good() }),
        ("sample rate", Machine { max_sample_rate: Reading::Value(1500), ..good() }),
        ("BPF compiler", Machine { jit: Reading::Value(0), ..good() }),
        ("stolen time", Machine { steal: Reading::Value(0.1), ..good() }),
    ] {
        let checks = judge(&machine);
        let check = checks.iter().find(|check| check.name == name).unwrap();
        assert!(check.level == Warn && check.fix.is_some(), "{check:?}");
        assert_eq!(checks.iter().filter(|check| check.level > Good).count(), 1, "{name}");
    }
}

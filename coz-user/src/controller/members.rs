//! Which processes that run already belong to the profiled set, now and from time to time. What they start, and what
//! joins by a rule at its exec, the kernel sees at once; the rest is found by looking.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use coz_common::abi::{self, COMM_LEN, rule};

use crate::{
    cli::{Exit, Whom},
    kernel::control::Rule,
    target::{
        cgroup::Group,
        process::{self, CodeMapping, Stat},
    },
};

/// While nobody is there yet who is meant, it is looked this often.
const WAIT: Duration = Duration::from_millis(50);
/// A set that is empty for so long, and may fill again, is over: a supervisor starts its program anew sooner.
const EMPTY: Duration = Duration::from_secs(5);
/// So many names are named.
const NAMED: usize = 3;

/// Who is meant.
#[derive(Debug)]
pub struct Members {
    whom: Whom,
    groups: Vec<Group>,
    /// Descriptors of the processes that were named: they mean these, whoever has their numbers later.
    named: Vec<(u32, OwnedFd)>,
    empty_since: Option<Instant>,
}

impl Members {
    /// Finds out whether whoever is meant can be there at all.
    ///
    /// # Errors
    /// A process that is not there, or is no program; a control group that is not there.
    pub fn find(whom: &Whom) -> Result<Self> {
        let mut members =
            Self { whom: whom.clone(), groups: Vec::new(), named: Vec::new(), empty_since: None };
        match whom {
            Whom::Pids(pids) => {
                for &pid in pids {
                    members.named.push((pid, named(pid)?));
                }
            }
            Whom::Named { groups, .. } => {
                for path in groups {
                    let refused = |error| Exit::failure(format!("--cgroup {}: {error:#}", path.display()));
                    members.groups.push(Group::find(path).map_err(refused)?);
                }
            }
            Whom::All => {}
        }
        Ok(members)
    }

    /// The rule for processes that are started later.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match &self.whom {
            Whom::Pids(_) => Rule::default(),
            Whom::Named { comms, .. } => Rule {
                rule: rule::NAMED,
                comms: comms.iter().map(|name| comm(name)).collect(),
                // Those of version 1 the kernel's programs do not know.
                groups: self.groups.iter().filter_map(|group| group.unified).map(known_by).collect(),
            },
            Whom::All => Rule { rule: rule::ALL, ..Rule::default() },
        }
    }

    /// Those that belong to the set now, in ascending order.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub fn now(&self) -> Result<Vec<u32>> {
        let mut found = match &self.whom {
            Whom::Pids(pids) => {
                let alive = |pid: &&u32| self.named.iter().any(|(p, fd)| p == *pid && !has_ended(fd));
                with_descendants(pids.iter().filter(alive).copied(), &programs()?)
            }
            Whom::Named { comms, .. } => self.of_the_named(comms)?,
            Whom::All => programs()?.into_keys().collect(),
        };
        let ourselves = std::process::id();
        found.retain(|pid| *pid != ourselves);
        Ok(found)
    }

    /// Those that have one of these names or are in one of the groups.
    fn of_the_named(&self, comms: &[String]) -> Result<Vec<u32>> {
        let is_program = |pid: &u32| process::stat(*pid).is_some_and(|stat| is_program(&stat));
        let in_groups = self.groups.iter().flat_map(Group::processes);
        let mut found: BTreeSet<u32> = in_groups.filter(is_program).collect();
        if !comms.is_empty() {
            let comms: Vec<[u8; COMM_LEN]> = comms.iter().map(|name| comm(name)).collect();
            let is_called = |stat: &Stat| comms.iter().any(|name| stat.comm == letters(name));
            found.extend(programs()?.iter().filter(|(_, stat)| is_called(stat)).map(|(pid, _)| *pid));
        }
        Ok(found.into_iter().collect())
    }

    /// The same; waits until there is one, at most as long as a limit says. Ctrl-C ends us meanwhile: nothing has begun.
    ///
    /// # Errors
    /// As [`Self::now`]; those that were named have ended meanwhile; nobody has come within the limit.
    pub fn wait(&self, limit: Option<Duration>, say: impl FnOnce(&str)) -> Result<Vec<u32>> {
        let (mut say, began) = (Some(say), Instant::now());
        loop {
            let found = self.now()?;
            if !found.is_empty() {
                return Ok(found);
            }
            if let Whom::Pids(_) = self.whom
                && self.named.iter().all(|(_, fd)| has_ended(fd))
            {
                return Err(
                    Exit::failure(format!("cannot attach to {}: it has ended", self.describe())).into()
                );
            }
            if let Some(say) = say.take() {
                say(&format!("waiting for {}", self.describe()));
            }
            if let Some(limit) = limit.filter(|limit| began.elapsed() >= *limit) {
                let who = self.describe();
                return Err(Exit::failure(format!(
                    "nobody to attach to: waited {} s for {who}, and none has come",
                    limit.as_secs()
                ))
                .hint("`ps -e -o pid,comm` shows the names of processes: a name must be the whole of it")
                .into());
            }
            std::thread::sleep(WAIT);
        }
    }

    /// Whether the set is over: nobody is left who could belong to it. `alive`: whether any member is.
    pub fn are_over(&mut self, alive: bool) -> bool {
        match self.whom {
            Whom::Pids(_) => !alive && self.named.iter().all(|(_, fd)| has_ended(fd)),
            Whom::All => false,
            Whom::Named { .. } if alive => {
                self.empty_since = None;
                false
            }
            Whom::Named { ref comms, .. } => {
                let since = *self.empty_since.get_or_insert_with(Instant::now);
                let are_gone = comms.is_empty() && !self.groups.iter().any(Group::exists);
                since.elapsed() >= EMPTY || are_gone
            }
        }
    }

    /// Who is meant, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.whom {
            Whom::Pids(pids) => {
                let named = |pid: &u32| match process::stat(*pid) {
                    Some(stat) => format!("{pid} ({})", String::from_utf8_lossy(&stat.comm)),
                    None => pid.to_string(),
                };
                let some: Vec<String> = pids.iter().take(NAMED).map(named).collect();
                let more = if pids.len() > NAMED { ", ..." } else { "" };
                let es = if pids.len() == 1 { "" } else { "es" };
                format!("process{es} {}{more}", some.join(", "))
            }
            Whom::Named { comms, groups } => {
                let paths: Vec<String> = groups.iter().map(|path| path.display().to_string()).collect();
                let s = if paths.len() == 1 { "" } else { "s" };
                let called = (!comms.is_empty()).then(|| format!("called {}", comms.join(", ")));
                let within =
                    (!paths.is_empty()).then(|| format!("of the control group{s} {}", paths.join(", ")));
                let whom: Vec<String> = called.into_iter().chain(within).collect();
                format!("every process {}", whom.join(" or "))
            }
            Whom::All => "every process of the machine".into(),
        }
    }

    /// The program whose points and sources are meant where none is named: that of the first process. Of the whole machine
    /// there is none. Its own mapping, and whose.
    #[must_use]
    pub fn program(&self, pids: &[u32]) -> Option<(u32, CodeMapping)> {
        if self.whom == Whom::All {
            return None;
        }
        pids.iter().find_map(|&pid| Some((pid, program_of(pid)?)))
    }
}

/// Everything that runs but the kernel's own threads.
fn programs() -> Result<BTreeMap<u32, Stat>> {
    let all = process::all()?.into_iter().filter_map(|pid| Some((pid, process::stat(pid)?)));
    Ok(all.filter(|(_, stat)| is_program(stat)).collect())
}

/// A control group, by its number and how deep it lies.
fn known_by((number, level): (u64, u32)) -> abi::Group {
    abi::Group { number, level, ..abi::Group::default() }
}

/// A name without the zeros that it is filled up with.
fn letters(name: &[u8; COMM_LEN]) -> &[u8] {
    name.split(|&letter| letter == 0).next().unwrap_or_default()
}

/// The mapping of a process's own program.
fn program_of(pid: u32) -> Option<CodeMapping> {
    let own = executable(pid)?;
    let mappings = process::code_mappings(i32::try_from(pid).ok()?).ok()??;
    mappings.into_iter().find(|mapping| mapping.path == own)
}

/// Where a program's `exe` link points.
#[must_use]
pub fn executable(pid: u32) -> Option<PathBuf> {
    let path = process::executable(pid as i32).ok().flatten()?;
    let kept = path.to_str().and_then(|text| text.strip_suffix(" (deleted)")).map(PathBuf::from);
    Some(kept.unwrap_or(path))
}

/// Not of the kernel, and not over.
fn is_program(stat: &Stat) -> bool {
    !stat.of_kernel && !matches!(stat.state, 'Z' | 'X')
}

/// These and all that descends from them.
fn with_descendants(roots: impl Iterator<Item = u32>, all: &BTreeMap<u32, Stat>) -> Vec<u32> {
    let mut found: BTreeSet<u32> = roots.collect();
    loop {
        let children = all.iter().filter(|(pid, stat)| found.contains(&stat.parent) && !found.contains(pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        if children.is_empty() {
            return found.into_iter().collect();
        }
        found.extend(children);
    }
}

fn comm(name: &str) -> [u8; COMM_LEN] {
    let mut comm = [0; COMM_LEN];
    // The kernel keeps 15 bytes and a zero.
    for (to, from) in comm[..COMM_LEN - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    comm
}

/// A descriptor of a process that can be profiled.
fn named(pid: u32) -> Result<OwnedFd> {
    let refused = |why: &str| Exit::failure(format!("cannot attach to process {pid}: {why}"));
    if pid == std::process::id() {
        return Err(refused("that is coz-bpf itself").into());
    }
    let id = i32::try_from(pid).unwrap_or(i32::MAX);
    let status = process::status(id).with_context(|| format!("cannot attach to process {pid}"))?;
    let Some((status, stat)) = status.zip(process::stat(pid)) else {
        return Err(refused("there is none of that number")
            .hint("`pgrep NAME` finds processes by name")
            .into());
    };
    if status.tgid != id {
        let of = status.tgid;
        return Err(refused(&format!("it is a thread of process {of}")).hint(format!("-p {of}")).into());
    }
    if stat.of_kernel {
        return Err(refused("it is a thread of the kernel, and has no program").into());
    }
    if status.is_over() {
        return Err(refused("it has ended").into());
    }
    if let Err(error) = process::executable(id) {
        return Err(refused(&format!("{error:#}"))
            .hint("other users' processes take root, or CAP_SYS_PTRACE")
            .into());
    }
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just given it to us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(refused(&io::Error::last_os_error().to_string()).into()),
    }
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one element, ours; nothing is waited for.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(parent: u32) -> Stat {
        Stat { comm: b"x".to_vec(), state: 'S', parent, of_kernel: false }
    }

    fn called(names: &[&str]) -> Whom {
        Whom::Named { comms: names.iter().map(ToString::to_string).collect(), groups: Vec::new() }
    }

    #[test]
    fn descendants_belong_to_those_that_were_named() {
        let all = BTreeMap::from([(1, stat(0)), (5, stat(1)), (6, stat(5)), (3, stat(6)), (9, stat(1))]);
        assert_eq!(with_descendants([5].into_iter(), &all), [3, 5, 6]);
    }

    #[test]
    fn a_long_name_is_cut_as_the_kernel_cuts_it() {
        assert_eq!(&comm("a-very-long-name-indeed"), b"a-very-long-nam\0");
        assert_eq!(&comm("sh")[..3], b"sh\0");
    }

    #[test]
    fn who_cannot_be_profiled_is_told_why() {
        let say = |pid| format!("{:#}", Members::find(&Whom::Pids(vec![pid])).unwrap_err());
        assert!(say(u32::MAX >> 1).contains("there is none"));
        assert!(say(std::process::id()).contains("itself"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while process::stat(child.id()).is_none_or(|stat| stat.state != 'Z') {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(say(child.id()).contains("has ended"));
        child.wait().unwrap();
    }

    #[test]
    fn those_that_were_named_are_over_when_they_have_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut members = Members::find(&Whom::Pids(vec![child.id()])).unwrap();
        assert_eq!(members.now().unwrap(), [child.id()]);
        assert!(!members.are_over(false));
        assert_eq!(members.describe(), format!("process {} (sleep)", child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!members.are_over(true), "one of its children runs on");
        assert!(members.are_over(false) && members.now().unwrap().is_empty());
        let waited = members.wait(None, |text| panic!("{text}")).unwrap_err();
        assert!(waited.to_string().contains("has ended"), "nobody comes back: {waited}");
    }

    #[test]
    fn who_does_not_come_is_not_waited_for_beyond_the_limit() {
        let members = Members::find(&called(&["nobody is called so"])).unwrap();
        let mut said = String::new();
        let waited = members.wait(Some(Duration::ZERO), |text| said = text.to_owned()).unwrap_err();
        assert!(said.contains("waiting for"), "{said}");
        assert!(waited.to_string().contains("none has come"), "{waited}");
    }

    #[test]
    fn a_name_finds_its_processes_and_not_ourselves() {
        let mine = process::stat(std::process::id()).unwrap();
        let mine = String::from_utf8(mine.comm).unwrap();
        let members = Members::find(&called(&[&mine])).unwrap();
        assert!(!members.now().unwrap().contains(&std::process::id()));
        assert_eq!(members.rule().rule, rule::NAMED);
    }

    #[test]
    fn several_names_are_one_set() {
        let sleeper = |name: &str| {
            let mut command = std::process::Command::new("sh");
            let script = format!("printf %s {name} > /proc/self/comm; read until_the_end");
            command.args(["-c", &script]).stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let names = ["one", "two"].map(|name| format!("{name}{}", std::process::id()));
        let children = [sleeper(&names[0]), sleeper(&names[1])];
        let members = Members::find(&called(&[&names[1], "no such name", &names[0]])).unwrap();
        let mut pids = children.each_ref().map(std::process::Child::id);
        pids.sort_unstable();
        let begun = Instant::now();
        while members.now().unwrap() != pids {
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", members.now());
        }
        assert_eq!(members.rule().comms.len(), 3);
        assert_eq!(
            members.describe(),
            format!("every process called {}, no such name, {}", names[1], names[0])
        );
        for mut child in children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}

//! As whom the target runs, with which environment, and to whom the files that we write belong.
//!
//! The target must behave as in a plain run by the person at the keyboard, so under sudo it runs as the
//! caller of sudo. Its environment is then
//!
//! - our own, without the variables that sudo adds (`SUDO_UID`, ...);
//! - where sudo is our parent: the variables that sudo removed (`LD_LIBRARY_PATH`, ...) come back, and those
//!   that it replaces (`PATH`, `HOME`, `USER`, ...) have their old values. sudo still holds the
//!   environment that it was called with, in `/proc/PID/environ`;
//! - where something stands between sudo and us (a script, a root shell), what it set or removed cannot be told from
//!   what sudo did: only `HOME`, `USER`, `LOGNAME`, `SHELL` and `MAIL` are set, from the user database.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use nix::unistd::{Gid, Uid, User, fchown, getgrouplist};

use super::process;

/// Environment variables in the order in which the target gets them.
pub type Variables = Vec<(OsString, OsString)>;

/// What sudo adds.
const ADDED_BY_SUDO: [&str; 6] =
    ["SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_TTY", "SUDO_HOME"];
/// What sudo replaces, and what belongs to one user.
const PER_USER: [&str; 5] = ["HOME", "USER", "LOGNAME", "SHELL", "MAIL"];

/// A user, with everything that a login would set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups, `gid` included where the user database has it so.
    pub groups: Vec<u32>,
    /// Whose user database entry this is; `None` where there is none.
    pub account: Option<Account>,
    /// Why it is this user.
    pub reason: Reason,
}

/// What the user database says of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// Home folder.
    pub home: PathBuf,
    /// Login shell.
    pub shell: PathBuf,
}

/// Why the target runs as whom it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nobody else called us: the target runs as we do.
    Ourselves,
    /// `SUDO_UID` names who called.
    Sudo,
    /// The option `--user`.
    Asked,
}

impl Identity {
    /// As whom to run the target: `user` (a name or a number) if given, else who called sudo, else as we are.
    ///
    /// # Errors
    /// There is no such user; the user database cannot be read; we may not become another user.
    pub fn resolve(user: Option<&str>) -> Result<Self> {
        let effective = Uid::effective();
        if let Some(user) = user {
            let identity = Self::named(user)?;
            if !effective.is_root() && identity.uid != effective.as_raw() {
                bail!("--user {user}: only root can run a program as another user; run coz-bpf under sudo");
            }
            return Ok(identity);
        }
        let caller = |variable: &str| std::env::var(variable).ok();
        match sudo_caller(effective.as_raw(), caller("SUDO_UID"), caller("SUDO_GID"))? {
            Some((uid, gid)) => Self::of_uid(uid, Some(gid), Reason::Sudo),
            None => Self::ourselves(),
        }
    }

    /// As we are now.
    ///
    /// # Errors
    /// The user database or our groups cannot be read.
    pub fn ourselves() -> Result<Self> {
        let groups = nix::unistd::getgroups().context("read our own groups")?;
        let uid = Uid::effective();
        Ok(Self {
            uid: uid.as_raw(),
            gid: Gid::effective().as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            account: account(uid)?,
            reason: Reason::Ourselves,
        })
    }

    fn named(user: &str) -> Result<Self> {
        let found = User::from_name(user).with_context(|| format!("look up the user {user}"))?;
        match (found, user.parse()) {
            (Some(found), _) => Self::of_uid(found.uid.as_raw(), None, Reason::Asked),
            (None, Ok(uid)) => Self::of_uid(uid, None, Reason::Asked),
            (None, Err(_)) => bail!("--user {user}: there is no such user; `getent passwd` lists them"),
        }
    }

    fn of_uid(uid: u32, gid: Option<u32>, reason: Reason) -> Result<Self> {
        let entry = User::from_uid(Uid::from_raw(uid)).with_context(|| format!("look up user {uid}"))?;
        let gid = gid.or(entry.as_ref().map(|user| user.gid.as_raw())).ok_or_else(|| {
            anyhow!("user {uid} is not in the user database, so its group is not known; `getent passwd` lists who is")
        })?;
        let groups = match &entry {
            Some(user) => {
                let name = CString::new(user.name.as_str()).context("a user's name holds a NUL")?;
                getgrouplist(&name, Gid::from_raw(gid))
                    .with_context(|| format!("look up the groups of {}", user.name))?
                    .into_iter()
                    .map(Gid::as_raw)
                    .collect()
            }
            None => vec![gid],
        };
        Ok(Self { uid, gid, groups, account: entry.map(Account::from), reason })
    }

    /// Whether the target becomes somebody else than we are.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.reason != Reason::Ourselves
    }

    /// Gives a file that we wrote to this user. Does nothing where the target runs as we do.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn chown_to(&self, file: &File) -> Result<()> {
        if !self.is_switch() {
            return Ok(());
        }
        fchown(file.as_fd(), Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
            .with_context(|| format!("give the file to user {}", self.uid))
    }

    /// The target's environment, from our own: see the module's text.
    #[must_use]
    pub fn environment(&self) -> Variables {
        let ours = std::env::vars_os().collect();
        let before = if self.reason == Reason::Sudo { sudo_environment() } else { None };
        self.environment_from(ours, before)
    }

    fn environment_from(&self, ours: Variables, before_sudo: Option<Variables>) -> Variables {
        if !self.is_switch() {
            return ours;
        }
        let mut variables = ours;
        if let Some(before) = before_sudo {
            restore(&mut variables, before);
            return variables;
        }
        variables.retain(|(name, _)| !ADDED_BY_SUDO.iter().any(|added| name == added));
        if let Some(account) = &self.account {
            for (name, value) in [
                ("HOME", account.home.as_os_str()),
                ("USER", OsStr::new(&account.name)),
                ("LOGNAME", OsStr::new(&account.name)),
                ("SHELL", account.shell.as_os_str()),
            ] {
                set(&mut variables, name, value);
            }
            if variables.iter().any(|(name, _)| name == "MAIL") {
                set(&mut variables, "MAIL", OsStr::new(&format!("/var/mail/{}", account.name)));
            }
        }
        variables
    }
}

impl From<User> for Account {
    fn from(user: User) -> Self {
        Self { name: user.name, home: user.dir, shell: user.shell }
    }
}

fn account(uid: Uid) -> Result<Option<Account>> {
    Ok(User::from_uid(uid).with_context(|| format!("look up user {uid}"))?.map(Account::from))
}

/// Who called sudo. Only root believes the variables: for anyone else they are words that somebody left in the environment.
fn sudo_caller(effective: u32, uid: Option<String>, gid: Option<String>) -> Result<Option<(u32, u32)>> {
    let (0, Some(uid)) = (effective, uid) else { return Ok(None) };
    let gid = gid.context("SUDO_UID is set and SUDO_GID is not: run coz-bpf with `--user NAME`")?;
    let number = |name: &str, value: &str| {
        value.parse::<u32>().with_context(|| {
            format!("{name}={value} in the environment is no number: run coz-bpf with `--user NAME`")
        })
    };
    let caller = (number("SUDO_UID", &uid)?, number("SUDO_GID", &gid)?);
    // Root who calls sudo stays root: nothing changes, but the environment is put right all the same.
    Ok(Some(caller))
}

/// Sets a variable in place, or adds it.
pub fn set(variables: &mut Variables, name: &str, value: &OsStr) {
    match variables.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => value.clone_into(old),
        None => variables.push((name.into(), value.into())),
    }
}

/// Puts `first` before what a list variable holds (`LD_PRELOAD`), with `:` between.
pub fn prepend(variables: &mut Variables, name: &str, first: &OsStr) {
    let mut value = first.to_owned();
    if let Some((_, old)) = variables.iter().find(|(known, old)| known == name && !old.is_empty()) {
        value.push(":");
        value.push(old);
    }
    set(variables, name, &value);
}

/// Puts the program's path into `_` where that is set: shells name in it what they start, which was us.
pub fn name_started(variables: &mut Variables, program: &Path) {
    if let Some((_, value)) = variables.iter_mut().find(|(name, _)| name == "_") {
        program.as_os_str().clone_into(value);
    }
}

/// Undoes what sudo did to the environment.
fn restore(variables: &mut Variables, before: Variables) {
    let known = |list: &Variables, name: &OsStr| list.iter().any(|(other, _)| other == name);
    variables.retain(|(name, _)| {
        let sudos = ADDED_BY_SUDO.iter().chain(&PER_USER).any(|own| name == own);
        !sudos || known(&before, name)
    });
    for (name, value) in before {
        let replaced = name == "PATH" || ADDED_BY_SUDO.iter().chain(&PER_USER).any(|own| name == *own);
        if replaced || !known(variables, &name) {
            match name.to_str() {
                Some(text) => set(variables, text, &value),
                None => variables.push((name, value)),
            }
        }
    }
}

/// The environment that sudo was called with, where sudo is our parent.
fn sudo_environment() -> Option<Variables> {
    let parent = nix::unistd::getppid().as_raw();
    // Anything unreadable here only means that the second-best environment is used.
    let name = process::executable(parent).ok()??;
    let is_sudo = matches!(name.file_name()?.to_str()?, "sudo" | "sudo-rs" | "sudo.ws");
    let text = is_sudo.then(|| std::fs::read(format!("/proc/{parent}/environ")).ok())??;
    let variables = parse_environ(&text);
    (!variables.is_empty()).then_some(variables)
}

/// The text of `/proc/PID/environ`: `NAME=VALUE`, each ended by a NUL.
fn parse_environ(text: &[u8]) -> Variables {
    text.split(|&b| b == 0)
        .filter_map(|entry| {
            let equals = entry.iter().position(|&b| b == b'=')?;
            let (name, value) = (entry.get(..equals)?, entry.get(equals + 1..)?);
            Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    fn somebody(reason: Reason) -> Identity {
        let account = Account { name: "ann".into(), home: "/home/ann".into(), shell: "/bin/zsh".into() };
        Identity { uid: 1000, gid: 1000, groups: vec![1000, 27], account: Some(account), reason }
    }

    #[test]
    fn only_root_believes_sudo() {
        let numbers = || (Some("1000".to_owned()), Some("100".to_owned()));
        assert_eq!(sudo_caller(0, numbers().0, numbers().1).unwrap(), Some((1000, 100)));
        assert_eq!(sudo_caller(5, numbers().0, numbers().1).unwrap(), None);
        assert_eq!(sudo_caller(0, None, None).unwrap(), None);
        assert!(sudo_caller(0, Some("ann".into()), numbers().1).is_err());
        assert!(sudo_caller(0, numbers().0, None).is_err());
    }

    #[test]
    fn a_run_without_sudo_keeps_everything() {
        let ours = variables(&[("A", "1"), ("SUDO_UID", "7"), ("HOME", "/root")]);
        assert_eq!(somebody(Reason::Ourselves).environment_from(ours.clone(), None), ours);
    }

    #[test]
    fn directly_under_sudo_the_callers_environment_comes_back() {
        let before = variables(&[
            ("PATH", "/home/ann/bin:/usr/bin"),
            ("HOME", "/home/ann"),
            ("USER", "ann"),
            ("LD_LIBRARY_PATH", "/opt/lib"),
            ("TERM", "xterm"),
        ]);
        let ours = variables(&[
            ("TERM", "xterm"),
            ("PATH", "/usr/sbin:/usr/bin"),
            ("HOME", "/root"),
            ("USER", "root"),
            ("LOGNAME", "root"),
            ("MAIL", "/var/mail/root"),
            ("SUDO_UID", "1000"),
            ("SUDO_COMMAND", "/usr/bin/coz-bpf"),
            ("SET_ON_SUDOS_COMMAND_LINE", "1"),
        ]);
        let mut got = somebody(Reason::Sudo).environment_from(ours, Some(before));
        got.sort();
        let mut expected = variables(&[
            ("TERM", "xterm"),
            ("PATH", "/home/ann/bin:/usr/bin"),
            ("HOME", "/home/ann"),
            ("USER", "ann"),
            ("LD_LIBRARY_PATH", "/opt/lib"),
            ("SET_ON_SUDOS_COMMAND_LINE", "1"),
        ]);
        expected.sort();
        assert_eq!(got, expected);
    }

    #[test]
    fn otherwise_the_user_database_says_what_belongs_to_the_user() {
        let ours = variables(&[
            ("PATH", "/usr/bin"),
            ("HOME", "/root"),
            ("USER", "root"),
            ("MAIL", "/var/mail/root"),
            ("SUDO_UID", "1000"),
        ]);
        for reason in [Reason::Sudo, Reason::Asked] {
            let got = somebody(reason).environment_from(ours.clone(), None);
            let expected = variables(&[
                ("PATH", "/usr/bin"),
                ("HOME", "/home/ann"),
                ("USER", "ann"),
                ("MAIL", "/var/mail/ann"),
                ("LOGNAME", "ann"),
                ("SHELL", "/bin/zsh"),
            ]);
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_preload_of_the_users_own_is_kept_behind_ours() {
        let mut list = variables(&[("LD_PRELOAD", "/lib/a.so")]);
        prepend(&mut list, "LD_PRELOAD", OsStr::new("/proc/self/fd/9"));
        assert_eq!(list, variables(&[("LD_PRELOAD", "/proc/self/fd/9:/lib/a.so")]));
        let mut empty = variables(&[("LD_PRELOAD", "")]);
        prepend(&mut empty, "LD_PRELOAD", OsStr::new("x"));
        assert_eq!(empty, variables(&[("LD_PRELOAD", "x")]));
        let mut none = Variables::new();
        prepend(&mut none, "LD_PRELOAD", OsStr::new("x"));
        assert_eq!(none, variables(&[("LD_PRELOAD", "x")]));
    }

    #[test]
    fn the_shells_word_for_what_it_started_is_put_right() {
        let mut list = variables(&[("A", "1"), ("_", "/usr/bin/coz-bpf")]);
        name_started(&mut list, Path::new("./app"));
        assert_eq!(list, variables(&[("A", "1"), ("_", "./app")]));
        let mut none = variables(&[("A", "1")]);
        name_started(&mut none, Path::new("./app"));
        assert_eq!(none, variables(&[("A", "1")]));
    }

    #[test]
    fn environ_is_read_byte_by_byte() {
        let text = b"A=1\0B=x=y\0EMPTY=\0broken\0C=\xff\0";
        let got = parse_environ(text);
        assert_eq!(got.len(), 4);
        assert_eq!(got.get(1), Some(&("B".into(), "x=y".into())));
        assert_eq!(got.get(3), Some(&("C".into(), OsStr::from_bytes(b"\xff").to_owned())));
    }

    #[test]
    fn names_are_looked_up() {
        let root = Identity::resolve(Some("root")).unwrap();
        assert_eq!((root.uid, root.gid, root.reason), (0, 0, Reason::Asked));
        let text = Identity::resolve(Some("no such user")).unwrap_err().to_string();
        assert!(text.contains("no such user"), "{text}");
    }
}

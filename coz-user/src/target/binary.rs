//! What kind of program the target is, before it is started: what it is made of decides what can be done with it.

mod elf;
mod linking;
mod search;

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use nix::sys::statvfs::{FsFlags, statvfs};

pub use self::{
    elf::{Elf, Linkage},
    linking::Linking,
    search::{SearchError, find},
};
use super::identity::Identity;

/// A script can name a script as its interpreter; the kernel follows this many.
const MAX_INTERPRETERS: usize = 4;
/// How much of a file the kernel looks at for `#!`.
const HEAD: u64 = 256;
/// Runs what is neither ELF nor begins with `#!`, as `execvp` does.
const SHELL: &str = "/bin/sh";

/// A program, found and classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file, as it was found: relative where the user's words or `PATH` were.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Whether the shim can be loaded into it, or why not.
    pub can_preload: Result<(), Why>,
}

/// What a program is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A compiled program.
    Elf(Elf),
    /// A text that another program reads.
    Script {
        /// What runs it, as its first line says; `/bin/sh` where there is no such line.
        interpreter: PathBuf,
        /// Whether the first line names the interpreter: the kernel starts it then. Else `execvp` runs the shell.
        named: bool,
        /// The interpreter, classified (behind `env`, the program that `env` starts).
        runs: Box<Program>,
    },
    /// Neither: the kernel will refuse it, or has a handler of its own for it (binfmt_misc).
    Unknown,
}

/// Why the shim cannot be loaded into a program, so that its threads can be observed but not delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// No dynamic loader takes part in starting it.
    Static,
    /// 32-bit code.
    Bits32,
    /// Code for another kind of machine.
    OtherMachine(String),
    /// The loader ignores `LD_PRELOAD` in programs that gain privileges.
    Privileged(Privilege),
    /// Not an ELF program.
    NotElf,
    /// The script's interpreter cannot be used.
    Interpreter {
        /// The interpreter.
        path: PathBuf,
        /// What is wrong with it; `None` where it cannot be found or read.
        why: Option<Box<Why>>,
    },
    /// The file could not be looked at (the reason); the kernel may still be able to run it.
    Unreadable(String),
}

/// How a program gains privileges when it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It becomes its owner.
    SetUid,
    /// It becomes its group.
    SetGid,
    /// Its file carries capabilities.
    Capabilities,
}

impl Why {
    /// Whether it is only that nothing can be loaded: such a program can be entered once it runs ([`super::inject`]).
    #[must_use]
    pub fn can_be_entered(&self) -> bool {
        match self {
            Self::Static => true,
            Self::Interpreter { why: Some(why), .. } => why.can_be_entered(),
            _ => false,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => {
                f.write_str("it is linked statically, so nothing can be loaded into it at its start")
            }
            Self::Bits32 => {
                f.write_str("it is a 32-bit program and only x86-64 is supported. Build it with -m64")
            }
            Self::OtherMachine(machine) => {
                write!(f, "it is built for another machine ({machine}). Build it for x86-64")
            }
            Self::Privileged(privilege) => write!(
                f,
                "{privilege}, and the loader then ignores LD_PRELOAD. Profile a copy without that \
                 (`cp` drops it), or run as the user that it becomes (--user NAME)"
            ),
            Self::NotElf => f.write_str("it is neither an ELF program nor a script"),
            Self::Interpreter { path, why: Some(why) } => {
                write!(f, "it is a script run by {}, and of that: {why}", path.display())
            }
            Self::Interpreter { path, why: None } => write!(
                f,
                "it is a script run by {}, which cannot be found. Install that or correct the script's first line",
                path.display()
            ),
            Self::Unreadable(reason) => write!(f, "its file cannot be read: {reason}"),
        }
    }
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SetUid => "it is setuid",
            Self::SetGid => "it is setgid",
            Self::Capabilities => "its file has capabilities",
        })
    }
}

impl Program {
    /// Finds a program as `execvp` would, with the target's `PATH` and rights, and classifies it.
    ///
    /// # Errors
    /// There is no such program (exit code 127), or it must not be executed (126).
    pub fn find(name: &OsStr, path: Option<&OsStr>, identity: &Identity) -> Result<Self, SearchError> {
        let found = search::find(name, path, identity)?;
        Ok(Self::classify(&found, path, identity, 0))
    }

    fn classify(file: &Path, path: Option<&OsStr>, identity: &Identity, depth: usize) -> Self {
        let program = |kind, can_preload| Self { path: file.to_owned(), kind, can_preload };
        let head = match read_head(file) {
            Ok(head) => head,
            Err(e) => return program(Kind::Unknown, Err(Why::Unreadable(e.to_string()))),
        };
        if head.starts_with(b"\x7fELF") {
            return match Elf::read(file) {
                Ok(elf) => {
                    let can_preload = preloadable(file, &elf, identity);
                    program(Kind::Elf(elf), can_preload)
                }
                Err(reason) => program(Kind::Unknown, Err(Why::Unreadable(reason))),
            };
        }
        let (interpreter, behind_env, named) = match interpreter_line(&head) {
            Some((interpreter, argument)) => {
                let env = interpreter.file_name() == Some(OsStr::new("env"));
                (interpreter, if env { argument.and_then(env_starts) } else { None }, true)
            }
            None if is_text(&head) => (PathBuf::from(SHELL), None, false),
            None => return program(Kind::Unknown, Err(Why::NotElf)),
        };
        let wanted = behind_env.as_deref().unwrap_or(interpreter.as_os_str());
        let found = if depth < MAX_INTERPRETERS { search::find(wanted, path, identity).ok() } else { None };
        let Some(found) = found else {
            return program(Kind::Unknown, Err(Why::Interpreter { path: wanted.into(), why: None }));
        };
        let runs = Self::classify(&found, path, identity, depth + 1);
        let can_preload = runs
            .can_preload
            .clone()
            .map_err(|why| Why::Interpreter { path: found, why: Some(Box::new(why)) });
        program(Kind::Script { interpreter, named, runs: Box::new(runs) }, can_preload)
    }

    /// The ELF program whose code will run: the program itself, or a script's interpreter.
    #[must_use]
    pub fn image(&self) -> Option<(&Path, &Elf)> {
        match &self.kind {
            Kind::Elf(elf) => Some((&self.path, elf)),
            Kind::Script { runs, .. } => runs.image(),
            Kind::Unknown => None,
        }
    }

    /// What to give to `execve`: the file and its arguments. `typed` is the program as the user named it.
    #[must_use]
    pub fn command(&self, typed: &OsStr, arguments: &[OsString]) -> (PathBuf, Vec<OsString>) {
        let mut argv = Vec::with_capacity(arguments.len() + 2);
        let file = match &self.kind {
            Kind::Script { interpreter, named: false, .. } => {
                argv.push(interpreter.clone().into_os_string());
                argv.push(self.path.clone().into_os_string());
                interpreter.clone()
            }
            _ => {
                argv.push(typed.to_owned());
                self.path.clone()
            }
        };
        argv.extend_from_slice(arguments);
        (file, argv)
    }
}

fn preloadable(file: &Path, elf: &Elf, identity: &Identity) -> Result<(), Why> {
    if elf.machine.is_some() {
        return Err(if elf.is_x86() { Why::Bits32 } else { Why::OtherMachine(elf.machine_name()) });
    }
    if elf.bits == 32 {
        return Err(Why::Bits32);
    }
    if elf.linkage == Linkage::Static {
        return Err(Why::Static);
    }
    privilege(file, identity).map_or(Ok(()), |gained| Err(Why::Privileged(gained)))
}

/// How this user gains privileges by starting the file, if so.
fn privilege(file: &Path, identity: &Identity) -> Option<Privilege> {
    let meta = std::fs::metadata(file).ok()?;
    let ignored = statvfs(file).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_NOSUID));
    if ignored {
        return None;
    }
    let mode = meta.permissions().mode();
    // Setgid without the group's execute bit meant mandatory locking once; the kernel ignores it.
    let set_gid = libc::S_ISGID | libc::S_IXGRP;
    if mode & libc::S_ISUID != 0 && meta.uid() != identity.uid {
        Some(Privilege::SetUid)
    } else if mode & set_gid == set_gid && meta.gid() != identity.gid {
        Some(Privilege::SetGid)
    } else if identity.uid != 0 && has_capabilities(file) {
        Some(Privilege::Capabilities)
    } else {
        None
    }
}

fn has_capabilities(file: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end in NUL; size 0 asks for the length only, so nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn read_head(file: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// `#!INTERPRETER [ARGUMENT]`, as the kernel splits it: one argument, blanks inside included.
fn interpreter_line(head: &[u8]) -> Option<(PathBuf, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(end);
    let argument = rest.trim_ascii_start();
    (!interpreter.is_empty()).then(|| {
        let argument = (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec()));
        (PathBuf::from(OsString::from_vec(interpreter.to_vec())), argument)
    })
}

/// The program that `env ARGUMENT` starts: the first word that is neither an option nor an assignment.
fn env_starts(argument: OsString) -> Option<OsString> {
    let words = argument.as_bytes().split(|b| matches!(b, b' ' | b'\t'));
    words
        .filter(|word| !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'='))
        .map(|word| OsStr::from_bytes(word).to_owned())
        .next()
}

/// Whether a shell would read it: shells refuse a file with a NUL in its first line.
fn is_text(head: &[u8]) -> bool {
    !head.split(|&b| b == b'\n').next().unwrap_or(head).contains(&0)
}

#[cfg(test)]
mod tests;

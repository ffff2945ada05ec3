//! The bundled programs with a known answer (`tests/programs`): built as a user would build them, and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail, ensure};

use crate::sh;

/// The symbol that each of them calls once a round.
pub const PROGRESS: &str = "progress";
/// Environment variable with the speed of this machine, so that runs that are compared do the same work.
pub const SPEED_ENV: &str = "COZ_STEPS_PER_US";

/// Those that use other crates: cargo builds them.
const WITH_CRATES: &[&str] = &["mutex_parking_lot", "pool_rayon", "tokio_tasks"];

/// Which debug information a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug {
    /// What the compiler writes by default.
    Default,
    /// DWARF 3, the newest that Debian's coz can read.
    Dwarf3,
}

/// A program that has been built.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name, that of its source without the extension.
    pub name: String,
    /// The executable.
    pub path: PathBuf,
    /// Its source.
    pub source: PathBuf,
    speed: String,
}

/// What a program says at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Rounds done.
    pub rounds: u64,
    /// Nanoseconds that they took.
    pub ns: u64,
}

impl Outcome {
    /// From the program's last line, `rounds N ns T`.
    ///
    /// # Errors
    /// When there is no such line, or no round was done.
    pub fn parse(output: &str) -> Result<Self> {
        let last = output.lines().last().unwrap_or_default();
        let words: Vec<&str> = last.split(' ').collect();
        let ["rounds", rounds, "ns", ns] = words[..] else { bail!("no `rounds N ns T` but `{last}`") };
        let outcome = Self { rounds: rounds.parse()?, ns: ns.parse()? };
        ensure!(outcome.rounds > 0, "not a single round was done");
        Ok(outcome)
    }

    /// Nanoseconds a round.
    #[must_use]
    pub fn round_ns(self) -> f64 {
        self.ns as f64 / self.rounds as f64
    }
}

impl Program {
    /// Compiles the program of this name and measures how fast it works on this machine.
    ///
    /// # Errors
    /// As [`compile`]; when it does not run.
    pub fn build(name: &str) -> Result<Self> {
        let mut program = Self::build_for(name, Debug::Default, String::new())?;
        program.speed = program.calibrate()?;
        Ok(program)
    }

    /// Compiles the program of this name, for runs on a machine of this speed, as [`calibrate`](Self::calibrate)
    /// returns it.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn build_for(name: &str, debug: Debug, speed: String) -> Result<Self> {
        Ok(Self { name: name.to_owned(), path: compile_with(name, debug)?, source: source(name)?, speed })
    }

    /// The same program with other debug information, for runs on the same machine.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn with(&self, debug: Debug) -> Result<Self> {
        Self::build_for(&self.name, debug, self.speed.clone())
    }

    /// How fast it works on this machine: steps a microsecond.
    ///
    /// # Errors
    /// When it does not run.
    pub fn calibrate(&self) -> Result<String> {
        Ok(sh::output(Command::new(&self.path).arg("--calibrate"))?.trim().to_owned())
    }

    /// `FILE:LINE` of the line that carries the marker comment `// COZ: MARKER`.
    ///
    /// # Errors
    /// When not exactly one line does.
    pub fn marked(&self, marker: &str) -> Result<String> {
        let text = fs::read_to_string(&self.source)?;
        let wanted = format!("// COZ: {marker}");
        let mut lines = text.lines().zip(1..).filter(|(line, _)| line.trim_end().ends_with(&wanted));
        let (Some((_, number)), None) = (lines.next(), lines.next()) else {
            bail!("{} has not exactly one line with `{wanted}`", self.source.display());
        };
        let file = self.source.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{file}:{number}"))
    }

    /// A command that has the speed of this machine, measured when the program was built, in its environment:
    /// the program itself, or a profiler that starts it.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        self.keep_speed(&mut command);
        command
    }

    /// Puts the speed of this machine into a command's environment.
    pub fn keep_speed(&self, command: &mut Command) {
        command.env(SPEED_ENV, &self.speed);
    }

    /// Runs it with the line shortened by `shrink` percent.
    ///
    /// # Errors
    /// When it fails or says nothing that can be read.
    pub fn run(&self, shrink: u32, seconds: f64) -> Result<Outcome> {
        let mut command = self.command(&self.path);
        command.args(["--shrink", &shrink.to_string(), "--seconds", &seconds.to_string()]);
        Outcome::parse(&sh::output(&mut command)?).with_context(|| format!("`{}`", sh::shown(&command)))
    }
}

fn folder() -> PathBuf {
    sh::root().join("tests/programs")
}

fn source(name: &str) -> Result<PathBuf> {
    let found = ["c", "cpp", "rs"].map(|extension| folder().join(format!("{name}.{extension}")));
    let found = found.into_iter().find(|source| source.is_file());
    found.with_context(|| format!("there is no program `{name}` in {}", folder().display()))
}

/// Compiles the program of this name to `target/programs`, unless it is newer than its sources; its path.
///
/// # Errors
/// When there is no such program, no compiler, or it does not compile.
pub fn compile(name: &str) -> Result<PathBuf> {
    compile_with(name, Debug::Default)
}

fn compile_with(name: &str, debug: Debug) -> Result<PathBuf> {
    let source = source(name)?;
    let output = match debug {
        Debug::Default => sh::target_dir().join("programs"),
        Debug::Dwarf3 => sh::target_dir().join("programs/dwarf3"),
    };
    fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
    let path = output.join(name);
    // Of this process, one thread at a time: whoever comes second finds it compiled.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if newest(&folder())? >= modified(&path).unwrap_or(SystemTime::UNIX_EPOCH) {
        // Made beside and moved: another process may be running the old one.
        let fresh = output.join(format!("{name}.{}", std::process::id()));
        if WITH_CRATES.contains(&name) {
            let target = output.join("cargo");
            sh::run(&mut cargo(name, debug, &target))?;
            fs::copy(target.join("programs").join(name), &fresh)?;
        } else {
            sh::run(&mut compiler(&source, debug, &fresh)?)?;
        }
        fs::rename(&fresh, &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(path)
}

fn cargo(name: &str, debug: Debug, target: &Path) -> Command {
    let mut command = sh::cargo();
    command.args(["build", "--quiet", "--profile", "programs", "-p", "coz-programs", "--bin", name]);
    command.arg("--target-dir").arg(target).env("RUSTFLAGS", rust_flags(debug).join(" "));
    command
}

fn rust_flags(debug: Debug) -> Vec<&'static str> {
    let mut flags = vec!["-Cforce-frame-pointers=yes", "-Dwarnings"];
    if debug == Debug::Dwarf3 {
        flags.push("-Cdwarf-version=3");
    }
    flags
}

fn compiler(source: &Path, debug: Debug, output: &Path) -> Result<Command> {
    let extension = source.extension().unwrap_or_default();
    let mut command;
    if extension == "rs" {
        command = Command::new("rustc");
        command.args(["--edition=2024", "-Copt-level=2", "-g"]).args(rust_flags(debug));
    } else {
        let (compiler, package) = if extension == "c" { ("gcc", "gcc libc6-dev") } else { ("g++", "g++") };
        ensure!(sh::find(compiler).is_some(), "{compiler} is missing: apt-get install -y {package}");
        command = Command::new(compiler);
        command.args(["-O2", if debug == Debug::Dwarf3 { "-gdwarf-3" } else { "-g" }]);
        command.args(["-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        command.args((extension == "cpp").then_some("-std=c++20"));
    }
    command.arg(source).arg("-o").arg(output).arg("-lm").current_dir(sh::root());
    Ok(command)
}

fn modified(path: &Path) -> Result<SystemTime> {
    Ok(fs::metadata(path).and_then(|metadata| metadata.modified())?)
}

fn newest(folder: &Path) -> Result<SystemTime> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let times = entries.map(|entry| modified(&entry?.path()));
    times.collect::<Result<Vec<_>>>()?.into_iter().max().context("no programs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let outcome = Outcome::parse("hello\nrounds 4 ns 1000\n").expect("that is its form");
        assert_eq!(outcome, Outcome { rounds: 4, ns: 1000 });
        assert!((outcome.round_ns() - 250.0).abs() < 1e-9);
        for wrong in ["", "rounds 4", "rounds 4 ns 1000\nbye", "rounds 0 ns 10", "rounds x ns 10"] {
            assert!(Outcome::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_program_has_one_marked_line_and_shrinking_it_fully_makes_rounds_shorter() {
        for name in crate::truth::names(false) {
            let program = Program::build(&name).expect("it compiles");
            let marked = program.marked("line").expect("one line is marked");
            assert!(marked.starts_with(&name), "{marked}");
            let round = |shrink| program.run(shrink, 0.1).expect("it runs").round_ns();
            // Others gain so little that other load on the machine can hide it in so short a run.
            let gains = crate::truth::SUITE.iter().any(|case| case.name == name && case.gains);
            // The shortest of some: what else the machine does only ever makes them longer, of those that spin fourfold.
            let (mut whole, mut shrunk) = (f64::INFINITY, f64::INFINITY);
            for tries in 1..=12 {
                (whole, shrunk) = (whole.min(round(0)), shrunk.min(round(100)));
                if tries >= 3 && (!gains || shrunk < whole) {
                    break;
                }
            }
            assert!(!gains || shrunk < whole, "{name}: {whole} -> {shrunk} ns a round");
        }
    }
}

//! What the profiler says of addresses, beside what `addr2line -i` and `llvm-symbolizer` say of the same ones.

mod answers;
mod compare;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use object::{Object, ObjectSection, SectionKind};

use crate::sh;
use answers::Answer;
use compare::{Kind, Tally};

/// Which binaries, and how many addresses.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Random addresses of code in each binary
    #[arg(long, default_value_t = 10_000)]
    addresses: usize,
    /// Draws other addresses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show so many of each kind of difference
    #[arg(long, default_value_t = 0, value_name = "N")]
    examples: usize,
    /// Use this llvm-symbolizer
    #[arg(long, default_value = "llvm-symbolizer", value_name = "PROGRAM")]
    llvm: PathBuf,
    /// Binaries with debug information
    #[arg(required = true, value_name = "BINARY")]
    binaries: Vec<PathBuf>,
}

/// Asks all three about each binary and prints a table in Markdown.
///
/// # Errors
/// When a tool is missing or fails, or the three cannot be compared.
pub fn run(options: &Options) -> Result<()> {
    for (tool, package) in [(Path::new("addr2line"), "binutils"), (options.llvm.as_path(), "llvm")] {
        let known = tool.is_file() || sh::find(&tool.to_string_lossy()).is_some();
        ensure!(known, "{} is missing: apt-get install {package}", tool.display());
    }
    let ours = build()?;
    let mut rows = Vec::new();
    for binary in &options.binaries {
        let addresses = draw(binary, options.addresses, options.seed)?;
        let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
        let our = answers::ours(&ask(Command::new(&ours).arg(binary), &text)?)?;
        let gnu = ask(Command::new("addr2line").args(["-a", "-i", "-f", "-e"]).arg(binary), &text)?;
        let gnu = answers::addr2line(&gnu);
        let mut llvm = Command::new(&options.llvm);
        llvm.args(["--no-demangle", "--inlines", "--output-style=JSON", "-e"]).arg(binary);
        let llvm = answers::llvm(&ask(&mut llvm, &text)?)?;
        for (name, answers) in [("the profiler", &our), ("addr2line", &gnu), ("llvm-symbolizer", &llvm)] {
            let count = answers.len();
            ensure!(count == addresses.len(), "{name} answered {count} of {} questions", addresses.len());
        }
        let name = binary.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tally = Tally::of(&our, &gnu, &llvm);
        if options.examples > 0 {
            show(&name, &tally, options.examples, &addresses, [&our, &gnu, &llvm]);
        }
        rows.push((name, tally));
    }
    print!("{}", compare::table(&rows));
    Ok(())
}

/// The program that answers for the profiler.
fn build() -> Result<PathBuf> {
    let mut cargo = sh::cargo();
    sh::run(cargo.args(["build", "--quiet", "--release", "-p", "coz-tests", "--example", "lines"]))?;
    Ok(sh::target_dir().join("release/examples/lines"))
}

fn ask(command: &mut Command, questions: &str) -> Result<String> {
    let name = sh::shown(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start `{name}`"))?;
    let mut input = child.stdin.take().context("its input")?;
    let text = questions.to_owned();
    // It answers while it reads: without a thread both would wait for each other.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "`{name}` failed: {}", output.status);
    writer.join().ok().context("the questions were not asked")?.with_context(|| format!("`{name}`"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Random addresses of the code, each byte as likely as any other.
fn draw(binary: &Path, count: usize, seed: u64) -> Result<Vec<u64>> {
    let bytes = std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let object =
        object::File::parse(&*bytes).with_context(|| format!("{} is no program", binary.display()))?;
    let code = object.sections().filter(|section| section.kind() == SectionKind::Text);
    let code: Vec<(u64, u64)> = code.map(|section| (section.address(), section.size())).collect();
    let total: u64 = code.iter().map(|(_, size)| size).sum();
    ensure!(total > 0, "{} has no code", binary.display());
    let mut state = seed;
    Ok((0..count)
        .map(|_| {
            let mut at = next(&mut state) % total;
            let section = code.iter().find(|(_, size)| {
                let inside = at < *size;
                at -= if inside { 0 } else { *size };
                inside
            });
            section.map_or(0, |(address, _)| address + at)
        })
        .collect())
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn show(name: &str, tally: &Tally, most: usize, addresses: &[u64], answers: [&[Answer]; 3]) {
    for kind in Kind::ALL {
        for &at in tally.examples(kind).iter().take(most) {
            println!("{name} {:#x}: {kind}", addresses[at]);
            for (who, answers) in ["profiler", "addr2line", "llvm"].iter().zip(answers) {
                println!("    {who:10} {}", answers[at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_code_and_the_same_every_time() {
        let me = std::env::current_exe().expect("this test");
        let drawn = draw(&me, 500, 7).expect("it has code");
        assert_eq!(drawn, draw(&me, 500, 7).expect("it has code"));
        assert_ne!(drawn, draw(&me, 500, 8).expect("it has code"));
        let bytes = std::fs::read(&me).expect("this test");
        let object = object::File::parse(&*bytes).expect("ELF");
        let is_code = |address: u64| {
            object.sections().any(|s| {
                s.kind() == SectionKind::Text && (s.address()..s.address() + s.size()).contains(&address)
            })
        };
        assert!(drawn.iter().all(|address| is_code(*address)));
    }
}

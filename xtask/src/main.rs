//! The repository's own commands: `cargo xtask --help`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::{
    demo, ebpf, kernel, latency, overhead, package, picture, race, real, servers, startup, symbols, test,
    truth,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own commands", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile the kernel side and put it in the place of the committed object
    BuildEbpf {
        /// Only compare: fail when the committed object is stale, say whether its bytes are the same
        #[arg(long)]
        check: bool,
        /// Which compiler to take
        #[arg(long, value_enum, default_value = "auto")]
        with: ebpf::Way,
    },
    /// Run every check and test; the root tests need root
    Test(test::Options),
    /// Profile the bundled job server and print the report: about a minute, needs root (through sudo if need be)
    Demo,
    /// Compare predictions with the truth, measured by really shortening the line; needs root
    Truth(truth::Options),
    /// Compare predictions of latencies (mean, median, 99th percentile) with the truth; needs root
    Latency(latency::Options),
    /// Profile programs from Debian's source packages, without any change to their source; needs root
    Real(real::Options),
    /// Compare the elapsed time of default runs with that of plain ones; needs root
    Overhead(overhead::Options),
    /// Attach to two servers under load and let go of them: requests a second, times, errors; needs root
    Servers(servers::Options),
    /// Measure start-up and memory on a program with much debug information; needs root
    Startup(startup::Options),
    /// Measure how long it takes until the first line is known, beside coz; needs root
    Race(race::Options),
    /// Boot another kernel in a virtual machine (qemu) and run a command there, in this repository
    Kernel(kernel::Options),
    /// Compare lines and inlining with addr2line's and llvm-symbolizer's at random addresses of binaries
    Symbols(symbols::Options),
    /// Draw the curves of a profile as SVG, or its page as PNG (needs Chromium)
    Picture(picture::Options),
    /// Make a Debian package, with manual pages and completions; needs cargo-deb
    Deb,
    /// Build the profiler as one static file; needs `rustup target add x86_64-unknown-linux-musl`
    Static,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::BuildEbpf { check: true, with } => ebpf::check(with),
        Command::BuildEbpf { check: false, with } => ebpf::build(with),
        Command::Test(options) => test::run(&options),
        Command::Demo => demo::run(),
        Command::Truth(options) => truth::run(&options),
        Command::Latency(options) => latency::run(&options),
        Command::Real(options) => real::run(&options),
        Command::Overhead(options) => overhead::run(&options),
        Command::Race(options) => race::run(&options),
        Command::Servers(options) => servers::run(&options),
        Command::Startup(options) => startup::run(&options),
        Command::Kernel(options) => kernel::run(&options),
        Command::Symbols(options) => symbols::run(&options),
        Command::Picture(options) => picture::run(&options),
        Command::Deb => package::deb(),
        Command::Static => package::statically(),
    }
}

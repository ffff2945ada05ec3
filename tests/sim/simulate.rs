//! Judges the rules on the simulator's programs and prints a table: truth, prediction, error.

use std::process::ExitCode;
use std::thread;

use coz_tests::sim::judge::{Effort, Judgement, judge};
use coz_tests::sim::machine::Machine;
use coz_tests::sim::rules::{Charging, CpuEdge, Rules, Wake};
use coz_tests::sim::shapes::{Shape, shapes};
use coz_tests::sim::{S, US};

const USAGE: &str = "\
usage: simulate [SHAPE...] [OPTION...]
  SHAPE               a program by (the beginning of) its name; none: all
  --list              names and what they are
  --cpus N            CPUs; else each program's own number
  --rate HZ           samples a second of each CPU (1499)
  --jitter US         by how much a sampling period differs at most (0)
  --threshold US      debt from which a thread is asked to pay (250)
  --lumped | --fluid | --places | --kinds | --exact
                      how the line's time is charged (places); exact: as no sampling can
  --wake none|max|product      what goes along with a wake-up (product)
  --edge owes|clock   what goes along with a CPU (clock)
  --pay-at-wake       a wake-up from a timed wait is an occasion to pay
  --working           who spins is taken for one who works
  --exit-first        the kernel reports a thread's end before the wake-up of the one that joins it
  --sample-cost US    CPU time of a sample (2)
  --sample-before US  of this, before it is taken (0)
  --no-intrusion      a sample's time is the thread's own
  --wake-latency US   from a wake-up to the first instruction on an idle CPU (35)
  --no-preempt        woken threads wait for the end of a slice
  --slice US          (3000)
  --length MS         of an experiment (300)
  --settle MS         before it, for the program to settle (60)
  --repeat N          experiments at each level (30)
  --truth S           simulated seconds behind the truth (20)
  --seed N            (1)
  --brief             only the errors
";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    shapes: Vec<Shape>,
    cpus: Option<usize>,
    rules: Rules,
    machine: Machine,
    effort: Effort,
    brief: bool,
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        shapes: Vec::new(),
        cpus: None,
        rules: Rules::default(),
        machine: Machine::default(),
        effort: Effort::default(),
        brief: false,
    };
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let mut number = || -> Result<u64, String> {
            let value = left.next().ok_or_else(|| format!("{argument} needs a number"))?;
            value.parse().map_err(|_| format!("{argument}: {value} is no number"))
        };
        let (rules, machine, effort) = (&mut options.rules, &mut options.machine, &mut options.effort);
        match argument.as_str() {
            "--cpus" => options.cpus = Some(number()?.max(1) as usize),
            "--rate" => {
                rules.period = S / number()?.max(1);
            }
            "--jitter" => rules.jitter = number()? * US,
            "--threshold" => rules.threshold = number()? * US,
            "--lumped" => rules.charging = Charging::Lumped,
            "--fluid" => rules.charging = Charging::Fluid,
            "--exact" => rules.charging = Charging::Exact,
            "--places" => rules.charging = Charging::Places,
            "--kinds" => rules.charging = Charging::Kinds,
            "--pay-at-wake" => rules.pay_at_wake = true,
            "--working" => rules.spinning = false,
            "--no-intrusion" => rules.intrusion = false,
            "--exit-first" => machine.exit_first = true,
            "--sample-cost" => machine.sample_cost = number()? * US,
            "--sample-before" => machine.sample_before = number()? * US,
            "--wake-latency" => machine.wake_latency = number()? * US,
            "--no-preempt" => machine.preempt = false,
            "--slice" => machine.slice = number()?.max(1) * US,
            "--settle" => effort.settle = number()? * 1000 * US,
            "--length" => effort.experiment = number()?.max(1) * 1000 * US,
            "--repeat" => effort.repeat = number()?.max(2) as usize,
            "--truth" => effort.truth = number()?.max(1) * S,
            "--seed" => effort.seed = number()?,
            "--brief" => options.brief = true,
            "--wake" => {
                rules.wake = match left.next().map(String::as_str) {
                    Some("none") => Wake::Nothing,
                    Some("max") => Wake::Max,
                    Some("product") => Wake::Product,
                    _ => return Err("--wake: none, max or product".into()),
                }
            }
            "--edge" => {
                rules.cpu_edge = match left.next().map(String::as_str) {
                    Some("owes") => CpuEdge::Owes,
                    Some("clock") => CpuEdge::Clock,
                    _ => return Err("--edge: owes or clock".into()),
                }
            }
            name if !name.starts_with('-') => {
                let found: Vec<Shape> = match shapes().iter().find(|shape| shape.name == name) {
                    Some(shape) => vec![*shape],
                    None => shapes().iter().filter(|shape| shape.name.starts_with(name)).copied().collect(),
                };
                if found.is_empty() {
                    return Err(format!("no program is called {name}: see --list"));
                }
                options.shapes.extend(found);
            }
            _ => return Err(format!("{argument}: no such option")),
        }
    }
    if options.shapes.is_empty() {
        options.shapes = shapes();
    }
    Ok(options)
}

fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|argument| argument == "--list") {
        for shape in shapes() {
            println!("{:18} {:2} CPUs  {}", shape.name, shape.cpus, shape.about);
        }
        return Ok(());
    }
    let options = parse(arguments)?;
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (mut sum, mut count, mut worst) = (0.0, 0usize, (0.0f64, String::new()));
    println!(
        "program             CPUs   truth / prediction (error) at each level; +- standard error; unpaid; queued"
    );
    for batch in options.shapes.chunks(workers) {
        let judged: Vec<(Shape, usize, Judgement)> = thread::scope(|scope| {
            let running: Vec<_> = batch.iter().map(|shape| scope.spawn(|| one(shape, &options))).collect();
            running.into_iter().filter_map(|worker| worker.join().ok()).collect()
        });
        for (shape, cpus, judgement) in judged {
            print_row(&shape, cpus, &judgement, options.brief);
            for cell in &judgement.cells {
                sum += cell.error().abs();
                count += 1;
                if cell.error().abs() > worst.0 {
                    worst = (cell.error().abs(), format!("{} at {} %", shape.name, cell.level / 10));
                }
            }
        }
    }
    println!("mean error {:.2} points, worst {:.1} ({})", sum / count.max(1) as f64, worst.0, worst.1);
    Ok(())
}

fn one(shape: &Shape, options: &Options) -> (Shape, usize, Judgement) {
    let cpus = options.cpus.unwrap_or(shape.cpus);
    let machine = Machine { cpus, ..options.machine.clone() };
    let program = shape.program(cpus);
    (*shape, cpus, judge(&program, &machine, &options.rules, &options.effort, shape.cycle))
}

fn print_row(shape: &Shape, cpus: usize, judgement: &Judgement, brief: bool) {
    print!("{:18} {cpus:4}", shape.name);
    for cell in &judgement.cells {
        if brief {
            print!("{:8.1}", cell.error());
        } else {
            print!("  {:5.1}/{:5.1} ({:5.1})", cell.truth, cell.predicted, cell.error());
        }
    }
    let spread = judgement.cells.iter().map(|cell| cell.spread).fold(0.0, f64::max);
    let unpaid = judgement.cells.iter().map(|cell| cell.unpaid).fold(0.0, f64::max);
    let totals = judgement.totals;
    let queued = 100.0 * totals.queued as f64 / (totals.queued + totals.cpu).max(1) as f64;
    println!("  +-{spread:.1}  {unpaid:.0}%  {queued:.0}%");
}

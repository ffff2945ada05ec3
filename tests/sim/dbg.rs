//! Throw-away.
use coz_tests::sim::machine::Machine;
use coz_tests::sim::program::Op::*;
use coz_tests::sim::program::*;
use coz_tests::sim::rules::*;
use coz_tests::sim::*;
fn main() {
    for (contended, speedup) in [(true, 500), (true, 1), (false, 500), (false, 1)] {
        let mut program = Program::new();
        let lock = program.mutex(Fairness::Barging { spin: 0 });
        for _ in 0..2 {
            let (a, b) = if contended { (Lock(lock), Unlock(lock)) } else { (Repeat(1, vec![]), Repeat(1, vec![])) };
            program.thread(&[
                Cpu(OTHER, Span::Even(100 * US, 300 * US)),
                a,
                Cpu(HOT, Span::Even(100 * US, 200 * US)),
                b,
                Progress,
            ]);
        }
        let machine = Machine { sample_cost: 0, ..Machine::default() };
        for rate in [997, 1382, 3989] {
            for charging in [Charging::Lumped, Charging::Fluid, Charging::Stretches, Charging::Exact] {
                let rules = Rules { charging, period: S / rate, ..Rules::default() };
                let mut world = World::profiled(&program, &machine, &rules, 5);
                world.run_until(20 * MS);
                world.begin(speedup);
                world.run_until(world.now() + 8 * S);
                let expected = world.totals().line as f64 * speedup as f64 / 1000.0;
                print!("{:.3} ", world.totals().charged as f64 / expected);
            }
            println!(" {contended} {speedup} {rate}");
        }
    }
}

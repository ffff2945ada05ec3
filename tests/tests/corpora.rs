//! The inputs of the fuzz targets that are committed, each run once: what was found stays mended.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn every_committed_input_is_survived_and_none_takes_long() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for target in targets::TARGETS {
        let folder = corpora.join(target.name);
        let inputs = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut count = 0;
        for input in inputs {
            let path = input.expect("an entry").path();
            let data = std::fs::read(&path).expect("a file");
            let began = Instant::now();
            (target.run)(&data);
            // And with an end that is missing, anywhere.
            for part in 1..4 {
                (target.run)(&data[..data.len() * part / 4]);
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{} took {:?}",
                path.display(),
                began.elapsed()
            );
            count += 1;
        }
        assert!(count > 0, "no inputs in {}", folder.display());
    }
}

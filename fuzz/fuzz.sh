#!/bin/sh
# Fuzzes one target, or each in turn: ./fuzz.sh [SECONDS [TARGET]...]. Stable Rust, g++ for libFuzzer itself.
# Stops at the first input that crashes, takes longer than 10 s or more than 1 GB; it is left in findings/.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
# A target apart, so that build scripts are built without coverage.
RUSTFLAGS="$coverage" cargo build --release --target x86_64-unknown-linux-gnu
mkdir -p findings
for target in ${*:-elf split maps perf_map spec names profile quota seccomp}; do
    mkdir -p "target/corpus/$target"
    # What reaches new code goes to target/corpus; corpus/ is what is committed.
    COZ_FUZZ=$target target/x86_64-unknown-linux-gnu/release/coz-fuzz -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -max_len=65536 -artifact_prefix="findings/$target-" -print_final_stats=1 "target/corpus/$target" "corpus/$target"
done

//! coz-bpf.
fn main() {}

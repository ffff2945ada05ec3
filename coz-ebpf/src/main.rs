//! The kernel side.
fn main() {}

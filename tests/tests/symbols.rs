//! Symbols and points on real binaries, compiled here by gcc, g++ and rustc.

#[path = "../symbols/attribution.rs"]
mod attribution;
#[path = "../symbols/files.rs"]
mod files;
#[path = "../symbols/formats.rs"]
mod formats;
#[path = "../symbols/harness.rs"]
mod harness;
#[path = "../symbols/places.rs"]
mod places;
#[path = "../symbols/split.rs"]
mod split;

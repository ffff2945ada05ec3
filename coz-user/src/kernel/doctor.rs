//! stub
/// stub
#[derive(PartialEq, Debug)]
pub enum Level { /// x
 Fail }
/// stub
#[derive(Debug)]
pub struct Check { /// x
 pub level: Level, /// x
 pub name: String, /// x
 pub found: String, /// x
 pub needed: String, /// x
 pub fix: Option<String> }
/// stub
pub fn machine() -> Vec<Check> { Vec::new() }

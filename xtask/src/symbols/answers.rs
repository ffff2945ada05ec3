//! The three forms of answers, read into one.

use std::fmt;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// A function around an address, and the place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) symbol: String,
    pub(super) file: String,
    /// 0: not known.
    pub(super) line: u64,
}

impl Frame {
    fn new(symbol: &str, file: &str, line: u64) -> Self {
        let known = |text: &str| if text.starts_with("??") { String::new() } else { text.to_owned() };
        Self { symbol: known(symbol), file: clean(&known(file)), line }
    }
}

/// What is said of an address: the functions around it, innermost first. Empty where nothing is known of its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer(pub(super) Vec<Frame>);

impl Answer {
    fn new(frames: Vec<Frame>) -> Self {
        // A symbol alone, with or without the name of a file that the symbol table has, is no line.
        let empty = frames.iter().all(|frame| !frame.file.contains('/') && frame.line == 0);
        Self(if empty { Vec::new() } else { frames })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = self.0.iter().map(|frame| {
            let file = frame.file.rsplit('/').next().unwrap_or_default();
            format!("{} {file}:{}", frame.symbol, frame.line)
        });
        f.write_str(&frames.collect::<Vec<_>>().join(" < "))
    }
}

/// A path without `.`, `..` and doubled slashes: they are written in different ways.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if !parts.is_empty() => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Of the example `lines`.
pub(super) fn ours(text: &str) -> Result<Vec<Answer>> {
    let answer = |line: &str| {
        let value: Value = serde_json::from_str(line).context("not JSON")?;
        let frames = value["frames"].as_array().context("no frames")?.iter();
        let frames = frames.map(|frame| {
            let text = |i: usize| frame[i].as_str().unwrap_or_default();
            Frame::new(text(0), text(1), frame[2].as_u64().unwrap_or(0))
        });
        Ok(Answer::new(frames.collect()))
    };
    text.lines().map(answer).collect()
}

/// Of `addr2line -a -i -f`: the address, then two lines for each function.
pub(super) fn addr2line(text: &str) -> Vec<Answer> {
    let mut answers: Vec<Vec<Frame>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let Some(frames) = answers.last_mut() else { continue };
        let place = lines.next().unwrap_or_default();
        let place = place.split(" (discriminator").next().unwrap_or_default();
        let (file, number) = place.rsplit_once(':').unwrap_or((place, "0"));
        frames.push(Frame::new(line, file, number.parse().unwrap_or(0)));
    }
    answers.into_iter().map(Answer::new).collect()
}

/// Of `llvm-symbolizer --output-style=JSON`: an object a line, or an array of them.
pub(super) fn llvm(text: &str) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.context("llvm-symbolizer did not answer in JSON")?;
        for answer in value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice) {
            let frames = answer["Symbol"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
            let frames = frames.map(|frame| {
                let text = |key: &str| frame[key].as_str().unwrap_or_default();
                Frame::new(text("FunctionName"), text("FileName"), frame["Line"].as_u64().unwrap_or(0))
            });
            answers.push(Answer::new(frames.collect()));
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_forms_are_read() {
        let frame = |symbol: &str, file: &str, line| Frame { symbol: symbol.into(), file: file.into(), line };
        let expected = [Answer(vec![frame("mix", "s/b.h", 3), frame("work", "s/a.c", 15)]), Answer(vec![])];
        let gnu =
            "0x0000000000000010\nmix\n/s/./b.h:3 (discriminator 2)\nwork\n/s/x/../a.c:15\n0x20\n??\n??:0\n";
        assert_eq!(addr2line(gnu), expected);
        let json = r#"[{"Symbol":[{"FunctionName":"mix","FileName":"/s/b.h","Line":3},{"FunctionName":"work","FileName":"/s/a.c","Line":15}]}]
            {"Symbol":[{"FunctionName":"known","FileName":"","Line":0}]}"#;
        assert_eq!(llvm(json).expect("JSON"), expected);
        let own = "{\"frames\":[[\"mix\",\"/s/b.h\",3],[\"work\",\"/s/a.c\",15]]}\n{\"frames\":[]}\n";
        assert_eq!(ours(own).expect("JSON"), expected);
    }
}

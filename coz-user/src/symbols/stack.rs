//! All functions around an address, inlined ones and the one that they are in, whatever the scope.

use super::module::Module;
use super::names::Names;

/// A function around an address, and the place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function, as the linker knows it, else as the source does; empty where not known.
    pub symbol: String,
    /// The source file; empty where not known.
    pub file: String,
    /// The line, from where the next frame was inlined; 0 where not known.
    pub line: u32,
}

impl Module {
    /// The functions around a module-relative address, the innermost first; empty where no unit of the debug information
    /// describes it.
    pub fn stack(&self, address: u64) -> Vec<Frame> {
        let Ok(debug) = self.any_debug() else { return Vec::new() };
        let dwarf = debug.view();
        let mut names = Names::new(&dwarf, debug);
        let ranges = debug.index.overlapping(address, address.saturating_add(1));
        let mut around = Vec::new();
        for range in ranges {
            let unit = debug.unit(range.unit, &dwarf, self.elf());
            unit.frames_at(address, &mut around);
            let row = unit.row_at(address);
            if around.is_empty() && row.is_none() {
                continue;
            }
            let text = |file: u32| unit.file(file).map(ToString::to_string).unwrap_or_default();
            let mut place = row.map(|row| (text(row.file), row.line)).unwrap_or_default();
            let mut frames = Vec::new();
            for number in around.iter().rev() {
                let Some(frame) = unit.frames.get(*number as usize) else { continue };
                let mut symbol = names.describe(range.unit as usize, frame.entry).symbol.to_string();
                if symbol.is_empty() && frame.level == 0 {
                    symbol = self.symbols().containing(address).map(|f| f.symbol.clone()).unwrap_or_default();
                }
                let (file, line) = std::mem::replace(&mut place, (text(frame.call_file), frame.call_line));
                frames.push(Frame { symbol, file, line });
            }
            if frames.is_empty() {
                let symbol = self.symbols().containing(address).map(|f| f.symbol.clone()).unwrap_or_default();
                frames.push(Frame { symbol, file: place.0, line: place.1 });
            }
            return frames;
        }
        Vec::new()
    }
}

//! From a linked library to a flat image of machine code: the part that can be put anywhere, and where its entries are.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

/// The section that the linker's script (`preload/injected/flat.ld`) gathers everything in.
const SECTION: &str = ".flat";
/// It is put into one page, with its parameters.
const PAGE: usize = 4096;

/// Writes `injected.bin` and, with the offsets of its entries, `injected.rs`.
///
/// # Errors
/// Words that say what is in it that would not work at any address, or by itself.
pub fn extract(library: &Path, out: &Path) -> Result<(), String> {
    let bytes = fs::read(library).map_err(|error| format!("{}: {error}", library.display()))?;
    let file = object::File::parse(&*bytes).map_err(|error| error.to_string())?;
    if let Some(relocations) = file.dynamic_relocations()
        && let Some((at, relocation)) = relocations.into_iter().next()
    {
        return Err(format!("a relocation is left at {at:#x}: {relocation:?}"));
    }
    if let Some(import) =
        file.dynamic_symbols().find(|symbol| symbol.is_undefined() && symbol.name() != Ok(""))
    {
        return Err(format!("{} is not defined in it", import.name().unwrap_or("a symbol")));
    }
    for section in file.sections() {
        let name = section.name().unwrap_or("?");
        let data = matches!(
            section.kind(),
            SectionKind::Data | SectionKind::UninitializedData | SectionKind::Tls | SectionKind::ReadOnlyData
        );
        let table = matches!(name, ".dynamic" | ".dynsym" | ".dynstr" | ".gnu.hash" | ".hash");
        if (data || name == ".got" || name == ".text") && !table && section.size() > 0 {
            return Err(format!("{name} has {} bytes outside of {SECTION}", section.size()));
        }
    }
    let flat = file.section_by_name(SECTION).ok_or(format!("it has no section {SECTION}"))?;
    let code = flat.data().map_err(|error| error.to_string())?;
    if code.len() > PAGE {
        return Err(format!("it has {} bytes, more than a page", code.len()));
    }
    let mut offsets = String::new();
    for (name, constant, what) in [
        ("coz_handle", "HANDLER", "Where the handler begins."),
        ("coz_restore", "RESTORER", "Where it returns to."),
        ("coz_params", "PARAMS", "Where its parameters are."),
    ] {
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
        let address = symbol.ok_or(format!("it has no {name}"))?.address();
        let offset = address
            .checked_sub(flat.address())
            .filter(|&offset| offset < code.len() as u64)
            .ok_or(format!("{name} is outside of {SECTION}"))?;
        let _ = writeln!(offsets, "/// {what}\npub const {constant}: usize = {offset:#x};");
    }
    fs::write(out.join("injected.bin"), code).map_err(|error| error.to_string())?;
    fs::write(out.join("injected.rs"), offsets).map_err(|error| error.to_string())
}

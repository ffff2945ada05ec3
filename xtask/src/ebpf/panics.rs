//! Makes sure that nothing in an eBPF object can panic: the kernel refuses such programs, and says only that their last
//! instruction is not an exit.

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSymbol as _};

/// What the names of core's panicking functions have in them.
const PANICKING: &str = "panicking";

/// # Errors
/// When it is no ELF file, or has a function that panics: the optimiser takes out all that no program can reach.
pub fn ensure_none(object: &[u8]) -> Result<()> {
    let file = object::File::parse(object).context("not an ELF file")?;
    let found: Vec<&str> = file
        .symbols()
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.contains(PANICKING))
        .collect();
    ensure!(
        found.is_empty(),
        "a program of the kernel side can panic ({}), and the kernel would refuse it; let the compiler see that it cannot: \
         a mask for an index, `.max(1)` for a divisor, `get` instead of `[]`",
        found.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::build::elf::Builder;

    #[test]
    fn an_object_with_a_function_that_panics_is_refused() {
        let good = std::fs::read(crate::ebpf::prebuilt().join(crate::ebpf::OBJECT)).unwrap();
        ensure_none(&good).unwrap();
        let mut builder = Builder::read(&*good).unwrap();
        let section =
            builder.sections.iter().find(|section| section.name.as_slice() == b".text").unwrap().id();
        let symbol = builder.symbols.add();
        symbol.name =
            b"_RNvNtNtCs1NpfdXmxSul_4core9panicking11panic_const23panic_const_div_by_zero"[..].into();
        symbol.section = Some(section);
        let mut bad = Vec::new();
        builder.write(&mut bad).unwrap();
        let refused = ensure_none(&bad).unwrap_err().to_string();
        assert!(refused.contains("div_by_zero"), "{refused}");
    }
}

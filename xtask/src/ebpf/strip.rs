//! Takes the DWARF out of an eBPF object and makes sure that its BTF is still there.

use anyhow::{Context as _, Result, ensure};
use object::build::elf::{Builder, SectionData};
use object::elf;

/// `object` without its `.debug_*` sections and the symbols and relocations that only they used.
///
/// # Errors
/// When it is no eBPF object, or has no BTF: the loader needs it for the maps and for the kernel's log.
pub fn without_dwarf(object: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(object).context("not an ELF file")?;
    ensure!(
        builder.header.e_machine == elf::EM_BPF,
        "not an eBPF object (machine {:?})",
        builder.header.e_machine
    );
    for section in &mut builder.sections {
        let name = section.name.to_vec();
        if name.starts_with(b".debug_")
            || name.starts_with(b".rel.debug_")
            || name.starts_with(b".llvm_addrsig")
        {
            section.delete = true;
        }
    }
    builder.delete_orphans();
    // LLVM keeps the names of sections and of symbols in one table; here each kind gets its own.
    if !builder.sections.iter().any(|section| matches!(section.data, SectionData::SectionString)) {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = elf::SHT_STRTAB;
        names.sh_addralign = 1;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder.write(&mut stripped).context("cannot write the stripped object")?;
    for wanted in [".BTF", ".BTF.ext"] {
        ensure!(
            has_section(&stripped, wanted)?,
            "the object has no {wanted} section: was it linked with `--btf`?"
        );
    }
    Ok(stripped)
}

fn has_section(object: &[u8], name: &str) -> Result<bool> {
    use object::{Object as _, ObjectSection as _};
    let file = object::File::parse(object).context("not an ELF file")?;
    Ok(file.section_by_name(name).is_some_and(|section| section.size() > 0))
}

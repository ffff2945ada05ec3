//! A 32-bit program, made here: Debian's compiler needs more packages for one.

/// An ELF file for i386 that ends with this exit code.
#[allow(dead_code, reason = "not every test needs it")]
pub fn exits_with(code: u8) -> Vec<u8> {
    // mov eax, 1 (exit); mov ebx, code; int 0x80
    file(&[0xb8, 1, 0, 0, 0, 0xbb, code, 0, 0, 0, 0xcd, 0x80])
}

/// One that waits for a signal.
#[allow(dead_code, reason = "not every test needs it")]
pub fn waits() -> Vec<u8> {
    // mov eax, 29 (pause); int 0x80
    file(&[0xb8, 29, 0, 0, 0, 0xcd, 0x80])
}

fn file(text: &[u8]) -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    let size = HEADERS + text.len() as u32;
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend(value.to_le_bytes());
    // e_type EXEC, e_machine 386, e_version
    half(&mut file, 2);
    half(&mut file, 3);
    word(&mut file, 1);
    // e_entry, e_phoff, e_shoff, e_flags
    for value in [BASE + HEADERS, 52, 0, 0] {
        word(&mut file, value);
    }
    // e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx
    for value in [52, 32, 1, 40, 0, 0] {
        half(&mut file, value);
    }
    // PT_LOAD: offset, vaddr, paddr, filesz, memsz, read and execute, align
    for value in [1, 0, BASE, BASE, size, size, 5, 0x1000] {
        word(&mut file, value);
    }
    file.extend(text);
    file
}

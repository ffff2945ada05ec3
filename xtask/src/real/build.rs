//! How each of the foreign programs is compiled: its own way where that is short, with debug information and frame pointers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::source::{needs, unpacked};
use crate::programs::Debug;
use crate::sh;

/// Compiler flags: one of these kinds of debug information, and frame pointers.
fn flags(debug: Debug) -> [&'static str; 3] {
    let debug = if debug == Debug::Dwarf3 { "-gdwarf-3" } else { "-g" };
    ["-O2", debug, "-fno-omit-frame-pointer"]
}

/// The program of this name, compiled; unless it is there already.
///
/// # Errors
/// When its source cannot be had or does not compile.
pub fn program(name: &str, folder: &Path, debug: Debug) -> Result<PathBuf> {
    let bin = folder.join(if debug == Debug::Dwarf3 { "bin/dwarf3" } else { "bin" });
    let path = bin.join(name);
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(bin)?;
    eprintln!("{name}: getting its source and building it");
    match name {
        "pbzip2" => pbzip2(folder, &path, debug)?,
        "sqlite3" => sqlite3(folder, &path, debug)?,
        _ => memcached(folder, &path, debug)?,
    }
    ensure!(path.is_file(), "{} was not built", path.display());
    Ok(path)
}

/// With the source of libbz2, where all of its work is done: Debian's library has no frame pointers.
fn pbzip2(folder: &Path, path: &Path, debug: Debug) -> Result<()> {
    let (pbzip2, bzip2) = (unpacked("pbzip2", folder)?, unpacked("bzip2", folder)?);
    let parts = ["blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib"];
    let mut objects = Vec::new();
    for part in parts {
        let object = bzip2.join(format!("coz-{part}.o"));
        let mut gcc = Command::new("gcc");
        gcc.current_dir(&bzip2).args(flags(debug)).args([
            "-D_FILE_OFFSET_BITS=64",
            "-c",
            &format!("{part}.c"),
            "-o",
        ]);
        sh::output(gcc.arg(&object))?;
        objects.push(object);
    }
    let mut gcc = Command::new("g++");
    gcc.current_dir(&pbzip2).args(flags(debug)).arg("-pthread").arg("-I").arg(&bzip2);
    gcc.args(["-D_LARGEFILE64_SOURCE", "-D_FILE_OFFSET_BITS=64", "-DUSE_STACKSIZE_CUSTOMIZATION"]);
    gcc.args(["-D_POSIX_PTHREAD_SEMANTICS", "pbzip2.cpp", "BZ2StreamScanner.cpp", "ErrorContext.cpp"]);
    sh::output(gcc.args(objects).arg("-o").arg(path)).map(|_| ())
}

/// The shell, with the library in it.
fn sqlite3(folder: &Path, path: &Path, debug: Debug) -> Result<()> {
    needs(&["tcl"])?;
    let build = unpacked("sqlite3", folder)?.join("coz-build");
    fs::create_dir_all(&build)?;
    sh::output(Command::new("../configure").current_dir(&build).arg("--disable-tcl"))?;
    sh::output(Command::new("make").current_dir(&build).args(["sqlite3.c", "shell.c"]))?;
    let mut gcc = Command::new("gcc");
    gcc.current_dir(&build)
        .args(flags(debug))
        .args(["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"]);
    sh::output(gcc.args(["-I.", "shell.c", "sqlite3.c", "-lm", "-o"]).arg(path)).map(|_| ())
}

fn memcached(folder: &Path, path: &Path, debug: Debug) -> Result<()> {
    needs(&["libevent-dev"])?;
    let source = unpacked("memcached", folder)?;
    sh::output(Command::new("./configure").current_dir(&source).env("CFLAGS", flags(debug).join(" ")))?;
    // Of a build with other flags.
    sh::output(Command::new("make").current_dir(&source).arg("clean"))?;
    sh::output(Command::new("make").current_dir(&source).args(["-j2", "memcached"]))?;
    fs::copy(source.join("memcached"), path)?;
    Ok(())
}

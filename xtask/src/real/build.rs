//! How each of the foreign programs is compiled: its own way where that is short, with debug information.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::source::{needs, unpacked};
use crate::programs::Debug;
use crate::sh;

/// Compiler flags: one of these kinds of debug information.
fn flags(debug: Debug) -> [&'static str; 2] {
    ["-O2", if debug == Debug::Dwarf3 { "-gdwarf-3" } else { "-g" }]
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
        "memcached" => memcached(folder, &path, debug)?,
        "redis" => redis(folder, &path, debug)?,
        "nginx" => nginx(folder, &path, debug)?,
        "leveldb" => leveldb(folder, &path, debug)?,
        "ripgrep" => ripgrep(folder, &path)?,
        "rusqlite" => rusqlite(folder, &path)?,
        _ => bail!("no program is called '{name}'"),
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

fn redis(folder: &Path, path: &Path, debug: Debug) -> Result<()> {
    let source = unpacked("redis", folder)?;
    // Its makefile has a name for each kind of flags; one allocator less to build.
    let options = ["MALLOC=libc".to_owned(), "OPTIMIZATION=-O2".into(), format!("DEBUG={}", flags(debug)[1])];
    let make = || {
        let mut make = Command::new("make");
        make.current_dir(source.join("src"));
        make
    };
    sh::output(make().arg("distclean"))?;
    sh::output(make().args(options).args(["-j2", "redis-server"]))?;
    fs::copy(source.join("src/redis-server"), path)?;
    Ok(())
}

fn nginx(folder: &Path, path: &Path, debug: Debug) -> Result<()> {
    needs(&["zlib1g-dev"])?;
    let source = unpacked("nginx", folder)?;
    let flags = format!("--with-cc-opt={}", flags(debug).join(" "));
    let options = ["--without-http_rewrite_module", flags.as_str()];
    sh::output(Command::new("./configure").current_dir(&source).args(options))?;
    sh::output(Command::new("make").current_dir(&source).arg("-j2"))?;
    fs::copy(source.join("objs/nginx"), path)?;
    Ok(())
}

/// The library and its benchmark, in one program.
fn leveldb(folder: &Path, path: &Path, debug: Debug) -> Result<()> {
    let source = unpacked("leveldb", folder)?;
    let mut parts = vec![source.join("benchmarks/db_bench.cc")];
    for part in ["db", "table", "util"] {
        for entry in fs::read_dir(source.join(part))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_ours = name.ends_with(".cc") && !name.contains("test") && name != "leveldbutil.cc";
            if is_ours && !name.contains("windows") {
                parts.push(path);
            }
        }
    }
    parts.push(source.join("util/testutil.cc"));
    parts.push(source.join("helpers/memenv/memenv.cc"));
    let defines = ["-DLEVELDB_PLATFORM_POSIX=1", "-DHAVE_FDATASYNC=1", "-DHAVE_O_CLOEXEC=1", "-DNDEBUG"];
    // What its build would write: nothing of it is needed beyond the defines above.
    fs::write(source.join("port/port_config.h"), "")?;
    let mut gcc = Command::new("g++");
    gcc.current_dir(&source).args(flags(debug)).args(["-std=c++11", "-pthread", "-I.", "-Iinclude"]);
    sh::output(gcc.args(defines).args(parts).arg("-o").arg(path)).map(|_| ())
}

fn ripgrep(folder: &Path, path: &Path) -> Result<()> {
    let root = folder.join("cargo");
    let mut install = sh::cargo();
    install.args(["install", "ripgrep", "--version", "14.1.1", "--locked", "--root"]).arg(&root);
    sh::output(&mut install)?;
    fs::copy(root.join("bin/rg"), path)?;
    Ok(())
}

fn rusqlite(folder: &Path, path: &Path) -> Result<()> {
    let target = folder.join("cargo/rusqlite");
    let manifest = sh::root().join("tests/rusqlite/Cargo.toml");
    let mut build = sh::cargo();
    build
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target);
    sh::output(&mut build)?;
    fs::copy(target.join("release/rusqlite-queries"), path)?;
    Ok(())
}

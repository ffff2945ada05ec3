//! Scope: which code the user can change, and so which lines can be selected.
//!
//! **Sources.** With no `--scope-source`, every source is in scope but those of the toolchain and of
//! packages: below `/usr/include`, `/usr/local/include`, `/usr/lib*`, `/lib*`, `/usr/libexec`, `/usr/share`;
//! a compiler's own tree (`/rustc/HASH/`, `/rust/deps/`, `rustlib/src/rust/`, `/build/gcc-*`, `/build/glibc-*`);
//! cargo's downloads (`$CARGO_HOME/registry`, `$CARGO_HOME/git`, `.cargo/registry`, `.cargo/git`,
//! `/cargo/registry`); and names that a compiler makes up (`<built-in>`, `<artificial>`). With globs, a source
//! is in scope if one of them matches it: the list above then says nothing. `!GLOB` takes sources out,
//! of whichever set there is.
//!
//! **Binaries.** The main executable is in scope; `--scope-binary` adds those that it matches, `!GLOB` takes
//! some (or the main executable) out. `[jit]`, which is no glob, is the code that a program makes while it runs.
//!
//! **Globs.** `*` stands for anything, slashes included; `?`, `[abc]` and `{a,b}` as in a shell. A glob that does not
//! begin with `/` may match from any folder on: `src/*` is `/home/me/app/src/a/b.c` too. A glob for a folder stands
//! for what is below it.

use anyhow::{Context, Result};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::path::Path;
use std::sync::Arc;

/// What belongs to the code that the user can change. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Scope {
    sources: Arc<Rules>,
    binaries: Arc<Rules>,
    jit: bool,
    cargo_home: Option<Arc<str>>,
}

/// How code that is made at run time is called in `--scope-binary`.
const JIT: &str = "[jit]";

#[derive(Debug)]
struct Rules {
    /// `None`: no glob says what is in.
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Default for Scope {
    /// The main executable's own sources.
    fn default() -> Self {
        let none = Arc::new(Rules { include: None, exclude: GlobSet::empty() });
        Self { sources: Arc::clone(&none), binaries: none, jit: false, cargo_home: None }
    }
}

impl Scope {
    /// From the values of `--scope-source` and `--scope-binary`; a `!` in front excludes.
    ///
    /// `CARGO_HOME` is taken from the environment.
    ///
    /// # Errors
    /// When a glob is malformed.
    pub fn new<S: AsRef<str>>(sources: &[S], binaries: &[S]) -> Result<Self> {
        let is_jit = |glob: &&str| glob.trim_start_matches('!').eq_ignore_ascii_case(JIT);
        let (jit, files): (Vec<&str>, Vec<&str>) = binaries.iter().map(AsRef::as_ref).partition(is_jit);
        let cargo_home = std::env::var("CARGO_HOME").ok().filter(|home| home.starts_with('/'));
        Ok(Self {
            sources: Arc::new(rules("--scope-source", sources)?),
            binaries: Arc::new(rules("--scope-binary", &files)?),
            jit: !jit.is_empty() && jit.iter().all(|glob| !glob.starts_with('!')),
            cargo_home: cargo_home.map(|home| home.trim_end_matches('/').into()),
        })
    }

    /// Whether a source file, as debug information names it, is in scope.
    #[must_use]
    pub fn source(&self, path: &Path) -> bool {
        let included = match &self.sources.include {
            Some(globs) => globs.is_match(path),
            None => !self.is_system(&path.to_string_lossy()),
        };
        included && !self.sources.exclude.is_match(path)
    }

    /// Whether the sources of a binary can be in scope; `is_main`: it is the program itself.
    #[must_use]
    pub fn binary(&self, path: &Path, is_main: bool) -> bool {
        let included = is_main || self.binaries.include.as_ref().is_some_and(|globs| globs.is_match(path));
        included && !self.binaries.exclude.is_match(path)
    }

    /// Whether code that a program makes while it runs is in scope.
    #[must_use]
    pub fn jit(&self) -> bool {
        self.jit
    }

    /// Whether a function that no debug information describes is in scope: by default, unless its
    /// (demangled) name is one of the compiler's runtime or standard library.
    #[must_use]
    pub fn function(&self, name: &str) -> bool {
        self.sources.include.is_some() || !is_runtime(name)
    }

    fn is_system(&self, path: &str) -> bool {
        const BELOW: [&str; 11] = [
            "/usr/include/",
            "/usr/local/include/",
            "/usr/lib",
            "/usr/libexec/",
            "/usr/share/",
            "/lib/",
            "/lib64/",
            "/rustc/",
            "/rust/deps/",
            "/build/gcc-",
            "/build/glibc-",
        ];
        const WITHIN: [&str; 4] =
            ["/rustlib/src/rust/", "/.cargo/registry/", "/.cargo/git/", "/cargo/registry/"];
        let downloaded = |home: &str| {
            path.strip_prefix(home).is_some_and(|p| p.starts_with("/registry/") || p.starts_with("/git/"))
        };
        let file = path.rsplit('/').next().unwrap_or(path);
        BELOW.iter().any(|prefix| path.starts_with(prefix))
            || WITHIN.iter().any(|part| path.contains(part))
            || self.cargo_home.as_deref().is_some_and(downloaded)
            || file.starts_with('<')
    }
}

fn is_runtime(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "_start",
        "_init",
        "_fini",
        "frame_dummy",
        "register_tm_clones",
        "deregister_tm_clones",
        "__do_global_dtors_aux",
        "__libc_csu_init",
        "__libc_csu_fini",
        "_dl_relocate_static_pie",
        "atexit",
        "rust_eh_personality",
    ];
    const CRATES: [&str; 12] = [
        "std::",
        "core::",
        "alloc::",
        "__gnu_cxx::",
        "__cxxabiv1::",
        "hashbrown::",
        "compiler_builtins::",
        "rustc_demangle::",
        "addr2line::",
        "gimli::",
        "__rust",
        "__rdl_",
    ];
    // `<alloc::vec::Vec<T> as core::ops::Drop>::drop` is the library's, `<app::Job as core::ops::Drop>::drop` is not.
    let name = name.trim_start_matches(['<', '&', '*', '(', '[']);
    NAMES.contains(&name) || CRATES.iter().any(|prefix| name.starts_with(prefix))
}

fn rules<S: AsRef<str>>(option: &str, globs: &[S]) -> Result<Rules> {
    let (exclude, include): (Vec<&str>, Vec<&str>) =
        globs.iter().map(AsRef::as_ref).partition(|glob| glob.starts_with('!'));
    let include = if include.is_empty() { None } else { Some(set(option, &include)?) };
    Ok(Rules { include, exclude: set(option, &exclude)? })
}

fn set(option: &str, globs: &[&str]) -> Result<GlobSet> {
    let mut builder = GlobSetBuilder::new();
    for given in globs {
        let glob = given.trim_start_matches('!').trim_end_matches('/');
        let rooted = if glob.starts_with('/') || glob.starts_with('*') {
            glob.to_owned()
        } else {
            format!("*/{}", glob.trim_start_matches("./"))
        };
        // A relative path has no slash to begin with.
        let bare = rooted.strip_prefix("*/").unwrap_or(&rooted).to_owned();
        for pattern in [format!("{rooted}/*"), format!("{bare}/*"), rooted, bare] {
            let parsed = Glob::new(&pattern)
                .with_context(|| format!("{option} '{given}' is not a glob that can be read"))?;
            builder.add(parsed);
        }
    }
    builder.build().with_context(|| format!("{option}: too many globs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(sources: &[&str], binaries: &[&str]) -> Scope {
        Scope::new(sources, binaries).expect("good globs")
    }

    fn has(scope: &Scope, path: &str) -> bool {
        scope.source(Path::new(path))
    }

    #[test]
    fn by_default_only_the_toolchain_and_packages_are_out() {
        let scope = scope(&[], &[]);
        for own in ["/home/me/app/src/main.rs", "./a.c", "a.c", "/usr/src/app/a.c", "/build/app-1.2/lib/x.cc"]
        {
            assert!(has(&scope, own), "{own}");
        }
        for other in [
            "/usr/include/c++/12/bits/stl_vector.h",
            "/usr/lib/gcc/x86_64-linux-gnu/12/include/immintrin.h",
            "/usr/lib64/x.h",
            "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/iter/range.rs",
            "/rust/deps/hashbrown-0.15.2/src/raw/mod.rs",
            "/root/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/ops.rs",
            "/home/me/.cargo/registry/src/index.crates.io-1cd66030c949c28d/rand-0.9.0/src/lib.rs",
            "/home/me/.cargo/git/checkouts/x/y/src/lib.rs",
            "/home/me/app/<built-in>",
        ] {
            assert!(!has(&scope, other), "{other}");
        }
    }

    #[test]
    fn globs_say_what_is_in_and_the_defaults_no_longer_matter() {
        let scope = scope(&["src/*", "/rustc/*", "!*/generated/*"], &[]);
        assert!(has(&scope, "/home/me/app/src/deep/a.c"));
        assert!(has(&scope, "src/a.c"));
        assert!(has(&scope, "/rustc/abc/library/core/src/x.rs"));
        assert!(!has(&scope, "/home/me/app/mysrc/a.c"), "a folder's name is matched as a whole");
        assert!(!has(&scope, "/home/me/app/lib/a.c"));
        assert!(!has(&scope, "/home/me/app/src/generated/a.c"));
    }

    #[test]
    fn a_file_or_folder_can_be_named_alone() {
        let scope = scope(&["a.c", "lib/"], &[]);
        assert!(has(&scope, "/x/a.c") && has(&scope, "/x/lib/b.c"));
        assert!(!has(&scope, "/x/aa.c"));
    }

    #[test]
    fn excluding_alone_keeps_the_defaults() {
        let scope = scope(&["!third_party"], &[]);
        assert!(has(&scope, "/app/a.c"));
        assert!(!has(&scope, "/app/third_party/z.c"));
        assert!(!has(&scope, "/usr/include/stdio.h"));
    }

    #[test]
    fn libraries_are_added_to_the_program_itself() {
        let plain = scope(&[], &[]);
        assert!(plain.binary(Path::new("/app/app"), true) && !plain.binary(Path::new("/app/libz.so"), false));
        let wide = scope(&[], &["libz.so*", "!app"]);
        assert!(wide.binary(Path::new("/usr/lib/libz.so.1.2"), false));
        assert!(!wide.binary(Path::new("/app/app"), true));
    }

    #[test]
    fn code_made_at_run_time_is_in_scope_if_asked_for() {
        assert!(!scope(&[], &[]).jit() && !scope(&[], &["*"]).jit());
        let asked = scope(&[], &["[jit]"]);
        assert!(asked.jit() && asked.binary(Path::new("/app/app"), true));
        assert!(!asked.binary(Path::new("/app/j"), false), "it is no set of letters");
        assert!(scope(&[], &["[JIT]", "!node"]).jit() && !scope(&[], &["[jit]", "![jit]"]).jit());
    }

    #[test]
    fn a_broken_glob_is_named() {
        let error = Scope::new(&["src/[a"], &[]).expect_err("unclosed").to_string();
        assert!(error.contains("--scope-source 'src/[a'"), "{error}");
    }

    #[test]
    fn without_debug_information_names_tell_the_library_apart() {
        let scope = scope(&[], &[]);
        assert!(scope.function("app::work") && scope.function("<app::Job as core::ops::Drop>::drop"));
        assert!(!scope.function("core::iter::range::step") && !scope.function("_start"));
        assert!(!scope.function("<alloc::vec::Vec<T> as core::ops::Drop>::drop"));
    }
}

//! Debian source packages, with lists and caches of our own: the system's configuration stays as it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::sh;

/// Gets the newest source of a package that can be had, patches applied; its folder.
///
/// # Errors
/// When this is no Debian, or the archive does not have it.
pub fn unpacked(package: &str, folder: &Path) -> Result<PathBuf> {
    let sources = folder.join("sources");
    fs::create_dir_all(&sources).with_context(|| format!("cannot create {}", sources.display()))?;
    if let Some(there) = unpacked_before(package, &sources)? {
        return Ok(there);
    }
    needs(&["dpkg-dev"])?;
    let options = private_lists(folder)?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(&sources).args(&options).arg("-q");
        command
    };
    sh::output(apt("apt-get").arg("update"))?;
    let known = sh::output(apt("apt-cache").args(["showsrc", package]))?;
    let mut said = format!("no archive has a source package {package}");
    // An archive may have dropped the newest one while its list still names it.
    for version in versions(&known) {
        let wanted = format!("{package}={version}");
        match sh::output(apt("apt-get").args(["source", wanted.as_str()])) {
            Ok(_) => break,
            Err(error) => said = format!("{error:#}"),
        }
    }
    unpacked_before(package, &sources)?.context(said)
}

/// The versions that `apt-cache showsrc` tells of, in its order: newest first.
fn versions(shown: &str) -> Vec<&str> {
    let mut versions: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("Version: ")).collect();
    versions.dedup();
    versions
}

/// Installs packages that are missing.
///
/// # Errors
/// When `apt-get` fails.
pub fn needs(packages: &[&str]) -> Result<()> {
    let missing = |package: &&&str| sh::output(Command::new("dpkg").args(["-s", package])).is_err();
    let missing: Vec<_> = packages.iter().filter(missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "-y", "-q", "--no-install-recommends"]);
    sh::output(command.args(missing)).map(|_| ())
}

fn unpacked_before(package: &str, sources: &Path) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(sources)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('-'));
        if path.is_dir()
            && version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A source list made of the archives that the system takes its packages from, and the options that make `apt-get` use it.
fn private_lists(folder: &Path) -> Result<Vec<String>> {
    let format = "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)";
    let targets = sh::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]))?;
    let lines = source_lines(&targets);
    ensure!(!lines.is_empty(), "no Debian archive is known here: run `apt-get update` first");
    let list = folder.join("sources.list");
    fs::write(&list, lines.join("\n") + "\n")?;
    for sub in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(sub))?;
    }
    let options = [
        format!("Dir::Etc::sourcelist={}", list.display()),
        "Dir::Etc::sourceparts=-".into(),
        format!("Dir::State::lists={}", folder.join("lists").display()),
        format!("Dir::Cache={}", folder.join("cache").display()),
        "APT::Sandbox::User=root".into(),
    ];
    Ok(options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect())
}

/// Lines `Debian URI RELEASE COMPONENT` as lines of a source list.
fn source_lines(targets: &str) -> Vec<String> {
    const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let lines = targets.lines().filter_map(|line| line.strip_prefix("Debian "));
    let unique: BTreeSet<_> = lines.map(|line| format!("deb-src [signed-by={KEYS}] {line}")).collect();
    unique.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_is_there_when_the_newest_is_gone() {
        let shown =
            "Package: nginx\nVersion: 1.22.1-9+u11\nPackage-List: \n\nPackage: nginx\nVersion: 1.22.1-9+u9\n";
        assert_eq!(versions(shown), ["1.22.1-9+u11", "1.22.1-9+u9"]);
    }

    #[test]
    fn only_debians_own_archives_are_asked_for_sources() {
        let targets = "Debian https://a.invalid/debian/ stable main\nOther https://b.invalid/ x main\n\
            Debian https://a.invalid/debian/ stable main\n";
        let lines = source_lines(targets);
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].starts_with("deb-src [")
                && lines[0].ends_with("] https://a.invalid/debian/ stable main")
        );
    }
}

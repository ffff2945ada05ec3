//! Debug information from the network, if the user has asked for it: `DEBUGINFOD_URLS` is set. The fetching is done by
//! elfutils' own client, `debuginfod-find`, which knows about caches, timeouts and certificates.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const CLIENT: &str = "debuginfod-find";

/// Whom to ask.
#[derive(Debug, Default)]
pub(crate) struct Network {
    client: Option<OsString>,
}

impl Network {
    /// The client, if `DEBUGINFOD_URLS` names any server.
    pub(crate) fn from_environment() -> Self {
        let asked =
            std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.to_string_lossy().trim().is_empty());
        Self { client: asked.then(|| CLIENT.into()) }
    }

    /// Asks for the debug file of a build: where it has been put, or why it has not. `None` if nobody is to be asked.
    /// Takes as long as the download does.
    pub(crate) fn fetch(&self, id: &[u8]) -> Option<Result<PathBuf, String>> {
        self.client.as_deref().filter(|_| !id.is_empty()).map(|client| run(client, id))
    }
}

fn run(client: &OsStr, id: &[u8]) -> Result<PathBuf, String> {
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new(client);
    command.args(["debuginfo", &id]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| {
        format!(
            "DEBUGINFOD_URLS is set, but {CLIENT} cannot be started: {error} (Debian: apt install debuginfod)"
        )
    })?;
    let path = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    match output.status.success() && path.starts_with('/') {
        true => Ok(path.into()),
        false => Err(format!("the servers of DEBUGINFOD_URLS have none for build {id}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn network(script: &str) -> (tempfile::TempDir, Network) {
        let folder = tempfile::tempdir().expect("a folder");
        let client = folder.path().join("client");
        std::fs::write(&client, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).expect("executable");
        (folder, Network { client: Some(client.into()) })
    }

    #[test]
    fn nobody_is_asked_unless_the_user_says_so() {
        assert_eq!(Network::default().fetch(&[1, 2]), None);
        let (_folder, network) = network("exit 1");
        assert_eq!(network.fetch(&[]), None, "a program without build id cannot be asked for");
    }

    #[test]
    fn the_client_is_given_the_build_id_and_answers_with_a_path() {
        let (_folder, network) = network("echo \"/cache/$2/$1\"");
        assert_eq!(network.fetch(&[0xab, 0x01]), Some(Ok(PathBuf::from("/cache/ab01/debuginfo"))));
    }

    #[test]
    fn what_failed_is_said() {
        let (_folder, none) = network("exit 1");
        let why = none.fetch(&[0xab]).expect("asked").expect_err("not there");
        assert!(why.contains("have none for build ab"), "{why}");
        let missing = Network { client: Some("/nowhere/client".into()) };
        let why = missing.fetch(&[0xab]).expect("asked").expect_err("no client");
        assert!(why.contains("apt install debuginfod"), "{why}");
    }
}

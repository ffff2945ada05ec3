//! Opening a browser, where there is one to open.

use std::{
    env,
    io::Write,
    process::{Command, Stdio},
};
use tempfile::NamedTempFile;

/// Opens the page in the user's browser; `None` if there is nothing to open it with. The file that is given back leads
/// there, and is needed until the browser has read it: an address on a command line could be read by every
/// user of the machine, with its token.
pub(super) fn open(address: &str) -> Option<NamedTempFile> {
    // A browser does not belong to root, and on a remote machine nobody sees it.
    let shown = ["WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| env::var_os(name).is_some());
    if !shown || env::var_os("SSH_CONNECTION").is_some() || nix::unistd::geteuid().is_root() {
        return None;
    }
    let mut page = tempfile::Builder::new().prefix("coz-bpf-").suffix(".html").tempfile().ok()?;
    page.write_all(leading_to(address).as_bytes()).ok()?;
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
    };
    quiet(Command::new("xdg-open").arg(page.path())).then_some(page)
}

/// The address is ours: nothing in it needs to be escaped.
fn leading_to(address: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\"><a href=\"{address}\">coz-bpf</a>\n"
    )
}

//! The page of a profile, as a browser shows it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::sh;

/// Width and height of the window: all of the page's parts are in it.
const WINDOW: &str = "--window-size=1600,1550";
/// Time that the page has to draw itself, milliseconds of its own clock.
const PATIENCE: &str = "--virtual-time-budget=3000";

/// Has the page written, opens it in Chromium without a screen, and keeps what is seen.
///
/// # Errors
/// When the profile cannot be read, Chromium is not there or fails, or the picture cannot be written.
pub(super) fn draw(profile: &Path, output: &Path) -> Result<()> {
    if sh::find("chromium").is_none() {
        bail!("chromium is not there: `apt-get install -y --no-install-recommends chromium`");
    }
    let folder = tempfile::tempdir().context("cannot make a folder for the page")?;
    let page = folder.path().join("page.html");
    let shot = folder.path().join("page.png");
    sh::run(Command::new(crate::profiler(true)?).arg("report").arg("--html").arg(&page).arg(profile))?;
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--hide-scrollbars", "--force-device-scale-factor=1", WINDOW, PATIENCE]);
    if sh::is_root() {
        browser.arg("--no-sandbox");
    }
    browser.arg(format!("--user-data-dir={}", folder.path().join("browser").display()));
    browser.arg(format!("--screenshot={}", shot.display())).arg(format!("file://{}", page.display()));
    // What it says of a machine without a screen and a bus is of no interest, unless it fails.
    let said = browser.output().context("cannot start chromium")?;
    let said = String::from_utf8_lossy(&said.stderr);
    ensure!(shot.is_file(), "chromium has made no picture: {said}");
    fs::copy(&shot, output).map(drop).with_context(|| format!("cannot write {}", output.display()))
}

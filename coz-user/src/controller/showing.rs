//! What a session shows while it goes on: the page, the status line, the kernel side's own words, and that the file takes no more.

use super::{session::Session, subject::Subject};
use crate::{commands, kernel::control::now, target::identity::Identity, view::Beside};

impl Session {
    /// `--live`. The program runs by now: what goes wrong with the page is said, and no more.
    pub(super) fn show_page(&mut self) {
        let Some(port) = self.config.live else { return };
        let file = &self.config.output;
        // The sources are read as whoever looks at them could.
        let page =
            Identity::resolve(None).and_then(|viewer| Beside::start(file, port, &viewer, commands::page()));
        match page {
            Ok(page) => {
                self.voice.complain(&format!("the page: {}", page.address()));
                self.page = Some(page);
            }
            Err(error) => self.voice.complain(&format!("no page: {error:#}")),
        }
    }

    pub(super) fn show_status(&mut self) {
        if !self.voice.has_status() {
            return;
        }
        let elapsed = now().since(self.released);
        let waiting = self.ready.attribution.is_waiting() && !self.table_ready;
        let visits = self.ready.points.visits(&self.ready.kernel).unwrap_or_default();
        let busiest = visits.iter().map(|point| point.visits).max();
        let mut status = self.progress.status(elapsed, busiest, waiting, self.recorder.kept());
        status.note = self.run_number().or(status.note);
        status.attached = match &self.subject {
            Subject::Attached(_) => Some(self.ready.program.concat()),
            Subject::Launched(_) => None,
        };
        self.voice.status(&status);
    }

    pub(super) fn print_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }

    /// The file takes no more: the run goes on, and the report has it all.
    pub(super) fn check_file(&mut self) {
        if let Some(error) = self.recorder.refused() {
            let path = self.config.output.display();
            self.voice.complain(&format!(
                "{path}: {error}. The program and the experiments go on; the report at the end has all of them"
            ));
        }
    }
}

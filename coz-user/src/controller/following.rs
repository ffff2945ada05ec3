//! What the kernel and the symbols tell during a run: processes that appear, code that they map, lines that become known.

use coz_common::abi::{EVENT_EXEC, EVENT_EXIT, Event as KernelEvent, MAX_RANGES, Process, Range};

use super::{attribution::ResolvedPage, fixed, registrar::Registered, session::Session, setup};
use crate::{experiment::machine::Event, target::process};

impl Session {
    pub(super) fn registered(&mut self, registered: Registered) {
        let filters = process::status(registered.pid as i32)
            .ok()
            .flatten()
            .and_then(|status| status.seccomp_filters)
            .unwrap_or(0);
        self.describe(registered.pid, |process| {
            process.handler = registered.handler;
            process.seccomp_filters = filters;
        });
    }

    /// Tells the kernel where a process's code is, and what else has become known of it.
    fn describe(&mut self, pid: u32, change: impl FnOnce(&mut Process)) {
        let Ok(Some(mappings)) = process::code_mappings(pid as i32) else { return };
        let main = setup::executable(pid);
        let (ranges, left_out) = self.ready.attribution.ranges(&mappings, main.as_deref());
        if left_out > 0 {
            self.ready.notices.push(format!(
                "process {pid} has {left_out} more mappings in scope than this version can follow; narrow \
                 --scope-binary"
            ));
        }
        let mut process = self.ready.kernel.process(pid).ok().flatten().unwrap_or(Process {
            handler: 0,
            seccomp_filters: 0,
            range_count: 0,
            ranges: [Range::default(); MAX_RANGES],
        });
        process.range_count = ranges.len() as u32;
        process.ranges[..ranges.len()].copy_from_slice(&ranges);
        change(&mut process);
        if let Err(error) = self.ready.kernel.set_process(pid, &process) {
            self.ready.notices.push(format!("{error:#}"));
        }
    }

    pub(super) fn kernel_events(&mut self) {
        let mut news: Vec<KernelEvent> = Vec::new();
        while let Some(item) = self.events.get_mut().next() {
            if item.len() >= size_of::<KernelEvent>() {
                // SAFETY: the kernel side writes this very struct (integers only); the ring aligns to 8 bytes, and
                // an unaligned read would do as well.
                news.push(unsafe { item.as_ptr().cast::<KernelEvent>().read_unaligned() });
            }
        }
        for event in news {
            self.family.heard(&event);
            match event.kind {
                // A handler that has registered since the exec stays.
                EVENT_EXEC => self.describe(event.tgid, |_| {}),
                EVENT_EXIT => self.ready.kernel.forget_process(event.tgid),
                _ => {}
            }
        }
    }

    pub(super) fn look_up(&mut self) -> bool {
        match self.ready.kernel.take_pending() {
            Ok(pending) => {
                let fresh = !pending.is_empty();
                self.ready.attribution.look_up(pending);
                fresh || self.ready.attribution.is_waiting()
            }
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    pub(super) fn resolved(&mut self, page: &ResolvedPage) {
        if let Err(error) = self.ready.kernel.add_page(&mut self.space, page.key, &page.entries) {
            self.ready.notices.push(format!("{error:#}"));
            return;
        }
        self.ready.attribution.arrived(page);
        if let Some(fixed) = &self.config.fixed
            && self.ready.fixed.is_none()
            && let Some(line) = fixed::in_page(fixed, &self.ready.attribution, page)
        {
            self.tell(Event::FixedLine(line));
        }
        if self.can_delay && !self.table_ready && page.entries.iter().any(|entry| entry.line != 0) {
            self.table_ready = true;
            self.tell(Event::TableReady);
        }
    }
}

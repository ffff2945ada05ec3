//! What the kernel and the symbols tell during a run: processes that appear, code that they map, lines that become known.

use anyhow::Result;
use coz_common::{
    abi::{EVENT_EXEC, EVENT_EXIT, EVENT_FORK, EVENT_LEFT, Event as KernelEvent, PageKey, Process},
    unwind::{EVENT_WANTED, OTHER_USER, Range, Wanted},
};

use super::{
    attribution::ResolvedPage, fixed, members, registrar::Registered, session::Session, setup::Ready,
    unwinding::Rows,
};
use crate::{experiment::machine::Event, kernel::control::now, target::process};

impl Session {
    pub(super) fn registered(&mut self, registered: Registered) {
        let Registered { pid, handler, book } = registered;
        // Nothing is sent before the handler is known.
        let waits = self.asks_filters(pid, handler);
        let uid = self.user_of(book);
        self.describe(pid, |process| {
            process.handler = if waits { 0 } else { handler };
            process.seccomp_filters = 0;
            (process.book, process.uid) = (book, uid);
        });
    }

    /// Tells the kernel where a process's code is, and what else has become known of it. Whether that is news.
    pub(super) fn describe(&mut self, pid: u32, change: impl FnOnce(&mut Process)) -> bool {
        let Ok(Some(mappings)) = process::code_mappings(pid as i32) else { return false };
        // It has ended.
        if mappings.is_empty() {
            return false;
        }
        let main = members::executable(pid);
        let (ranges, left_out) = self.ready.attribution.ranges(pid, &mappings, main.as_deref());
        if left_out > 0 {
            self.ready.notices.push(format!(
                "process {pid} has {left_out} more executable mappings than this version can follow: samples there count \
                 for no line"
            ));
        }
        let known = self.ready.kernel.process(pid).ok().flatten();
        let mut process = known.unwrap_or_default();
        if let Some(number) = self.spaces.new_for(&process, &ranges) {
            if let Err(error) = self.add_space(number, &ranges) {
                self.ready.notices.push(format!("{error:#}"));
                return false;
            }
            process.space = number;
        }
        change(&mut process);
        if known == Some(process) {
            return false;
        }
        if let Err(error) = self.ready.kernel.set_process(pid, &process) {
            self.ready.notices.push(format!("{error:#}"));
        }
        true
    }

    fn add_space(&mut self, number: u32, ranges: &[Range]) -> Result<()> {
        if self.spaces.are_many() {
            let gone = self.ready.kernel.sweep_spaces(number)?;
            self.spaces.forget(&gone);
        }
        self.ready.kernel.add_space(number, ranges)
    }

    /// The kernel has met code that it does not know.
    fn wanted(&mut self, event: &KernelEvent) {
        match event.tid {
            0 => {
                let news = self.describe(event.tgid, |_| {});
                self.spaces.looked_at(event.tgid, news, now());
            }
            OTHER_USER => self.changed_user(event.tgid),
            module => {
                let key = PageKey { module, page: event.other };
                if let Some(found) = self.ready.attribution.module(module)
                    && !self.ready.unwinding.ask(found, key)
                {
                    self.ready.kernel.may_ask_again(Wanted { module, what: event.other });
                }
            }
        }
    }

    /// From time to time the kernel may ask again about code that could not be found.
    pub(super) fn may_ask_again(&mut self) {
        for wanted in self.spaces.due(now()) {
            self.ready.kernel.may_ask_again(wanted);
        }
    }

    /// A page's rows have come.
    pub(super) fn rows_read(&mut self, read: &Rows) {
        let Ready { kernel, unwinding, notices, .. } = &mut self.ready;
        match kernel.add_rows(&mut unwinding.space, read.key, &read.rows) {
            Ok(()) => {
                unwinding.is_known(read.key);
                kernel.may_ask_again(Wanted { module: read.key.module, what: read.key.page });
            }
            // The request stays: it is not made again.
            Err(error) if !unwinding.is_full => {
                unwinding.is_full = true;
                notices.push(format!("{error:#}"));
            }
            Err(_) => {}
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
                EVENT_FORK => self.forked(event.tgid, event.other),
                // A handler that has registered since the exec stays.
                EVENT_EXEC => {
                    self.executed(event.tgid);
                    self.may_tell_of_user(event.tgid);
                    self.ready.attribution.ended(event.tgid);
                    self.describe(event.tgid, |_| {});
                    self.spaces.looked_at(event.tgid, true, now());
                }
                EVENT_EXIT | EVENT_LEFT => {
                    if event.kind == EVENT_LEFT {
                        self.ready.notices.push(format!(
                            "process {} left the profile: it executed a program with other rights (set-user-ID), into which \
                             nobody may reach",
                            event.tgid
                        ));
                    }
                    if let Some(guests) = &mut self.ready.guests {
                        guests.ended(event.tgid);
                    }
                    self.filters.remove(&event.tgid);
                    self.may_tell_of_user(event.tgid);
                    self.ready.attribution.ended(event.tgid);
                    self.ready.kernel.forget_process(event.tgid);
                    let open = self.spaces.ended(event.tgid);
                    self.ready.kernel.may_ask_again(open);
                }
                EVENT_WANTED => self.wanted(&event),
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

    /// Code may have been unloaded, or made, without anybody telling.
    pub(super) fn look_again(&mut self) {
        self.ready.attribution.read_on();
        let began = now();
        let Some(pid) = self.rounds.next(self.family.alive(), began) else { return };
        // Who is not known has not begun, or has ended.
        if self.ready.kernel.process(pid).is_ok_and(|known| known.is_some()) {
            self.describe(pid, |_| {});
            self.look_at_filters(pid);
            self.look_at_user(pid);
        }
        let after = now();
        self.rounds.took(after.since(began), after);
    }

    pub(super) fn resolved(&mut self, page: &ResolvedPage) {
        if let Err(error) = self.ready.kernel.add_nests(&mut self.space, &page.nests) {
            self.ready.notices.push(format!("{error:#}"));
            return;
        }
        if !self.ready.attribution.is_news(page) {
            self.ready.attribution.arrived(page);
            return;
        }
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
        self.has_lines |= page.entries.iter().any(|entry| entry.line != 0);
        self.open_table();
    }

    /// Experiments make sense when there are lines, and somebody who can be delayed.
    pub(super) fn open_table(&mut self) {
        if self.can_delay && self.has_lines && !self.table_ready {
            self.table_ready = true;
            self.tell(Event::TableReady);
        }
    }
}

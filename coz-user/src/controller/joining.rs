//! Programs that run already: how they join the profiled set, are entered so that they can be delayed, and are let go.

use std::time::Duration;

use coz_common::{abi::Stat, units::Nanos};

use super::{
    guests::{Answer, Guests},
    session::Session,
    subject::{End, Subject},
};
use crate::{
    kernel::control::now,
    target::{
        binary::Linking,
        inject::{Entered, Refused},
        shim,
    },
};

/// It is looked this often who belongs to the set: what is started in it, the kernel sees at once.
const SCAN: Nanos = Nanos(1_000_000_000);
/// A program that has just begun is entered so much later: many are over before that.
const SETTLED: Nanos = Nanos(100_000_000);
/// The program that was started is not: it is what the profile is about.
const BEGUN: Nanos = Nanos(5_000_000);
/// A sample that was being taken when sampling stopped is over after this.
const LAST_SAMPLE: Duration = Duration::from_millis(2);

impl Session {
    /// Those that run already join.
    pub(super) fn begin(&mut self) {
        if !self.subject.is_attached() {
            return;
        }
        self.look_for_members();
        let joined = self.family.alive().count();
        let entering = if self.ready.guests.is_some() {
            ""
        } else {
            "; nothing is put into them, and nothing is delayed"
        };
        self.voice.mention(&format!(
            "attached to {}: {joined} process{}{entering}",
            self.ready.program.concat(),
            if joined == 1 { "" } else { "es" }
        ));
    }

    /// Takes in who belongs to the set and is not in it yet, and sees whether anybody is left.
    pub(super) fn look_for_members(&mut self) {
        self.enter_those_due();
        let Subject::Attached(members) = &mut self.subject else { return };
        if members.are_over(self.family.alive().next().is_some()) {
            self.ending.get_or_insert(End::Empty);
            return;
        }
        let at = now();
        if at < self.next_scan {
            return;
        }
        self.next_scan = Nanos(at.0.saturating_add(SCAN.0));
        let found = match members.now() {
            Ok(found) => found,
            Err(error) => return self.fail(error),
        };
        for pid in self.family.bury() {
            self.ready.kernel.forget_process(pid);
        }
        for pid in found {
            if self.family.joined(pid) && self.ready.kernel.process(pid).is_ok_and(|known| known.is_none()) {
                self.describe(pid, |_| {});
                if let Some(guests) = &mut self.ready.guests {
                    guests.enter(pid);
                }
            }
        }
        if let Err(error) = self.ready.kernel.admit() {
            self.fail(error);
        }
    }

    /// A process of the set has forked.
    pub(super) fn forked(&mut self, child: u32, parent: u32) {
        let Some(origin) = self.ready.guests.as_mut().and_then(|guests| guests.forked(child, parent)) else {
            return;
        };
        // The kernel side has copied what it knew of the parent just then: that may have been before we told it.
        let known = self.ready.kernel.process(child).ok().flatten();
        if known.is_none_or(|process| process.handler == 0)
            && let Some(entered) = origin.inherited_by(child.cast_signed())
        {
            self.has_handler(child, &entered);
        }
    }

    /// A process of the set has another program now: nothing of ours is in it, unless it loads the shim.
    pub(super) fn executed(&mut self, pid: u32) {
        let Some(guests) = &mut self.ready.guests else { return };
        guests.ended(pid);
        self.entering.retain(|&(_, waiting)| waiting != pid);
        let at_once = self.subject.is_first(pid) && Linking::of(pid) == Linking::Static;
        self.enter_later(pid, if at_once { BEGUN } else { SETTLED });
    }

    fn enter_later(&mut self, pid: u32, wait: Nanos) {
        self.entering.push((Nanos(now().0.saturating_add(wait.0)), pid));
    }

    /// Enters those that have been at it for long enough, and have no handler by then.
    fn enter_those_due(&mut self) {
        let at = now();
        let (due, later) = self.entering.iter().partition::<Vec<_>, _>(|(due, _)| *due <= at);
        self.entering = later;
        for (_, pid) in due {
            let known = self.ready.kernel.process(pid).ok().flatten();
            if known.is_none_or(|process| process.handler != 0) {
                continue;
            }
            // Its filters do not allow it, or have not been asked yet.
            if shim::is_in(pid) {
                continue;
            }
            if shim::is_expected(pid) {
                self.enter_later(pid, SETTLED);
            } else if let Some(guests) = &mut self.ready.guests {
                guests.enter(pid);
            }
        }
    }

    /// It was tried to enter a process, or to ask its filters.
    pub(super) fn answered(&mut self, answer: Answer) {
        // Of a process that has ended, whom it had forked before is told there.
        self.kernel_events();
        match answer {
            Answer::Entered(pid, result) => self.entered(pid, result),
            Answer::Asked(pid, handler, result) => self.filters_answered(pid, handler, result),
            Answer::Rebooked(pid, before, result) => self.rebooked(pid, before, result),
        }
    }

    fn entered(&mut self, pid: u32, result: Result<Entered, Refused>) {
        let Some(guests) = &mut self.ready.guests else { return };
        let refused = result.as_ref().err().map(ToString::to_string);
        // One that has ended may have become a daemon: its child.
        let was_refused = result.as_ref().is_err_and(|why| !matches!(why, Refused::Gone));
        let entered = guests.answered(pid, result);
        let children = guests.waiting_for(pid, entered.as_deref(), was_refused);
        let settled = guests.is_settled() && guests.count() > 0;
        if let Some(why) = refused {
            self.voice.mention(&format!("process {pid} is not delayed: {why}"));
        }
        let with_handler = entered.map(|entered| (pid, entered)).into_iter().chain(children);
        for (pid, entered) in with_handler {
            self.ready.notices.extend(entered.notices().iter().cloned());
            self.has_handler(pid, &entered);
        }
        if settled && !self.can_delay {
            self.can_delay = true;
            self.open_table();
            self.look_for_points();
        }
    }

    fn has_handler(&mut self, pid: u32, entered: &Entered) {
        let (handler, filters, book) = (entered.handler(), entered.seccomp_filters(), entered.book());
        let uid = self.user_of(book);
        self.describe(pid, |process| {
            process.handler = handler;
            process.seccomp_filters = filters;
            (process.book, process.uid) = (book, uid);
        });
    }

    /// The program that was started has ended: those of its processes that run on and were entered are left.
    pub(super) fn leave_the_rest(&mut self) {
        if let Some(guests) = self.ready.guests.take() {
            self.ready.notices.extend(guests.notices());
            self.unblock(guests);
        }
    }

    /// Lets programs of others go: nobody is asked to pay any more, what was put into them is taken out, probes are taken away.
    /// What was counted stays to be read.
    pub(super) fn detach(&mut self) {
        let began = now();
        self.ready.kernel.end();
        self.ready.kernel.stop_sampling();
        let sampled = now();
        if let Some(guests) = self.ready.guests.take() {
            self.ready.notices.extend(guests.notices());
            self.unblock(guests);
        }
        let left = now();
        self.detaching = Some(self.ready.kernel.detach_points());
        if self.config.talk.verbose > 0 {
            let ms = |from: Nanos, to: Nanos| to.since(from).0 as f64 / 1e6;
            self.voice.mention(&format!(
                "detached within {:.1} ms (sampling {:.1}, handlers {:.1}); {} threads had joined while they ran",
                ms(began, now()),
                ms(began, sampled),
                ms(sampled, left),
                self.ready.kernel.stats().map_or(0, |stats| stats.get(Stat::Admitted)),
            ));
        }
    }

    fn unblock(&mut self, guests: Guests) {
        if guests.count() > 0 {
            std::thread::sleep(LAST_SAMPLE);
        }
        self.ready.notices.extend(guests.leave(&mut self.ready.answers, self.family.alive()));
    }
}

//! Processes that become another user's: a server that begins as root and has its work done by others (`setuid`). What such a process has
//! paid, it is to say in that user's book and in no other.

use coz_common::{
    abi::NO_BOOK,
    unwind::{OTHER_USER, Wanted},
};

use super::session::Session;
use crate::target::{inject::Refused, process};

impl Session {
    /// Whose a book is; 0 of nobody's, in which nothing is paid.
    pub(super) fn user_of(&self, book: u32) -> u32 {
        self.ready.kernel.books.user(book as usize).unwrap_or_default()
    }

    /// A thread of this process, or all of them, is another user's by now than the one whose book it has: it is asked to pay no more until
    /// it has that user's.
    pub(super) fn changed_user(&mut self, pid: u32) {
        let known = self.ready.kernel.process(pid).ok().flatten();
        match (known.filter(|known| known.book != u32::from(NO_BOOK)), &mut self.ready.guests) {
            (Some(known), Some(guests)) => guests.rebook(pid, known.book),
            // It has ended, or executes something else.
            _ => self.may_tell_of_user(pid),
        }
    }

    /// Those that are never met by a sample are looked at, too.
    pub(super) fn look_at_user(&mut self, pid: u32) {
        let Ok(Some(known)) = self.ready.kernel.process(pid) else { return };
        let Ok(Some(status)) = process::status(pid.cast_signed()) else { return };
        if known.book != u32::from(NO_BOOK) && status.uids[0] != known.uid {
            self.changed_user(pid);
        }
    }

    /// It was tried to give a process another book than `before`.
    pub(super) fn rebooked(&mut self, pid: u32, before: u32, result: Result<u32, Refused>) {
        match result {
            Ok(book) => {
                let uid = self.user_of(book);
                self.describe(pid, |process| {
                    if process.book == before {
                        (process.book, process.uid) = (book, uid);
                    }
                });
                if let Some(guests) = &mut self.ready.guests {
                    guests.has_book(pid, book);
                }
                self.may_tell_of_user(pid);
            }
            Err(Refused::Gone) => self.may_tell_of_user(pid),
            Err(why) => {
                let user = self.user_of(before);
                let text = format!(
                    "process {pid} has become another user's and is not delayed any more: {why}. The table in which it can write \
                     what was paid is still that of user {user}"
                );
                self.voice.mention(&text);
                self.ready.notices.push(text);
            }
        }
    }

    /// The kernel side may say it of this process once more.
    pub(super) fn may_tell_of_user(&mut self, pid: u32) {
        self.ready.kernel.may_ask_again(Wanted { module: OTHER_USER, what: pid });
    }
}

//! Another table of payments for a process that has one: it has become another user's.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use super::{
    Given, Giver, attempt,
    gate::Gate,
    look,
    moment::Patience,
    program::Program,
    refused::Refused,
    seat::{self, Seat},
};
use crate::target::process;

/// What tables of payments are called in `/proc/PID/maps`.
const NAME: &str = "anon_inode:bpf-map";
/// So long it is waited until all threads have become the new user's: one after the other does.
const ONE_USER: Duration = Duration::from_secs(1);
/// And until none is paying: what it has paid goes into the table that it began with.
const NOBODY_PAYS: Duration = Duration::from_secs(2);
/// How often is looked.
const OFTEN: Duration = Duration::from_millis(2);

/// Gives a process, which was entered or has the shim, the table of the user that it is by now, in the place of the one that it had and can
/// not reach any more then; the number of the new one. `is_paying`: whether one of its threads is. What is `given` goes by its user.
///
/// Blocks for some seconds at most.
///
/// # Errors
/// [`Refused`]: it has the one that it had.
pub fn rebook(
    pid: i32,
    given: &Giver<'_>,
    is_paying: &dyn Fn() -> bool,
    over: &(dyn Fn() -> bool + Sync),
) -> Result<u32, Refused> {
    let failed = |error| Refused::Failed { what: "give it another table of payments", error };
    let program = Program::of(pid).map_err(look::trouble)?;
    let gate = Gate::find(pid).map_err(look::trouble)?;
    let pidfd = super::pidfd(pid).map_err(look::trouble)?;
    let user = its_user(pid)?;
    // What has to be made for a user is made before a thread is stopped.
    given(user).map_err(failed)?;
    let begun = Instant::now();
    // One that claims to pay all the time gets it all the same.
    while is_paying() && begun.elapsed() < NOBODY_PAYS && !over() {
        thread::sleep(OFTEN);
    }
    let done = attempt::with_one_stopped(
        pid,
        &program,
        gate,
        Patience::ENTER,
        over,
        |_| false,
        |held| {
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(look::trouble)?;
            let address = only_table(&maps).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
            let Given { book, maps } = given(look::user(pid)?).map_err(failed)?;
            let [.., payments, _] = &maps;
            Seat::replace_payments(held, payments, address, &pidfd).map_err(Refused::by)?;
            Ok(book)
        },
    )?;
    Ok(done.value)
}

/// The user whose all of its threads are.
fn its_user(pid: i32) -> Result<u32, Refused> {
    let begun = Instant::now();
    loop {
        let threads = process::threads(pid).ok().flatten().ok_or(Refused::Gone)?;
        let mut users: Vec<u32> =
            threads.into_iter().filter_map(|tid| Some(look::thread(pid, tid)?.uids[0])).collect();
        users.sort_unstable();
        users.dedup();
        match users[..] {
            [] => return Err(Refused::Gone),
            [user] => return Ok(user),
            _ if begun.elapsed() > ONE_USER => return Err(Refused::SeveralUsers),
            _ => thread::sleep(OFTEN),
        }
    }
}

/// Where a process has its table of payments, by the text of `/proc/PID/maps`; `None` where it has none, or several things that may be it.
fn only_table(maps: &str) -> Option<u64> {
    let mut found = maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        let is_written = words.next()?.starts_with("rw-s");
        let is_map = words.nth(3)?.starts_with(NAME);
        (is_written && is_map && to.checked_sub(from)? == seat::TABLE).then_some(from)
    });
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_known_by_its_size_and_by_being_written() {
        let line = |from: u64, length: u64, access: &str| {
            format!(
                "{from:x}-{:x} {access} 00000000 00:0e 2062                       anon_inode:bpf-map\n",
                from + length
            )
        };
        let others = line(0x1000, 4096, "r--s")
            + &line(0x10_0000, 4 * seat::TABLE, "r--s")
            + &line(0x70_0000, 32768, "rw-s");
        let heap =
            format!("{:x}-{:x} rw-p 00000000 00:00 0    [heap]\n", 0x900_0000, 0x900_0000 + seat::TABLE);
        let table = line(0x80_0000, seat::TABLE, "rw-s");
        assert_eq!(only_table(&(others.clone() + &heap + &table)), Some(0x80_0000));
        assert_eq!(only_table(&(others + &heap)), None);
        let second = line(0xa0_0000, seat::TABLE, "rw-s");
        assert_eq!(only_table(&(table + &second)), None, "one that was copied is no riddle to be guessed");
    }

    #[test]
    fn all_threads_of_ours_are_one_users() {
        let us = std::process::id().cast_signed();
        assert_eq!(its_user(us).unwrap(), nix::unistd::getuid().as_raw());
        assert!(matches!(its_user(i32::MAX), Err(Refused::Gone)));
    }
}

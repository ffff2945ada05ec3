//! Which functions are the best candidates for a progress point, where the user has named none.

use super::Candidate;
use std::collections::HashMap;

/// So many are named.
const SHOWN: usize = 5;
/// Words in the names of functions that do a piece of work, best first.
const WORDS: [&str; 14] = [
    "progress",
    "request",
    "transaction",
    "commit",
    "iteration",
    "process",
    "handle",
    "job",
    "item",
    "task",
    "step",
    "frame",
    "work",
    "run",
];
/// Entered once, or by the runtime.
const ONCE: [&str; 6] = ["main", "init", "setup", "exit", "usage", "parse_args"];

/// The specs of the likeliest candidates, best first: functions whose names say that they do a piece of work, those that were
/// sampled before the others, then those with the most samples. `samples` are by function.
#[must_use]
pub fn suggest(candidates: &[Candidate], samples: &HashMap<String, u64>) -> Vec<String> {
    let mut rated: Vec<(usize, u64, &Candidate)> = candidates
        .iter()
        .filter(|candidate| !is_once(&candidate.name))
        .map(|candidate| {
            let word = word(&candidate.name);
            (word, samples.get(&candidate.name).copied().unwrap_or(0), candidate)
        })
        .filter(|(word, samples, _)| *word < WORDS.len() || *samples > 0)
        .collect();
    // A word outweighs samples; among functions without one, the hot ones come first. Of a library's thousand names some
    // sound like work by chance: what was seen at work comes first, but for what can only be a progress point.
    let kind = |&(word, samples, _): &(usize, u64, &Candidate)| match (word < WORDS.len(), samples > 0) {
        (true, seen) if seen || word == 0 => 0,
        (true, _) => 1,
        (false, _) => 2,
    };
    rated.sort_by(|a, b| {
        let key = |r: &(usize, u64, &Candidate)| (kind(r), r.0, std::cmp::Reverse(r.1));
        key(a).cmp(&key(b)).then_with(|| a.2.name.cmp(&b.2.name))
    });
    rated.into_iter().take(SHOWN).map(|(.., candidate)| candidate.spec.clone()).collect()
}

/// At most `most` of the candidates: first those whose names say that they do a piece of work, then the largest.
#[must_use]
pub fn likely(mut candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    candidates.retain(|candidate| !is_once(&candidate.name));
    candidates.sort_by_cached_key(|candidate| {
        (word(&candidate.name), std::cmp::Reverse(candidate.size), candidate.name.clone())
    });
    candidates.truncate(most);
    candidates
}

/// Which of the words stands in a function's own name, at the beginning of a part of it (`handleRequest`, `run_jobs`): its place, or
/// their number if none does. What is "in progress" is a state.
fn word(name: &str) -> usize {
    let name = name.split('(').next().unwrap_or(name);
    let name = name.rsplit("::").next().unwrap_or(name);
    let mut parts = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !parts.ends_with(|last: char| last.is_uppercase() || last == '_') {
            parts.push('_');
        }
        parts.push(c);
    }
    let parts = parts.to_lowercase();
    let begins = |word: &str| match word {
        "progress" => parts == word,
        _ => parts.split('_').any(|part| part.starts_with(word)),
    };
    WORDS.iter().position(|word| begins(word)).unwrap_or(WORDS.len())
}

fn is_once(name: &str) -> bool {
    let end = name.split('(').next().unwrap_or(name);
    let end = end.rsplit("::").next().unwrap_or(end);
    ONCE.contains(&end) || end.starts_with("init_") || end.ends_with("_init") || end.starts_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str) -> Candidate {
        Candidate {
            name: name.into(),
            symbol: name.into(),
            spec: name.into(),
            location: None,
            address: 0,
            size: 0,
        }
    }

    #[test]
    fn functions_that_sound_like_work_come_first_then_hot_ones() {
        let all = ["main", "app::init", "hash", "app::handle_request(int)", "mix", "idle", "progress"];
        let samples =
            HashMap::from([("hash".to_owned(), 10), ("mix".to_owned(), 90), ("main".to_owned(), 5)]);
        let best = suggest(&all.map(candidate), &samples);
        assert_eq!(best, ["progress", "app::handle_request(int)", "mix", "hash"]);
    }

    #[test]
    fn what_was_seen_at_work_comes_before_what_only_sounds_like_it() {
        let all = ["aofFsyncInProgress", "truncate", "runTests", "processCommand", "call"].map(candidate);
        let samples = HashMap::from([("processCommand".to_owned(), 7), ("call".to_owned(), 90)]);
        assert_eq!(suggest(&all, &samples), ["processCommand", "runTests", "call"]);
    }

    #[test]
    fn the_likeliest_are_looked_at_first() {
        let mut all = ["main", "small", "handle_it", "large"].map(candidate);
        all[3].size = 100;
        let names: Vec<String> = likely(all.to_vec(), 2).into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["handle_it", "large"]);
    }

    #[test]
    fn nothing_is_made_up() {
        assert!(suggest(&["main", "_start"].map(candidate), &HashMap::new()).is_empty());
    }
}

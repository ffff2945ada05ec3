//! Which line of one profile is which of the other, though the file was edited in between.
//!
//! From the surest to the least sure: the same text in the same function; the same text elsewhere in the file; a similar text in
//! the same function; the same number, where a text is not known. What then is left of a function on both sides was rewritten,
//! and is compared as a whole: three lines that took 60 % are two that take 20 %.

use super::places::Place;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Texts that agree in less than this part of their characters are not the same line.
const SIMILAR: f64 = 0.6;

/// How a line was found again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The same text in the same function, or the same function.
    Same,
    /// The same text in another function of the file.
    Moved,
    /// A similar text in the same function.
    Edited,
    /// The same number: what stands there is not known.
    Number,
    /// Its function has other lines now: compared as a whole.
    Rewritten,
    /// It has no samples any more, and nothing took its place.
    #[default]
    Gone,
}

/// Positions of lines before, and of lines after.
type Group = (Vec<usize>, Vec<usize>);

/// Lines of one side by their positions in its list of places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    of_before: Vec<(How, Option<usize>)>,
    /// Rewritten together: positions before, positions after.
    groups: Vec<Group>,
    unmatched: BTreeSet<usize>,
}

impl Matches {
    /// How line `i` of before was found.
    #[must_use]
    pub fn how(&self, i: usize) -> How {
        self.of_before.get(i).map_or(How::Gone, |(how, _)| *how)
    }

    /// Which line of after it is.
    #[must_use]
    pub fn after(&self, i: usize) -> Option<usize> {
        self.of_before.get(i)?.1
    }

    /// What is to be compared for line `i` of before: lines before, and lines after.
    #[must_use]
    pub fn together(&self, i: usize) -> (Vec<usize>, Vec<usize>) {
        let group = self.groups.iter().find(|(before, _)| before.contains(&i));
        group.cloned().unwrap_or_else(|| (vec![i], self.after(i).into_iter().collect()))
    }

    /// Lines of after that are none of before, and whether they replace some.
    pub fn appeared(&self) -> impl Iterator<Item = (usize, bool)> {
        self.unmatched.iter().map(|&j| (j, self.groups.iter().any(|(_, after)| after.contains(&j))))
    }
}

/// Matches the lines of two profiles.
#[must_use]
pub fn matches(before: &[Place], after: &[Place]) -> Matches {
    let mut work = Work::new(before, after);
    work.by_key(How::Same, |place, _| place.source.is_none().then(|| vec![place.location.clone()]));
    work.by_key(How::Same, |place, file| {
        Some(vec![file?.to_owned(), place.function.clone(), place.text.clone()?])
    });
    work.by_key(How::Moved, |place, file| {
        // A lone brace is everywhere.
        let text =
            place.text.clone().filter(|text| text.chars().filter(|c| c.is_alphanumeric()).count() >= 3)?;
        Some(vec![file?.to_owned(), text])
    });
    work.by_likeness();
    let number = |place: &Place| place.source.as_ref().map(|(_, line)| line.to_string());
    work.by_key_unknown(|place, file| Some(vec![file?.to_owned(), place.function.clone(), number(place)?]));
    work.by_key_unknown(|place, file| Some(vec![file?.to_owned(), number(place)?]));
    work.rewritten()
}

struct Work<'a> {
    before: &'a [Place],
    after: &'a [Place],
    /// For each file of before, that of after.
    files: BTreeMap<&'a str, &'a str>,
    found: Vec<(How, Option<usize>)>,
    free: BTreeSet<usize>,
}

impl<'a> Work<'a> {
    fn new(before: &'a [Place], after: &'a [Place]) -> Self {
        let file = |place: &'a Place| place.source.as_ref().map(|(file, _)| file.as_str());
        let theirs: BTreeSet<&str> = after.iter().filter_map(file).collect();
        let files = before
            .iter()
            .filter_map(file)
            .filter_map(|mine| {
                if theirs.contains(mine) {
                    return Some((mine, mine));
                }
                // Another folder: the one whose last components agree the furthest.
                let best = theirs.iter().map(|other| (common(mine, other), *other)).max_by_key(|(n, _)| *n);
                best.filter(|(n, _)| *n > 0).map(|(_, other)| (mine, other))
            })
            .collect();
        Self {
            before,
            after,
            files,
            found: vec![(How::Gone, None); before.len()],
            free: (0..after.len()).collect(),
        }
    }

    fn lost(&self) -> Vec<usize> {
        (0..self.before.len()).filter(|&i| self.found[i].1.is_none()).collect()
    }

    /// The file of a line of before, as after calls it.
    fn file_of(&self, i: usize) -> Option<&'a str> {
        let (file, _) = self.before[i].source.as_ref()?;
        self.files.get(file.as_str()).copied()
    }

    fn set(&mut self, i: usize, j: usize, how: How) {
        self.found[i] = (how, Some(j));
        self.free.remove(&j);
    }

    /// Lines with the same key are the same, in their order.
    fn by_key(&mut self, how: How, key: impl Fn(&Place, Option<&str>) -> Option<Vec<String>>) {
        let mut theirs: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        for &j in &self.free {
            let place = &self.after[j];
            let file = place.source.as_ref().map(|(file, _)| file.as_str());
            if let Some(key) = key(place, file) {
                theirs.entry(key).or_default().push(j);
            }
        }
        let number = |place: &Place| place.source.as_ref().map_or(0, |(_, line)| *line);
        theirs.values_mut().for_each(|all| all.sort_by_key(|&j| std::cmp::Reverse(number(&self.after[j]))));
        let mut lost = self.lost();
        lost.sort_by_key(|&i| number(&self.before[i]));
        for i in lost {
            let Some(key) = key(&self.before[i], self.file_of(i)) else { continue };
            if let Some(j) = theirs.get_mut(&key).and_then(Vec::pop) {
                self.set(i, j, how);
            }
        }
    }

    /// The same, for lines of which one text or both are not known: a number alone proves little.
    fn by_key_unknown(&mut self, key: impl Fn(&Place, Option<&str>) -> Option<Vec<String>>) {
        let knows = |places: &[Place]| places.iter().filter(|p| p.text.is_some()).count() * 2 > places.len();
        if knows(self.before) && knows(self.after) {
            return;
        }
        self.by_key(How::Number, key);
    }

    /// The most similar texts of a function first.
    fn by_likeness(&mut self) {
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for i in self.lost() {
            let Some((mine, file)) = self.before[i].text.as_deref().zip(self.file_of(i)) else { continue };
            for &j in &self.free {
                let other = &self.after[j];
                let same_file = other.source.as_ref().is_some_and(|(theirs, _)| theirs == file);
                if let Some(theirs) = other.text.as_deref()
                    && same_file
                    && other.function == self.before[i].function
                {
                    pairs.push((strsim::normalized_levenshtein(mine, theirs), i, j));
                }
            }
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        for (likeness, i, j) in pairs {
            if likeness >= SIMILAR && self.found[i].1.is_none() && self.free.contains(&j) {
                self.set(i, j, How::Edited);
            }
        }
    }

    /// What is left of a function on both sides; then what is left of a file, and new functions in it.
    fn rewritten(mut self) -> Matches {
        let mut groups = Vec::new();
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        let old: BTreeSet<&str> = self.before.iter().map(|place| place.function.as_str()).collect();
        for whole_file in [false, true] {
            let mut sides: BTreeMap<(&str, &str), Group> = BTreeMap::new();
            for i in self.lost() {
                let function = if whole_file { "" } else { self.before[i].function.as_str() };
                if let Some(file) = self.file_of(i)
                    && self.found[i].0 == How::Gone
                {
                    sides.entry((file, function)).or_default().0.push(i);
                }
            }
            for &j in self.free.difference(&taken) {
                let place = &self.after[j];
                if whole_file && old.contains(place.function.as_str()) {
                    continue;
                }
                let function = if whole_file { "" } else { place.function.as_str() };
                if let Some((file, _)) = &place.source {
                    sides.entry((file, function)).or_default().1.push(j);
                }
            }
            for (before, after) in sides.into_values().filter(|(b, a)| !b.is_empty() && !a.is_empty()) {
                before.iter().for_each(|&i| self.found[i].0 = How::Rewritten);
                taken.extend(&after);
                groups.push((before, after));
            }
        }
        Matches { of_before: self.found, groups, unmatched: self.free }
    }
}

/// How many components two paths have in common at their ends.
fn common(a: &str, b: &str) -> usize {
    a.rsplit('/').zip(b.rsplit('/')).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, line: u32, function: &str, text: &str) -> Place {
        Place {
            location: format!("{file}:{line}"),
            function: function.into(),
            source: Some((file.into(), line)),
            text: (!text.is_empty()).then(|| text.into()),
            share: 0.1,
        }
    }

    fn found(before: &[Place], after: &[Place]) -> Vec<(How, Option<u32>)> {
        let matches = matches(before, after);
        let line = |j: usize| after[j].source.as_ref().map_or(0, |(_, line)| *line);
        (0..before.len()).map(|i| (matches.how(i), matches.after(i).map(line))).collect()
    }

    #[test]
    fn lines_that_were_pushed_down_are_found_by_their_text() {
        let before = [
            place("/a.c", 10, "f", "x = step(x);"),
            place("/a.c", 11, "f", "y++;"),
            place("/a.c", 40, "g", "x = step(x);"),
        ];
        let after = [
            place("/a.c", 13, "f", "x = step(x);"),
            place("/a.c", 10, "f", "y++;"),
            place("/a.c", 43, "g", "x = step(x);"),
        ];
        assert_eq!(
            found(&before, &after),
            [(How::Same, Some(13)), (How::Same, Some(10)), (How::Same, Some(43))]
        );
    }

    #[test]
    fn the_same_text_twice_keeps_its_order() {
        let before = [place("/a.c", 20, "f", "i++;"), place("/a.c", 10, "f", "i++;")];
        let after = [place("/a.c", 12, "f", "i++;"), place("/a.c", 22, "f", "i++;")];
        assert_eq!(found(&before, &after), [(How::Same, Some(22)), (How::Same, Some(12))]);
    }

    #[test]
    fn another_folder_another_function_and_a_small_edit() {
        let before = [
            place("/v1/src/a.c", 10, "f", "sum += slow(i);"),
            place("/v1/src/a.c", 12, "f", "total = total + w;"),
        ];
        let after = [
            place("/v2/src/a.c", 30, "helper", "total = total + w;"),
            place("/v2/src/a.c", 10, "f", "sum += slow2(i);"),
        ];
        assert_eq!(found(&before, &after), [(How::Edited, Some(10)), (How::Moved, Some(30))]);
    }

    #[test]
    fn where_no_text_is_known_the_number_must_do() {
        let before = [place("/a.c", 10, "f", ""), place("/a.c", 11, "f", "")];
        let after = [place("/a.c", 11, "f", "b();"), place("/a.c", 10, "f", "a();")];
        assert_eq!(found(&before, &after), [(How::Number, Some(10)), (How::Number, Some(11))]);
    }

    #[test]
    fn a_function_whose_lines_are_new_was_rewritten_as_a_whole() {
        let before = [
            place("/a.c", 10, "f", "for (i = 0; i < n; i++)"),
            place("/a.c", 11, "f", "if (a[i] == key) return i;"),
            place("/a.c", 50, "g", "done();"),
        ];
        let after =
            [place("/a.c", 10, "f", "return table_lookup(&t, key);"), place("/a.c", 49, "g", "done();")];
        let matches = matches(&before, &after);
        assert_eq!([0, 1, 2].map(|i| matches.how(i)), [How::Rewritten, How::Rewritten, How::Same]);
        assert_eq!(matches.together(1), (vec![0, 1], vec![0]));
        assert_eq!(matches.together(2), (vec![2], vec![1]));
        assert_eq!(matches.appeared().collect::<Vec<_>>(), [(0, true)]);
    }

    #[test]
    fn new_functions_replace_what_went_in_their_file() {
        let before = [place("/a.c", 10, "search", "while (lo < hi)"), place("/b.c", 10, "other", "wait();")];
        let after =
            [place("/a.c", 80, "hash_find", "slot = h & mask;"), place("/b.c", 10, "other", "wait();")];
        let matches = matches(&before, &after);
        assert_eq!(matches.how(0), How::Rewritten);
        assert_eq!(matches.together(0), (vec![0], vec![0]));
    }

    #[test]
    fn what_has_no_counterpart_is_gone_or_new() {
        let before = [place("/a.c", 10, "f", "spin();")];
        let after = [place("/z.c", 10, "g", "run();")];
        let matches = matches(&before, &after);
        assert_eq!((matches.how(0), matches.after(0)), (How::Gone, None));
        assert_eq!(matches.appeared().collect::<Vec<_>>(), [(0, false)]);
    }

    #[test]
    fn functions_are_found_by_their_names() {
        let function =
            |name: &str| Place { location: name.into(), function: name.into(), ..Place::default() };
        let matches = matches(&[function("f"), function("g")], &[function("g"), function("h")]);
        assert_eq!((matches.how(0), matches.how(1), matches.after(1)), (How::Gone, How::Same, Some(0)));
    }
}

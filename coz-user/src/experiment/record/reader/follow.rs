//! Reading a profile while it is being written.

use super::{Builder, MAX_LINE, Profile, ReadError, record};

/// What has been read of a growing profile. Whole lines count at once, the last one when its end is there.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    builder: Builder,
    /// What stands after the last end of a line.
    rest: Vec<u8>,
    lines: usize,
}

impl Follower {
    /// Takes what has been appended to the file; whether any of it was a record.
    ///
    /// # Errors
    /// When a line is no record.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<bool, ReadError> {
        let before = self.builder.records;
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else {
            return if self.rest.len() as u64 <= MAX_LINE { Ok(false) } else { Err(self.too_long()) };
        };
        let rest = self.rest.split_off(end + 1);
        for line in std::mem::replace(&mut self.rest, rest).split_inclusive(|&byte| byte == b'\n') {
            self.lines += 1;
            let text = line.trim_ascii();
            if !text.is_empty() {
                record(text)
                    .and_then(|record| self.builder.push(record))
                    .map_err(|reason| ReadError::Line { number: self.lines, reason })?;
            }
        }
        Ok(self.builder.records > before)
    }

    fn too_long(&self) -> ReadError {
        ReadError::Line { number: self.lines + 1, reason: "it is longer than any record".into() }
    }

    /// The profile so far. Without an end it has an [open end](Profile::open_end); a part of a record at its end
    /// is on its way, and not told of. Empty if nothing stands there yet.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let mut builder = self.builder.clone();
        if builder.records == 0 {
            return Profile { open_end: true, ..Profile::default() };
        }
        let last = builder.profile.experiments.last();
        let is_bare = last.is_some_and(|last| last.points.is_empty());
        if !builder.ended && (is_bare || !self.rest.is_empty()) {
            // Points of the last experiment may be on their way: it counts when they are there.
            builder.profile.experiments.pop();
        }
        builder.finish().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record::parse;

    const FILE: &str = concat!(
        r#"{"type":"startup","time":1}"#,
        "\n",
        r#"{"type":"experiment","selected":"a.c:1","speedup":0.5,"duration":1000}"#,
        "\n",
        r#"{"type":"throughput-point","name":"p","delta":7}"#,
        "\n",
        r#"{"type":"experiment","selected":"a.c:1","speedup":0.0,"duration":2000}"#,
        "\n",
        r#"{"type":"throughput-point","name":"p","delta":9}"#,
        "\n",
        r#"{"type":"runtime","time":5000}"#,
        "\n",
    );

    #[test]
    fn byte_by_byte_it_is_what_it_is_at_once() {
        let mut follower = Follower::default();
        for byte in FILE.bytes() {
            follower.feed(&[byte]).unwrap();
            // Whatever stands there by now can be looked at.
            let profile = follower.profile();
            assert!(profile.experiments.iter().all(|e| !e.experiment.valid || e.points.len() == 1));
        }
        assert_eq!(follower.profile(), parse(FILE.as_bytes()).unwrap());
    }

    #[test]
    fn half_a_record_is_on_its_way_and_not_a_mistake() {
        let mut follower = Follower::default();
        assert!(!follower.feed(br#"{"type":"start"#).unwrap());
        let none = follower.profile();
        assert!(none.open_end && !none.truncated && none.runs == 0);
        assert!(follower.feed(b"up\",\"time\":1}\n{\"ty").unwrap());
        let some = follower.profile();
        assert_eq!((some.runs, some.open_end, some.truncated), (1, true, false));
    }

    #[test]
    fn what_is_no_profile_is_said_with_its_line() {
        let mut follower = Follower::default();
        follower.feed(FILE.as_bytes()).unwrap();
        let error = follower.feed(b"nonsense and more\n").unwrap_err();
        assert!(error.to_string().contains("line 7"), "{error}");
        assert!(Follower::default().feed(&vec![b'x'; MAX_LINE as usize + 1]).is_err());
    }
}

//! What came of a stage, read from what it printed.

/// How many checks passed and failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
    /// What the reader must know: checks that could not be made, for instance.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Of a command that is one check.
    #[must_use]
    pub fn one(success: bool) -> Self {
        Self { passed: u64::from(success), failed: u64::from(!success), notes: Vec::new() }
    }

    /// Of `cargo test`: the sum of its `test result:` lines. A command that failed without a failed test (it did not
    /// compile, say), and one that ran no test at all, count as one failure. So does a test that is marked ignored.
    #[must_use]
    pub fn of_tests(success: bool, output: &str) -> Self {
        let mut outcome = Self::default();
        for line in output.lines().filter(|line| line.starts_with("test result: ")) {
            let before = |word: &str| -> u64 {
                let words: Vec<&str> = line.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
                let found = words.windows(2).find(|pair| pair[1] == word).map(|pair| pair[0]);
                found.and_then(|number| number.parse().ok()).unwrap_or(0)
            };
            outcome.passed += before("passed");
            outcome.failed += before("failed") + before("ignored");
        }
        if outcome.failed == 0 && (!success || outcome.passed == 0) {
            outcome.failed = 1;
        }
        outcome
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// The counts, for people.
    #[must_use]
    pub fn counted(&self) -> String {
        match self.failed {
            0 => format!("{} passed", self.passed),
            failed => format!("{} passed, {failed} failed", self.passed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 3 tests\n\
        test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
        test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 5 filtered out; finished in 1.20s\n";

    #[test]
    fn results_are_added_up() {
        let outcome = Outcome::of_tests(false, OUTPUT);
        assert_eq!((outcome.passed, outcome.failed), (4, 2));
    }

    #[test]
    fn no_test_a_build_error_and_an_ignored_test_are_failures() {
        assert_eq!(Outcome::of_tests(true, "").failed, 1);
        assert_eq!(Outcome::of_tests(false, OUTPUT.lines().nth(1).unwrap_or_default()).failed, 1);
        let ignored = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Outcome::of_tests(true, ignored).failed, 1);
    }
}

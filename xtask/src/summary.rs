//! What a test run did, step by step: nothing is counted as passed that did not run.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process::{Unavailable, seconds, show_captured_output};

/// How a step ended. A step that runs many tests brings their counts instead of counting as one.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    Tests(Counts),
    Skipped(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

#[derive(Debug)]
struct Step {
    name: String,
    counts: Counts,
    note: String,
    took: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Summary {
    steps: Vec<Step>,
}

impl Summary {
    /// Runs one step; a failure is kept and the next steps go on.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Outcome>) {
        eprintln!("\n== {name}");
        let started = Instant::now();
        let one = |passed, failed, skipped| Counts { passed, failed, skipped };
        let (counts, note) = match work() {
            Ok(Outcome::Passed) => (one(1, 0, 0), String::new()),
            Ok(Outcome::Tests(counts)) if counts == Counts::default() => {
                (counts, "there are none".to_owned())
            }
            Ok(Outcome::Tests(counts)) => (counts, String::new()),
            Ok(Outcome::Skipped(why)) => {
                eprintln!("skipped: {why}");
                (one(0, 0, 1), why)
            }
            Err(error) if error.is::<Unavailable>() => {
                show_captured_output(&error);
                eprintln!("skipped: {error:#}");
                (one(0, 0, 1), format!("{error:#}"))
            }
            Err(error) => {
                show_captured_output(&error);
                eprintln!("error: {error:#}");
                (one(0, 1, 0), format!("{error:#}"))
            }
        };
        self.steps.push(Step { name: name.to_owned(), counts, note, took: started.elapsed() });
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut total = Counts::default();
        self.steps.iter().for_each(|step| total.add(step.counts));
        total
    }

    pub(crate) fn print_table(&self) {
        println!("\n== steps");
        let width = self.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
        for step in &self.steps {
            println!("{}", step.line(width));
        }
    }

    /// The totals, alone on a line: what a machine reads.
    pub(crate) fn print_totals(&self) {
        let total = self.counts();
        println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    }
}

impl Step {
    fn line(&self, width: usize) -> String {
        let Counts { passed, failed, skipped } = self.counts;
        let verdict = match (passed, failed) {
            (_, 1..) => "failed",
            (0, 0) => "skipped",
            _ => "ok",
        };
        let mut note = self.note.lines().next().unwrap_or_default().to_owned();
        if passed + failed + skipped > 1 {
            note = format!("{passed} passed, {failed} failed, {skipped} skipped {note}");
        }
        let line = format!("  {:width$}  {verdict:7}  {:>8}  {note}", self.name, seconds(self.took));
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_steps_and_tests_and_a_failure_does_not_stop_the_rest() {
        let mut summary = Summary::default();
        summary.step("a", || Ok(Outcome::Passed));
        summary.step("b", || anyhow::bail!("broken"));
        summary.step("c", || Ok(Outcome::Skipped("no npm".to_owned())));
        summary.step("d", || Ok(Outcome::Tests(Counts { passed: 10, failed: 2, skipped: 3 })));
        assert_eq!(summary.counts(), Counts { passed: 11, failed: 3, skipped: 4 });
        assert!(summary.steps[1].line(1).contains("failed") && summary.steps[1].line(1).contains("broken"));
        assert!(summary.steps[2].line(1).contains("skipped") && summary.steps[2].line(1).contains("no npm"));
    }
}

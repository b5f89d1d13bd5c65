//! What a test run did, step by step: nothing is counted as passed that did not run.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process::{Unavailable, seconds, show_captured_output};

/// How a step ended. A step that runs many tests brings their counts instead of counting as one.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    Tests(Counts),
    /// The same, with a line `test: reason` for each test that was skipped.
    Listed(Counts, Vec<String>),
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
    /// The names of what was skipped, by the reason.
    skipped: BTreeMap<String, Vec<String>>,
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
            Ok(Outcome::Listed(counts, reasons)) => {
                for line in reasons {
                    let (test, why) = line.split_once(": ").unwrap_or((name, &line));
                    self.skipped.entry(why.to_owned()).or_default().push(test.to_owned());
                }
                (counts, String::new())
            }
            Ok(Outcome::Skipped(why)) => {
                eprintln!("skipped: {why}");
                self.skipped.entry(why.clone()).or_default().push(format!("step {name}"));
                (one(0, 0, 1), why)
            }
            Err(error) if error.is::<Unavailable>() => {
                show_captured_output(&error);
                eprintln!("skipped: {error:#}");
                self.skipped.entry(format!("{error:#}")).or_default().push(format!("step {name}"));
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

    /// Everything that was skipped, by the reason.
    pub(crate) fn print_skipped(&self) {
        if !self.skipped.is_empty() {
            println!("\n== skipped");
        }
        for (why, names) in &self.skipped {
            println!("  {why}\n      {}", names.join(", "));
        }
    }

    /// Prints all of it; the exit code of a task that does nothing else.
    pub(crate) fn finish(&self, started: Instant) -> ExitCode {
        self.print_table();
        println!("  total {}", seconds(started.elapsed()));
        self.print_skipped();
        println!();
        self.print_totals();
        if self.counts().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
        let reasons = ["one: no GPU".to_owned(), "two: no GPU".to_owned()];
        summary
            .step("e", || Ok(Outcome::Listed(Counts { passed: 0, failed: 0, skipped: 2 }, reasons.to_vec())));
        assert_eq!(summary.skipped["no npm"], ["step c"]);
        assert_eq!(summary.skipped["no GPU"], ["one", "two"]);
        assert!(summary.steps[1].line(1).contains("failed") && summary.steps[1].line(1).contains("broken"));
        assert!(summary.steps[2].line(1).contains("skipped") && summary.steps[2].line(1).contains("no npm"));
    }
}

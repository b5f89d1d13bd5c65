//! `fuzz/LOG.md`: one line per run, and above them what all runs of a target come to. The lines are the truth; the rest of
//! the page is made from them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const HEAD: &str = "# What was fuzzed

Written by `cargo xtask fuzz`: a line for each run, and above them their sums. *edges*: places of the program that an input
reached, of all places it has, dependencies included. *features*: edges told apart by how often they were passed. A crash that
was found is mended and has a regression test before the next line of its target; a run that ended with one says so.
";

const RUNS: &str = "
## Runs

| target | commit | executions | edges | of | features | crashes |
|---|---|---|---|---|---|---|
";

/// One run of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) target: String,
    pub(super) commit: String,
    pub(super) executions: u64,
    /// `None` where a run of before kept no record of it.
    pub(super) edges: Option<u64>,
    pub(super) all_edges: Option<u64>,
    pub(super) features: Option<u64>,
    pub(super) crashes: u64,
}

impl Run {
    /// From what libFuzzer printed; `None` when it did not come to its end.
    pub(super) fn parse(target: &str, commit: &str, lines: &[String]) -> Option<Self> {
        let after = |line: &str, mark: &str| {
            let rest = line.split_once(mark)?.1.trim_start();
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        let last = |mark: &str| {
            lines.iter().rev().filter(|line| line.starts_with('#')).find_map(|line| after(line, mark))
        };
        let executions =
            lines.iter().rev().find_map(|line| after(line, "stat::number_of_executed_units:"))?;
        // Inputs that were only slow are kept too.
        let is_crash = |line: &&String| line.contains("Test unit written to") && !line.contains("slow-unit");
        let crashes = lines.iter().filter(is_crash).count() as u64;
        Some(Self {
            target: target.to_owned(),
            commit: commit.to_owned(),
            executions,
            edges: last("cov: "),
            all_edges: lines
                .iter()
                .find_map(|line| line.starts_with("INFO: Loaded").then(|| after(line, "PC tables ("))?),
            features: last("ft: "),
            crashes,
        })
    }

    fn from_line(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [target, commit, executions, edges, all_edges, features, crashes] = cells.as_slice() else {
            return None;
        };
        let number = |text: &str| text.replace(' ', "").parse::<u64>().ok();
        Some(Self {
            target: (*target).to_owned(),
            commit: (*commit).to_owned(),
            executions: number(executions)?,
            edges: number(edges),
            all_edges: number(all_edges),
            features: number(features),
            crashes: number(crashes)?,
        })
    }

    fn line(&self) -> String {
        let Self { target, commit, executions, edges, all_edges, features, crashes } = self;
        let shown = |number: &Option<u64>| number.map_or("–".to_owned(), spaced);
        format!(
            "| {target} | {commit} | {} | {} | {} | {} | {crashes} |\n",
            spaced(*executions),
            shown(edges),
            shown(all_edges),
            shown(features),
        )
    }
}

/// `10500000` as `10 500 000`.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(" ")
}

/// Whether libFuzzer began with nothing.
pub(super) fn is_without_seeds(lines: &[String]) -> bool {
    lines.iter().any(|line| line.starts_with("INFO: A corpus is not provided"))
}

#[derive(Debug, Default)]
pub(super) struct Log {
    runs: Vec<Run>,
}

impl Log {
    pub(super) fn read(path: &Path) -> Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn parse(text: &str) -> Self {
        Self { runs: text.lines().filter_map(Run::from_line).collect() }
    }

    /// Runs of one target at one commit become one line: the most that was reached, all that was executed.
    pub(super) fn add(&mut self, run: Run) {
        let same = |other: &&mut Run| other.target == run.target && other.commit == run.commit;
        match self.runs.iter_mut().find(same) {
            Some(known) => {
                known.executions += run.executions;
                known.crashes += run.crashes;
                known.edges = known.edges.max(run.edges);
                known.features = known.features.max(run.features);
                known.all_edges = run.all_edges.or(known.all_edges);
            }
            None => self.runs.push(run),
        }
    }

    /// All runs of each target together.
    pub(super) fn totals(&self, targets: &[&str], wanted: u64) -> String {
        let mut page =
            "\n| target | executions of all runs | most edges | crashes found |\n|---|---|---|---|\n"
                .to_owned();
        let mut short = Vec::new();
        for target in targets {
            let runs = || self.runs.iter().filter(|run| run.target == *target);
            let executions: u64 = runs().map(|run| run.executions).sum();
            let crashes: u64 = runs().map(|run| run.crashes).sum();
            let edges = runs().filter_map(|run| run.edges).max();
            let edges = edges.map_or("–".to_owned(), spaced);
            writeln!(page, "| {target} | {} | {edges} | {crashes} |", spaced(executions)).ok();
            if executions < wanted {
                short.push(*target);
            }
        }
        if short.is_empty() {
            writeln!(page, "\nEvery target has {} executions or more.", spaced(wanted)).ok();
        } else {
            writeln!(page, "\nBelow {} executions: {}.", spaced(wanted), short.join(", ")).ok();
        }
        page
    }

    pub(super) fn write(&self, path: &Path, targets: &[&str], wanted: u64) -> Result<()> {
        let mut page = format!("{HEAD}{}{RUNS}", self.totals(targets, wanted));
        self.runs.iter().for_each(|run| page.push_str(&run.line()));
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "INFO: Running with entropic power schedule (0xFF, 100).
INFO: Loaded 1 modules   (47322 inline 8-bit counters): 47322 [0x1, 0x2),
INFO: Loaded 1 PC tables (47322 PCs): 47322 [0x3,0x4),
#2      INITED cov: 100 ft: 120 corp: 1/1b exec/s: 0 rss: 40Mb
#53306  NEW    cov: 1409 ft: 4941 corp: 717/35Kb lim: 95 exec/s: 2805 rss: 30Mb L: 30/95 MS: 5
#60000  DONE   cov: 1410 ft: 4950 corp: 717/35Kb lim: 95 exec/s: 2805 rss: 30Mb
stat::number_of_executed_units: 60000
stat::peak_rss_mb:              31";

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_output_of_a_run_becomes_a_line_that_reads_back() {
        let run = Run::parse("filter", "abc1234", &lines(OUTPUT)).expect("a whole run");
        assert_eq!(run.line(), "| filter | abc1234 | 60 000 | 1 410 | 47 322 | 4 950 | 0 |\n");
        assert_eq!(Run::from_line(run.line().trim_end()), Some(run));
        let crash = format!("{OUTPUT}\nartifact_prefix='a/'; Test unit written to a/crash-1\n");
        assert_eq!(Run::parse("filter", "abc1234", &lines(&crash)).expect("a run").crashes, 1);
        assert_eq!(Run::parse("filter", "abc1234", &lines("it never began")), None);
    }

    /// `etl_container` had 1.5 million executions of which none came behind the header: they had begun with nothing.
    #[test]
    fn a_run_without_seeds_is_known() {
        let empty = format!("INFO: A corpus is not provided, starting from an empty corpus\n{OUTPUT}");
        assert!(is_without_seeds(&lines(&empty)) && !is_without_seeds(&lines(OUTPUT)));
    }

    #[test]
    fn runs_add_up_by_commit_and_by_target() {
        let mut log = Log::default();
        let run = Run::parse("filter", "abc1234", &lines(OUTPUT)).expect("a whole run");
        log.add(run.clone());
        log.add(run.clone());
        log.add(Run { commit: "def5678".to_owned(), edges: None, ..run });
        let text: String = log.runs.iter().map(Run::line).collect();
        assert_eq!(Log::parse(&text).runs, log.runs);
        assert_eq!(log.runs.len(), 2);
        let totals = log.totals(&["filter", "onnx"], 100_000);
        assert!(totals.contains("| filter | 180 000 | 1 410 | 0 |\n| onnx | 0 | – | 0 |"), "{totals}");
        assert!(totals.ends_with("Below 100 000 executions: onnx.\n"), "{totals}");
    }
}

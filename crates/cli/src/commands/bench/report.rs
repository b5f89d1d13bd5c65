//! What `ortscope bench` prints: one document, or a table and the verdict.

use ortscope_analyze::verdict::sentence;
pub use ortscope_analyze::verdict::sentence::{interval, signed};
use ortscope_analyze::verdict::{Metric, MetricVerdict, Verdict};
use ortscope_sources::MachineFacts;
use serde::Serialize;

use super::blocks::Block;
use super::operators::Attribution;
use crate::commands::run::jobs::Job;
use crate::exit::Failure;
use crate::terminal::{BAD, BOLD, DIM, GOOD, Terminal, WARN};
use ortscope_core::units;
use ortscope_observe::measure::protocol::CheckedOutput;

pub const SCHEMA: &str = "ortscope.bench/1";
/// Operators that the text names.
const MAX_OPERATORS: usize = 5;

#[derive(Debug, Serialize)]
pub struct BenchDocument {
    pub schema: &'static str,
    pub ortscope_version: &'static str,
    pub started_unix_ns: u64,
    pub machine: MachineFacts,
    #[serde(flatten)]
    pub comparison: ComparisonReport,
}

/// One comparison of two sides, with everything that was seen, however it ended.
#[derive(Debug, Serialize)]
pub struct ComparisonReport {
    pub a: SideReport,
    pub b: SideReport,
    pub verdict: Verdict,
    /// One sentence that says why.
    pub summary: String,
    pub verdicts: Vec<MetricVerdict>,
    /// Length of a block that was chosen; `null`: the user said how long, or commands were compared.
    pub block_seconds: Option<f64>,
    /// Both sides of a round lived at the same time and ran in turns of this length; `null`: one after the other.
    pub turn_seconds: Option<f64>,
    pub wall_seconds: f64,
    pub rounds: Vec<Round>,
    /// With `--check-outputs`.
    pub outputs: Option<Vec<CheckedOutput>>,
    /// Where the time went, from one profile a side: attribution, no test.
    pub operators: Option<Attribution>,
    /// The side that could not go on, in which round; what was measured before stands.
    pub side_failure: Option<SideFailure>,
    pub interrupted: bool,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SideReport {
    /// The model, or the command.
    pub name: String,
    /// What distinguishes this side: `threads=1`.
    pub settings: Option<String>,
    pub ort_version: Option<String>,
    pub providers: Vec<String>,
}

impl SideReport {
    pub fn of_job(job: &Job) -> Self {
        Self {
            name: job.model.name.clone(),
            settings: job.label.clone(),
            ort_version: None,
            providers: Vec::new(),
        }
    }

    fn title(&self) -> String {
        match &self.settings {
            Some(settings) => format!("{} {settings}", self.name),
            None => self.name.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Round {
    /// `AB` or `BA`.
    pub order: &'static str,
    pub a: Block,
    pub b: Block,
    /// The median of B over that of A, turn by turn: what is judged as p50. `null` when the sides did not run in turns.
    pub p50_ratio: Option<f64>,
}

impl Round {
    pub fn new(b_first: bool, a: Block, b: Block, p50_ratio: Option<f64>) -> Self {
        Self { order: if b_first { "BA" } else { "AB" }, a, b, p50_ratio }
    }

    /// What is judged: A's figure, and B's or what turns that follow each other say of it.
    pub fn figures(&self, metric: Metric) -> Option<(f64, f64)> {
        let (a, b) = (self.a.figure(metric)?, self.b.figure(metric)?);
        let ratio = self.p50_ratio.filter(|_| metric == Metric::P50);
        Some((a, ratio.map_or(b, |ratio| a * ratio)))
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct SideFailure {
    pub side: &'static str,
    /// From 1; 0 is the trial before the first round.
    pub round: usize,
    pub failure: Failure,
}

impl SideFailure {
    pub fn sentence(&self) -> String {
        match self.round {
            0 => format!("{} cannot run: {}", self.side, self.failure.message),
            round => format!("{} failed in round {round}: {}", self.side, self.failure.message),
        }
    }
}

/// The lines of a comparison.
pub fn text(report: &ComparisonReport, terminal: &Terminal) -> Vec<String> {
    let mut lines = vec![
        format!("{}  {}", terminal.paint(BOLD, "A"), report.a.title()),
        format!("{}  {}", terminal.paint(BOLD, "B"), report.b.title()),
    ];
    let blocks =
        report.block_seconds.map_or_else(String::new, |seconds| format!(" of {}", units::duration(seconds)));
    let turns = report
        .turn_seconds
        .map_or_else(String::new, |seconds| format!(" of {}", units::nanoseconds(seconds * 1e9)));
    lines.push(terminal.paint(
        DIM,
        &format!(
            "{} in turns{turns}, a fresh process for every block{blocks}, {}",
            units::counted(report.rounds.len() as u64, "round"),
            units::duration(report.wall_seconds)
        ),
    ));
    if !report.rounds.is_empty() {
        lines.push(String::new());
        lines.extend(table(&report.verdicts, terminal));
    }
    lines.push(String::new());
    for output in report.outputs.iter().flatten() {
        lines.push(format!("outputs   {}: {}", output.name, output.comparison.sentence));
    }
    // Of a difference that is none, operators would only show their noise.
    let differs = report.verdict != Verdict::Pass;
    if let Some(operators) = report.operators.as_ref().filter(|found| differs || found.any_moved()) {
        lines.extend(operators.text(MAX_OPERATORS, terminal));
    }
    lines.extend(report.notes.iter().map(|note| terminal.paint(DIM, &format!("note      {note}"))));
    lines.push(format!("verdict   {}: {}", painted(report.verdict, terminal), report.summary));
    lines
}

/// A row per metric.
pub fn table(verdicts: &[MetricVerdict], terminal: &Terminal) -> Vec<String> {
    let header = format!(
        "{:<11}{:>12}{:>12}  {:>9}  {:<22}{:>7}  {}",
        "", "A", "B", "change", "interval", "margin", "verdict"
    );
    let mut lines = vec![terminal.paint(DIM, header.trim_end())];
    for found in verdicts {
        let figure =
            |value: Option<f64>| value.map_or_else(|| "n/a".into(), |value| shown(found.metric, value));
        let verdict = match &found.reason {
            Some(reason) => format!("{} ({reason})", painted(found.verdict, terminal)),
            None => painted(found.verdict, terminal),
        };
        lines.push(format!(
            "{:<11}{:>12}{:>12}  {:>9}  {:<22}{:>7}  {verdict}",
            found.metric.name(),
            figure(found.a),
            figure(found.b),
            found.change.map_or_else(|| "n/a".into(), signed),
            interval(found),
            units::percent(found.margin),
        ));
    }
    lines
}

pub fn painted(verdict: Verdict, terminal: &Terminal) -> String {
    let style = match verdict {
        Verdict::Pass | Verdict::Improvement => GOOD,
        Verdict::Regression => BAD,
        Verdict::Inconclusive => WARN,
    };
    terminal.paint(style, verdict.name())
}

/// A figure in the unit of its metric.
pub fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::P50 | Metric::P90 | Metric::P99 | Metric::Time => units::nanoseconds(value * 1e6),
        Metric::Throughput => format!("{}/s", units::digits(value)),
        Metric::Memory => units::bytes(value),
        Metric::Energy => format!("{} mJ", units::digits(value * 1e3)),
    }
}

/// Why it is as it is: the metrics that decide, in one line.
pub fn summary(verdict: Verdict, verdicts: &[MetricVerdict]) -> String {
    sentence::summary(verdict, verdicts, "longer blocks (--duration)")
}

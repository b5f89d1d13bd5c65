//! Comparisons of two sides: rounds that were measured in turns (`ortscope bench`, `gate`), stored recordings
//! (`ortscope compare`), and the operators behind a difference.

mod batches;
mod gate;
mod judge;
mod operators;
mod stored;

use std::collections::BTreeMap;

use ortscope_analyze::outputs::OutputVerdict;
use ortscope_analyze::verdict::{PairedComparison, block_needs, sentence};
use ortscope_core::failure::{Failure, FailureKind};
use serde::Serialize;

pub use ortscope_analyze::batch_sweep::{BatchPoint, BatchSweep, MemoryFit};
pub use ortscope_analyze::leak::arena_sentence;
pub use ortscope_analyze::outputs::CheckedOutput;
pub use ortscope_analyze::verdict::fingerprint::{Difference, differences};
pub use ortscope_analyze::verdict::sentence::{interval, signed};
pub use ortscope_analyze::verdict::{Metric, MetricVerdict, Verdict};

pub use batches::{BatchPair, BatchSweeps, StoredSweep};
pub use gate::{Gate, GateResult, NamedEffect};
pub use judge::{Judge, USUAL_METRICS, is_missing};
pub use operators::{Attribution, NodeChange, NodeTime, attribute};
pub use stored::{StoredComparison, StoredRun};

/// Names of the sides.
pub const SIDES: [&str; 2] = ["A", "B"];

/// A comparison of two sides on this machine, however it ended.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub a: Side,
    pub b: Side,
    pub verdict: Verdict,
    /// The reason for the verdict in one sentence.
    pub summary: String,
    pub verdicts: Vec<MetricVerdict>,
    /// Block length chosen by ortscope; `null` if the user chose it, or if commands were compared.
    pub block_seconds: Option<f64>,
    /// Length of the turns if both sides of a round ran at the same time; `null` if one ran after the other.
    pub turn_seconds: Option<f64>,
    pub wall_seconds: f64,
    pub rounds: Vec<Round>,
    /// With `--check-outputs`.
    pub outputs: Option<Vec<CheckedOutput>>,
    /// Operators that changed, from one profile per side: attribution, not a test.
    pub operators: Option<Attribution>,
    /// The side that failed, and in which round; earlier rounds are kept.
    pub side_failure: Option<SideFailure>,
    pub interrupted: bool,
    pub notes: Vec<String>,
}

/// One of the two compared models, settings or commands.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// The model or the command.
    pub name: String,
    /// Settings of this side only: `threads=1`.
    pub settings: Option<String>,
    pub ort_version: Option<String>,
    pub providers: Vec<String>,
}

impl Side {
    pub fn new(name: String, settings: Option<String>) -> Self {
        Self { name, settings, ort_version: None, providers: Vec::new() }
    }

    pub fn title(&self) -> String {
        match &self.settings {
            Some(settings) => format!("{} {settings}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The statistics of one process run. Latencies and times are in milliseconds, throughput per second, memory in bytes,
/// energy in joules.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Block {
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, f64>,
    /// Runs behind the latencies.
    pub runs: usize,
    /// Runs left out as warm-up.
    pub warm_up_runs: usize,
}

impl Block {
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        self.figures.get(metric.name()).copied()
    }
}

/// One block of each side.
#[derive(Debug, Serialize)]
pub struct Round {
    /// `AB` or `BA`.
    pub order: &'static str,
    pub a: Block,
    pub b: Block,
    /// Median of B over that of A, compared turn by turn, and judged as p50. `null` if the sides did not run in turns.
    pub p50_ratio: Option<f64>,
}

impl Round {
    pub fn new(b_first: bool, a: Block, b: Block, p50_ratio: Option<f64>) -> Self {
        Self { order: if b_first { "BA" } else { "AB" }, a, b, p50_ratio }
    }

    /// Returns the judged pair: the figure of A, and that of B or, for p50, A's times the ratio of consecutive turns.
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

impl Comparison {
    /// A comparison without any round.
    pub fn new([a, b]: [Side; 2], judge: &Judge) -> Self {
        Self {
            a,
            b,
            verdict: Verdict::Inconclusive,
            summary: "nothing was measured".into(),
            verdicts: PairedComparison::with_looks(&judge.plans, &judge.looks).verdicts(),
            block_seconds: None,
            turn_seconds: None,
            wall_seconds: 0.0,
            rounds: Vec::new(),
            outputs: None,
            operators: None,
            side_failure: None,
            interrupted: false,
            notes: Vec::new(),
        }
    }

    /// Decides the overall verdict after the last round. Different outputs are a regression whatever the latency.
    pub fn conclude(&mut self, judge: &Judge) {
        for found in self.verdicts.iter_mut().filter(|found| is_missing(found)) {
            found.reason = Some(match (found.metric, found.metric.quantile()) {
                (Metric::Energy, _) => {
                    "no energy counter, or blocks below a second: see `ortscope doctor` and --duration"
                        .to_owned()
                }
                (_, Some(p)) => format!("needs ≥ {} runs per block: --duration", block_needs(p)),
                _ => "not available on this system".to_owned(),
            });
        }
        self.verdict = judge.overall(&self.verdicts);
        self.summary = summary(self.verdict, &self.verdicts);
        if self.interrupted {
            self.notes.push(format!("interrupted after {} whole rounds", self.rounds.len()));
        }
        let different: Vec<&CheckedOutput> = self.different_outputs().collect();
        if let Some(first) = different.first() {
            let mut sentence = format!(
                "B answers differently: {} of {} outputs, {}: {}",
                different.len(),
                self.outputs.as_ref().map_or(0, Vec::len),
                first.name,
                first.comparison.sentence
            );
            if self.verdict == Verdict::Regression {
                sentence += &format!("; {}", self.summary);
            }
            self.summary = sentence;
            self.verdict = Verdict::Regression;
        }
    }

    pub fn different_outputs(&self) -> impl Iterator<Item = &CheckedOutput> {
        let outputs = self.outputs.iter().flatten();
        outputs.filter(|output| output.comparison.verdict == OutputVerdict::Different)
    }
}

/// Explains a verdict by the metrics that decide it, in one line.
pub fn summary(verdict: Verdict, verdicts: &[MetricVerdict]) -> String {
    sentence::summary(verdict, verdicts, "longer blocks (--duration)")
}

/// Machines or software that differ cannot be compared.
fn refuse_differences(differences: &[Difference]) -> Result<(), Failure> {
    if differences.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = differences.iter().map(Difference::sentence).collect();
    Err(Failure::new(FailureKind::NotComparable, format!("not comparable: {}", list.join(", ")))
        .with_hint("measure both sides on one machine with 'ortscope bench', or --force to see the figures"))
}

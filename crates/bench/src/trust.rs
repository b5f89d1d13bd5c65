//! Audits the content of a recording whose processes were killed or under load, and estimates memory growth. For
//! `cargo xtask bench trust` and `cargo xtask trust`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ortscope_analyze::leak::growth;
use ortscope_core::clock::now_ns;
use ortscope_core::schema::{
    InferenceRow, LossRow, OperatorKind, OperatorRow, Phase, TableId, Text, TickRow,
};
use ortscope_core::tables::{Scan, Tables as _};
use ortscope_store::Recording;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub struct TrustArgs {
    /// Recording to audit
    #[arg(long)]
    recording: Option<PathBuf>,
    /// File with lines of `x y`: estimate the slope of y and its confidence interval
    #[arg(long, conflicts_with = "recording")]
    growth: Option<PathBuf>,
}

pub fn run(args: &TrustArgs) -> Result<Value> {
    match (&args.recording, &args.growth) {
        (Some(recording), _) => audit(recording),
        (None, Some(file)) => slope(file),
        (None, None) => bail!("give --recording or --growth"),
    }
}

/// Checks that sequence numbers have no gaps.
#[derive(Debug, Default)]
struct Inferences {
    /// The next expected number by session, stream and phase, as `ortscope run` numbers them.
    next: BTreeMap<(Text, u64, Text), u64>,
    rows: u64,
    gaps: u64,
    repeated: u64,
    profiled: u64,
    last_ns: u64,
    /// Count, lowest and highest number of each session, as observed programs number them.
    by_session: BTreeMap<Text, (u64, u64, u64)>,
}

impl Inferences {
    fn add(&mut self, row: InferenceRow) {
        self.rows += 1;
        self.profiled += u64::from(row.phase == Phase::Profiled);
        self.last_ns = self.last_ns.max(row.timestamp_ns + row.run_ns);
        let of = self.by_session.entry(Text::clone(&row.session_id)).or_insert((0, u64::MAX, 0));
        *of = (of.0 + 1, of.1.min(row.sequence), of.2.max(row.sequence));
        let expected =
            self.next.entry((row.session_id, row.stream, row.phase.text().clone())).or_insert(row.sequence);
        match row.sequence.cmp(expected) {
            std::cmp::Ordering::Greater => self.gaps += row.sequence - *expected,
            std::cmp::Ordering::Less => self.repeated += 1,
            std::cmp::Ordering::Equal => {}
        }
        *expected = (*expected).max(row.sequence + 1);
    }

    /// Numbers missing between the first and the last of each session.
    fn missing_in_sessions(&self) -> u64 {
        let missing = |(count, low, high): &(u64, u64, u64)| (high - low + 1).saturating_sub(*count);
        self.by_session.values().map(missing).sum()
    }
}

fn audit(directory: &Path) -> Result<Value> {
    let now_ns = now_ns();
    let recording = Recording::open(directory)?;
    let mut inferences = Inferences::default();
    for batch in recording.scan(TableId::Inferences, &Scan::all()) {
        batch?.rows::<InferenceRow>().for_each(|row| inferences.add(row));
    }
    let (mut operators, mut operator_runs) = (0u64, std::collections::BTreeSet::new());
    for batch in recording.scan(TableId::Operators, &Scan::all()) {
        for row in batch?.rows::<OperatorRow>() {
            operators += u64::from(row.kind == OperatorKind::Operator);
            operator_runs.extend(row.run.map(|run| (row.session_id, run)));
        }
    }
    let (mut last_sample_ns, mut ticks, mut first_tick_ns, mut last_tick_ns) = (0, 0u64, u64::MAX, 0);
    for batch in recording.scan(TableId::Ticks, &Scan::all()) {
        for row in batch?.rows::<TickRow>() {
            last_sample_ns = last_sample_ns.max(row.timestamp_ns);
            if &*row.table == TableId::ProcessSamples.def().name {
                ticks += 1;
                (first_tick_ns, last_tick_ns) =
                    (first_tick_ns.min(row.timestamp_ns), last_tick_ns.max(row.timestamp_ns));
            }
        }
    }
    let mut losses: BTreeMap<String, u64> = BTreeMap::new();
    for batch in recording.scan(TableId::Losses, &Scan::all()) {
        for row in batch?.rows::<LossRow>() {
            *losses.entry(format!("{}: {}", row.place, row.kind)).or_default() += row.count;
        }
    }
    Ok(json!({
        "now_ns": now_ns, "inferences": inferences.rows, "gaps": inferences.gaps, "repeated": inferences.repeated,
        "sessions": inferences.by_session.len(), "missing_in_sessions": inferences.missing_in_sessions(),
        "profiled": inferences.profiled, "operators": operators, "operator_runs": operator_runs.len(),
        "last_inference_ns": inferences.last_ns, "last_sample_ns": last_sample_ns,
        "process_ticks": ticks, "tick_span_ns": last_tick_ns.saturating_sub(first_tick_ns.min(last_tick_ns)),
        "losses": losses,
        "damaged": recording.condition().damaged.len(), "condition": recording.condition().sentences(),
    }))
}

/// Lines of `hours value`.
fn slope(file: &Path) -> Result<Value> {
    let text = fs_err::read_to_string(file)?;
    let point = |line: &str| {
        let (x, y) = line.split_once(' ')?;
        Some((x.parse().ok()?, y.trim().parse().ok()?))
    };
    let points: Vec<(f64, f64)> = text.lines().filter_map(point).collect();
    Ok(match growth(&points) {
        Some(growth) => json!({ "slope": growth.slope, "low": growth.low, "high": growth.high,
            "windows": growth.windows, "points": points.len() }),
        None => json!({ "unavailable": "too few points", "points": points.len() }),
    })
}

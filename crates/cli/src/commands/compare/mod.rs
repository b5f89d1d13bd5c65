//! `ortscope compare`: a verdict between stored recordings.
//!
//! Recordings of one run each are one pair of process runs, and one pair proves nothing: the two may differ by the luck of
//! their processes. So a verdict needs several recordings a side, made on the same machine with the same software;
//! anything less is shown, with the intervals that each recording has in itself, and stays inconclusive.

mod scaling;
mod stored;

use ortscope_analyze::leak::{LeakVerdict, arena_sentence};
pub use ortscope_analyze::verdict::fingerprint::{Difference, differences};
use ortscope_analyze::verdict::{Metric, MetricVerdict, Verdict, block_needs, two_sample};
use serde::Serialize;

use self::scaling::Scaling;
pub use self::stored::Stored;
use super::bench::judge::{self, Judge, is_missing};
use super::bench::report::{painted, shown, summary, table};
use crate::args::{CompareArgs, GlobalArgs};
use crate::exit::{Exit, Failure, FailureKind};
use crate::recording::open_store;
use crate::terminal::{self, BOLD, DIM, Terminal, WARN};
use ortscope_core::units;

pub const SCHEMA: &str = "ortscope.compare/1";

#[derive(Debug, Serialize)]
struct CompareDocument {
    schema: &'static str,
    ortscope_version: &'static str,
    a: Vec<Stored>,
    b: Vec<Stored>,
    /// Facts of machine and software that differ.
    differences: Vec<Difference>,
    /// `--force` was given although they differ: the figures are of two machines.
    forced: bool,
    verdict: Verdict,
    summary: String,
    verdicts: Vec<MetricVerdict>,
    /// Recordings of B that lose memory with every inference, when none of A does.
    leaks: Vec<String>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ScalingDocument<'a> {
    schema: &'static str,
    ortscope_version: &'static str,
    verdict: Verdict,
    summary: &'static str,
    #[serde(flatten)]
    scaling: &'a Scaling,
}

pub fn run(args: &CompareArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let judge = Judge::new(&args.judge, &judge::USUAL)?;
    let store = open_store(global)?;
    if let ([a], [b]) = (args.a.as_slice(), args.b.as_slice())
        && let (Some(one), Some(other)) = (scaling::open(&store, a)?, scaling::open(&store, b)?)
    {
        if !args.force {
            not_comparable(&differences(&one.fingerprint, &other.fingerprint))?;
        }
        return compare_sweeps(&scaling::compare(&one, &other)?, &judge, terminal);
    }
    let mut notes = Vec::new();
    let mut side = |runs: &[String]| -> Result<Vec<Stored>, Failure> {
        let mut recordings: Vec<Stored> = Vec::new();
        for run in runs {
            let stored = Stored::open(&store, run)?;
            // Said twice it is still one process run.
            if recordings.iter().any(|known| known.id == stored.id) {
                notes.push(format!("'{run}' is named twice on a side and counts once"));
            } else {
                recordings.push(stored);
            }
        }
        Ok(recordings)
    };
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    let differences = all_differences(&a, &b);
    if !args.force {
        not_comparable(&differences)?;
    }
    check_inputs(&a, &b)?;
    let mut verdicts = verdicts(&judge, &a, &b);
    explain_missing(&mut verdicts);
    let mut verdict = judge.overall(&verdicts);
    // What nobody asked for and nobody has decides nothing, and explains nothing.
    let counted: Vec<MetricVerdict> =
        verdicts.iter().filter(|found| judge.asked || !is_missing(found)).cloned().collect();
    let mut summary = summary(verdict, &counted);
    let leaks = new_leaks(&a, &b);
    // Bounds over the windows of one process prove a leak; it needs no second recording.
    if !leaks.is_empty() && judge.plans.iter().any(|plan| plan.metric == Metric::Memory) {
        let found = format!("B {}, A does not", leaks.join("; "));
        summary = if verdict == Verdict::Regression { format!("{found}; {summary}") } else { found };
        verdict = Verdict::Regression;
    }
    if a.iter().any(|one| b.iter().any(|other| one.id == other.id)) {
        notes.push("a recording stands on both sides".to_owned());
    }
    let document = CompareDocument {
        schema: SCHEMA,
        ortscope_version: env!("CARGO_PKG_VERSION"),
        forced: !differences.is_empty(),
        summary,
        leaks,
        a,
        b,
        differences,
        verdict,
        verdicts,
        notes,
    };
    if terminal.json {
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        terminal::print_data(&(text(&document, terminal).join("\n") + "\n"));
    }
    Ok(judge.exit(verdict))
}

fn not_comparable(differences: &[Difference]) -> Result<(), Failure> {
    if differences.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = differences.iter().map(Difference::sentence).collect();
    Err(Failure::new(FailureKind::NotComparable, format!("not comparable: {}", list.join(", ")))
        .with_hint("measure both sides on one machine with 'ortscope bench', or --force to see the figures"))
}

/// A figure that no recording has is not one for which more recordings would help.
fn explain_missing(verdicts: &mut [MetricVerdict]) {
    for found in verdicts.iter_mut().filter(|found| is_missing(found)) {
        found.reason = Some(match found.metric.quantile() {
            Some(p) => format!("needs ≥ {} runs per recording", block_needs(p)),
            None => "not known in these recordings".to_owned(),
        });
    }
}

fn compare_sweeps(scaling: &Scaling, judge: &Judge, terminal: &Terminal) -> Result<Exit, Failure> {
    const SUMMARY: &str = "a sweep has one process run per batch size: shown, not judged";
    let document = ScalingDocument {
        schema: SCHEMA,
        ortscope_version: env!("CARGO_PKG_VERSION"),
        verdict: Verdict::Inconclusive,
        summary: SUMMARY,
        scaling,
    };
    if terminal.json {
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        let mut lines = scaling::text(scaling, terminal);
        lines.push(format!("verdict   {}: {SUMMARY}", painted(document.verdict, terminal)));
        terminal::print_data(&(lines.join("\n") + "\n"));
    }
    Ok(judge.exit(document.verdict))
}

/// What was fed must have been the same: other sizes are other work.
fn check_inputs(a: &[Stored], b: &[Stored]) -> Result<(), Failure> {
    let mut known = a.iter().chain(b).filter(|one| !one.inputs.is_empty());
    let Some(first) = known.next() else { return Ok(()) };
    match known.find(|other| other.inputs != first.inputs) {
        None => Ok(()),
        Some(other) => Err(Failure::new(
            FailureKind::Input,
            format!(
                "the recordings were fed different inputs: {} with {}, {} with {}",
                first.shown_name(),
                first.inputs.join(", "),
                other.shown_name(),
                other.inputs.join(", ")
            ),
        )
        .with_hint("only recordings with the same inputs can be compared; sweeps over --batch are compared as a whole")),
    }
}

/// What leaks in B, unless something leaks in A as well: then it is nothing new.
fn new_leaks(a: &[Stored], b: &[Stored]) -> Vec<String> {
    let leak = |one: &Stored| {
        one.leak.as_ref().filter(|leak| leak.verdict == LeakVerdict::Leak).map(|leak| leak.sentence.clone())
    };
    if a.iter().any(|one| leak(one).is_some()) {
        return Vec::new();
    }
    b.iter().filter_map(leak).collect()
}

/// Bonferroni over the judged metrics: with few recordings Holm's later steps are out of reach anyway.
pub fn verdicts(judge: &Judge, a: &[Stored], b: &[Stored]) -> Vec<MetricVerdict> {
    let figures = |side: &[Stored], metric: Metric| -> Vec<f64> {
        side.iter().filter_map(|one| one.figure(metric)).collect()
    };
    judge
        .plans
        .iter()
        .map(|plan| {
            let share = 1.0 / judge.plans.len() as f64;
            two_sample::compare(*plan, &figures(a, plan.metric), &figures(b, plan.metric), share)
        })
        .collect()
}

/// Every recording against the first: one odd one among many is found too.
fn all_differences(a: &[Stored], b: &[Stored]) -> Vec<Difference> {
    let Some(first) = a.first() else { return Vec::new() };
    let mut found: Vec<Difference> = Vec::new();
    for other in a.iter().chain(b) {
        for difference in differences(&first.fingerprint, &other.fingerprint) {
            if found.iter().all(|known| known.fact != difference.fact) {
                found.push(difference);
            }
        }
    }
    found
}

fn text(document: &CompareDocument, terminal: &Terminal) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, side) in [("A", &document.a), ("B", &document.b)] {
        let list: Vec<&str> = side.iter().map(Stored::shown_name).collect();
        let subject = side.first().map_or("", |one| one.subject.as_str());
        lines.push(format!("{}  {subject}  {}", terminal.paint(BOLD, name), list.join(", ")));
    }
    lines.push(String::new());
    // A reason that the last line gives for all is not said in every row.
    let mut rows = document.verdicts.clone();
    for row in rows.iter_mut().filter(|row| row.reason.as_ref() == Some(&document.summary)) {
        row.reason = None;
    }
    lines.extend(table(&rows, terminal));
    lines.push(String::new());
    if let ([a], [b]) = (document.a.as_slice(), document.b.as_slice()) {
        for (name, one) in [("A", a), ("B", b)] {
            let parts: Vec<String> = one
                .intervals_ms
                .iter()
                .filter_map(|(metric, ends)| {
                    let [Some(low), Some(high)] = ends else { return None };
                    Some(format!("{metric} {} to {}", shown(Metric::P50, *low), shown(Metric::P50, *high)))
                })
                .collect();
            let runs = units::counted(one.runs as u64, "run");
            lines.push(terminal.paint(DIM, &format!("within {name}  {}  ({runs})", parts.join(", "))));
        }
    }
    for (name, side) in [("A", &document.a), ("B", &document.b)] {
        for (one, leak) in side.iter().filter_map(|one| Some((one, one.leak.as_ref()?))) {
            let whose = if side.len() > 1 { format!("{}: ", one.shown_name()) } else { String::new() };
            lines.push(format!("leak {name}    {whose}{}", leak.sentence));
            lines.extend(arena_sentence(leak).map(|arena| format!("arena {name}   {whose}{arena}")));
        }
    }
    if document.forced {
        let list: Vec<String> = document.differences.iter().map(Difference::sentence).collect();
        lines.push(terminal.paint(WARN, &format!("forced    not comparable: {}", list.join(", "))));
    }
    lines.extend(document.notes.iter().map(|note| terminal.paint(DIM, &format!("note      {note}"))));
    lines.push(format!("verdict   {}: {}", painted(document.verdict, terminal), document.summary));
    lines
}

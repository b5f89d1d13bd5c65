//! `ortscope compare`: a verdict between stored recordings.
//!
//! Recordings of one run each are one pair of process runs, and one pair proves nothing: the two may differ by the luck of
//! their processes. So a verdict needs several recordings a side, made on the same machine with the same software;
//! anything less is shown, with the intervals that each recording has in itself, and stays inconclusive.

mod stored;

pub use ortscope_analyze::verdict::fingerprint::{Difference, differences};
use ortscope_analyze::verdict::{Metric, MetricVerdict, Verdict, two_sample};
use serde::Serialize;

pub use self::stored::Stored;
use super::bench::judge::{self, Judge};
use super::bench::report::{painted, shown, summary, table};
use crate::args::{CompareArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::recording::open_store;
use crate::terminal::{self, BOLD, DIM, Terminal, WARN};
use crate::units;

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
    notes: Vec<String>,
}

pub fn run(args: &CompareArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let judge = Judge::new(&args.judge, &judge::USUAL)?;
    let store = open_store(global)?;
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
    if !differences.is_empty() && !args.force {
        let list: Vec<String> = differences.iter().map(Difference::sentence).collect();
        return Err(Failure::new(Exit::NotComparable, format!("not comparable: {}", list.join(", ")))
            .with_hint(
                "measure both sides on one machine with 'ortscope bench', or --force to see the figures",
            ));
    }
    let verdicts = verdicts(&judge, &a, &b);
    let verdict = judge.overall(&verdicts);
    if a.iter().any(|one| b.iter().any(|other| one.id == other.id)) {
        notes.push("a recording stands on both sides".to_owned());
    }
    let document = CompareDocument {
        schema: SCHEMA,
        ortscope_version: env!("CARGO_PKG_VERSION"),
        forced: !differences.is_empty(),
        summary: summary(verdict, &verdicts),
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
        let list: Vec<&str> = side.iter().map(|one| one.name.as_deref().unwrap_or(one.id.as_str())).collect();
        let subject = side.first().map_or("", |one| one.subject.as_str());
        lines.push(format!("{}  {subject}  {}", terminal.paint(BOLD, name), list.join(", ")));
    }
    lines.push(String::new());
    lines.extend(table(&document.verdicts, terminal));
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
    if document.forced {
        let list: Vec<String> = document.differences.iter().map(Difference::sentence).collect();
        lines.push(terminal.paint(WARN, &format!("forced    not comparable: {}", list.join(", "))));
    }
    lines.extend(document.notes.iter().map(|note| terminal.paint(DIM, &format!("note      {note}"))));
    lines.push(format!("verdict   {}: {}", painted(document.verdict, terminal), document.summary));
    lines
}

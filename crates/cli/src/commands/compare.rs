//! `ortscope compare`: a verdict between stored recordings.

use ortscope_analyze::verdict::Verdict;
use ortscope_render::comparison::{batches_text, stored_text};
use ortscope_result::comparison::{BatchSweeps, StoredComparison, StoredRun, StoredSweep, USUAL_METRICS};
use ortscope_store::{Recording, Store};
use serde::Serialize;

use super::bench::judge;
use crate::args::{CompareArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::recording::{open_store, results};
use crate::terminal::{self, Terminal};

/// A sweep has one process run per batch size, which is not enough for a verdict.
const SWEEP_SUMMARY: &str = "a sweep has one process run per batch size: shown, not judged";

#[derive(Debug, Serialize)]
struct Document<T> {
    schema: &'static str,
    ortscope_version: &'static str,
    #[serde(flatten)]
    comparison: T,
}

#[derive(Debug, Serialize)]
struct SweepDocument<'a> {
    verdict: Verdict,
    summary: &'static str,
    #[serde(flatten)]
    sweeps: &'a BatchSweeps,
}

pub fn run(args: &CompareArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let judge = judge::judge(&args.judge, &USUAL_METRICS)?;
    let store = open_store(global)?;
    if let ([a], [b]) = (args.a.as_slice(), args.b.as_slice())
        && let (Some(a), Some(b)) = (read_sweep(&store, a)?, read_sweep(&store, b)?)
    {
        let sweeps = BatchSweeps::new(&a, &b, args.force)?;
        let verdict = Verdict::Inconclusive;
        let text = batches_text(&sweeps, verdict, SWEEP_SUMMARY, terminal.color);
        show(&SweepDocument { verdict, summary: SWEEP_SUMMARY, sweeps: &sweeps }, &text, terminal)?;
        return Ok(judge::exit_of(verdict, args.judge.fail_on));
    }
    let mut notes = Vec::new();
    let mut side = |runs: &[String]| -> Result<Vec<StoredRun>, Failure> {
        let mut recordings: Vec<StoredRun> = Vec::new();
        for run in runs {
            let stored = read_stored(&store, run)?;
            if recordings.iter().any(|known| known.id == stored.id) {
                notes.push(format!("'{run}' is named twice on a side and counts once"));
            } else {
                recordings.push(stored);
            }
        }
        Ok(recordings)
    };
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    let mut comparison = StoredComparison::new(a, b, &judge, args.force)?;
    comparison.notes.splice(0..0, notes);
    show(&comparison, &stored_text(&comparison, terminal.color), terminal)?;
    Ok(judge::exit_of(comparison.verdict, args.judge.fail_on))
}

/// Reads a recording as one process run.
pub fn read_stored(store: &Store, run: &str) -> Result<StoredRun, Failure> {
    let recording = Recording::open(&store.resolve(run)?)?;
    let results = results(&recording).unwrap_or_default();
    StoredRun::read(&recording, &recording.manifest().info(), &results, run)
}

fn read_sweep(store: &Store, run: &str) -> Result<Option<StoredSweep>, Failure> {
    let recording = Recording::open(&store.resolve(run)?)?;
    Ok(StoredSweep::read(&recording.manifest().info(), &results(&recording)?))
}

fn show<T: Serialize>(comparison: &T, text: &str, terminal: &Terminal) -> Result<(), Failure> {
    if !terminal.json {
        terminal::print_data(text);
        return Ok(());
    }
    let document =
        Document { schema: "ortscope.compare/1", ortscope_version: env!("CARGO_PKG_VERSION"), comparison };
    let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
    terminal::print_data(&(text + "\n"));
    Ok(())
}

//! `ortscope run`: from arguments to jobs, from jobs to results, from results to a report.

mod jobs;
mod sweep;

use std::sync::Mutex;

use ortscope_analyze::clock_cost::clock_cost;
use ortscope_core::clock::{WallAnchor, clock_name, now_nanos};

use self::jobs::Job;
use crate::args::{GlobalArgs, RunArgs};
use crate::exit::{Exit, Failure};
use crate::measure::interrupt::Interrupt;
use crate::measure::progress::Progress;
use crate::measure::supervise::supervise;
use crate::report::document::{ClockReport, SCHEMA};
use crate::report::result::Measured;
use crate::report::{RunDocument, RunResult, tables, text};
use crate::terminal::{self, Terminal};

/// Models and sessions at the same time.
const MOST_TOGETHER: usize = 10;

/// Runs the command. What was measured is printed also when something failed.
pub fn run(args: &RunArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.together && args.models.len() > MOST_TOGETHER {
        return Err(Failure::usage(format!(
            "--together takes at most {MOST_TOGETHER} models, not {}",
            args.models.len()
        )));
    }
    let jobs = jobs::plan(args, global)?;
    let interrupt = Interrupt::install();
    let started = WallAnchor::now();
    let clock = measure_clock();
    let (results, failure) = if args.together {
        measure_together(&jobs, &interrupt, terminal)
    } else {
        measure_in_turn(&jobs, &interrupt, terminal)
    };
    let batch_sweep = sweep::batch_report(args, &results);
    let sweep = sweep::settings_report(args, &jobs, &results);
    let document = RunDocument {
        schema: SCHEMA,
        ortscope_version: env!("CARGO_PKG_VERSION"),
        started,
        machine: ortscope_sources::machine_facts(),
        clock,
        results,
        batch_sweep,
        sweep,
        failure: failure.clone(),
    };
    show(&document, terminal)?;
    finish(&document, failure, &interrupt)
}

fn show(document: &RunDocument, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        let text = serde_json::to_string_pretty(document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
        return Ok(());
    }
    let mut lines = Vec::new();
    // A sweep is read as a table; single summaries of every row would bury it.
    if let Some(report) = &document.batch_sweep {
        lines.extend(document.results.first().map(|result| format!("{}  by batch size", result.model.name)));
        lines.extend(tables::batch_sweep(report, &document.results, terminal));
    } else if let Some(report) = &document.sweep {
        lines.extend(document.results.first().map(|result| format!("{}  settings tried", result.model.name)));
        lines.extend(tables::sweep(report, &document.results, terminal));
    } else {
        for (index, result) in document.results.iter().enumerate() {
            if index > 0 {
                lines.push(String::new());
            }
            lines.extend(text::summary(result, &document.clock, terminal));
        }
    }
    if !lines.is_empty() {
        terminal::print_data(&(lines.join("\n") + "\n"));
    }
    Ok(())
}

/// The exit code: a failure's own; otherwise lost data; otherwise success.
fn finish(document: &RunDocument, failure: Option<Failure>, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let measured = document.results.iter().any(|result| result.measured_runs() > 0);
    // A sweep that recommends something has done its job even if some rows could not run.
    let recommended = document.sweep.as_ref().is_some_and(|sweep| sweep.analysis.recommended.is_some())
        || document.batch_sweep.as_ref().is_some_and(|sweep| sweep.analysis.best_batch.is_some());
    if let Some(failure) = failure.filter(|_| !recommended) {
        return Err(failure);
    }
    if interrupt.requested() && !measured {
        return Err(Failure::new(Exit::Interrupted, "interrupted before anything was measured"));
    }
    let lost =
        document.results.iter().any(|result| result.losses.iter().any(|loss| loss.kind == "inferences"));
    Ok(if lost { Exit::DataLost } else { Exit::Ok })
}

fn measure_in_turn(
    jobs: &[Job],
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> (Vec<RunResult>, Option<Failure>) {
    let mut results = Vec::new();
    let mut failure = None;
    for (index, job) in jobs.iter().enumerate() {
        if interrupt.requested() {
            break;
        }
        let place = if jobs.len() > 1 { format!(" ({}/{})", index + 1, jobs.len()) } else { String::new() };
        let mut progress = Progress::start(terminal, &format!("{}{place}", job.title()));
        let result = measure_one(job, interrupt, &mut progress);
        progress.finish();
        keep(result, &mut results, &mut failure);
    }
    (results, failure)
}

/// Every job in its own worker, all at once; the results keep the order of the jobs.
fn measure_together(
    jobs: &[Job],
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> (Vec<RunResult>, Option<Failure>) {
    let finished = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (index, job) in jobs.iter().enumerate() {
            let finished = &finished;
            let spawned = std::thread::Builder::new().name(format!("supervisor-{index}")).spawn_scoped(
                scope,
                move || {
                    // One line of progress is enough for all.
                    let mut quiet = *terminal;
                    quiet.quiet |= index > 0;
                    let mut progress = Progress::start(&quiet, &format!("{} models together", jobs.len()));
                    let result = measure_one(job, interrupt, &mut progress);
                    progress.finish();
                    finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
                },
            );
            if let Err(error) = spawned {
                let mut finished = finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                finished.push((index, Err(Failure::internal(error))));
            }
        }
    });
    let mut finished = finished.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    finished.sort_by_key(|(index, _)| *index);
    let (mut results, mut failure) = (Vec::new(), None);
    for (_, result) in finished {
        keep(result, &mut results, &mut failure);
    }
    (results, failure)
}

fn keep(result: Result<RunResult, Failure>, results: &mut Vec<RunResult>, failure: &mut Option<Failure>) {
    match result {
        Ok(result) => {
            if let Some(own) = &result.failure {
                failure.get_or_insert_with(|| own.clone());
            }
            results.push(result);
        }
        Err(error) => {
            failure.get_or_insert(error);
        }
    }
}

fn measure_one(job: &Job, interrupt: &Interrupt, progress: &mut Progress) -> Result<RunResult, Failure> {
    // Private to this user, and gone with the measurement.
    let channel = tempfile::Builder::new().prefix("ortscope-").tempdir()?;
    let mut plan = job.plan.clone();
    plan.channel = channel.path().to_owned();
    let outcome = supervise(&plan, &job.rule, interrupt, progress)?;
    if !outcome.stderr.trim().is_empty() {
        tracing::info!(stderr = %outcome.stderr.trim(), "printed by the worker's libraries");
    }
    let measured = Measured {
        model: &job.model,
        label: job.label.clone(),
        configuration: plan.options,
        sessions: plan.sessions,
        scenario: plan.scenario,
        warm_up: job.warm_up,
        rule: job.rule,
        notes: job.notes.clone(),
    };
    Ok(RunResult::new(measured, outcome))
}

/// What reading the clock costs and how fine it is, measured here and now.
fn measure_clock() -> ClockReport {
    let mut deltas = Vec::with_capacity(20_000);
    let mut last = now_nanos();
    for _ in 0..20_000 {
        let now = now_nanos();
        deltas.push(now - last);
        last = now;
    }
    ClockReport { name: clock_name(), cost: clock_cost(&deltas) }
}

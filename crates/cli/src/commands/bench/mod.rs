//! `ortscope bench`: measures two sides in turns until it is clear which is slower, or that noise prevents a verdict.
//!
//! [`sides`] plans two jobs from the arguments, [`blocks`] measures one block of a job, [`compare`] alternates between them
//! and asks [`ortscope_analyze::verdict`] after every round. `ortscope gate` uses the same functions.

pub mod blocks;
pub mod judge;
pub mod operators;
mod shell;
mod sides;

use std::time::Instant;

use ortscope_analyze::outputs::Tolerance;
use ortscope_analyze::verdict::{Metric, PairedComparison, Step, Verdict, neighbors_ratio};
use ortscope_channel::turn_taking::Side as TurnSide;
use ortscope_core::clock::WallAnchor;

use crate::args::{BenchArgs, FailOn, GlobalArgs};
use crate::commands::run::jobs::Job;
use crate::commands::run::require::{self, Requirement};
use crate::exit::{Exit, Failure, FailureKind};
use crate::progress::ProgressLine;
use crate::report::RunResult;
use crate::terminal::{self, Terminal, WARN};
use ortscope_analyze::facts::Scenario;
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::progress::Progress as _;
use ortscope_observe::worker::check;
use ortscope_result::comparison::{Block, Comparison, Judge, Round, SIDES, Side, SideFailure, USUAL_METRICS};
use ortscope_sources::MachineFacts;
use serde::Serialize;

#[derive(Debug, Serialize)]
struct BenchDocument {
    schema: &'static str,
    ortscope_version: &'static str,
    started_unix_ns: u64,
    machine: MachineFacts,
    #[serde(flatten)]
    comparison: Comparison,
}

/// A value of both sides, or the index of the side that failed and why.
type OfBoth<T> = Result<T, (usize, Failure)>;
type BothSides<T> = OfBoth<[T; 2]>;

pub fn run(args: &BenchArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let started = WallAnchor::now();
    let comparison = if let [a, b] = args.ab.as_slice() {
        let judge = judge::judge(&args.judge, &[Metric::Time])?;
        let interrupt = Interrupt::install();
        compare_commands([a, b], &judge, &interrupt, terminal)?
    } else {
        let judge = judge::judge(&args.judge, &USUAL_METRICS)?;
        let request = Request {
            required: require::parse(&args.run.require_provider)?,
            tolerance: outputs_tolerance(args.run.check_outputs.as_deref())?,
            fixed_length: args.run.runs.is_some() || args.run.duration.is_some(),
            profile: args.run.profile.as_deref() != Some("off"),
            resolve_improvements: true,
        };
        let jobs = sides::plan(args, global)?;
        let interrupt = Interrupt::install();
        compare(&jobs, &judge, &request, &interrupt, terminal)?
    };
    let document = BenchDocument {
        schema: "ortscope.bench/1",
        ortscope_version: env!("CARGO_PKG_VERSION"),
        started_unix_ns: started.unix_ns,
        machine: ortscope_sources::machine_facts(),
        comparison,
    };
    let comparison = &document.comparison;
    if terminal.json {
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else if comparison.side_failure.is_none() || !comparison.rounds.is_empty() {
        terminal::print_data(&ortscope_render::comparison::comparison_text(comparison, terminal.color));
    }
    Ok(exit_of(comparison, args.judge.fail_on, terminal))
}

/// Prints the failure or warning of a comparison and returns its exit code.
fn exit_of(comparison: &Comparison, fail_on: FailOn, terminal: &Terminal) -> Exit {
    if let Some(failed) = &comparison.side_failure {
        let failure = Failure { message: failed.sentence(), ..failed.failure.clone() };
        terminal::print_failure(terminal, &failure);
        return failure.kind.into();
    }
    if comparison.interrupted && comparison.rounds.is_empty() {
        terminal::print_failure(
            terminal,
            &Failure::new(FailureKind::Interrupted, "interrupted before the first round was over"),
        );
        return Exit::Interrupted;
    }
    let exit = judge::exit_of(comparison.verdict, fail_on);
    if comparison.verdict == Verdict::Inconclusive && exit == Exit::Ok && !terminal.quiet {
        let sentence = "inconclusive counts as success here; --fail-on inconclusive makes it exit code 11";
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    exit
}

/// What to do in addition to measuring.
#[derive(Debug, Clone)]
pub struct Request {
    /// Providers that must run nodes of B.
    pub required: Vec<Requirement>,
    /// Compare the outputs; `Some(None)`: with the tolerance of their types.
    pub tolerance: Option<Option<Tolerance>>,
    /// The user chose the block length.
    pub fixed_length: bool,
    pub profile: bool,
    /// Continue until an improvement is proved, not only until a regression is ruled out.
    pub resolve_improvements: bool,
}

pub fn outputs_tolerance(text: Option<&str>) -> Result<Option<Option<Tolerance>>, Failure> {
    match text {
        None => Ok(None),
        Some("types") => Ok(Some(None)),
        Some(text) => match text.parse::<f64>() {
            Ok(relative) if (0.0..=1.0).contains(&relative) => {
                // Near zero a ratio has no meaning, so the same number is the absolute tolerance.
                Ok(Some(Some(Tolerance { relative, absolute: relative })))
            }
            _ => Err(Failure::usage(format!(
                "'{text}' is not a tolerance: use a ratio from 0 to 1, e.g. 1e-3"
            ))),
        },
    }
}

/// Compares two jobs. Only problems that make the comparison impossible are errors; the failure of a side is part of the
/// result.
pub fn compare(
    jobs: &[Job; 2],
    judge: &Judge,
    request: &Request,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Result<Comparison, Failure> {
    let begin = Instant::now();
    let sides = jobs.each_ref().map(|job| Side::new(job.model.name.clone(), job.label.clone()));
    let mut report = Comparison::new(sides, judge);
    let directory = tempfile::Builder::new().prefix("ortscope-answers-").tempdir()?;
    let answers = SIDES.map(|name| directory.path().join(name));
    let mut trials = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let mut job = blocks::of_length(job, (!request.fixed_length).then_some(blocks::TRIAL_SECONDS));
        job.plan.answers_file = request.tolerance.and_then(|_| answers.get(index).cloned());
        let mut progress = ProgressLine::start(terminal, &format!("{}  trial", SIDES[index]));
        let measured = blocks::measure(&job, interrupt, &mut progress);
        progress.finish();
        match measured {
            Ok(measured) => trials.push(measured),
            Err(failure) => {
                report.side_failure = Some(SideFailure { side: SIDES[index], round: 0, failure });
                return Ok(report);
            }
        }
    }
    let [a, b] = trials.as_slice() else { return Err(Failure::internal("a side was not tried")) };
    check_same_inputs(&a.result, &b.result)?;
    require::check(std::slice::from_ref(&b.result), &request.required)?;
    for (side, measured) in [(&mut report.a, a), (&mut report.b, b)] {
        side.ort_version = measured.result.runtime.as_ref().map(|runtime| runtime.version.clone());
        side.providers =
            measured.result.placement.as_ref().map(|of| of.providers.clone()).unwrap_or_default();
    }
    if let Some(tolerance) = request.tolerance {
        report.outputs = Some(check::compare_saved(&answers[0], &answers[1], tolerance)?);
    }
    if !request.fixed_length {
        let slower = [a, b].iter().filter_map(|of| of.block.figure(Metric::P50)).fold(0.0, f64::max);
        report.block_seconds = Some(blocks::length_seconds(slower));
    }
    let jobs = jobs.each_ref().map(|job| blocks::of_length(job, report.block_seconds));
    let slower_ms = [a, b].iter().filter_map(|of| of.block.figure(Metric::P50)).fold(0.0, f64::max);
    let turn_ns = can_take_turns(&jobs, &report, judge).then(|| blocks::turn_ns(slower_ms));
    report.turn_seconds = turn_ns.map(|nanos| nanos as f64 / 1e9);
    let mut last: [Option<RunResult>; 2] = [None, None];
    let mut round = |number: usize, title: &str| -> OfBoth<Round> {
        let b_first = PairedComparison::b_first(number);
        let measured = match turn_ns {
            Some(nanos) => {
                let mut progress = ProgressLine::start(terminal, title);
                let first = if b_first { TurnSide::B } else { TurnSide::A };
                let measured =
                    blocks::measure_in_turns(&jobs, first, nanos, number, interrupt, &mut progress);
                progress.finish();
                measured?
            }
            None => one_after_the_other(b_first, |side| {
                let mut progress = ProgressLine::start(terminal, &format!("{}  {title}", SIDES[side]));
                let measured = blocks::measure(&jobs[side], interrupt, &mut progress);
                progress.finish();
                measured
            })?,
        };
        let [a, b] = measured;
        let p50_ratio = turn_ns.and_then(|_| neighbors_ratio(&a.runs, &b.runs));
        last = [Some(a.result), Some(b.result)];
        Ok(Round::new(b_first, a.block, b.block, p50_ratio))
    };
    take_turns(&mut report, judge, request.resolve_improvements, interrupt, &mut round);
    if let [Some(a), Some(b)] = &mut last
        && request.profile
        && report.side_failure.is_none()
    {
        let mut progress = ProgressLine::start(terminal, "operators");
        match operators::attribute([(&jobs[0], a), (&jobs[1], b)], interrupt, &mut progress) {
            Ok(found) => report.operators = Some(found),
            Err(note) => report.notes.push(note),
        }
        progress.finish();
    }
    report.conclude(judge);
    report.wall_seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

fn compare_commands(
    commands: [&String; 2],
    judge: &Judge,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Result<Comparison, Failure> {
    let begin = Instant::now();
    let mut report = Comparison::new(commands.map(|command| Side::new(command.clone(), None)), judge);
    let run = |index: usize, title: &str| -> Result<Block, Failure> {
        let mut progress = ProgressLine::start(terminal, title);
        progress.update(&|| ortscope_core::units::clean(commands[index], 60));
        let measured = shell::measure(commands[index], interrupt);
        progress.finish();
        Ok(measured?.unwrap_or_default())
    };
    // One unmeasured run each fills the page cache and shows whether the command works.
    for (index, name) in SIDES.into_iter().enumerate() {
        if let Err(failure) = run(index, &format!("{name}  trial")) {
            report.side_failure = Some(SideFailure { side: name, round: 0, failure });
            return Ok(report);
        }
    }
    let mut round = |number: usize, title: &str| {
        let b_first = PairedComparison::b_first(number);
        let [a, b] = one_after_the_other(b_first, |side| run(side, &format!("{}  {title}", SIDES[side])))?;
        Ok(Round::new(b_first, a, b, None))
    };
    take_turns(&mut report, judge, true, interrupt, &mut round);
    report.conclude(judge);
    report.wall_seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// Whether both sides can run at the same time, in turns: one request after the other, on CPUs, whose memory and time two
/// processes can share, and without energy counters, which cannot distinguish the sides.
fn can_take_turns(jobs: &[Job; 2], report: &Comparison, judge: &Judge) -> bool {
    let on_cpu = |side: &Side| {
        !side.providers.is_empty() && side.providers.iter().all(|name| name == "CPUExecutionProvider")
    };
    jobs.iter().all(|job| job.plan.scenario == Scenario::Single && job.plan.generate.is_none())
        && on_cpu(&report.a)
        && on_cpu(&report.b)
        && !judge.judges(Metric::Energy)
}

/// Measures both sides of a round one after the other.
fn one_after_the_other<T>(
    b_first: bool,
    mut measure: impl FnMut(usize) -> Result<T, Failure>,
) -> BothSides<T> {
    let mut side = |index: usize| measure(index).map_err(|failure| (index, failure));
    if b_first {
        let b = side(1)?;
        Ok([side(0)?, b])
    } else {
        Ok([side(0)?, side(1)?])
    }
}

/// Measures rounds until all metrics are decided, a side fails, or the user interrupts. An incomplete round is dropped.
fn take_turns(
    report: &mut Comparison,
    judge: &Judge,
    resolve_improvements: bool,
    interrupt: &Interrupt,
    measure: &mut dyn FnMut(usize, &str) -> OfBoth<Round>,
) {
    let mut comparison =
        PairedComparison::with_looks(&judge.plans, &judge.looks).resolving_improvements(resolve_improvements);
    loop {
        let round = comparison.rounds();
        let next = round + comparison.until_next_look();
        let most = judge.looks.last().map_or(next, |look| look.rounds);
        let until = if next == most { format!("{most}") } else { format!("{next} (at most {most})") };
        let measured = measure(round, &format!("round {} of {until}", round + 1));
        report.interrupted |= interrupt.requested();
        let round = match measured {
            Ok(round) if !report.interrupted => round,
            Err((side, failure)) if !report.interrupted => {
                report.side_failure = Some(SideFailure { side: SIDES[side], round: round + 1, failure });
                report.verdicts = comparison.verdicts();
                return;
            }
            Ok(_) | Err(_) => {
                report.verdicts = comparison.verdicts();
                return;
            }
        };
        let figures: Vec<Option<(f64, f64)>> =
            judge.plans.iter().map(|plan| round.figures(plan.metric)).collect();
        report.rounds.push(round);
        if comparison.add_round(&figures) == Step::Done {
            report.verdicts = comparison.verdicts();
            return;
        }
    }
}

/// Inputs must have the same shapes: a model that computes less is not faster.
fn check_same_inputs(a: &RunResult, b: &RunResult) -> Result<(), Failure> {
    let sorted = |result: &RunResult| {
        let mut described = result.inputs.as_ref().map(|inputs| inputs.described.clone()).unwrap_or_default();
        described.sort();
        described
    };
    let (a, b) = (sorted(a), sorted(b));
    if a == b { Ok(()) } else { Err(sides::different_inputs(&a.join(", "), &b.join(", "))) }
}

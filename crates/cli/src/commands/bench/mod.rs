//! `ortscope bench`: two sides on this machine, in turns, until it is clear which is slower, or that it cannot be told.
//!
//! [`sides`] makes two jobs of the arguments, [`blocks`] measures one block of a job, [`compare`] lets them take turns and
//! asks [`ortscope_analyze::verdict`] after every round, [`report`] shows it. `ortscope gate` uses the same.

pub mod blocks;
pub mod judge;
pub mod operators;
pub mod report;
mod shell;
mod sides;

use std::time::Instant;

use ortscope_analyze::outputs::{OutputVerdict, Tolerance};
use ortscope_analyze::verdict::{Metric, PairedComparison, Step, Verdict, neighbours_ratio};
use ortscope_channel::turn_taking::Side;
use ortscope_core::clock::WallAnchor;

use self::blocks::Block;
use self::judge::Judge;
use self::report::{BenchDocument, ComparisonReport, Round, SCHEMA, SideFailure, SideReport};
use crate::args::{BenchArgs, GlobalArgs};
use crate::commands::run::jobs::Job;
use crate::commands::run::require::{self, Requirement};
use crate::exit::{Exit, Failure, FailureKind};
use crate::progress::ProgressLine;
use crate::report::RunResult;
use crate::terminal::{self, Terminal, WARN};
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::measure::plan::Scenario;
use ortscope_observe::measure::protocol::CheckedOutput;
use ortscope_observe::progress::Progress as _;
use ortscope_observe::worker::check;

const NAMES: [&str; 2] = ["A", "B"];

/// What was made of A and B, or which of the two failed and why.
type OfBoth<T> = Result<T, (usize, Failure)>;
type BothSides<T> = OfBoth<[T; 2]>;

pub fn run(args: &BenchArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let started = WallAnchor::now();
    let (judge, comparison) = if let [a, b] = args.ab.as_slice() {
        let judge = Judge::new(&args.judge, &[Metric::Time])?;
        let interrupt = Interrupt::install();
        let comparison = compare_commands([a, b], &judge, &interrupt, terminal)?;
        (judge, comparison)
    } else {
        let judge = Judge::new(&args.judge, &judge::USUAL)?;
        let request = Request {
            required: require::parse(&args.run.require_provider)?,
            tolerance: outputs_tolerance(args.run.check_outputs.as_deref())?,
            fixed_length: args.run.runs.is_some() || args.run.duration.is_some(),
            profile: args.run.profile.as_deref() != Some("off"),
            resolve_improvements: true,
        };
        let jobs = sides::plan(args, global)?;
        let interrupt = Interrupt::install();
        let comparison = compare(&jobs, &judge, &request, &interrupt, terminal)?;
        (judge, comparison)
    };
    let document = BenchDocument {
        schema: SCHEMA,
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
        terminal::print_data(&(report::text(comparison, terminal).join("\n") + "\n"));
    }
    Ok(exit_of(comparison, &judge, terminal))
}

/// The exit code, after the sentences that belong to it.
pub fn exit_of(comparison: &ComparisonReport, judge: &Judge, terminal: &Terminal) -> Exit {
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
    let exit = judge.exit(comparison.verdict);
    if comparison.verdict == Verdict::Inconclusive && exit == Exit::Ok && !terminal.quiet {
        let sentence = "inconclusive counts as success here; --fail-on inconclusive makes it exit code 11";
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    exit
}

/// What else to do beside measuring.
#[derive(Debug, Clone)]
pub struct Request {
    /// Providers that must run nodes of B.
    pub required: Vec<Requirement>,
    /// Compare the answers; `Some(None)`: with the tolerance of their types.
    pub tolerance: Option<Option<Tolerance>>,
    /// The user said how long a block is.
    pub fixed_length: bool,
    pub profile: bool,
    /// Go on until an improvement is proved, not only that nothing is worse.
    pub resolve_improvements: bool,
}

pub fn outputs_tolerance(text: Option<&str>) -> Result<Option<Option<Tolerance>>, Failure> {
    match text {
        None => Ok(None),
        Some("types") => Ok(Some(None)),
        Some(text) => match text.parse::<f64>() {
            Ok(relative) if (0.0..=1.0).contains(&relative) => {
                // Next to zero a ratio says nothing: the same figure serves as the absolute tolerance.
                Ok(Some(Some(Tolerance { relative, absolute: relative })))
            }
            _ => Err(Failure::usage(format!(
                "'{text}' is not a tolerance: use a ratio from 0 to 1, e.g. 1e-3"
            ))),
        },
    }
}

/// Lets two jobs take turns. An error only for what makes the comparison impossible; what fails on the way is in the
/// report.
pub fn compare(
    jobs: &[Job; 2],
    judge: &Judge,
    request: &Request,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Result<ComparisonReport, Failure> {
    let begin = Instant::now();
    let mut report = empty_report(jobs.each_ref().map(SideReport::of_job), judge);
    let directory = tempfile::Builder::new().prefix("ortscope-answers-").tempdir()?;
    let answers = NAMES.map(|name| directory.path().join(name));
    let mut trials = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let mut job = blocks::of_length(job, (!request.fixed_length).then_some(blocks::TRIAL_SECONDS));
        job.plan.answers_file = request.tolerance.and_then(|_| answers.get(index).cloned());
        let mut progress = ProgressLine::start(terminal, &format!("{}  trial", NAMES[index]));
        let measured = blocks::measure(&job, interrupt, &mut progress);
        progress.finish();
        match measured {
            Ok(measured) => trials.push(measured),
            Err(failure) => {
                report.side_failure = Some(SideFailure { side: NAMES[index], round: 0, failure });
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
                let first = if b_first { Side::B } else { Side::A };
                let measured =
                    blocks::measure_in_turns(&jobs, first, nanos, number, interrupt, &mut progress);
                progress.finish();
                measured?
            }
            None => one_after_the_other(b_first, |side| {
                let mut progress = ProgressLine::start(terminal, &format!("{}  {title}", NAMES[side]));
                let measured = blocks::measure(&jobs[side], interrupt, &mut progress);
                progress.finish();
                measured
            })?,
        };
        let [a, b] = measured;
        let p50_ratio = turn_ns.and_then(|_| neighbours_ratio(&a.runs, &b.runs));
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
    finish(&mut report, judge);
    report.wall_seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

fn compare_commands(
    commands: [&String; 2],
    judge: &Judge,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Result<ComparisonReport, Failure> {
    let begin = Instant::now();
    let side = |command: &String| SideReport {
        name: command.clone(),
        settings: None,
        ort_version: None,
        providers: Vec::new(),
    };
    let mut report = empty_report(commands.map(side), judge);
    let run = |index: usize, title: &str| -> Result<Block, Failure> {
        let mut progress = ProgressLine::start(terminal, title);
        progress.update(&|| ortscope_core::units::clean(commands[index], 60));
        let measured = shell::measure(commands[index], interrupt);
        progress.finish();
        Ok(measured?.unwrap_or_default())
    };
    // Once each, unmeasured: the disk's cache, and whether they run at all.
    for (index, name) in NAMES.into_iter().enumerate() {
        if let Err(failure) = run(index, &format!("{name}  trial")) {
            report.side_failure = Some(SideFailure { side: name, round: 0, failure });
            return Ok(report);
        }
    }
    let mut round = |number: usize, title: &str| {
        let b_first = PairedComparison::b_first(number);
        let [a, b] = one_after_the_other(b_first, |side| run(side, &format!("{}  {title}", NAMES[side])))?;
        Ok(Round::new(b_first, a, b, None))
    };
    take_turns(&mut report, judge, true, interrupt, &mut round);
    finish(&mut report, judge);
    report.wall_seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

fn empty_report([a, b]: [SideReport; 2], judge: &Judge) -> ComparisonReport {
    ComparisonReport {
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

/// Whether the two sides can live at the same time and run in turns: with one request after the other, on processors, whose
/// memory and time two processes can share, and without counters that know no turns.
fn can_take_turns(jobs: &[Job; 2], report: &ComparisonReport, judge: &Judge) -> bool {
    let on_processors = |side: &SideReport| {
        !side.providers.is_empty() && side.providers.iter().all(|name| name == "CPUExecutionProvider")
    };
    jobs.iter().all(|job| job.plan.scenario == Scenario::Single && job.plan.generate.is_none())
        && on_processors(&report.a)
        && on_processors(&report.b)
        && judge.plans.iter().all(|plan| plan.metric != Metric::Energy)
}

/// Both sides of a round, each whole; an error says whose it is.
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

/// Round after round until everything is decided, a side fails, or the user stops it. A round that is not whole is left
/// out.
fn take_turns(
    report: &mut ComparisonReport,
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
                report.side_failure = Some(SideFailure { side: NAMES[side], round: round + 1, failure });
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

/// The verdict over everything. Other answers are a regression whatever the time says.
fn finish(report: &mut ComparisonReport, judge: &Judge) {
    for found in report.verdicts.iter_mut().filter(|found| judge::is_missing(found)) {
        found.reason = Some(match (found.metric, found.metric.quantile()) {
            (Metric::Energy, _) => {
                "no counter of energy, or blocks below a second: `ortscope doctor` and --duration".to_owned()
            }
            (_, Some(p)) => {
                format!("needs ≥ {} runs per block: --duration", ortscope_analyze::verdict::block_needs(p))
            }
            _ => "not known on this system".to_owned(),
        });
    }
    report.verdict = judge.overall(&report.verdicts);
    report.summary = report::summary(report.verdict, &report.verdicts);
    if report.interrupted {
        report.notes.push(format!("interrupted after {} whole rounds", report.rounds.len()));
    }
    let different: Vec<&CheckedOutput> = report
        .outputs
        .iter()
        .flatten()
        .filter(|output| output.comparison.verdict == OutputVerdict::Different)
        .collect();
    if let Some(first) = different.first() {
        report.summary = format!(
            "B answers differently: {} of {} outputs, {}: {}",
            different.len(),
            report.outputs.as_ref().map_or(0, Vec::len),
            first.name,
            first.comparison.sentence
        );
        if report.verdict == Verdict::Regression {
            report.summary += &format!("; {}", report::summary(report.verdict, &report.verdicts));
        }
        report.verdict = Verdict::Regression;
    }
}

/// What was made must have the same sizes: a model that computes less is not faster.
fn check_same_inputs(a: &RunResult, b: &RunResult) -> Result<(), Failure> {
    let sorted = |result: &RunResult| {
        let mut described = result.inputs.as_ref().map(|inputs| inputs.described.clone()).unwrap_or_default();
        described.sort();
        described
    };
    let (a, b) = (sorted(a), sorted(b));
    if a == b { Ok(()) } else { Err(sides::different_inputs(&a.join(", "), &b.join(", "))) }
}

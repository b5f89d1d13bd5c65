//! `ortscope run`: from arguments to jobs, from jobs to results, from results to a report.

pub mod jobs;
pub mod require;
pub mod sweep;

use std::path::Path;

use ortscope_analyze::facts::Fact;
use ortscope_analyze::leak::LeakVerdict;
use ortscope_analyze::measurement::Measurement;
use ortscope_core::clock::{WallAnchor, now_ns};
use ortscope_core::schema::{GraphEdgeRow, Text};
use ortscope_render::brief::{self, sweeps};
use ortscope_result::ClockReport;
use ortscope_store::Recording;

use self::jobs::Job;
use crate::args::{GlobalArgs, RunArgs};
use crate::exit::{Exit, Failure, FailureKind};
use crate::operators;
use crate::progress::ProgressLine;
use crate::recording::{self, SaveRequest};
use crate::report::document::SCHEMA;
use crate::report::{RunDocument, RunResult};
use crate::terminal::{self, Terminal, WARN};
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::measure::plan::WindowsPlan;
use ortscope_observe::measure::supervisor::{self, Assignment, Supervised, record_fact};
use ortscope_observe::recording::{ActiveRecording, append};
use ortscope_observe::{measure, operator_pass};

/// Models and sessions at the same time.
const MAX_TOGETHER: usize = 10;
/// Runs of a window that is profiled during the measurement.
const WINDOW_RUNS: u64 = 5;
/// A day of them, one every thirty seconds.
const MAX_WINDOWS: u64 = 2880;

/// Runs the command. What was measured is printed also when something failed.
pub fn run(args: &RunArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.together && args.models.len() > MAX_TOGETHER {
        return Err(Failure::usage(format!(
            "--together takes at most {MAX_TOGETHER} models, not {}",
            args.models.len()
        )));
    }
    let required = require::parse(&args.require_provider)?;
    let jobs = jobs::plan(args, global)?;
    let recording = begin_recording(args, global, &jobs, terminal)?;
    let interrupt = Interrupt::install();
    let started = WallAnchor::now();
    let clock = ClockReport::measure();
    let results = if args.together {
        measure_together(&jobs, recording.as_ref(), &interrupt, terminal)
    } else {
        measure_in_turn(&jobs, recording.as_ref(), &interrupt, terminal)
    };
    let failure = results.iter().find_map(|result| result.failure.clone());
    let batch_sweep = sweep::batch_report(args, &results);
    let sweep = sweep::settings_report(args, global, &jobs, &results);
    let mut document = RunDocument {
        schema: SCHEMA,
        ortscope_version: env!("CARGO_PKG_VERSION"),
        started_unix_ns: started.unix_ns,
        machine: ortscope_sources::machine_facts(),
        clock,
        results,
        batch_sweep,
        sweep,
        recording: None,
        failure: failure.clone(),
    };
    if let Some(recording) = recording {
        save(recording, &mut document, &interrupt, terminal);
    }
    show(&document, terminal)?;
    if let Some(saved) = document.recording.as_ref().filter(|_| args.open && !interrupt.requested()) {
        super::serve::show(&saved.directory, &interrupt, global, terminal)?;
    }
    // The document has the failure already: main must not print it again as a document of its own.
    Ok(finish(&document, failure, &required, &interrupt).unwrap_or_else(|failure| {
        terminal::print_failure(terminal, &failure);
        failure.kind.into()
    }))
}

fn begin_recording(
    args: &RunArgs,
    global: &GlobalArgs,
    jobs: &[Job],
    terminal: &Terminal,
) -> Result<Option<ActiveRecording>, Failure> {
    let mut names: Vec<&str> = jobs.iter().map(|job| job.model.name.as_str()).collect();
    names.dedup();
    let request = SaveRequest {
        origin: "run",
        name: args.save.as_deref(),
        never: args.no_save,
        encrypt: args.encryption.encrypt,
        subject: names.join(", "),
        observed_words: 0,
    };
    match recording::begin(request, global)? {
        Ok(recording) => Ok(Some(recording)),
        Err(None) => Ok(None),
        Err(Some(why)) => {
            // Measuring is what was asked for; a store that cannot be written is no reason not to.
            warn(terminal, &format!("this run is not recorded: {why}"));
            Ok(None)
        }
    }
}

/// A recording that cannot be finished stays as it is, readable up to there; the run itself has succeeded.
fn save(recording: ActiveRecording, document: &mut RunDocument, interrupt: &Interrupt, terminal: &Terminal) {
    let reason = match &document.failure {
        _ if interrupt.requested() => "interrupted",
        Some(_) => "failed",
        None => "finished",
    };
    match recording::finish_run(recording, document, reason) {
        Ok(saved) => {
            // The printed result is the recording's, so that every later report agrees with it.
            match Recording::open(&saved.directory)
                .map_err(Failure::from)
                .and_then(|saved| recording::results(&saved))
            {
                Ok(results) if results.len() == document.results.len() => document.results = results,
                Ok(_) => warn(terminal, "the recording does not contain every measurement"),
                Err(failure) => warn(terminal, &format!("the recording cannot be read back: {failure}")),
            }
            document.recording = Some(saved);
        }
        Err(failure) => warn(terminal, &format!("the recording could not be finished: {failure}")),
    }
}

fn warn(terminal: &Terminal, sentence: &str) {
    terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
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
        lines.extend(sweeps::batch_sweep(report, &document.results, terminal.painter()));
    } else if let Some(report) = &document.sweep {
        lines.extend(document.results.first().map(|result| format!("{}  settings tried", result.model.name)));
        lines.extend(sweeps::sweep(report, &document.results, terminal.painter()));
    } else {
        // What could not be measured has its error line and nothing else.
        let measured =
            document.results.iter().filter(|result| result.measured_runs() > 0 || result.failure.is_none());
        for (index, result) in measured.enumerate() {
            if index > 0 {
                lines.push(String::new());
            }
            lines.extend(brief::summary(result, &document.clock, terminal.painter()));
        }
    }
    if let Some(saved) = &document.recording
        && !lines.is_empty()
    {
        let name = saved.name.as_deref().unwrap_or(&saved.id);
        lines.push(brief::saved(name, saved.bytes, terminal.painter()));
    }
    if !lines.is_empty() {
        terminal::print_data(&(lines.join("\n") + "\n"));
    }
    Ok(())
}

/// The exit code: a failure's own; otherwise lost data; otherwise success.
fn finish(
    document: &RunDocument,
    failure: Option<Failure>,
    required: &[require::Requirement],
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let measured = document.results.iter().any(|result| result.measured_runs() > 0);
    // A sweep that recommends something has done its job even if some rows could not run.
    let recommended = document.sweep.as_ref().is_some_and(|sweep| sweep.analysis.recommended.is_some())
        || document.batch_sweep.as_ref().is_some_and(|sweep| sweep.analysis.best_batch.is_some());
    if let Some(failure) = failure.filter(|_| !recommended) {
        return Err(failure);
    }
    require::check(&document.results, required)?;
    if interrupt.requested() && !measured {
        return Err(Failure::new(FailureKind::Interrupted, "interrupted before anything was measured"));
    }
    let lost =
        document.results.iter().any(|result| result.losses.iter().any(|loss| loss.kind == "inferences"));
    let leaks = document
        .results
        .iter()
        .any(|result| result.leak.as_ref().is_some_and(|report| report.verdict == LeakVerdict::Leak));
    Ok(match (lost, leaks) {
        (true, _) => Exit::DataLost,
        (false, true) => Exit::Regression,
        (false, false) => Exit::Ok,
    })
}

fn measure_in_turn(
    jobs: &[Job],
    recording: Option<&ActiveRecording>,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Vec<RunResult> {
    let mut results = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        if interrupt.requested() {
            break;
        }
        let place = if jobs.len() > 1 { format!(" ({}/{})", index + 1, jobs.len()) } else { String::new() };
        let mut progress = ProgressLine::start(terminal, &format!("{}{place}", job.title()));
        results.push(measure_one(job, recording, interrupt, &mut progress));
        progress.finish();
    }
    results
}

/// Every job in its own worker, all at once; the results keep the order of the jobs.
fn measure_together(
    jobs: &[Job],
    recording: Option<&ActiveRecording>,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Vec<RunResult> {
    let supervise_one = |index: usize, job| {
        // One line of progress is enough for all.
        let mut shown = *terminal;
        shown.quiet |= index > 0;
        let mut progress = ProgressLine::start(&shown, &format!("{} models together", jobs.len()));
        let result = measure_one(job, recording, interrupt, &mut progress);
        progress.finish();
        result
    };
    let supervise_one = &supervise_one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(index, job)| {
                let thread = std::thread::Builder::new().name(format!("supervisor-{index}"));
                (job, thread.spawn_scoped(scope, move || supervise_one(index, job)))
            })
            .collect();
        threads
            .into_iter()
            .map(|(job, thread)| match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => {
                    not_measured(job, Failure::internal("the supervisor's thread panicked"), recording)
                }
                Err(error) => not_measured(job, error.into(), recording),
            })
            .collect()
    })
}

/// Every job has a result, if only the reason why it could not be measured.
fn measure_one(
    job: &Job,
    recording: Option<&ActiveRecording>,
    interrupt: &Interrupt,
    progress: &mut ProgressLine,
) -> RunResult {
    let directory = match job.profile_every.map(|_| measure::profile_directory()).transpose() {
        Ok(directory) => directory,
        Err(error) => return not_measured(job, error.into(), recording),
    };
    let windows = directory.as_ref().map(measure::PrivateDirectory::path);
    let measurement = match work(job, windows, recording, interrupt, progress) {
        Ok(supervised) => supervised.collected,
        Err(failure) => return not_measured(job, failure, recording),
    };
    let mut measurement = FactLog { measurement, recording };
    if let Some(windows) = windows {
        add_windows(&mut measurement, windows);
    }
    // The operator pass needs figures of the measurement: how many threads were busy, which devices were used.
    let result = RunResult::new(measurement.take_copy()).unwrap_or_default();
    add_operators(&mut measurement, &result, job, interrupt, progress);
    RunResult::new(measurement.measurement).unwrap_or(result)
}

/// A measurement whose facts go to the recording as well.
struct FactLog<'r> {
    measurement: Measurement,
    recording: Option<&'r ActiveRecording>,
}

impl FactLog<'_> {
    fn session_id(&self) -> Text {
        self.measurement.plan().map(ortscope_analyze::measurement::session_id).unwrap_or_default()
    }

    fn add(&mut self, fact: Fact) {
        let writer = self.recording.map(|recording| &recording.writer);
        if let Err(failure) = record_fact(writer, &self.session_id(), &fact) {
            tracing::warn!("a fact is not in the recording: {}", failure.message);
        }
        self.measurement.facts.push(fact);
    }

    fn take_copy(&self) -> Measurement {
        self.measurement.clone()
    }
}

fn add_windows(log: &mut FactLog<'_>, directory: &Path) {
    let writer = log.recording.map(|recording| &recording.writer);
    log.add(match operator_pass::windows::read(directory, &log.session_id(), writer) {
        Ok(windows) => Fact::Windows { windows },
        Err(failure) => Fact::Note { text: format!("the profiled windows could not be read: {failure}") },
    });
}

/// Without a profile the result has the reason; the measured figures stay.
fn add_operators(
    log: &mut FactLog<'_>,
    result: &RunResult,
    job: &Job,
    interrupt: &Interrupt,
    progress: &mut ProgressLine,
) {
    let reason = match job.profile {
        _ if result.measured_runs() == 0 || result.failure.is_some() => "nothing was measured".to_owned(),
        None if job.together => "not profiled with --together".to_owned(),
        None if job.label.is_some() => "not profiled in a sweep".to_owned(),
        None => "switched off with --profile off".to_owned(),
        Some(_) if interrupt.requested() => "interrupted before the profiling pass".to_owned(),
        Some(request) => {
            let built = operators::profile(
                result,
                &job.plan,
                &job.graph,
                request,
                log.recording,
                interrupt,
                progress,
            );
            match built {
                Ok(built) => {
                    record_edges(log, &built.edges);
                    log.add(Fact::Operators(Box::new(built.section)));
                    return log.add(Fact::OperatorFindings { findings: built.findings });
                }
                Err(failure) => failure.to_string(),
            }
        }
    };
    log.add(Fact::Unavailable { metric: "operators".to_owned(), reason });
}

fn record_edges(log: &FactLog<'_>, edges: &[(u64, u64)]) {
    let Some(recording) = log.recording else { return };
    let (timestamp_ns, session_id) = (now_ns(), log.session_id());
    let rows = edges.iter().map(|(from_node, to_node)| GraphEdgeRow {
        timestamp_ns,
        session_id: Text::clone(&session_id),
        from_node: *from_node,
        to_node: *to_node,
    });
    if let Err(failure) = append(&recording.writer, rows) {
        tracing::warn!("the graph is not in the recording: {}", failure.message);
    }
}

fn not_measured(job: &Job, failure: Failure, recording: Option<&ActiveRecording>) -> RunResult {
    let writer = recording.map(|recording| &recording.writer);
    RunResult::new(supervisor::not_measured(job.measured(), failure, writer)).unwrap_or_default()
}

/// One worker, from its start to its end.
pub fn work(
    job: &Job,
    windows: Option<&Path>,
    recording: Option<&ActiveRecording>,
    interrupt: &Interrupt,
    progress: &mut ProgressLine,
) -> Result<Supervised, Failure> {
    let channel = measure::channel_directory(job.together)?;
    let mut plan = job.plan.clone();
    plan.channel = channel.path().to_owned();
    plan.windows = windows.zip(job.profile_every).map(|(directory, every)| WindowsPlan {
        directory: directory.to_owned(),
        every_ns: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX),
        runs: WINDOW_RUNS,
        most: MAX_WINDOWS,
    });
    let assignment = Assignment {
        plan: &plan,
        model_name: &job.model.name,
        rule: &job.rule,
        sampling_hertz: job.sampling_hertz,
        kernel: job.kernel,
        stage: None,
        recording: recording.map(|recording| &recording.writer),
    };
    let outcome = supervisor::measure(&assignment, job.measured(), interrupt, progress)?;
    if !outcome.stderr.trim().is_empty() {
        tracing::info!(stderr = %outcome.stderr.trim(), "printed by the worker's libraries");
    }
    Ok(outcome)
}

//! The supervisor of one worker: starts it, observes it through the pipeline, stops it when enough is known, and keeps its
//! data however it ends.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ortscope_analyze::StopRule;
use ortscope_analyze::facts::{CountedLoss, Ended, Fact, FactRecord, MeasurementPlan, Outcome};
use ortscope_analyze::measurement::{DeviceReadings, Inference, MAX_INFERENCES, Measurement};
use ortscope_channel::ControlPage;
use ortscope_core::clock::now_ns;
use ortscope_core::identity::SessionId;
use ortscope_core::pipeline::Pipeline;
use ortscope_core::schema::SessionRow;
use ortscope_sources::ProcessSampler;
use ortscope_sources::kernel::{Class, TraceOptions};
use ortscope_store::RecordingWriter;

use super::collect::Collector;
use super::plan::WorkerPlan;
use super::provider_failures;
use crate::interrupt::Interrupt;
use crate::plan::{Inferences, KernelPlan, Observation, Plan};
use crate::progress::Progress;
use crate::recording::{append, keep_secrets_from};
use crate::worker::own_profiles;
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::units;

/// Interval of the supervisor's checks.
const PERIOD: Duration = Duration::from_millis(200);
/// A stopped worker that has not ended by then hangs in a call, and is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum wait for the output of an ended worker.
const STDERR_PATIENCE: Duration = Duration::from_secs(1);
/// Maximum size of the kept output of the worker's libraries.
const STDERR_BYTES: u64 = 64 * 1024;

/// What a worker left.
#[derive(Debug)]
pub struct Supervised {
    pub session_ids: Vec<String>,
    pub collected: Measurement,
    /// Why it could not go on; also present when the process died.
    pub failure: Option<Failure>,
    /// The last lines that the worker's libraries printed.
    pub stderr: String,
    ended: Ended,
    losses: Vec<CountedLoss>,
    source_errors: Vec<(String, String)>,
    wall_seconds: f64,
}

/// What to run, and how to observe it.
#[derive(Debug)]
pub struct Assignment<'a> {
    pub plan: &'a WorkerPlan,
    pub model_name: &'a str,
    pub rule: &'a StopRule,
    pub sampling_hertz: f64,
    /// Record kernel events of the worker.
    pub kernel: bool,
    /// The progress text; by default it follows the worker's messages and records.
    pub stage: Option<&'a str>,
    /// All rows are also written to this recording.
    pub recording: Option<&'a RecordingWriter>,
}

/// Measures: runs one worker between two looks at the idle machine, if these are requested, and records the plan and the
/// outcome as facts.
pub fn measure(
    assignment: &Assignment<'_>,
    measured: MeasurementPlan,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Supervised, Failure> {
    let idle = measured.energy.idle_seconds.map(Duration::from_secs_f64);
    let look = |progress: &mut dyn Progress| match idle.filter(|_| !interrupt.requested()) {
        Some(idle) => {
            progress.update(&|| "observing the idle machine".to_owned());
            rest(idle, interrupt).map(|devices| Some(devices.mean_power_w()))
        }
        None => Ok(None),
    };
    let idle_before_w = look(progress)?;
    let mut supervised = supervise_planned(assignment, Some(measured), interrupt, progress)?;
    let outcome = Outcome {
        ended: supervised.ended,
        failure: supervised.failure.clone(),
        losses: std::mem::take(&mut supervised.losses),
        source_errors: std::mem::take(&mut supervised.source_errors),
        wall_seconds: supervised.wall_seconds,
        idle_before_w,
        idle_after_w: look(progress)?,
    };
    let session_id = supervised.session_ids.first().cloned().unwrap_or_default();
    record_fact(assignment.recording, &session_id, &Fact::Outcome(outcome.clone()))?;
    supervised.collected.facts.push(Fact::Outcome(outcome));
    Ok(supervised)
}

/// The facts of a measurement that could not start.
pub fn not_measured(
    plan: MeasurementPlan,
    failure: Failure,
    recording: Option<&RecordingWriter>,
) -> Measurement {
    let session_id = SessionId::random().to_string();
    let outcome = Outcome {
        ended: Ended::WorkerDone,
        failure: Some(failure),
        losses: Vec::new(),
        source_errors: Vec::new(),
        wall_seconds: 0.0,
        idle_before_w: None,
        idle_after_w: None,
    };
    let plan = MeasurementPlan { session_ids: vec![session_id.clone()], ..plan };
    let facts = vec![Fact::Plan(Box::new(plan)), Fact::Outcome(outcome)];
    for fact in &facts {
        if let Err(failure) = record_fact(recording, &session_id, fact) {
            tracing::warn!("the failure is not in the recording: {}", failure.message);
        }
    }
    Measurement { facts, ..Measurement::default() }
}

/// Writes a fact into the recording, if there is one.
pub fn record_fact(
    recording: Option<&RecordingWriter>,
    session_id: &str,
    fact: &Fact,
) -> Result<(), Failure> {
    let Some(recording) = recording else { return Ok(()) };
    let record = FactRecord { session_id: session_id.to_owned(), fact: fact.clone() };
    append(recording, [record.row(now_ns()).map_err(Failure::internal)?])
}

/// Runs one worker to its end.
pub fn supervise(
    assignment: &Assignment<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Supervised, Failure> {
    supervise_planned(assignment, None, interrupt, progress)
}

fn supervise_planned(
    assignment: &Assignment<'_>,
    measured: Option<MeasurementPlan>,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Supervised, Failure> {
    let started = Instant::now();
    let planned_ns = now_ns();
    let session_ids: Vec<String> =
        (0..assignment.plan.sessions.max(1)).map(|_| SessionId::random().to_string()).collect();
    let plan = &WorkerPlan { session_ids: session_ids.clone(), ..assignment.plan.clone() };
    let page = ControlPage::create(&plan.channel).map_err(Failure::internal)?;
    page.beat(now_ns());
    let mut child = spawn(plan)?;
    let stderr = drain_stderr(&mut child)?;
    let ended = Arc::new(AtomicBool::new(false));
    let measured = measured.map(|measured| {
        let pid = Some(u64::from(child.id()));
        Fact::Plan(Box::new(MeasurementPlan { session_ids: session_ids.clone(), pid, ..measured }))
    });
    let collector = Collector::default();
    if let Some(recording) = assignment.recording {
        recording.add_channel(&plan.channel, &session_ids)?;
        let rows = session_ids.iter().map(|id| SessionRow {
            timestamp_ns: now_ns(),
            session_id: id.as_str().into(),
            pid: Some(u64::from(child.id())),
            model_name: assignment.model_name.into(),
            ..SessionRow::default()
        });
        append(recording, rows)?;
        if let Some(fact) = &measured {
            let session_id = session_ids.first().cloned().unwrap_or_default();
            let record = FactRecord { session_id, fact: fact.clone() };
            append(recording, [record.row(planned_ns).map_err(Failure::internal)?])?;
        }
    }
    collector.lock().facts.extend(measured);
    let sources = Plan {
        inferences: Inferences::Worker {
            channel: plan.channel.clone(),
            session_ids: session_ids.iter().map(|id| id.as_str().into()).collect(),
            ended: Arc::clone(&ended),
        },
        counted_pids: vec![child.id()],
        kernel: assignment.kernel.then(|| KernelPlan {
            options: kernel_options(),
            pids: HashSet::from([child.id()]),
            on_milli: None,
        }),
        ..Plan::new(ProcessSampler::new(vec![child.id()], assignment.sampling_hertz))
    };
    let observation = sources.start(assignment.recording, vec![Box::new(collector.clone())])?;
    if let Some(stage) = assignment.stage {
        progress.update(&|| stage.to_owned());
    }
    let (status, why) = watch(&mut child, assignment, interrupt, progress, &observation, &collector)?;
    ended.store(true, Ordering::SeqCst);
    // The channel is still read to its end.
    let report = observation.finish();
    if let Some(recording) = assignment.recording {
        recording.remove_channel(&plan.channel)?;
    }
    let stderr = stderr.take();
    let wall_seconds = started.elapsed().as_secs_f64();
    let collected = collector.take();
    let failure = failure_of(&collected, status, why, &stderr);
    if let Some(recording) = assignment.recording {
        provider_failures::record(recording, &collected, failure.as_ref());
    }
    let losses = report.losses.into_iter().map(|(place, kind, count)| CountedLoss { place, kind, count });
    Ok(Supervised {
        session_ids,
        collected,
        ended: why,
        failure,
        losses: losses.collect(),
        source_errors: report.errors,
        stderr,
        wall_seconds,
    })
}

/// Devices alone, while nothing is measured.
fn rest(duration: Duration, interrupt: &Interrupt) -> Result<DeviceReadings, Failure> {
    let collector = Collector::default();
    let running = Pipeline::default().source(crate::devices::source(&[])).sink(collector.clone()).start()?;
    let begin = Instant::now();
    while begin.elapsed() < duration && !interrupt.requested() {
        std::thread::sleep(Duration::from_millis(50));
    }
    running.control().stop();
    running.join();
    Ok(collector.take().devices)
}

/// Everything that can keep a thread from running.
fn kernel_options() -> TraceOptions {
    TraceOptions {
        classes: vec![Class::Wakeups, Class::PageFaults, Class::BlockIo],
        ..TraceOptions::default()
    }
}

fn spawn(plan: &WorkerPlan) -> Result<Child, Failure> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command
        .arg(crate::worker::ARGUMENT)
        // Telemetry of ONNX Runtime 1.29+ starts with the library, before its API can switch it off.
        .env(crate::TELEMETRY_VARIABLE, "1");
    keep_secrets_from(&mut command);
    if let Some(profile) = plan.profile.as_ref().filter(|_| own_profiles::asks_for_openvino(&plan.options)) {
        let directory = own_profiles::openvino_directory(profile);
        // The provider does not create the directory.
        fs_err::create_dir_all(&directory)?;
        command.env(own_profiles::OPENVINO_VARIABLE, directory);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let text = serde_json::to_vec(plan).map_err(Failure::internal)?;
    if let Some(mut stdin) = child.stdin.take() {
        // The exit status reports a worker that died immediately.
        stdin.write_all(&text).ok();
    }
    Ok(child)
}

/// The end of the worker's output.
struct StderrTail {
    kept: Arc<Mutex<Vec<u8>>>,
    thread: std::thread::JoinHandle<()>,
}

impl StderrTail {
    /// The output after the worker has ended. A process that a library started may keep the pipe open, so the wait is limited.
    fn take(self) -> String {
        let begin = Instant::now();
        while !self.thread.is_finished() && begin.elapsed() < STDERR_PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// Reads the worker's output continuously, so that it never blocks, and keeps the end.
fn drain_stderr(child: &mut Child) -> Result<StderrTail, Failure> {
    let (pipe, kept) = (child.stderr.take(), Arc::new(Mutex::new(Vec::new())));
    let shared = Arc::clone(&kept);
    let thread = std::thread::Builder::new().name("worker-stderr".into()).spawn(move || {
        let mut chunk = [0; 8192];
        let Some(mut pipe) = pipe else { return };
        while let Ok(read @ 1..) = pipe.read(&mut chunk) {
            let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&chunk[..read]);
            let excess = kept.len().saturating_sub(STDERR_BYTES as usize);
            kept.drain(..excess);
        }
    })?;
    Ok(StderrTail { kept, thread })
}

/// Checks a few times a second until the worker has ended.
fn watch(
    child: &mut Child,
    assignment: &Assignment<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
    observation: &Observation,
    collector: &Collector,
) -> Result<(ExitStatus, Ended), Failure> {
    let mut why = None;
    let mut stopped_at: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, why.unwrap_or(Ended::WorkerDone)));
        }
        if why.is_none() {
            why = reason_to_stop(assignment, interrupt, progress, collector);
            if why.is_some() {
                observation.control().stop();
                stopped_at = Some(Instant::now());
            }
        }
        let overdue = stopped_at.is_some_and(|at| at.elapsed() > STOP_PATIENCE);
        let idle_interrupt = interrupt.requested() && collector.lock().inferences() == 0;
        if interrupt.insisted()
            || overdue
            || (idle_interrupt && stopped_at.is_some_and(|at| at.elapsed() > PERIOD))
        {
            child.kill()?;
            let status = child.wait()?;
            return Ok((status, why.unwrap_or(Ended::Interrupted)));
        }
        std::thread::sleep(PERIOD.min(Duration::from_millis(if stopped_at.is_some() { 20 } else { 200 })));
    }
}

fn reason_to_stop(
    assignment: &Assignment<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
    collector: &Collector,
) -> Option<Ended> {
    if interrupt.requested() {
        return Some(Ended::Interrupted);
    }
    let collected = collector.lock();
    if collected.inferences() >= MAX_INFERENCES {
        return Some(Ended::RecordLimit);
    }
    let Some(begin) = collected.facts.iter().find_map(|message| match message {
        Fact::Steady { begin: true, timestamp_ns, .. } => Some(*timestamp_ns),
        _ => None,
    }) else {
        progress.update(&|| assignment.stage.unwrap_or_else(|| stage(&collected.facts)).to_owned());
        return None;
    };
    let elapsed = now_ns().saturating_sub(begin);
    progress.update(&|| {
        let seconds = units::duration(elapsed as f64 / 1e9);
        match median_of_last(&collected.steady_run_ns) {
            Some(median) => {
                let runs = units::count(collected.steady.len() as u64);
                format!("{runs} runs  p50 ≈ {}  {seconds}", units::nanoseconds(median as f64))
            }
            None => format!("{} tokens  {seconds}", units::count(collected.generated.len() as u64)),
        }
    });
    // The rule uses the runs after the warm-up, which is at most half of the series.
    let warm = ortscope_analyze::detect_warm_up(sample(&collected.steady_run_ns)).discarded;
    assignment.rule.check(collected.steady_run_ns.get(warm..).unwrap_or_default(), elapsed).map(Ended::Rule)
}

/// Warm-up is in the first runs; analyzing a million runs would disturb the measurement.
fn sample(runs: &[u64]) -> &[u64] {
    runs.get(..20_000).unwrap_or(runs)
}

fn median_of_last(runs: &[u64]) -> Option<u64> {
    let mut last: Vec<u64> = runs.iter().rev().take(501).copied().collect();
    last.sort_unstable();
    last.get(last.len() / 2).copied()
}

fn stage(messages: &[Fact]) -> &'static str {
    match messages.last() {
        None => "loading ONNX Runtime",
        Some(Fact::Runtime { .. }) => "reading the model",
        Some(Fact::FileRead { .. } | Fact::Memory { .. }) => "creating the session",
        Some(Fact::SessionCreated(_)) => "making inputs",
        Some(_) => "first run",
    }
}

/// The failure that the worker reported, or the exit status of a worker that died without reporting one.
fn failure_of(collected: &Measurement, status: ExitStatus, why: Ended, stderr: &str) -> Option<Failure> {
    let reported = collected.facts.iter().find_map(|message| match message {
        Fact::Failed { failure, .. } => Some(failure.clone()),
        _ => None,
    });
    if reported.is_some() {
        return reported;
    }
    let done = collected.facts.iter().any(|message| matches!(message, Fact::Done));
    if done || why == Ended::Interrupted {
        return None;
    }
    let runs = collected.inferences();
    let last_words = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    // The end of its last inference is the best known time of death.
    let begin = collected.facts.iter().find_map(|message| match message {
        Fact::Steady { begin: true, timestamp_ns, .. } => Some(*timestamp_ns),
        _ => None,
    });
    let last = collected.steady.iter().chain(&collected.generated).map(Inference::end_ns).max();
    let when = match begin.zip(last) {
        Some((begin, last)) => {
            format!(", {} into the measurement", units::duration(last.saturating_sub(begin) as f64 / 1e9))
        }
        None if runs > 0 => String::new(),
        None => format!(", during: {}", stage(&collected.facts)),
    };
    let message = format!(
        "the worker process died ({status}) after {runs} runs{when}{}",
        if last_words.is_empty() { String::new() } else { format!("; its last words: {last_words}") }
    );
    Some(Failure::new(FailureKind::Model, message).with_hint(
        "a provider or a custom operator crashed; try --provider cpu, or --opt none, to find which",
    ))
}

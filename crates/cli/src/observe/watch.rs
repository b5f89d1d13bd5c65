//! Watching from the beginning to the end: sources, recording, and when to stop.

use std::collections::HashSet;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, Emitter, Pipeline, Source, SourceError, SourceInfo};
use ortscope_export::push::{PushHandle, PushSink, PushState};
use ortscope_export::{LiveTraceState, TraceHandle};
use ortscope_sources::kernel::{Class, SampleOptions, TraceOptions};
use ortscope_sources::sampler::{OwnCost, ProcessSampler};
use ortscope_sources::{
    KernelHandle, KernelSource, KernelSummary, PausedProcess, PythonStackSource, StackSource, Stacks,
    StacksHandle,
};
use ortscope_store::RecordingWriter;

use super::collect::{Collected, Collector};
use super::device_events;
use super::inside::Inside;
use super::plan::ObservePlan;
use crate::exit::Failure;
use crate::measure::interrupt::Interrupt;
use crate::measure::progress::Progress;
use ortscope_core::units;

/// How often the watcher looks whether it is over.
const PERIOD: Duration = Duration::from_millis(50);
/// A watched program that was asked to end by Ctrl-C may take this long before the report is made without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// A program waits at most this long for those that watch it.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// A program that was started to be watched.
#[derive(Debug)]
pub struct Started {
    pub child: Child,
    /// It does not go on before everything that watches it is ready.
    pub held: Option<PausedProcess>,
    /// Words of its command.
    pub words: usize,
}

/// Why watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The watched processes have ended.
    ProcessesEnded,
    Duration,
    Interrupted,
}

#[derive(Debug)]
pub struct Observed {
    pub collected: Collected,
    pub ending: Ending,
    pub seconds: f64,
    pub own_cost: OwnCost,
    pub backend: &'static str,
    /// (place, kind, count)
    pub losses: Vec<(String, String, u64)>,
    pub source_errors: Vec<(String, String)>,
    /// What the kernel was asked for and what that cost.
    pub kernel: Option<KernelSummary>,
    pub stacks: Option<Stacks>,
    pub python_stacks: Option<Stacks>,
    /// How the push ended, if there was one.
    pub push: Option<PushState>,
    /// What became of a growing trace.
    pub trace: Option<LiveTraceState>,
    /// Of the program that `record` started.
    pub exit: Option<ExitStatus>,
}

/// What the kernel does to the watched processes, and their milliseconds if spikes are wanted.
fn kernel_source(plan: &ObservePlan, classes: Vec<Class>, collector: &Collector) -> KernelSource {
    let options = TraceOptions {
        classes,
        sample_cost: true,
        session: plan.kernel_session.clone(),
        counters: plan.kernel_counters.clone(),
        etw: Some(plan.etw.clone()),
        ..TraceOptions::default()
    };
    let watched: HashSet<u32> = plan.kernel_pids.iter().copied().collect();
    let source = KernelSource::new(options, Some(watched));
    if plan.spike_percent.is_none() {
        return source;
    }
    let collector = collector.clone();
    source.with_millis(Box::new(move |milli| collector.lock().milli(milli)))
}

/// The sampler knows when the watched processes have ended; other sources go on until they are told to stop.
struct Sampling {
    sampler: ProcessSampler,
    is_over: Arc<AtomicBool>,
}

impl Source for Sampling {
    fn info(&self) -> &SourceInfo {
        self.sampler.info()
    }

    fn probe(&mut self) -> Availability {
        self.sampler.probe()
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let ended = self.sampler.run(out, control);
        self.is_over.store(true, Ordering::Release);
        ended
    }
}

/// Watches until it is over. `program` is the one to wait for, if ortscope started one.
pub fn watch(
    plan: &ObservePlan,
    program: Option<Started>,
    inside: &mut Inside,
    recording: Option<&RecordingWriter>,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Observed, Failure> {
    let sampler = ProcessSampler::with_options(plan.sampler.clone())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let (cost, backend) = (sampler.own_cost(), sampler.backend_name());
    let collector = Collector::new(plan.spike_percent);
    let mut pipeline = Pipeline::default();
    if let Some(recording) = recording {
        pipeline = pipeline.journal(recording.journal());
    }
    let is_over = Arc::new(AtomicBool::new(false));
    pipeline = pipeline.source(Sampling { sampler, is_over: Arc::clone(&is_over) });
    pipeline = pipeline.source(crate::devices::source());
    if let Some(source) = inside.take_source() {
        pipeline = pipeline.source(source);
    }
    if let Some(source) = inside.take_events() {
        pipeline = pipeline.source(source);
    }
    if let Some(source) = device_events::source(&plan.providers) {
        pipeline = pipeline.source(source);
    }
    let (mut kernel, mut stacks, mut python_stacks) = (None, None, None);
    // First what begins at once: opening the programs of the kernel takes a moment.
    if let Some(wanted) = &plan.stacks {
        let (pids, hertz) = (plan.kernel_pids.clone(), wanted.hertz);
        let source = StackSource::new(SampleOptions { pids, hertz, ..SampleOptions::default() });
        stacks = Some(source.handle());
        pipeline = pipeline.source(source);
    }
    if let Some(wanted) = &plan.python_stacks {
        let source = PythonStackSource::new(plan.kernel_pids.clone(), wanted.hertz);
        python_stacks = Some(source.handle());
        pipeline = pipeline.source(source);
    }
    if let Some(classes) = &plan.kernel {
        let source = kernel_source(plan, classes.clone(), &collector);
        kernel = Some(source.handle());
        pipeline = pipeline.source(source);
    }
    let (mut child, held) = program.map_or((None, None), |program| (Some(program.child), program.held));
    let mut push: Option<PushHandle> = None;
    if let Some(options) = &plan.push {
        let sink = PushSink::start(options.clone())?;
        push = Some(sink.handle());
        pipeline = pipeline.sink(sink);
    }
    let mut trace: Option<TraceHandle> = None;
    if let Some(path) = &plan.trace {
        let sink = crate::live_trace::start(path, &plan.subject)?;
        trace = Some(sink.handle());
        pipeline = pipeline.sink(sink);
    }
    let running = pipeline.sink(collector.clone()).start()?;
    let begun = Instant::now();
    let is_ready = || {
        kernel.as_ref().is_none_or(KernelHandle::is_ready)
            && stacks.as_ref().is_none_or(StacksHandle::is_ready)
    };
    while held.is_some() && !is_ready() && begun.elapsed() < READY_WITHIN && !interrupt.requested() {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(held);
    let started = Instant::now();
    let (mut exit, mut interrupted_at) = (None, None);
    let ending = loop {
        if let Some(program) = &mut child
            && exit.is_none()
        {
            exit = program.try_wait()?;
            if exit.is_some() {
                break Ending::ProcessesEnded;
            }
        }
        if running.is_finished() || is_over.load(Ordering::Acquire) {
            break Ending::ProcessesEnded;
        }
        if plan.duration.is_some_and(|most| started.elapsed() >= most) {
            break Ending::Duration;
        }
        if interrupt.requested() {
            let since = *interrupted_at.get_or_insert_with(Instant::now);
            // The terminal has sent the signal to the program too: let it end in its own way.
            if child.is_none() || interrupt.insisted() || since.elapsed() > PATIENCE {
                break Ending::Interrupted;
            }
        }
        progress.update(|| {
            let collected = collector.lock();
            let inferences = match collected.inferences.count() {
                0 => String::new(),
                count => format!("  {}", units::counted(count, "inference")),
            };
            format!(
                "{}{inferences}  {}",
                units::counted(collected.processes.len() as u64, "process"),
                units::duration(started.elapsed().as_secs_f64())
            )
        });
        inside.wait(PERIOD, recording);
    };
    running.control().stop();
    let report = running.join();
    Ok(Observed {
        collected: collector.take(),
        ending,
        seconds: started.elapsed().as_secs_f64(),
        own_cost: cost.get(),
        backend,
        losses: report.losses,
        source_errors: report
            .source_errors
            .into_iter()
            .chain(report.sink_errors)
            .chain(report.journal_error.map(|error| ("recording".to_owned(), error)))
            .collect(),
        kernel: kernel.and_then(|handle| handle.take()),
        stacks: stacks.and_then(|handle| handle.take()),
        python_stacks: python_stacks.and_then(|handle| handle.take()),
        push: push.map(|handle| handle.state()),
        trace: trace.map(|handle| handle.state()),
        exit,
    })
}

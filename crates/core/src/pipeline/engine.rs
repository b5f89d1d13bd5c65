//! The engine: starts the threads of sources, pump and sinks, and ends in order.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::emitter::Sent;
use super::journal::{FirstError, Keeper};
use super::pump::{Pump, SinkQueue};
use super::{
    ByteQueue, Control, Emitter, FlushError, Journal, LossCounter, Sink, SinkError, Source, SourceError,
};
use crate::batch::Batch;
use crate::clock::{Clock, SystemClock};
use crate::metric::Availability;
use crate::schema::UnavailabilityRow;

/// Bounds of a pipeline.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Waiting between sources and pump. Default 16 MiB. When full, live sources drop and count, file readers wait.
    pub intake_bytes: usize,
    /// Waiting in front of each sink. Default 16 MiB. When full, the sink's own rule decides, and losses are counted.
    pub sink_bytes: usize,
    /// Time limit for sinks to finish at the end. Default 5 s; unfinished batches are counted as lost.
    pub flush_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { intake_bytes: 16 << 20, sink_bytes: 16 << 20, flush_timeout: Duration::from_secs(5) }
    }
}

/// Outcome of a finished pipeline.
#[derive(Debug, Default)]
pub struct PipelineReport {
    /// (place, kind, count)
    pub losses: Vec<(String, String, u64)>,
    /// Sources that did not run, with the reason, or that ended early.
    pub source_errors: Vec<(String, String)>,
    pub sink_errors: Vec<(String, String)>,
    /// The first journal error. Rows it did not keep are counted in `losses` under "journal".
    pub journal_error: Option<String>,
}

/// A pipeline before it runs.
#[derive(Default)]
pub struct Pipeline {
    sources: Vec<Box<dyn Source>>,
    sinks: Vec<Box<dyn Sink>>,
    journal: Option<Box<dyn Journal>>,
    limits: Limits,
    clock: Option<Arc<dyn Clock>>,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("sources", &self.sources.len())
            .field("sinks", &self.sinks.len())
            .field("journal", &self.journal.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A pipeline that runs. Dropping it without [`RunningPipeline::join`] leaves its threads to end by themselves.
#[derive(Debug)]
pub struct RunningPipeline {
    control: Control,
    losses: Arc<LossCounter>,
    sources: Vec<(String, JoinHandle<Result<(), SourceError>>)>,
    pump: JoinHandle<()>,
    sinks: Vec<(String, JoinHandle<Option<String>>)>,
    refused: Vec<(String, String)>,
    journal_error: Arc<FirstError>,
}

impl Pipeline {
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Virtual time, for tests and simulations.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    pub fn source(mut self, source: impl Source + 'static) -> Self {
        self.sources.push(Box::new(source));
        self
    }

    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    pub fn sinks(mut self, sinks: Vec<Box<dyn Sink>>) -> Self {
        self.sinks.extend(sinks);
        self
    }

    /// Keeps every batch before it reaches a sink.
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Box::new(journal));
        self
    }

    /// Starts every thread. Fails only if the system refuses a thread.
    pub fn start(self) -> std::io::Result<RunningPipeline> {
        let Self { sources, sinks, journal, limits, clock } = self;
        let control = Control::new(clock.unwrap_or_else(|| Arc::new(SystemClock)));
        let losses = Arc::new(LossCounter::default());
        let intake = Arc::new(ByteQueue::<Sent>::new(limits.intake_bytes));

        let mut sink_queues = Vec::new();
        let mut sink_threads = Vec::new();
        for sink in sinks {
            let queue = Arc::new(ByteQueue::<Arc<Batch>>::new(limits.sink_bytes));
            let name = sink.name().to_owned();
            sink_queues.push(SinkQueue {
                name: name.clone(),
                overflow: sink.overflow(),
                queue: Arc::clone(&queue),
            });
            let timeout = limits.flush_timeout;
            let counter = Arc::clone(&losses);
            let thread = Builder::new()
                .name(format!("sink-{name}"))
                .spawn(move || run_sink(sink, &queue, timeout, &counter))?;
            sink_threads.push((name, thread));
        }

        let mut refused = Vec::new();
        let mut ready = Vec::new();
        for mut source in sources {
            match source.probe() {
                Availability::Unavailable { why, hint } => {
                    let info = source.info();
                    let mut emitter =
                        Emitter::new(info.name, info.when_full, Arc::clone(&intake), Arc::clone(&losses));
                    let from_ns = control.clock().now_ns();
                    for track in &info.tracks {
                        emitter.emit(&UnavailabilityRow {
                            from_ns,
                            to_ns: None,
                            track: track.as_str().into(),
                            reason: why.as_str().into(),
                            hint: Some(hint.as_str()).filter(|hint| !hint.is_empty()).map(Into::into),
                        });
                    }
                    emitter.flush();
                    refused.push((info.name.to_owned(), format!("{why}; {hint}")));
                }
                Availability::Ready | Availability::Degraded { .. } => ready.push(source),
            }
        }
        // The intake closes when the last source has ended; with none it closes now.
        let running = Arc::new(AtomicUsize::new(ready.len()));
        if ready.is_empty() {
            intake.close();
        }
        let mut source_threads = Vec::new();
        for source in ready {
            let name = source.info().name.to_owned();
            let emitter =
                Emitter::new(&name, source.info().when_full, Arc::clone(&intake), Arc::clone(&losses));
            let (control, intake, running) = (control.clone(), Arc::clone(&intake), Arc::clone(&running));
            let thread = Builder::new().name(format!("source-{name}")).spawn(move || {
                let result = run_source(source, emitter, &control);
                if running.fetch_sub(1, Ordering::SeqCst) == 1 {
                    intake.close();
                }
                result
            })?;
            source_threads.push((name, thread));
        }

        let journal_error = Arc::new(FirstError::default());
        let pump = Pump {
            sinks: sink_queues,
            journal: Keeper::new(journal),
            journal_error: Arc::clone(&journal_error),
            losses: Arc::clone(&losses),
            control: control.clone(),
        };
        let pump = Builder::new().name("pump".into()).spawn(move || pump.run(&intake))?;
        Ok(RunningPipeline {
            control,
            losses,
            sources: source_threads,
            pump,
            sinks: sink_threads,
            refused,
            journal_error,
        })
    }
}

impl RunningPipeline {
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Whether every source has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.sources.iter().all(|(_, thread)| thread.is_finished())
    }

    /// Waits until the sources have ended and everything they gave has reached the sinks.
    pub fn join(self) -> PipelineReport {
        let mut report = PipelineReport { source_errors: self.refused, ..PipelineReport::default() };
        for (name, thread) in self.sources {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => report.source_errors.push((name, error.to_string())),
                Err(panic) => report.source_errors.push((name, panic_text(&*panic))),
            }
        }
        if let Err(panic) = self.pump.join() {
            report.source_errors.push(("pump".into(), panic_text(&*panic)));
        }
        for (name, thread) in self.sinks {
            match thread.join() {
                Ok(None) => {}
                Ok(Some(error)) => report.sink_errors.push((name, error)),
                Err(panic) => report.sink_errors.push((name, panic_text(&*panic))),
            }
        }
        report.losses = self.losses.totals();
        report.journal_error = self.journal_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        report
    }
}

fn run_source(
    mut source: Box<dyn Source>,
    mut emitter: Emitter,
    control: &Control,
) -> Result<(), SourceError> {
    catch_unwind(AssertUnwindSafe(|| source.run(&mut emitter, control)))
        .unwrap_or_else(|panic| Err(SourceError::Panicked(panic_text(&*panic))))
}

/// Feeds one sink until its queue ends. A sink that fails keeps being fed: the next batch may work.
fn run_sink(
    mut sink: Box<dyn Sink>,
    queue: &ByteQueue<Arc<Batch>>,
    flush_timeout: Duration,
    losses: &LossCounter,
) -> Option<String> {
    let name = sink.name().to_owned();
    let mut first_error = None;
    while !queue.is_finished() {
        let Some(batch) = queue.pop(Duration::from_millis(500)) else {
            continue;
        };
        let result = catch_unwind(AssertUnwindSafe(|| sink.consume(&batch)))
            .unwrap_or_else(|panic| Err(SinkError::Panicked(panic_text(&*panic))));
        if let Err(error) = result {
            losses.add(&name, batch.table().def().name, batch.len() as u64);
            first_error.get_or_insert_with(|| error.to_string());
        }
    }
    if let Err(error) = sink.flush(Instant::now() + flush_timeout) {
        if let FlushError::Deadline { left } = error {
            losses.add(&name, "unflushed rows", left);
        }
        first_error.get_or_insert_with(|| error.to_string());
    }
    first_error
}

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

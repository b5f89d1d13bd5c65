//! The live source of the server: the machine and its processes by the sampler, and inferences of programs that record.
//!
//! Programs come and go. Each that begins to record gets a small pipeline of its own, whose rows go to the same sinks.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::clock::WallAnchor;
use ortscope_core::live::{Limits, LiveMemory, LiveView};
use ortscope_core::pipeline::{Control, FlushError, Overflow, Pipeline, RunningPipeline, Sink, SinkError};
use ortscope_core::schema::TableId;
use ortscope_core::tables::{Scan, Tables as _};
use ortscope_export::LiveTrace;
use ortscope_export::push::{PushOptions, PushSink};
use ortscope_server::{Live, LiveControl, LiveState, Recent, RecentRows};
use ortscope_sources::sampler::{OwnCostHandle, ProcessSampler, SamplerOptions};
use ortscope_store::Store;

use super::recorder::Recorder;
use crate::exit::Failure;
use crate::recording::fingerprint;
use ortscope_observe::inside::Inside;

/// How often programs that record are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// One sink behind several pipelines.
#[derive(Debug)]
struct Shared<S>(Arc<Mutex<S>>, &'static str);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), self.1)
    }
}

impl<S: Sink> Sink for Shared<S> {
    fn name(&self) -> &str {
        self.1
    }

    fn overflow(&self) -> Overflow {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).overflow()
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).consume(batch)
    }

    fn flush(&mut self, deadline: Instant) -> Result<(), FlushError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush(deadline)
    }
}

/// The sinks of all pipelines.
#[derive(Debug, Clone)]
struct Sinks {
    memory: Shared<LiveMemory>,
    recent: Shared<RecentRows>,
    recorder: Recorder,
    push: Option<Shared<PushSink>>,
    trace: Option<Shared<LiveTrace>>,
}

impl Sinks {
    fn of(&self, pipeline: Pipeline) -> Pipeline {
        let pipeline =
            pipeline.sink(self.memory.clone()).sink(self.recent.clone()).sink(self.recorder.clone());
        let pipeline = match &self.push {
            Some(push) => pipeline.sink(push.clone()),
            None => pipeline,
        };
        match &self.trace {
            Some(trace) => pipeline.sink(trace.clone()),
            None => pipeline,
        }
    }
}

/// What runs for the live view.
#[derive(Debug)]
pub struct Watching {
    sampling: RunningPipeline,
    listening: Vec<RunningPipeline>,
    sinks: Sinks,
    handle: Arc<Handle>,
    view: LiveView,
    recent: Recent,
    started: WallAnchor,
    heard: BTreeSet<u32>,
    looked: Option<Instant>,
}

impl Watching {
    pub fn start(
        rate_hertz: f64,
        store: &Store,
        push: Option<PushOptions>,
        trace: Option<&Path>,
    ) -> Result<Self, Failure> {
        let mut options = SamplerOptions::default();
        options.rates.cpu_hertz = rate_hertz;
        options.rates.memory_hertz = rate_hertz.min(options.rates.memory_hertz);
        options.check().map_err(|error| Failure::usage(error.to_string()))?;
        let sampler =
            ProcessSampler::with_options(options).map_err(|error| Failure::usage(error.to_string()))?;
        let cost = sampler.own_cost();
        // A desktop has several hundred processes with nine tracks each.
        let memory = LiveMemory::new(Limits { tracks: 20_000, ..Limits::default() });
        let rows = RecentRows::default();
        let (view, recent) = (memory.view(), rows.handle());
        let sinks = Sinks {
            memory: Shared(Arc::new(Mutex::new(memory)), "live"),
            recent: Shared(Arc::new(Mutex::new(rows)), "recent"),
            recorder: Recorder::new(store.clone()),
            push: match push {
                Some(options) => Some(Shared(Arc::new(Mutex::new(PushSink::start(options)?)), "push")),
                None => None,
            },
            trace: match trace {
                Some(path) => {
                    let sink = crate::live_trace::start(path, "this machine")?;
                    Some(Shared(Arc::new(Mutex::new(sink)), "trace"))
                }
                None => None,
            },
        };
        let started = WallAnchor::now();
        let sampling = sinks
            .of(Pipeline::default().source(sampler).source(ortscope_observe::devices::source(&[])))
            .start()?;
        let handle = Arc::new(Handle {
            control: sampling.control().clone(),
            cost,
            recorder: sinks.recorder.clone(),
            recent: recent.clone(),
            asked_hertz: Mutex::new(rate_hertz),
        });
        Ok(Self {
            sampling,
            listening: Vec::new(),
            sinks,
            handle,
            view,
            recent,
            started,
            heard: BTreeSet::new(),
            looked: None,
        })
    }

    pub fn live(&self) -> Live {
        let control: Arc<dyn LiveControl> = Arc::clone(&self.handle) as _;
        Live {
            view: self.view.clone(),
            recent: self.recent.clone(),
            control,
            started: self.started,
            machine: fingerprint(&ortscope_sources::machine_facts(), &[]),
        }
    }

    /// Looks for programs that have begun to record, now and then.
    pub fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let Ok(running) = ortscope_sources::processes() else { return };
        let pids: BTreeSet<u32> = running.iter().map(|process| process.pid).collect();
        self.heard.retain(|pid| pids.contains(pid));
        for pid in pids.iter().filter(|pid| !self.heard.contains(pid)).copied().collect::<Vec<_>>() {
            let Some(source) = Inside::of_running(&[pid]).take_source() else { continue };
            match self.sinks.of(Pipeline::default().source(source)).start() {
                Ok(pipeline) => {
                    tracing::info!(pid, "listening to the inferences of a program");
                    self.heard.insert(pid);
                    self.listening.push(pipeline);
                }
                Err(error) => tracing::warn!(%error, pid, "the inferences of a program are not heard"),
            }
        }
        let (ended, listening) =
            std::mem::take(&mut self.listening).into_iter().partition(RunningPipeline::is_finished);
        self.listening = listening;
        let ended: Vec<RunningPipeline> = ended;
        for pipeline in ended {
            pipeline.join();
        }
    }

    pub fn stop(self) {
        self.sampling.control().stop();
        for pipeline in &self.listening {
            pipeline.control().stop();
        }
        self.sampling.join();
        for pipeline in self.listening {
            pipeline.join();
        }
        if self.sinks.recorder.state().is_some()
            && let Err(error) = self.sinks.recorder.stop("the server ended")
        {
            tracing::error!(error, "the recording could not be closed");
        }
    }
}

/// The way back from the server.
#[derive(Debug)]
struct Handle {
    control: Control,
    cost: OwnCostHandle,
    recorder: Recorder,
    recent: Recent,
    asked_hertz: Mutex<f64>,
}

impl LiveControl for Handle {
    fn state(&self) -> LiveState {
        let cost = self.cost.get();
        let asked_hertz = *self.asked_hertz.lock().unwrap_or_else(PoisonError::into_inner);
        LiveState {
            paused: self.control.is_paused(),
            asked_hertz,
            // Before the first second nothing is known.
            rate_hertz: if cost.rate_hertz > 0.0 { cost.rate_hertz } else { asked_hertz },
            recording: self.recorder.state(),
            cost_cpu_ratio: cost.cpu_ratio,
            cost_memory_bytes: cost.memory_bytes,
            late_ticks: Some(cost.late_ticks),
            skipped_ticks: Some(cost.skipped_ticks),
        }
    }

    fn pause(&self, paused: bool) -> Result<(), String> {
        self.control.pause(paused);
        Ok(())
    }

    fn set_rate_hertz(&self, hertz: f64) -> Result<(), String> {
        *self.asked_hertz.lock().unwrap_or_else(PoisonError::into_inner) = hertz;
        self.control.set_rate_hertz(hertz);
        Ok(())
    }

    fn start_recording(&self, name: Option<&str>) -> Result<(), String> {
        let rows = self.recent.snapshot();
        let mut known = Vec::new();
        for table in [TableId::Sessions, TableId::Processes, TableId::Unavailability] {
            known.extend(rows.scan(table, &Scan::all()).flatten());
        }
        self.recorder.start(name, &known)
    }

    fn stop_recording(&self) -> Result<(), String> {
        self.recorder.stop("stopped in the dashboard")
    }
}

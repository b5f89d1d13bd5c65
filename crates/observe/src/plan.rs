//! What one observation reads, and the one function that starts its sources.
//!
//! Every entry point (`run`, `record`, `attach`, `serve`, `top`, Python's `Monitor`) fills in a [`Plan`] and starts it, so
//! that all of them see the same: inferences, processes, kernel events, stacks, devices, energy and heat.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ortscope_core::failure::Failure;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{
    Control, Emitter, Pipeline, PipelineReport, RunningPipeline, Sink, Source, SourceError, SourceInfo,
};
use ortscope_core::schema::Text;
use ortscope_sources::etw::EtwSource;
use ortscope_sources::kernel::{SampleOptions, TraceOptions};
use ortscope_sources::programs::ProgramsSource;
use ortscope_sources::sampler::OwnCostHandle;
use ortscope_sources::{
    ChannelSource, KernelHandle, KernelSource, KernelSummary, ProcessMilli, ProcessSampler,
    PythonStackSource, StackSource, Stacks, StacksHandle,
};
use ortscope_store::RecordingWriter;

use crate::device_events::{self, DeviceProvider};
use crate::{devices, programs};

/// The sources of one observation. Devices, energy and heat are always read.
#[derive(Debug)]
pub struct Plan {
    pub inferences: Inferences,
    pub processes: ProcessSampler,
    /// Processes whose hardware counters are read, as far as the machine has them.
    pub counted_pids: Vec<u32>,
    /// Windows: device events in a session of their own, in addition to sampling.
    pub device_providers: Vec<DeviceProvider>,
    pub kernel: Option<KernelPlan>,
    pub stacks: Option<StackPlan>,
    /// Functions of Python programs, read from outside.
    pub python_stacks: Option<StackPlan>,
}

impl Plan {
    /// Processes, devices, energy and heat.
    pub fn new(processes: ProcessSampler) -> Self {
        Self {
            inferences: Inferences::None,
            processes,
            counted_pids: Vec::new(),
            device_providers: Vec::new(),
            kernel: None,
            stacks: None,
            python_stacks: None,
        }
    }
}

/// Where inferences come from.
#[derive(Debug)]
pub enum Inferences {
    None,
    /// The worker process of a measurement.
    Worker {
        channel: PathBuf,
        session_ids: Vec<Text>,
        /// Set when the worker has ended and its channel can be read to the end.
        ended: Arc<AtomicBool>,
    },
    /// Programs that record their inferences, and ONNX Runtime's own events of programs that do not.
    Programs {
        recording: Option<Box<ProgramsSource>>,
        events: Option<Box<EtwSource>>,
    },
    /// Every program of the machine that records, including programs that start later.
    Machine,
}

/// Receives the exact CPU use of a process in one millisecond.
pub type OnMilli = Box<dyn FnMut(ProcessMilli) + Send>;

/// Kernel events of some processes.
pub struct KernelPlan {
    pub options: TraceOptions,
    /// Their children are followed.
    pub pids: HashSet<u32>,
    /// Receives the exact CPU use of the observed processes, millisecond by millisecond.
    pub on_milli: Option<OnMilli>,
}

impl std::fmt::Debug for KernelPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelPlan")
            .field("options", &self.options)
            .field("pids", &self.pids)
            .finish_non_exhaustive()
    }
}

/// Samples with stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackPlan {
    pub pids: Vec<u32>,
    pub hertz: u32,
}

/// An observation that runs.
#[derive(Debug)]
pub struct Observation {
    running: RunningPipeline,
    processes_ended: Arc<AtomicBool>,
    own_cost: OwnCostHandle,
    backend: &'static str,
    kernel: Option<KernelHandle>,
    stacks: Option<StacksHandle>,
    python_stacks: Option<StacksHandle>,
}

/// An observation that has ended.
#[derive(Debug)]
pub struct Ended {
    /// (place, kind, count)
    pub losses: Vec<(String, String, u64)>,
    /// Sources, sinks and the journal, each with its error.
    pub errors: Vec<(String, String)>,
    pub kernel: Option<KernelSummary>,
    pub stacks: Option<Stacks>,
    pub python_stacks: Option<Stacks>,
}

impl Plan {
    /// Starts every source. A source that cannot start reports why and what to do; the others run.
    pub fn start(
        self,
        recording: Option<&RecordingWriter>,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Result<Observation, Failure> {
        // Counters see only threads that start after they were opened, so they are opened first.
        let devices = devices::source(&self.counted_pids);
        let (own_cost, backend) = (self.processes.own_cost(), self.processes.backend_name());
        let processes_ended = Arc::new(AtomicBool::new(false));
        let mut pipeline = Pipeline::default();
        if let Some(recording) = recording {
            pipeline = pipeline.journal(recording.journal());
        }
        pipeline = match self.inferences {
            Inferences::None => pipeline,
            Inferences::Machine => pipeline.source(programs::every_program()),
            Inferences::Worker { channel, session_ids, ended } => {
                pipeline.source(ChannelSource::new(&channel, session_ids, ended))
            }
            Inferences::Programs { recording, events } => {
                if let Some(source) = recording {
                    pipeline = pipeline.source(*source);
                }
                if let Some(source) = events {
                    pipeline = pipeline.source(*source);
                }
                pipeline
            }
        };
        pipeline = pipeline
            .source(Sampling { sampler: self.processes, ended: Arc::clone(&processes_ended) })
            .source(devices);
        if let Some(source) = device_events::source(&self.device_providers) {
            pipeline = pipeline.source(source);
        }
        // Stacks before kernel events: loading the kernel programs takes a moment.
        let (mut stacks, mut python_stacks, mut kernel) = (None, None, None);
        if let Some(StackPlan { pids, hertz }) = self.stacks {
            let source = StackSource::new(SampleOptions { pids, hertz, ..SampleOptions::default() });
            stacks = Some(source.handle());
            pipeline = pipeline.source(source);
        }
        if let Some(StackPlan { pids, hertz }) = self.python_stacks {
            let source = PythonStackSource::new(pids, hertz);
            python_stacks = Some(source.handle());
            pipeline = pipeline.source(source);
        }
        if let Some(KernelPlan { options, pids, on_milli }) = self.kernel {
            let mut source = KernelSource::new(options, Some(pids));
            if let Some(on_milli) = on_milli {
                source = source.with_millis(on_milli);
            }
            kernel = Some(source.handle());
            pipeline = pipeline.source(source);
        }
        let running = pipeline.sinks(sinks).start()?;
        Ok(Observation { running, processes_ended, own_cost, backend, kernel, stacks, python_stacks })
    }
}

impl Observation {
    pub fn control(&self) -> &Control {
        self.running.control()
    }

    /// What sampling costs.
    pub fn own_cost(&self) -> OwnCostHandle {
        self.own_cost.clone()
    }

    /// How processes are sampled.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// Whether the sources that take a moment to start have started.
    pub fn is_ready(&self) -> bool {
        self.kernel.as_ref().is_none_or(KernelHandle::is_ready)
            && self.stacks.as_ref().is_none_or(StacksHandle::is_ready)
    }

    /// Whether the observed processes have ended, or every source has.
    pub fn is_over(&self) -> bool {
        self.running.is_finished() || self.processes_ended.load(Ordering::Acquire)
    }

    /// Stops every source, and waits until the sinks have all rows.
    pub fn finish(self) -> Ended {
        self.running.control().stop();
        let PipelineReport { losses, source_errors, sink_errors, journal_error, .. } = self.running.join();
        let journal_error = journal_error.map(|error| ("recording".to_owned(), error));
        Ended {
            losses,
            errors: source_errors.into_iter().chain(sink_errors).chain(journal_error).collect(),
            kernel: self.kernel.and_then(|handle| handle.take()),
            stacks: self.stacks.and_then(|handle| handle.take()),
            python_stacks: self.python_stacks.and_then(|handle| handle.take()),
        }
    }
}

/// The sampler ends with the observed processes; other sources run until they are stopped.
struct Sampling {
    sampler: ProcessSampler,
    ended: Arc<AtomicBool>,
}

impl Source for Sampling {
    fn info(&self) -> &SourceInfo {
        self.sampler.info()
    }

    fn probe(&mut self) -> Availability {
        self.sampler.probe()
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let result = self.sampler.run(out, control);
        self.ended.store(true, Ordering::Release);
        result
    }
}

//! The live observation of the server: the machine with its processes and devices, and inferences of programs that record.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ortscope_core::clock::WallAnchor;
use ortscope_core::live::{Limits, LiveMemory, LiveView};
use ortscope_core::pipeline::{Control, Sink};
use ortscope_core::schema::TableId;
use ortscope_core::tables::{Scan, Tables as _};
use ortscope_export::push::{PushOptions, PushSink};
use ortscope_observe::plan::{Inferences, Observation, Plan};
use ortscope_server::{Live, LiveControl, LiveState, Recent, RecentRows};
use ortscope_sources::sampler::{OwnCostHandle, ProcessSampler, SamplerOptions};
use ortscope_store::Store;

use super::recorder::Recorder;
use crate::exit::Failure;
use crate::recording::fingerprint;

/// The live observation of the machine.
#[derive(Debug)]
pub struct Watching {
    observation: Observation,
    recorder: Recorder,
    handle: Arc<Handle>,
    view: LiveView,
    recent: Recent,
    started: WallAnchor,
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
        let sampler =
            ProcessSampler::with_options(options).map_err(|error| Failure::usage(error.to_string()))?;
        // A desktop has several hundred processes with nine tracks each.
        let memory = LiveMemory::new(Limits { tracks: 20_000, ..Limits::default() });
        let rows = RecentRows::default();
        let (view, recent, recorder) = (memory.view(), rows.handle(), Recorder::new(store.clone()));
        let mut sinks: Vec<Box<dyn Sink>> =
            vec![Box::new(memory), Box::new(rows), Box::new(recorder.clone())];
        if let Some(options) = push {
            sinks.push(Box::new(PushSink::start(options)?));
        }
        if let Some(path) = trace {
            sinks.push(Box::new(crate::live_trace::start(path, "this machine")?));
        }
        let started = WallAnchor::now();
        let plan = Plan { inferences: Inferences::Machine, ..Plan::new(sampler) };
        let observation = plan.start(None, sinks)?;
        let handle = Arc::new(Handle {
            control: observation.control().clone(),
            cost: observation.own_cost(),
            recorder: recorder.clone(),
            recent: recent.clone(),
            asked_hertz: Mutex::new(rate_hertz),
        });
        Ok(Self { observation, recorder, handle, view, recent, started })
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

    pub fn stop(self) {
        self.observation.finish();
        if self.recorder.state().is_some()
            && let Err(error) = self.recorder.stop("the server ended")
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

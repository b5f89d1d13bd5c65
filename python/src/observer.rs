//! Observing from inside: the pipeline that reads this process's channel, and those of its children, into a recording.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ortscope_channel::ChannelDirectory;
use ortscope_channel::disk::{Overwritten, overwrite_before_removal};
use ortscope_observe::plan::{Ended as ObservationEnded, Inferences, Observation, Plan};
use ortscope_observe::programs::store_location;
use ortscope_sources::programs::{ProgramsSource, ReadProgress};
use ortscope_sources::sampler::{
    CommandLines, ProcessSampler, Rates, SamplerOptions, Targets, command_shown,
};
use ortscope_store::{Finished, NewRecording, RecordingWriter, Retention, Store};
use pyo3::prelude::*;
use serde_json::json;

use crate::errors;
use crate::live::Live;
use crate::{keys, output, rows};

/// A recording that is being made.
#[pyclass(frozen, module = "ortscope._native")]
pub struct Observer {
    running: Mutex<Option<Running>>,
    live: Live,
    progress: Arc<ReadProgress>,
    base: PathBuf,
    own: PathBuf,
    id: Option<String>,
    directory: Option<PathBuf>,
    encrypts: bool,
    /// A child of `fork` has a copy of this object, but none of its threads.
    pid: u32,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("id", &self.id).finish_non_exhaustive()
    }
}

struct Running {
    observation: Observation,
    recording: Option<Arc<RecordingWriter>>,
    store: Store,
    retention: Retention,
    channel: ChannelDirectory,
}

/// How a recording ended.
struct Ended {
    finished: Option<Finished>,
    losses: Vec<(String, String, u64)>,
    errors: Vec<(String, String)>,
    problem: Option<String>,
}

#[pymethods]
impl Observer {
    /// Begins. `pids` are sampled, with their children if `children`; `record=False` keeps only the live view.
    #[new]
    #[pyo3(signature = (subject, origin, pids, children, sampling_hz, record, store=None, name=None, command=None, encrypt=None, key_file=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        subject: String,
        origin: String,
        pids: Vec<u32>,
        children: bool,
        sampling_hz: f64,
        record: bool,
        store: Option<PathBuf>,
        name: Option<String>,
        command: Option<Vec<String>>,
        encrypt: Option<bool>,
        key_file: Option<PathBuf>,
    ) -> PyResult<Self> {
        let sampler = sampler(pids, children, sampling_hz)?;
        let (root, retention) = rows::store_settings(store)?;
        let config = rows::configuration()?.store;
        let encrypts = record && encrypt.unwrap_or(config.encrypt);
        if let Some(file) = &key_file {
            // So that the recording can be read later.
            keys::remember(file);
        }
        let key_sources = keys::sources(key_file.or(config.key_file));
        // Words of a program's command line can be secrets.
        let command = command.map(|words| command_shown(&words, CommandLines::Redacted));
        py.detach(|| {
            let mut store = Store::open(root);
            if encrypts {
                // Unencrypted data in rings and temporary files must not remain there.
                overwrite_before_removal(Overwritten::Temporary);
                store = store.encrypted_with(key_sources.first().map_err(errors::store)?);
            }
            let new = NewRecording {
                origin,
                subject,
                name,
                command,
                ortscope_version: env!("CARGO_PKG_VERSION").into(),
                fingerprint: fingerprint(),
                boot_id: ortscope_sources::boot_id(),
                host: ortscope_sources::host_name(),
                ..NewRecording::default()
            };
            let recording =
                record.then(|| store.begin(new)).transpose().map_err(errors::store)?.map(Arc::new);
            Self::begin(sampler, recording, encrypts, store, retention)
        })
    }

    /// The directory below which processes write.
    #[getter]
    fn channel(&self) -> PathBuf {
        self.base.clone()
    }

    /// The directory in it that is this process's own.
    #[getter]
    fn own_channel(&self) -> PathBuf {
        self.own.clone()
    }

    #[getter]
    fn recording_id(&self) -> Option<String> {
        self.id.clone()
    }

    #[getter]
    fn recording_directory(&self) -> Option<PathBuf> {
        self.directory.clone()
    }

    /// Whether the recording is encrypted.
    #[getter]
    fn encrypts(&self) -> bool {
        self.encrypts
    }

    #[getter]
    fn is_running(&self) -> bool {
        self.pid == std::process::id() && self.lock().is_some()
    }

    /// Waits until everything written so far is in the live view; `False` after the timeout.
    #[pyo3(signature = (timeout=2.0))]
    fn flush(&self, py: Python<'_>, timeout: f64) -> bool {
        if !self.is_running() {
            return true;
        }
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
        py.detach(|| self.wait_for_reader(timeout))
    }

    /// The live view as JSON.
    fn statistics(&self, py: Python<'_>) -> String {
        py.detach(|| self.live.document().to_string())
    }

    /// Ends the recording; what became of it as JSON. Nothing happens the second time.
    fn stop(&self, py: Python<'_>, reason: &str) -> PyResult<Option<String>> {
        if self.pid != std::process::id() {
            return Ok(None);
        }
        let Some(running) = self.lock().take() else { return Ok(None) };
        let ended = py.detach(|| running.end(reason));
        let Ended { finished, losses, errors, problem } = ended;
        if let Some(problem) = problem {
            return Err(errors::recording(format!(
                "the recording could not be finished: {problem}; hint: 'ortscope runs repair' keeps what it has"
            )));
        }
        let losses: Vec<_> = losses
            .iter()
            .map(|(place, kind, count)| json!({"place": place, "kind": kind, "count": count}))
            .collect();
        let errors: Vec<String> = errors.iter().map(|(place, error)| format!("{place}: {error}")).collect();
        let document = json!({
            "id": finished.as_ref().map(|finished| finished.id.clone()),
            "directory": finished.as_ref().map(|finished| finished.directory.clone()),
            "bytes": finished.as_ref().map(|finished| finished.bytes),
            "rows": finished.as_ref().map(|finished| finished.rows.clone()),
            "losses": losses,
            "errors": errors,
        });
        Ok(Some(document.to_string()))
    }

    /// In a child of `fork`: forgets everything. The threads are the parent's, and so is the recording.
    fn abandon(&self) {
        if self.pid != std::process::id() {
            std::mem::forget(self.lock().take());
        }
    }
}

impl Observer {
    fn begin(
        sampler: ProcessSampler,
        recording: Option<Arc<RecordingWriter>>,
        encrypts: bool,
        store: Store,
        retention: Retention,
    ) -> PyResult<Self> {
        sweep_in_background();
        let reader = ortscope_sources::own_usage().map_err(errors::monitor)?.identity;
        let channel = ChannelDirectory::create(reader).map_err(errors::monitor)?;
        if let Some(recording) = &recording {
            channel.set_recording(recording.directory()).map_err(errors::monitor)?;
        }
        let base = channel.path().to_owned();
        let own = output::directory_below(&base);
        std::fs::create_dir(&own).map_err(errors::monitor)?;
        let known = recording.clone();
        let on_change = move |change| store_location(&change, known.as_deref());
        let mut programs = ProgramsSource::new(&base, Box::new(on_change));
        programs.expect(&own);
        let progress = programs.progress();
        let live = Live::default();
        let plan = Plan {
            inferences: Inferences::Programs { recording: Some(Box::new(programs)), events: None },
            ..Plan::new(sampler)
        };
        let observation =
            plan.start(recording.as_deref(), vec![Box::new(live.clone())]).map_err(errors::monitor)?;
        Ok(Self {
            live,
            progress,
            base,
            own,
            id: recording.as_ref().map(|recording| recording.id().to_owned()),
            directory: recording.as_ref().map(|recording| recording.directory().to_owned()),
            encrypts,
            running: Mutex::new(Some(Running { observation, recording, store, retention, channel })),
            pid: std::process::id(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_reader(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        // The pass that is under way may have been past a ring already; the next one is not.
        let wanted_passes = self.progress.passes() + 2;
        while self.progress.passes() < wanted_passes {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let wanted = self.progress.positions();
        while self.live.positions() < wanted {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let running = self.lock().take();
        if self.pid == std::process::id() {
            if let Some(running) = running {
                running.end("the monitor was given up");
            }
        } else {
            std::mem::forget(running);
        }
    }
}

impl Running {
    fn end(self, reason: &str) -> Ended {
        let ObservationEnded { losses, errors, .. } = self.observation.finish();
        let mut problem = None;
        // The pipeline is gone, and with it all other owners of the recording.
        let finished = self.recording.and_then(Arc::into_inner).and_then(|recording| {
            recording.finish(reason).map_err(|error| problem = Some(error.to_string())).ok()
        });
        if problem.is_some() {
            // The rings may still be needed to repair it.
            let _kept = self.channel.keep();
        }
        // Old recordings that cannot be removed now can be removed next time.
        self.store.prune(&self.retention, false).ok();
        Ended { finished, losses, errors, problem }
    }
}

fn sampler(pids: Vec<u32>, children: bool, sampling_hz: f64) -> PyResult<ProcessSampler> {
    let mut options = SamplerOptions {
        targets: Targets {
            children_of: if children { pids.clone() } else { Vec::new() },
            pids,
            ..Targets::default()
        },
        end_with_targets: false,
        ..SamplerOptions::default()
    };
    let defaults = Rates::default();
    options.rates.cpu_hertz = sampling_hz;
    options.rates.memory_hertz = sampling_hz.min(defaults.memory_hertz);
    options.rates.discovery_hertz = defaults.discovery_hertz.min(sampling_hz.max(1.0));
    options.rates.system_hertz = 1.0;
    ProcessSampler::with_options(options).map_err(errors::monitor)
}

fn sweep_in_background() {
    std::thread::Builder::new().name("ortscope-sweep".into()).spawn(keys::sweep).ok();
}

/// Facts that decide whether two recordings can be compared. Facts that the system does not report are omitted.
pub fn fingerprint() -> BTreeMap<String, String> {
    ortscope_sources::machine_facts().fingerprint()
}

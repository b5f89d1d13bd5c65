//! The store of recordings as the program sees it: where it is, how its errors end, and the recording of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ortscope_analyze::verdict::fingerprint::PROVIDER_FACT;
use ortscope_channel::disk::{Overwritten, overwrite_before_removal};
use ortscope_core::clock::now_ns;
use ortscope_core::config::Config;
use ortscope_observe::recording::{ActiveRecording, RecordingRequest, Saved, append};
use ortscope_sources::MachineFacts;
use ortscope_store::{KeySources, Recording, Store, set_key_sources};

use crate::args::GlobalArgs;
use crate::exit::{Failure, FailureKind};
use crate::report::{RunDocument, RunResult};
use crate::settings;

/// The document of `ortscope run` in recordings made before version 0.2.
const RUN_DOCUMENT: &str = "run.json";
/// What our key is called in the system's key store.
pub const KEY_NAME: &str = "ortscope:recordings";

/// The store that flag, environment and configuration name.
pub fn open_store(global: &GlobalArgs) -> Result<Store, Failure> {
    let config = settings::load(global.config.as_deref())?;
    store_of(global, &config)
}

/// The same to make recordings in: encrypted ones, if a flag or the configuration wants that.
pub fn open_store_to_record(global: &GlobalArgs, encrypt: bool) -> Result<Store, Failure> {
    let config = settings::load(global.config.as_deref())?;
    recording_store_of(global, &config, encrypt)
}

fn recording_store_of(global: &GlobalArgs, config: &Config, encrypt: bool) -> Result<Store, Failure> {
    let store = store_of(global, config)?;
    Ok(match encrypt || config.store.encrypt {
        true => {
            overwrite_before_removal(Overwritten::Temporary);
            store.encrypted_with(KeySources::current().first()?)
        }
        false => store,
    })
}

/// Before anything else: says where the keys of encrypted recordings are, and how files are removed. What killed recorders
/// left is looked at by commands that open no store.
pub fn prepare(global: &GlobalArgs) {
    if global.secure_delete {
        overwrite_before_removal(Overwritten::Everything);
    }
    // A configuration that cannot be read is told by whoever needs it.
    if let Ok(config) = settings::load(global.config.as_deref()) {
        set_key_sources(key_sources(global, &config));
    }
}

fn store_of(global: &GlobalArgs, config: &Config) -> Result<Store, Failure> {
    let root = global.store.clone().or_else(|| config.store.directory.clone()).or_else(default_root);
    root.map(Store::open).ok_or_else(|| {
        Failure::usage("there is no place for recordings: neither HOME nor LOCALAPPDATA is set")
            .with_hint("name one with --store DIR or ORTSCOPE_STORE")
    })
}

/// Flag before configuration; the environment and the system's key store are asked after both.
pub fn key_sources(global: &GlobalArgs, config: &Config) -> KeySources {
    KeySources {
        file: global.key_file.clone().or_else(|| config.store.key_file.clone()),
        system: Some(|| ortscope_sources::key_store::read(KEY_NAME)),
    }
}

/// The user's data directory, by the custom of each system.
fn default_root() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_DATA_HOME")
        .or_else(|| variable("LOCALAPPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".local").join("share")))?;
    Some(base.join("ortscope").join("runs"))
}

/// What a run asks of the store.
#[derive(Debug)]
pub struct SaveRequest<'a> {
    /// The command that makes it.
    pub origin: &'a str,
    pub name: Option<&'a str>,
    pub never: bool,
    pub encrypt: bool,
    pub subject: String,
    /// So many words at the end of our command line are another program's; the subject stands for them.
    pub observed_words: usize,
}

/// Begins the recording of a run. `Ok(Err(sentence))`: it cannot be kept, but nobody insisted.
pub fn begin(
    request: SaveRequest<'_>,
    global: &GlobalArgs,
) -> Result<Result<ActiveRecording, Option<String>>, Failure> {
    let config = settings::load(global.config.as_deref())?;
    if request.never || (!config.store.save && request.name.is_none()) {
        return Ok(Err(None));
    }
    let insisted = request.name.is_some();
    // Who wants it encrypted does not want it otherwise, and must know why there is none.
    let store = recording_store_of(global, &config, request.encrypt)?;
    let SaveRequest { origin, name, subject, observed_words, .. } = request;
    let request = RecordingRequest { origin, name, subject, observed_words };
    match ActiveRecording::begin(store, &config.store, request) {
        Ok(recording) => Ok(Ok(recording)),
        Err(failure) if insisted || failure.kind == FailureKind::Usage => Err(failure),
        Err(failure) => Ok(Err(Some(failure.message))),
    }
}

/// The machine's facts and, as far as results tell them, versions of ONNX Runtime and of provider libraries.
pub fn fingerprint(machine: &MachineFacts, results: &[RunResult]) -> BTreeMap<String, String> {
    let mut facts = machine.fingerprint();
    let runtime = results.iter().find_map(|result| result.runtime.as_ref());
    facts.extend(runtime.map(|runtime| ("ort_version".to_owned(), runtime.version.clone())));
    for placement in results.iter().filter_map(|result| result.placement.as_ref()) {
        for (provider, version) in &placement.provider_versions {
            let name = provider.strip_suffix("ExecutionProvider").unwrap_or(provider);
            facts.insert(format!("{PROVIDER_FACT}{name}"), version.clone());
        }
    }
    facts
}

/// Adds the facts of the run, closes the recording and removes recordings that are too old.
pub fn finish_run(
    recording: ActiveRecording,
    document: &RunDocument,
    reason: &str,
) -> Result<Saved, Failure> {
    let writer = &recording.writer;
    writer.set_fingerprint(fingerprint(&document.machine, &document.results))?;
    for result in &document.results {
        append(writer, result.session_rows(now_ns()))?;
        append(writer, result.finding_rows(now_ns()))?;
        append(writer, result.memory_rows(now_ns()))?;
        append(writer, result.unavailability_rows(now_ns()))?;
    }
    recording.finish(reason)
}

/// The results of the measurements in a recording.
pub fn results(recording: &Recording) -> Result<Vec<RunResult>, Failure> {
    let document = run_document(recording)?;
    ortscope_result::runs(recording, document.as_ref())
        .map_err(|error| Failure::new(FailureKind::DataLost, error.to_string()))
}

/// The document of recordings made before version 0.2. One that is not JSON is a damaged part; the tables remain.
pub fn run_document(recording: &Recording) -> Result<Option<serde_json::Value>, Failure> {
    let bytes = recording.document(RUN_DOCUMENT)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

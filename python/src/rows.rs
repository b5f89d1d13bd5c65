//! Recordings as Python sees them: where they are, which there are, and their tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ortscope_core::batch::Batch;
use ortscope_core::config::Config;
use ortscope_core::schema::TableId;
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{Recording, Retention, Store};
use pyo3::prelude::*;

use crate::table::TableData;
use crate::{errors, keys};

/// The configuration files that exist, weakest first, as for the program.
pub fn configuration() -> PyResult<Config> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = variable("XDG_CONFIG_HOME")
        .or_else(|| variable("APPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".config")))
        .map(|base| base.join("ortscope").join("ortscope.toml"));
    let mut layers = Vec::new();
    for path in user.into_iter().chain([PathBuf::from("ortscope.toml")]).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(&path).map_err(errors::recording)?;
        layers.push((path.display().to_string(), text));
    }
    Config::from_layers(&layers).map_err(errors::recording)
}

/// The store that argument, environment and configuration name, and how long it keeps recordings.
pub fn store_settings(named: Option<PathBuf>) -> PyResult<(PathBuf, Retention)> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = configuration()?;
    keys::look_for_keys(config.store.key_file.clone());
    let default = || {
        let base = variable("XDG_DATA_HOME")
            .or_else(|| variable("LOCALAPPDATA"))
            .or_else(|| variable("HOME").map(|home| home.join(".local").join("share")))?;
        Some(base.join("ortscope").join("runs"))
    };
    let root =
        named.or_else(|| variable("ORTSCOPE_STORE")).or(config.store.directory).or_else(default).ok_or_else(
            || {
                errors::recording(
                    "there is no place for recordings: neither HOME nor LOCALAPPDATA is set; \
                     hint: name one in ORTSCOPE_STORE",
                )
            },
        )?;
    let retention = Retention {
        max_age: Some(Duration::from_secs_f64(config.store.max_age_days * 86_400.0)),
        max_total_bytes: Some((config.store.max_gigabytes * 1e9) as u64),
        keep_tagged: true,
    };
    Ok((root, retention))
}

/// Where recordings are kept.
#[pyfunction]
#[pyo3(signature = (store=None))]
pub fn store_directory(store: Option<PathBuf>) -> PyResult<PathBuf> {
    Ok(store_settings(store)?.0)
}

/// The recordings, newest first, as JSON.
#[pyfunction]
#[pyo3(signature = (store=None))]
pub fn list_recordings(py: Python<'_>, store: Option<PathBuf>) -> PyResult<String> {
    let (root, _) = store_settings(store)?;
    py.detach(|| {
        let entries = keys::list(&Store::open(root)).map_err(errors::store)?;
        serde_json::to_string(&entries).map_err(errors::recording)
    })
}

/// Names of the tables of a recording that have rows.
#[pyfunction]
#[pyo3(signature = (run, store=None))]
pub fn table_names(py: Python<'_>, run: &str, store: Option<PathBuf>) -> PyResult<Vec<(String, u64)>> {
    py.detach(|| {
        let recording = open(run, store)?;
        Ok(recording.tables().iter().map(|table| (table.table.def().name.to_owned(), table.rows)).collect())
    })
}

fn open(run: &str, store: Option<PathBuf>) -> PyResult<Recording> {
    let path = Path::new(run);
    let path = if path.join("manifest.json").is_file() {
        keys::look_for_keys(configuration()?.store.key_file);
        path.to_owned()
    } else {
        keys::resolve(&Store::open(store_settings(store)?.0), run).map_err(errors::store)?
    };
    keys::open(&path).map_err(errors::store)
}

/// The key file, named by a monitor of this process, that opens a recording, to pass to the program. `None` if it
/// needs none or cannot be opened: the program reports why.
#[pyfunction]
#[pyo3(signature = (run, store=None))]
pub fn key_file_of(py: Python<'_>, run: &str, store: Option<PathBuf>) -> Option<PathBuf> {
    if !keys::has_files() {
        return None;
    }
    py.detach(|| keys::file_of(&open(run, store).ok()?))
}

/// Whether records below another observer's directory go to an encrypted recording. `false` also if there is no
/// recording or it is unknown.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn is_recorded_encrypted(py: Python<'_>, base: PathBuf) -> bool {
    let is_encrypted = || {
        let directory = ortscope_channel::recording_of(&base)?;
        let entries = Store::open(directory.parent()?).list().ok()?;
        let id = directory.file_name()?.to_string_lossy().into_owned();
        entries.into_iter().find(|entry| entry.id == id).map(|entry| entry.encrypted)
    };
    py.detach(is_encrypted).unwrap_or(false)
}

/// A table with all its rows.
#[pyfunction]
#[pyo3(signature = (run, table, store=None))]
pub fn read_table(py: Python<'_>, run: &str, table: &str, store: Option<PathBuf>) -> PyResult<TableData> {
    let Some(id) = TableId::by_name(table) else {
        let known: Vec<&str> = TableId::ALL.iter().map(|table| table.def().name).collect();
        return Err(errors::recording(format!("there is no table '{table}'; hint: {}", known.join(", "))));
    };
    py.detach(|| {
        let recording = open(run, store)?;
        let mut all = Batch::new(id);
        for batch in recording.scan(id, &Scan::all()) {
            let batch = batch.map_err(errors::recording)?;
            // Most tables are one batch, which is taken as it is.
            if all.is_empty() {
                all = batch;
            } else {
                all.append(&batch);
            }
        }
        Ok(TableData::new(all))
    })
}

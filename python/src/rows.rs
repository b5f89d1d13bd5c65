//! Recordings as Python sees them: where they are, which there are, and their tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ortscope_core::batch::Batch;
use ortscope_core::config::Config;
use ortscope_core::schema::TableId;
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{KeySources, Recording, Retention, Store, set_key_sources};
use pyo3::prelude::*;

use crate::errors;
use crate::table::TableData;

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
    look_for_keys(config.store.key_file.clone());
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

/// Where keys of encrypted recordings are looked for, as by the program: a file, `ORTSCOPE_KEY`, the system's key store.
pub fn look_for_keys(file: Option<PathBuf>) {
    let system: fn() -> Result<Option<String>, String> =
        || ortscope_sources::key_store::read("ortscope:recordings");
    set_key_sources(KeySources { file, system: Some(system) });
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
        let entries = Store::open(root).list().map_err(errors::store)?;
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
        look_for_keys(configuration()?.store.key_file);
        path.to_owned()
    } else {
        Store::open(store_settings(store)?.0).resolve(run).map_err(errors::store)?
    };
    Recording::open(&path).map_err(errors::store)
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

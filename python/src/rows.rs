//! Recordings as Python sees them: where they are, which there are, and their tables column by column.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ortscope_core::config::Config;
use ortscope_core::schema::{Column, ColumnData, TableId};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{Recording, Retention, Store};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::errors;

/// The configuration files that exist, weakest first, as for the program.
fn configuration() -> PyResult<Config> {
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
        path.to_owned()
    } else {
        Store::open(store_settings(store)?.0).resolve(run).map_err(errors::store)?
    };
    Recording::open(&path).map_err(errors::store)
}

/// A table: for each column its name, type, values and validity. Numbers come as the bytes of an array of 8-byte
/// values (one byte for truth values), texts as a list; the validity is one byte per row, or `None` if all are valid.
#[pyfunction]
#[pyo3(signature = (run, table, store=None))]
pub fn read_table<'py>(
    py: Python<'py>,
    run: &str,
    table: &str,
    store: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let Some(id) = TableId::by_name(table) else {
        let known: Vec<&str> = TableId::ALL.iter().map(|table| table.def().name).collect();
        return Err(errors::recording(format!("there is no table '{table}'; hint: {}", known.join(", "))));
    };
    let batch = py.detach(|| {
        let recording = open(run, store)?;
        let mut all = ortscope_core::batch::Batch::new(id);
        for batch in recording.scan(id, &Scan::all()) {
            all.append(&batch.map_err(errors::recording)?);
        }
        Ok::<_, PyErr>(all)
    })?;
    let columns = PyDict::new(py);
    for (definition, column) in id.def().columns.iter().zip(batch.columns()) {
        columns.set_item(definition.name, values(py, column)?)?;
    }
    Ok(columns)
}

/// Type, values and validity of a column.
type Values<'py> = (&'static str, Bound<'py, PyAny>, Option<Bound<'py, PyBytes>>);

fn values<'py>(py: Python<'py>, column: &Column) -> PyResult<Values<'py>> {
    let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes).into_any();
    let (kind, values) = match &column.data {
        ColumnData::U64(values) => {
            ("u64", bytes(values.iter().flat_map(|value| value.to_ne_bytes()).collect()))
        }
        ColumnData::I64(values) => {
            ("i64", bytes(values.iter().flat_map(|value| value.to_ne_bytes()).collect()))
        }
        ColumnData::F64(values) => {
            ("f64", bytes(values.iter().flat_map(|value| value.to_ne_bytes()).collect()))
        }
        ColumnData::Bool(values) => ("bool", bytes(values.iter().map(|value| u8::from(*value)).collect())),
        ColumnData::Text(values) => {
            ("text", PyList::new(py, values.iter().map(|value| &**value))?.into_any())
        }
    };
    let valid: Vec<u8> = column.valid.iter().map(|valid| u8::from(*valid)).collect();
    Ok((kind, values, (!valid.is_empty()).then(|| PyBytes::new(py, &valid))))
}

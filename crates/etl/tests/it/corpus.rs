//! The real traces and their known contents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::skips;

/// One line of the corpus's manifest.
pub struct Trace {
    pub name: String,
    pub path: PathBuf,
    pub version: String,
    pub os_build: u32,
    pub pointer_bytes: usize,
    pub clock: u32,
    pub buffers: u64,
    pub compressed_buffers: u64,
    pub records: u64,
    pub events_lost: u64,
    /// Such as `SYSTEM64`, with the number of records.
    pub header_kinds: BTreeMap<String, u64>,
}

impl Trace {
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
}

/// Empty, with a message, if there is no corpus.
pub fn traces() -> Vec<Trace> {
    let root = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = root.join("etl");
    let Ok(manifest) = std::fs::read_to_string(folder.join("MANIFEST.tsv")) else {
        skips::skipped(&format!("no traces in {}; set ORTSCOPE_CORPUS", folder.display()));
        return Vec::new();
    };
    let mut lines = manifest.lines();
    let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let traces: Vec<Trace> = lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let fields: BTreeMap<_, _> = columns.iter().copied().zip(line.split('\t')).collect();
            let number = |column: &str| -> u64 { fields[column].parse().unwrap() };
            Trace {
                name: fields["file"].to_owned(),
                path: folder.join(fields["file"]),
                version: fields["etl_version"].to_owned(),
                os_build: number("os_build") as u32,
                pointer_bytes: number("ptr") as usize,
                clock: number("clock") as u32,
                buffers: number("buffers"),
                compressed_buffers: number("compressed_buffers"),
                records: number("records"),
                events_lost: number("events_lost"),
                header_kinds: serde_json::from_str(fields["header_kinds"]).unwrap(),
            }
        })
        .collect();
    assert!(traces.len() >= 39, "the manifest has {} traces", traces.len());
    traces
}

pub fn trace(name: &str) -> Option<Trace> {
    traces().into_iter().find(|trace| trace.name == name)
}

//! A file of Linux's `perf record`.

use std::path::PathBuf;

use ortscope_core::units;
use ortscope_decode::perf_data::{self, PerfRow};

use crate::output::Output;
use crate::{ImportError, Reader, Summary};

/// Maximum size of a file. It is read as a whole because its sections can be anywhere in it.
const MAX_BYTES: u64 = 4 << 30;

#[derive(Debug)]
pub(crate) struct PerfReader {
    pub path: PathBuf,
}

impl Reader for PerfReader {
    fn read(&mut self, out: &mut Output<'_>) -> Result<Summary, ImportError> {
        let failed = |error| ImportError::io(&self.path, error);
        let size = std::fs::metadata(&self.path).map_err(failed)?.len();
        if size > MAX_BYTES {
            return Err(ImportError::TooLarge {
                path: self.path.clone(),
                size: units::bytes(size as f64),
                hint: "record a shorter time, or with a lower rate",
            });
        }
        let bytes = std::fs::read(&self.path).map_err(failed)?;
        let start_ns = out.start_ns;
        let outcome = perf_data::read(&bytes, start_ns, &mut |row| match row {
            PerfRow::Kernel(row) => out.emit(&row),
            PerfRow::Process(row) => out.emit(&row),
        })
        .map_err(|error| ImportError::unsupported(&self.path, &error))?;
        out.note("note", "a file of perf record; its times count from the import");
        out.unavailable(
            "names of functions",
            "the file contains addresses; symbols are not looked up",
            Some("'perf script' names them on the machine that recorded"),
        );
        out.lost("perf", "records", outcome.lost);
        out.lost("import", "unreadable records", outcome.unreadable);
        if outcome.lost > 0 {
            out.warn(format!("the kernel lost {} while it recorded", units::counted(outcome.lost, "record")));
        }
        if outcome.unreadable > 0 {
            let records = units::counted(outcome.unreadable, "record");
            out.warn(format!("{records} could not be read and were left out"));
        }
        if outcome.is_cut {
            out.incomplete();
            out.warn("the file ends before its records do: the end is missing");
        }
        let document = serde_json::json!({
            "schema": "ortscope.import.perf/1",
            "records": outcome.records, "samples": outcome.samples, "switches": outcome.switches,
            "processes": outcome.processes, "mappings": outcome.mappings, "other": outcome.other,
            "lost": outcome.lost, "unreadable": outcome.unreadable, "truncated": outcome.is_cut,
        });
        let line = format!(
            "{}: {}, {}, {}",
            units::counted(outcome.records, "record"),
            units::counted(outcome.samples, "sample"),
            units::counted(outcome.switches, "context switch"),
            units::counted(outcome.mappings, "mapped file"),
        );
        let span_ns = Some(outcome.span_ns.map_or(0, |(first, last)| last - first));
        out.summary(document, vec![line], span_ns)
    }
}

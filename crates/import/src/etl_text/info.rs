//! The facts about a trace: machine, session, time, size and losses.

use std::path::Path;

use ortscope_core::units;
use ortscope_etl::{
    ClockKind, Compression, EtlError, EtlFile, FileTime, HeaderKind, Losses, PointerSize, Walk,
};
use serde_json::{Map, Value, json};

use super::losses_json;

/// Facts collected from the records.
#[derive(Debug, Default, Clone)]
struct Seen {
    kinds: [u64; HeaderKind::ALL.len()],
    ticks: Option<(u64, u64)>,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        for (total, more) in self.kinds.iter_mut().zip(other.kinds) {
            *total += more;
        }
        self.ticks = match (self.ticks, other.ticks) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }
}

/// A trace with the facts that only its records have.
#[derive(Debug)]
pub struct TraceInfo<'a> {
    path: &'a Path,
    file: &'a EtlFile,
    walk: Walk,
    seen: Seen,
}

impl<'a> TraceInfo<'a> {
    /// Reads all records of the file.
    pub fn read(path: &'a Path, file: &'a EtlFile) -> Result<Self, EtlError> {
        let (workers, walk) = file.unordered(0, Seen::default, |seen, record| {
            seen.kinds[record.kind as usize] += 1;
            if record.ticks > 0 {
                let (first, last) = seen.ticks.unwrap_or((record.ticks, record.ticks));
                seen.ticks = Some((first.min(record.ticks), last.max(record.ticks)));
            }
        })?;
        let mut seen = Seen::default();
        workers.iter().for_each(|worker| seen.add(worker));
        Ok(Self { path, file, walk, seen })
    }

    pub fn losses(&self) -> &Losses {
        &self.walk.losses
    }
}

fn compression(file: &EtlFile) -> &'static str {
    match file.compression() {
        Compression::None => "none",
        Compression::Lznt1 => "LZNT1",
        Compression::Xpress => "XPRESS",
        Compression::XpressHuffman => "XPRESS Huffman",
        Compression::Unknown(_) => "unknown",
    }
}

fn clock(file: &EtlFile) -> &'static str {
    match file.header().clock.kind() {
        ClockKind::PerformanceCounter => "performance counter",
        ClockKind::SystemTime => "system time",
        ClockKind::ProcessorCycles => "processor cycles",
        ClockKind::Unknown(_) => "unknown",
    }
}

/// The end of the session, or the last event if the session did not write its end.
fn end(file: &EtlFile, seen: &Seen) -> Option<FileTime> {
    let header = file.header();
    Some(header.end_time).filter(|end| end.0 > 0).or_else(|| seen.ticks.map(|(_, last)| header.time_of(last)))
}

fn seconds(seen: &Seen, file: &EtlFile) -> Option<f64> {
    seen.ticks.map(|(first, last)| file.header().clock.nanos_of(last - first) as f64 / 1e9)
}

fn kinds(seen: &Seen) -> impl Iterator<Item = (HeaderKind, u64)> + '_ {
    HeaderKind::ALL.into_iter().map(|kind| (kind, seen.kinds[kind as usize])).filter(|(_, count)| *count > 0)
}

impl TraceInfo<'_> {
    /// The facts as a JSON document.
    pub fn document(&self) -> Value {
        let Self { path, file, walk, seen } = self;
        let header = file.header();
        let kinds: Map<String, Value> =
            kinds(seen).map(|(kind, count)| (format!("{kind:?}").to_lowercase(), json!(count))).collect();
        let [major, minor, sub, sub_minor] = header.version;
        json!({
            "schema": "ortscope.etl.info/1",
            "file": path.display().to_string(),
            "bytes": file.byte_length(),
            "records": walk.records,
            "events_lost": walk.losses.events_lost,
            "buffers_lost": walk.losses.buffers_lost,
            "processors": header.processors,
            "processors_with_events": file.processors().collect::<Vec<_>>(),
            "os_build": header.os_build,
            "start": header.start_time.to_string(),
            "end": end(file, seen).map(|end| end.to_string()),
            "duration_seconds": seconds(seen, file),
            "boot": header.boot_time.to_string(),
            "closed": header.is_closed(),
            "etl_version": format!("{major}.{minor}.{sub}.{sub_minor}"),
            "pointer_bytes": header.pointer_size.bytes(),
            "clock": clock(file),
            "clock_hertz": header.clock.ticks_per_second(),
            "cpu_mhz": header.cpu_mhz,
            "buffers": file.buffers(),
            "buffers_written": header.buffers_written,
            "compressed_buffers": file.compressed_buffers(),
            "compression": compression(file),
            "buffer_bytes": header.buffer_size,
            "log_file_mode": format!("{:#010x}", header.log_file_mode),
            "session": header.logger_name,
            "original_file": header.log_file_name,
            "time_zone": header.time_zone.standard_name,
            "records_by_header": kinds,
            "losses": losses_json(&walk.losses),
        })
    }

    /// The facts as text.
    pub fn text(&self) -> String {
        let Self { path, file, walk, seen } = self;
        let header = file.header();
        let bits = if header.pointer_size == PointerSize::Eight { "64-bit" } else { "32-bit" };
        let [major, minor, sub, sub_minor] = header.version;
        let mut out = format!(
            "{}  {}  ETL {major}.{minor}.{sub}.{sub_minor}\n",
            path.file_name().unwrap_or_default().to_string_lossy(),
            units::bytes(file.byte_length() as f64)
        );
        let mut line = |key: &str, value: String| out.push_str(&format!("{key:<12}{value}\n"));
        line(
            "machine",
            format!(
                "Windows build {}, {bits}, {}",
                header.os_build,
                units::counted(u64::from(header.processors), "processor")
            ),
        );
        if !header.logger_name.is_empty() {
            line("session", header.logger_name.clone());
        }
        line("start", header.start_time.to_string());
        match (end(file, seen), header.is_closed()) {
            (Some(end), true) => line("end", end.to_string()),
            (Some(end), false) => {
                line("end", format!("{end} (the last event; the session did not close the file)"));
            }
            (None, _) => line("end", "unknown".to_owned()),
        }
        if let Some(seconds) = seconds(seen, file) {
            line("events span", units::nanoseconds(seconds * 1e9));
        }
        let by_kind: Vec<String> = kinds(seen)
            .map(|(kind, count)| format!("{} {}", units::count(count), format!("{kind:?}").to_lowercase()))
            .collect();
        line("records", format!("{} ({})", units::count(walk.records), by_kind.join(", ")));
        line(
            "buffers",
            format!(
                "{} of {}, {} compressed ({})",
                units::count(file.buffers()),
                units::bytes(f64::from(header.buffer_size)),
                units::count(file.compressed_buffers()),
                compression(file)
            ),
        );
        line("clock", format!("{}, {} Hz", clock(file), units::count(header.clock.ticks_per_second())));
        line("lost", format!("{} events, {} buffers", walk.losses.events_lost, walk.losses.buffers_lost));
        out
    }
}

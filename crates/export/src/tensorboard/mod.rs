//! A directory for TensorBoard: `LOGDIR/<model>/<recording>/` with an event file, and `plugins/profile/` in it for the
//! Profile tab (which needs `pip install xprof`).
//!
//! | shown under | what |
//! |---|---|
//! | Scalars | `latency/…`, `inferences/…` in windows; `machine/…`, `device/…` as they were sampled |
//! | Histograms | `latency/distribution_ms` in the same windows |
//! | Text | the recording, its machine, its findings |
//! | Profile | operators by provider and thread |
//!
//! The step of all charts is the millisecond since the start of the recording.

mod events;
mod xplane;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use ortscope_analyze::percentiles;
use ortscope_core::schema::{
    DeviceSampleRow, FindingRow, InferenceRow, OperatorRow, SystemSampleRow, TableId, Text,
};

use crate::error::ExportError;
use crate::metrics::steps::WallClock;
use crate::place::{Models, path_part};
use crate::source::{RowSource, TableRows};
use crate::target::Staged;
use crate::wire::end_to_end_ns;
use events::{At, Bucket, EventFile};
use xplane::Space;

/// TensorBoard keeps 500 histograms and 1,000 scalars of a tag; more windows would be thinned at random.
const MAX_WINDOWS: u64 = 500;
const MIN_WINDOW_NS: u64 = 1_000_000_000;
/// Buckets of a histogram, as many as TensorBoard's own writer makes.
const BUCKETS: usize = 30;
/// Models that get a directory of their own.
const MAX_MODELS: usize = 100;
/// Latencies of a window that its figures are made of.
const MAX_LATENCIES: usize = 1_000_000;

const P50: &str = "Median of the window, from the planned start to the end.";
const P99: &str = "99th percentile of the window; left out where too few inferences would bear it.";
const SUM: &str = "All latencies of the window together.";
const COUNT: &str = "Inferences that began in the window.";

/// Latencies of one model, window by window.
#[derive(Debug, Default)]
struct Windows {
    at: BTreeMap<u64, Window>,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Window {
    latencies: Vec<u64>,
    errors: u64,
}

/// One model's part.
#[derive(Debug, Default)]
struct Part {
    windows: Windows,
    space: Space,
}

pub(crate) fn write(source: &RowSource<'_>, target: &Path, staged: &mut Staged) -> Result<(), ExportError> {
    let start_ns = source.trace_start_ns();
    let clock = WallClock::read(source)?;
    let models = Models::read(source)?;
    let window_ns = window_ns(source, start_ns);
    let (mut parts, mut other_models) = (BTreeMap::new(), 0);
    inferences(source, &models, &mut parts, start_ns, window_ns, &mut other_models)?;
    operators(source, &models, &mut parts, start_ns, &mut other_models)?;
    if other_models > 0 {
        source.note(format!("{other_models} rows are of more than {MAX_MODELS} models and are not in it"));
    }
    if parts.is_empty() {
        // The machine was recorded, but no model.
        parts.insert(models.only(), Part::default());
    }
    for (index, (model, part)) in parts.iter().enumerate() {
        let directory = target.join(path_part(model)).join(path_part(&source.info.id));
        let writer = Writer { source, clock: &clock, start_ns, window_ns, is_first: index == 0 };
        let path = directory.join(event_file_name(source));
        staged.create_directory(&directory)?;
        let mut file = staged.begin(&path)?;
        let rows = writer.events(part, file.as_file_mut()).map_err(|error| error.at(&path))?;
        staged.add(file, &path, None, rows)?;
        if part.space.events > 0 {
            let path = profile_path(source, &directory);
            staged.create_directory(path.parent().unwrap_or(&directory))?;
            let mut file = staged.begin(&path)?;
            let bytes = part.space.bytes(&source.options.host);
            file.write_all(&bytes).map_err(|error| ExportError::file(&path, &error))?;
            staged.add(file, &path, Some(TableId::Operators), part.space.events)?;
        }
        for (count, what) in [
            (
                part.space.left_out,
                "operators are at impossible times or beyond what the Profile tab can show",
            ),
            (part.windows.left_out, "inferences are beyond what a window can hold"),
        ] {
            if count > 0 {
                source.note(format!("{count} {what}; they are not in it"));
            }
        }
    }
    Ok(())
}

fn window_ns(source: &RowSource<'_>, start_ns: u64) -> u64 {
    let ended = source.info.ended.map(|anchor| anchor.monotonic_ns);
    let length = ended.unwrap_or(start_ns).saturating_sub(start_ns);
    (length / MAX_WINDOWS).max(MIN_WINDOW_NS)
}

/// TensorBoard looks for the word `tfevents`.
fn event_file_name(source: &RowSource<'_>) -> String {
    let seconds = source.info.started.unix_ns / 1_000_000_000;
    format!("events.out.tfevents.{seconds}.{}.0.0.ortscope", path_part(&source.options.host))
}

/// The tab keeps what it computed beside the file and goes on showing it: a new session instead of a new file.
fn profile_path(source: &RowSource<'_>, directory: &Path) -> PathBuf {
    let sessions = directory.join("plugins").join("profile");
    let id = path_part(&source.info.id);
    let name = |number: u32| if number == 1 { id.clone() } else { format!("{id}-{number}") };
    let free = (1..1_000).map(name).find(|name| !sessions.join(name).exists());
    sessions.join(free.unwrap_or(id)).join(format!("{}.xplane.pb", path_part(&source.options.host)))
}

/// The part of a model, or `None` (and counted) when there are too many.
fn part<'p>(parts: &'p mut BTreeMap<Text, Part>, model: Text, left_out: &mut u64) -> Option<&'p mut Part> {
    if parts.len() >= MAX_MODELS && !parts.contains_key(&model) {
        *left_out += 1;
        return None;
    }
    Some(parts.entry(model).or_default())
}

fn inferences(
    source: &RowSource<'_>,
    models: &Models,
    parts: &mut BTreeMap<Text, Part>,
    start_ns: u64,
    window_ns: u64,
    other_models: &mut u64,
) -> Result<(), ExportError> {
    if !source.is_selected(TableId::Inferences) {
        return Ok(());
    }
    for batch in source.batches(TableId::Inferences) {
        for row in batch?.rows::<InferenceRow>() {
            let Some(part) = part(parts, models.of(&row.session_id), other_models) else { continue };
            let number = row.timestamp_ns.saturating_sub(start_ns) / window_ns;
            let is_known = part.windows.at.contains_key(&number);
            // A time that no window has room for is an impossible one.
            if !is_known && part.windows.at.len() as u64 > 4 * MAX_WINDOWS {
                part.windows.left_out += 1;
                continue;
            }
            let window = part.windows.at.entry(number).or_default();
            if window.latencies.len() >= MAX_LATENCIES {
                part.windows.left_out += 1;
                continue;
            }
            window.latencies.push(end_to_end_ns(&row));
            window.errors += u64::from(!row.ok);
        }
    }
    Ok(())
}

fn operators(
    source: &RowSource<'_>,
    models: &Models,
    parts: &mut BTreeMap<Text, Part>,
    start_ns: u64,
    other_models: &mut u64,
) -> Result<(), ExportError> {
    if !source.is_selected(TableId::Operators) {
        return Ok(());
    }
    for batch in source.batches(TableId::Operators) {
        for row in batch?.rows::<OperatorRow>() {
            if let Some(part) = part(parts, models.of(&row.session_id), other_models) {
                part.space.add(&row, start_ns);
            }
        }
    }
    Ok(())
}

/// Equal steps from the smallest to the largest; every latency is in exactly one.
fn buckets(latencies: &[u64]) -> Vec<Bucket> {
    let (Some(least), Some(most)) = (latencies.iter().min(), latencies.iter().max()) else {
        return Vec::new();
    };
    let ms = |nanos: f64| nanos / 1e6;
    let width = ((most - least) as f64 / BUCKETS as f64).max(1.0);
    let mut counts = [0; BUCKETS];
    for latency in latencies {
        let index = ((latency - least) as f64 / width) as usize;
        counts[index.min(BUCKETS - 1)] += 1;
    }
    let left = |index: usize| ms(*least as f64 + index as f64 * width);
    counts.iter().enumerate().map(|(index, count)| (left(index), left(index + 1), *count)).collect()
}

struct Writer<'a> {
    source: &'a RowSource<'a>,
    clock: &'a WallClock,
    start_ns: u64,
    window_ns: u64,
    /// What is of the machine stands beside the first model only.
    is_first: bool,
}

impl Writer<'_> {
    fn at(&self, time_ns: u64) -> At {
        let step = time_ns.saturating_sub(self.start_ns) / 1_000_000;
        At { unix_ns: self.clock.unix_ns(time_ns), step: step.min(i64::MAX as u64) }
    }

    /// The event file; returns the rows that are in it.
    fn events(&self, part: &Part, out: &mut (dyn Write + Send)) -> Result<u64, ExportError> {
        let mut file = EventFile::new(out, self.source.info.started.unix_ns)?;
        let mut rows = self.latencies(part, &mut file)?;
        if self.is_first {
            self.about(&mut file)?;
            rows += self.findings(&mut file)?.rows;
            rows += self.machine(&mut file)?.rows;
            rows += self.devices(&mut file)?.rows;
        }
        file.finish()?;
        Ok(rows)
    }

    fn latencies(&self, part: &Part, file: &mut EventFile<'_>) -> Result<u64, ExportError> {
        let mut rows = 0;
        for (number, window) in &part.windows.at {
            let at = self.at(self.start_ns.saturating_add(number.saturating_mul(self.window_ns)));
            let count = window.latencies.len();
            let sum: u128 = window.latencies.iter().map(|latency| u128::from(*latency)).sum();
            let sum_ms = sum as f64 / 1e6;
            let seconds = self.window_ns as f64 / 1e9;
            file.scalar(at, "inferences/count", COUNT, count as f64)?;
            file.scalar(
                at,
                "inferences/per_second",
                "Inferences per second of the window.",
                count as f64 / seconds,
            )?;
            file.scalar(at, "inferences/errors", "Inferences that returned an error.", window.errors as f64)?;
            file.scalar(at, "latency/sum_ms", SUM, sum_ms)?;
            file.scalar(at, "latency/mean_ms", "Mean of the window.", sum_ms / count.max(1) as f64)?;
            for percentile in percentiles(&window.latencies, &[0.5, 0.99]) {
                let (tag, about) =
                    if percentile.p < 0.9 { ("latency/p50_ms", P50) } else { ("latency/p99_ms", P99) };
                if let Some(nanos) = percentile.value_ns {
                    file.scalar(at, tag, about, nanos as f64 / 1e6)?;
                }
            }
            let about = "Latencies of the window in milliseconds.";
            file.histogram(at, "latency/distribution_ms", about, &buckets(&window.latencies))?;
            rows += count as u64;
        }
        Ok(rows)
    }

    fn about(&self, file: &mut EventFile<'_>) -> Result<(), ExportError> {
        let mut text = "| | |\n|---|---|\n".to_owned();
        for (key, value) in self.source.head().fields() {
            let value = value.replace(['|', '\n', '\r', '`'], " ");
            text += &format!("| {key} | `{value}` |\n");
        }
        file.text(self.at(self.start_ns), "recording", "What was recorded, and where.", &text)?;
        Ok(())
    }

    fn findings(&self, file: &mut EventFile<'_>) -> Result<TableRows, ExportError> {
        let mut written = TableRows { table: TableId::Findings, rows: 0 };
        if !self.source.is_selected(TableId::Findings) {
            return Ok(written);
        }
        for batch in self.source.batches(TableId::Findings) {
            for row in batch?.rows::<FindingRow>() {
                let text = format!("**{}**\n\n{}\n\n{}", row.severity, row.evidence, row.advice);
                let tag = format!("finding/{}", path_part(&row.id));
                file.text(self.at(row.timestamp_ns), &tag, "Something to act on.", &text)?;
                written.rows += 1;
            }
        }
        Ok(written)
    }

    fn machine(&self, file: &mut EventFile<'_>) -> Result<TableRows, ExportError> {
        let mut written = TableRows { table: TableId::SystemSamples, rows: 0 };
        if !self.source.is_selected(TableId::SystemSamples) {
            return Ok(written);
        }
        for batch in self.source.batches(TableId::SystemSamples) {
            for row in batch?.rows::<SystemSampleRow>() {
                let at = self.at(row.timestamp_ns);
                let values = [
                    ("machine/cpu_percent", "Busy share of all processors.", row.cpu_percent),
                    (
                        "machine/memory_used_bytes",
                        "Physical memory in use.",
                        row.memory_used_bytes.map(|bytes| bytes as f64),
                    ),
                    (
                        "machine/cpu_frequency_hertz",
                        "Mean frequency of the processors.",
                        row.cpu_frequency_hertz,
                    ),
                ];
                for (tag, about, value) in values {
                    if let Some(value) = value.filter(|value| value.is_finite()) {
                        file.scalar(at, tag, about, value)?;
                    }
                }
                written.rows += 1;
            }
        }
        Ok(written)
    }

    fn devices(&self, file: &mut EventFile<'_>) -> Result<TableRows, ExportError> {
        let mut written = TableRows { table: TableId::DeviceSamples, rows: 0 };
        if !self.source.is_selected(TableId::DeviceSamples) {
            return Ok(written);
        }
        let mut not_numbers = 0u64;
        for batch in self.source.batches(TableId::DeviceSamples) {
            for row in batch?.rows::<DeviceSampleRow>() {
                if !row.value.is_finite() {
                    not_numbers += 1;
                    continue;
                }
                let tag = format!("device/{}/{}", path_part(&row.device), path_part(&row.metric));
                file.scalar(self.at(row.timestamp_ns), &tag, "A sensor of a device.", row.value)?;
                written.rows += 1;
            }
        }
        if not_numbers > 0 {
            self.source.note(format!("{not_numbers} samples are not numbers and are not in it"));
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_one_bucket() {
        let latencies: Vec<u64> = (0..10_000).map(|number| number * number % 7_919 * 1_000).collect();
        let found = buckets(&latencies);
        assert_eq!(found.iter().map(|(_, _, count)| count).sum::<u64>(), 10_000);
        assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(buckets(&[5, 5]).iter().map(|(_, _, count)| count).sum::<u64>(), 2);
        assert_eq!(buckets(&[0, u64::MAX]).iter().map(|(_, _, count)| count).sum::<u64>(), 2);
        assert!(buckets(&[]).is_empty());
    }
}

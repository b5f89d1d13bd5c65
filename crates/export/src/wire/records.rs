//! The records of a recording as JSON lines: `{"record":"inference",…}`, `{"record":"operation",…}`,
//! `{"record":"system",…}`.

use std::collections::HashMap;
use std::iter::Peekable;

use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::{SummaryOptions, summarize};
use ortscope_core::schema::{
    DeviceSampleRow, InferenceRow, Named, OperatorKind, OperatorRow, Phase, ProcessSampleRow, Row,
    SessionRow, SystemSampleRow, TableId, Text, UnavailabilityRow,
};
use ortscope_core::tables::Scan;
use serde::Serialize;

use super::{
    InferenceContext, LatencyFigures, ProcessMemory, Reasons, Sensors, end_to_end_ns, inference_record,
    operation_record, system_record,
};
use crate::error::ExportError;
use crate::source::{RowSource, TableRows};
use crate::text::Chunked;

/// Latencies that are held to find percentiles; of a longer recording they are left out, with the reason.
const MAX_LATENCIES: usize = 2_000_000;
const MAX_SESSIONS: usize = 10_000;

pub(crate) fn write(source: &RowSource<'_>, out: &mut Chunked<'_>) -> Result<Vec<TableRows>, ExportError> {
    let mut reasons = Reasons::default();
    for row in source.all_rows::<UnavailabilityRow>() {
        reasons.add(&row?);
    }
    let sessions: Vec<SessionRow> = source.all_rows().take(MAX_SESSIONS).collect::<Result<_, _>>()?;
    let mut written = Vec::new();
    for table in [TableId::Inferences, TableId::Operators, TableId::SystemSamples] {
        if !source.is_selected(table) {
            continue;
        }
        let rows = match table {
            TableId::Inferences => inferences(source, &sessions, &reasons, out)?,
            TableId::Operators => operations(source, &reasons, out)?,
            _ => system(source, &sessions, &reasons, out)?,
        };
        written.push(TableRows { table, rows });
    }
    Ok(written)
}

fn line<T: Serialize>(out: &mut Chunked<'_>, kind: &'static str, record: &T) -> Result<(), ExportError> {
    #[derive(Serialize)]
    struct Line<'a, T> {
        record: &'static str,
        #[serde(flatten)]
        fields: &'a T,
    }
    out.json(&Line { record: kind, fields: record });
    out.text("\n");
    out.boundary()?;
    Ok(())
}

fn inferences(
    source: &RowSource<'_>,
    sessions: &[SessionRow],
    reasons: &Reasons,
    out: &mut Chunked<'_>,
) -> Result<u64, ExportError> {
    let figures = figures(source)?;
    let flops = flops(source)?;
    let models: HashMap<&Text, &Text> =
        sessions.iter().map(|session| (&session.session_id, &session.model_name)).collect();
    let mut sensors = Sensors::default();
    let mut samples = Followed::<DeviceSampleRow>::new(source);
    let mut rows = 0;
    for batch in source.batches(TableId::Inferences) {
        for row in batch?.rows::<InferenceRow>() {
            samples.until(row.timestamp_ns, |sample| sensors.add(&sample))?;
            let context = InferenceContext {
                model_name: models.get(&row.session_id).map(|name| &***name),
                figures: figures.get(&(row.session_id.clone(), row.phase.clone())),
                sensors: &sensors,
                flops: flops.get(&row.session_id).copied(),
                padding_ratio: None,
                reasons,
            };
            line(out, "inference", &inference_record(&row, &context))?;
            rows += 1;
        }
    }
    Ok(rows)
}

/// Figures of each session and phase, of the inferences that are exported and did not fail.
fn figures(source: &RowSource<'_>) -> Result<HashMap<(Text, Named<Phase>), LatencyFigures>, ExportError> {
    let mut series: HashMap<(Text, Named<Phase>), Vec<u64>> = HashMap::new();
    let mut count = 0usize;
    for batch in source.batches(TableId::Inferences) {
        for row in batch?.rows::<InferenceRow>().filter(|row| row.ok) {
            count += 1;
            if count > MAX_LATENCIES {
                source.note(format!(
                    "more than {MAX_LATENCIES} inferences: the records have no percentiles, a report has them"
                ));
                return Ok(HashMap::new());
            }
            series.entry((row.session_id.clone(), row.phase.clone())).or_default().push(end_to_end_ns(&row));
        }
    }
    let options = || SummaryOptions { warm_up: WarmUpChoice::Keep };
    let summarized = series.into_iter().filter_map(|(key, series)| {
        let summary = summarize(&series, options())?;
        Some((key, LatencyFigures::from(&summary)))
    });
    Ok(summarized.collect())
}

/// Operations of one inference, by session: what the operators of its first profiled run add up to.
fn flops(source: &RowSource<'_>) -> Result<HashMap<Text, f64>, ExportError> {
    let mut first_runs: HashMap<Text, (u64, f64)> = HashMap::new();
    let scan = Scan::all().columns(&["timestamp_ns", "session_id", "run", "flops"]);
    for batch in source.scan(TableId::Operators, &scan) {
        for row in batch?.rows::<OperatorRow>() {
            let (Some(run), Some(flops)) = (row.run, row.flops) else {
                continue;
            };
            if first_runs.len() >= MAX_SESSIONS && !first_runs.contains_key(&row.session_id) {
                continue;
            }
            let first = first_runs.entry(row.session_id).or_insert((run, 0.0));
            if first.0 == run {
                first.1 += flops as f64;
            }
        }
    }
    Ok(first_runs.into_iter().map(|(session, (_, flops))| (session, flops)).collect())
}

fn operations(source: &RowSource<'_>, reasons: &Reasons, out: &mut Chunked<'_>) -> Result<u64, ExportError> {
    let mut rows = 0;
    for batch in source.batches(TableId::Operators) {
        // Runs, executors and session start-up are around operations, not operations.
        let operations =
            |row: &OperatorRow| matches!(row.kind.known(), Some(OperatorKind::Operator | OperatorKind::Copy));
        for row in batch?.rows::<OperatorRow>().filter(operations) {
            line(out, "operation", &operation_record(&row, reasons))?;
            rows += 1;
        }
    }
    Ok(rows)
}

fn system(
    source: &RowSource<'_>,
    sessions: &[SessionRow],
    reasons: &Reasons,
    out: &mut Chunked<'_>,
) -> Result<u64, ExportError> {
    let mut sensors = Sensors::default();
    let mut memory = ProcessMemory::of(sessions.iter().filter_map(|session| session.pid));
    let mut devices = Followed::<DeviceSampleRow>::new(source);
    let mut processes = Followed::<ProcessSampleRow>::new(source);
    let mut rows = 0;
    for batch in source.batches(TableId::SystemSamples) {
        for row in batch?.rows::<SystemSampleRow>() {
            devices.until(row.timestamp_ns, |sample| sensors.add(&sample))?;
            processes.until(row.timestamp_ns, |sample| memory.add(&sample))?;
            let record = system_record(&row, &sensors, memory.bytes(row.timestamp_ns), reasons);
            line(out, "system", &record)?;
            rows += 1;
        }
    }
    Ok(rows)
}

/// Rows with their times.
type TimedRows<'a, R> = Box<dyn Iterator<Item = Result<(u64, R), ExportError>> + 'a>;

/// A sampled table that is read along with another, every tick of it.
struct Followed<'a, R> {
    rows: Peekable<TimedRows<'a, R>>,
}

impl<'a, R: Row> Followed<'a, R> {
    fn new(source: &'a RowSource<'_>) -> Self {
        let scan = Scan { every_tick: true, ..Scan::all() };
        let rows: TimedRows<'a, R> = Box::new(source.scan(R::TABLE, &scan).flat_map(|batch| {
            let (timed, error) = match batch {
                Ok(batch) => {
                    let times = batch.times_ns().to_vec();
                    (times.into_iter().zip(batch.rows::<R>().collect::<Vec<_>>()).collect(), None)
                }
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            timed.into_iter().map(Ok).chain(error)
        }));
        Self { rows: rows.peekable() }
    }

    /// Hands over the rows up to a time.
    fn until(&mut self, time_ns: u64, mut take: impl FnMut(R)) -> Result<(), ExportError> {
        let due = |row: &Result<(u64, R), ExportError>| !matches!(row, Ok((at, _)) if *at > time_ns);
        while let Some(row) = self.rows.next_if(due) {
            take(row?.1);
        }
        Ok(())
    }
}

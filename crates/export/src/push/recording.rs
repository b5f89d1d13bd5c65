//! Pushes a recording.

use std::time::Duration;

use ortscope_core::schema::{InferenceRow, OperatorRow, TableId};
use ortscope_core::tables::Tables;

use super::otlp::{PendingMetrics, PendingSpans, Resource};
use super::queue::{Queue, Route};
use super::remote_write::Pending;
use super::sender::{Sender, Tried};
use super::{Protocol, PushError, PushOptions, PushReport};
use crate::error::ExportError;
use crate::metrics::steps::{WallClock, each_step};
use crate::options::ExportOptions;
use crate::place::Models;
use crate::source::RowSource;
use ortscope_core::recording::RecordingInfo;

/// Bytes that may wait before some are sent, so that the queue stays small while the far end takes them.
const SEND_ABOVE_BYTES: u64 = 1 << 20;
const MIN_WAIT: Duration = Duration::from_millis(20);

/// What is being pushed: errors of the queue wait until the rows are read.
struct Pusher<'a> {
    options: &'a PushOptions,
    queue: Queue,
    sender: Sender,
    samples: u64,
    dropped_before: u64,
    denied: Option<String>,
    late: Option<String>,
}

impl Pusher<'_> {
    fn add(&mut self, route: Route, (body, samples): (Vec<u8>, u64)) -> Result<(), PushError> {
        self.samples += samples;
        while self.queue.waiting_bytes() + body.len() as u64 > SEND_ABOVE_BYTES.min(self.options.queue_bytes)
        {
            if self.denied.is_some() || !self.send_one()? {
                break;
            }
        }
        self.queue.push(route, samples, &body)?;
        Ok(())
    }

    /// Whether something was done with the first that waits.
    fn send_one(&mut self) -> Result<bool, PushError> {
        match self.sender.try_first(&mut self.queue)? {
            Tried::Delivered | Tried::Refused => Ok(true),
            Tried::Nothing => Ok(false),
            Tried::Later(why) => {
                self.late.get_or_insert(why);
                Ok(false)
            }
            Tried::Denied(why) => {
                self.denied = Some(why);
                Ok(false)
            }
        }
    }

    /// Sends all that waits, or as long as the far end is not given up.
    fn finish(&mut self) -> Result<(), PushError> {
        while !self.queue.is_empty() && self.denied.is_none() {
            if self.send_one()? {
                continue;
            }
            if self.sender.last_progress.elapsed() >= self.options.give_up_after {
                break;
            }
            let left = self.options.give_up_after.saturating_sub(self.sender.last_progress.elapsed());
            std::thread::sleep(self.sender.pause().clamp(MIN_WAIT, left.max(MIN_WAIT)));
        }
        Ok(())
    }

    fn report(&self) -> PushReport {
        PushReport {
            samples: self.samples,
            delivered: self.sender.delivered,
            refused: self.sender.refused,
            refused_why: self.sender.refused_why.clone(),
            dropped: self.queue.dropped() - self.dropped_before,
            waiting: self.queue.waiting(),
            bytes: self.sender.bytes,
            ..PushReport::default()
        }
    }
}

/// Pushes what the filter and the tables of `export` leave of a recording; its format does not matter.
pub fn push_recording(
    tables: &dyn Tables,
    info: &RecordingInfo,
    export: &ExportOptions,
    options: &PushOptions,
) -> Result<PushReport, PushError> {
    let source = RowSource::new(tables, info, export)?;
    let queue = Queue::open(&options.queue, options.queue_bytes)?;
    let mut pusher = Pusher {
        options,
        dropped_before: queue.dropped(),
        queue,
        sender: Sender::new(options.destination.clone()),
        samples: 0,
        denied: None,
        late: None,
    };
    let rows = match options.protocol {
        Protocol::RemoteWrite => remote_write(&source, &mut pusher)?,
        Protocol::Otlp => otlp(&source, &mut pusher)?,
    };
    pusher.finish()?;
    let (damaged, notes) = source.into_damaged_and_notes();
    let report = PushReport { rows, damaged, notes, ..pusher.report() };
    let kept = format!("{} wait in {}", report.waiting, options.queue.display());
    if let Some(message) = pusher.denied {
        let hint = format!("check the token (ORTSCOPE_PUSH_TOKEN) and the certificate (--ca); {kept}");
        return Err(PushError::Denied { message, hint, report: Box::new(report) });
    }
    if report.waiting > 0 {
        let message = pusher.late.unwrap_or_else(|| format!("{} takes nothing", options.destination.shown()));
        let hint = format!("{kept} and are sent by the next push to the same address");
        return Err(PushError::Unreachable { message, hint, report: Box::new(report) });
    }
    Ok(report)
}

fn step_ns(options: &PushOptions) -> u64 {
    u64::try_from(options.step.as_nanos()).unwrap_or(u64::MAX).max(1_000_000)
}

/// `each_step` knows errors of exports; others wait here.
fn keep<T>(result: Result<T, PushError>, kept: &mut Option<PushError>) -> Result<(), ExportError> {
    match result {
        Ok(_) => Ok(()),
        Err(PushError::Export(error)) => Err(error),
        Err(error) => {
            let stop = ExportError::Io(std::io::Error::other(error.to_string()));
            *kept = Some(error);
            Err(stop)
        }
    }
}

fn remote_write(source: &RowSource<'_>, pusher: &mut Pusher<'_>) -> Result<u64, PushError> {
    let mut pending = Pending::default();
    let mut kept = None;
    let host = pusher.options.host.clone();
    let written = each_step(source, step_ns(pusher.options), |step| {
        pending.add(step.unix_ns / 1_000_000, &host, step.families);
        if pending.is_full()
            && let Some(request) = pending.take()
        {
            keep(pusher.add(Route::RemoteWrite, request), &mut kept)?;
        }
        Ok(())
    });
    if let Some(error) = kept {
        return Err(error);
    }
    let written = written?;
    if let Some(request) = pending.take() {
        pusher.add(Route::RemoteWrite, request)?;
    }
    Ok(written.iter().map(|table| table.rows).sum())
}

fn otlp(source: &RowSource<'_>, pusher: &mut Pusher<'_>) -> Result<u64, PushError> {
    let resource = Resource::new(&pusher.options.host, &source.info.fingerprint);
    let start_unix_ns = source.info.started.unix_ns;
    let mut pending = PendingMetrics::default();
    let mut kept = None;
    let written = each_step(source, step_ns(pusher.options), |step| {
        pending.add(start_unix_ns.min(step.unix_ns), step.unix_ns, step.families);
        if pending.is_full()
            && let Some(request) = pending.take(&resource)
        {
            keep(pusher.add(Route::Metrics, request), &mut kept)?;
        }
        Ok(())
    });
    if let Some(error) = kept {
        return Err(error);
    }
    let written = written?;
    if let Some(request) = pending.take(&resource) {
        pusher.add(Route::Metrics, request)?;
    }
    spans(source, pusher, &resource)?;
    Ok(written.iter().map(|table| table.rows).sum())
}

fn spans(source: &RowSource<'_>, pusher: &mut Pusher<'_>, resource: &Resource) -> Result<(), PushError> {
    let clock = WallClock::read(source)?;
    let models = Models::read(source)?;
    let mut pending = PendingSpans::default();
    if source.is_selected(TableId::Inferences) {
        for batch in source.batches(TableId::Inferences) {
            for row in batch?.rows::<InferenceRow>() {
                pending.inference(&row, &models.of(&row.session_id), clock.unix_ns(row.timestamp_ns));
                if pending.is_full()
                    && let Some(request) = pending.take(resource)
                {
                    pusher.add(Route::Traces, request)?;
                }
            }
        }
    }
    if source.is_selected(TableId::Operators) {
        let mut number = 0;
        for batch in source.batches(TableId::Operators) {
            for row in batch?.rows::<OperatorRow>() {
                pending.operator(&row, &models.of(&row.session_id), clock.unix_ns(row.timestamp_ns), number);
                number += 1;
                if pending.is_full()
                    && let Some(request) = pending.take(resource)
                {
                    pusher.add(Route::Traces, request)?;
                }
            }
        }
    }
    if let Some(request) = pending.take(resource) {
        pusher.add(Route::Traces, request)?;
    }
    Ok(())
}

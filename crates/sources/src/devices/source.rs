//! The pipeline source for devices.
//!
//! Reading a driver's file can hang and cannot be canceled. Readers therefore run on their own thread
//! ([`super::poller`]), and the source waits only for a bounded time, so that a hanging sensor affects only itself.

use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, UnavailabilityRow};

use super::plausible::{Plausibility, PlausibilityFilter};
use super::poller::{PollResult, Poller};
use super::{Found, Missing, Reading, Recovered};

/// Minimum time between two polls.
pub(super) const POLL_NS: u64 = 100_000_000;
/// Limit for reported reasons; machines have fewer devices.
const MAX_REASONS: usize = 64;
/// Hint for a sensor with impossible values.
const IMPLAUSIBLE_HINT: &str = "its driver may need a restart; other readings continue";

/// Reads every device that was found, each at its own rate.
#[derive(Debug)]
pub struct DeviceSource {
    info: SourceInfo,
    found: Found,
}

impl DeviceSource {
    pub fn new(found: Found) -> Self {
        let info = SourceInfo {
            name: "devices",
            tracks: vec!["device_samples".to_owned()],
            cost: CostClass::Low,
            when_full: WhenFull::DropAndCount,
        };
        Self { info, found }
    }
}

fn emit_missing(at_ns: u64, missing: &[Missing], out: &mut Emitter) {
    for Missing { what, why, hint } in missing.iter().take(MAX_REASONS) {
        out.unavailable(at_ns, what, why, Some(hint));
    }
}

fn event(at_ns: u64, kind: &str, text: &str, out: &mut Emitter) {
    out.emit(&AnnotationRow { timestamp_ns: at_ns, kind: kind.into(), text: text.into() });
}

/// Losses during the run are also events.
fn emit_lost(at_ns: u64, lost: &[Missing], out: &mut Emitter) {
    emit_missing(at_ns, lost, out);
    lost.iter().take(MAX_REASONS).for_each(|missing| event(at_ns, "device", &missing.why, out));
}

fn emit_recovered(back: &[Recovered], out: &mut Emitter) {
    for Recovered { missing, from_ns, to_ns } in back {
        out.emit(&UnavailabilityRow {
            from_ns: *from_ns,
            to_ns: Some(*to_ns),
            track: missing.what.into(),
            reason: missing.why.as_str().into(),
            hint: Some(missing.hint.as_str().into()),
        });
        let seconds = to_ns.saturating_sub(*from_ns) as f64 / 1e9;
        event(*to_ns, "device_back", &format!("available again after {seconds:.1} s ({})", missing.why), out);
    }
}

/// Emits a row if its value is plausible.
fn emit_row(row: &DeviceSampleRow, filter: &mut PlausibilityFilter, out: &mut Emitter) {
    let reading = Reading {
        at_ns: row.timestamp_ns,
        device: &row.device,
        metric: &row.metric,
        value: row.value,
        source: &row.source,
    };
    let (at_ns, track) = (row.timestamp_ns, || format!("{}/{}", row.device, row.metric));
    match filter.check(&reading) {
        Plausibility::Plausible => {}
        Plausibility::StillImplausible => return,
        Plausibility::Implausible(reason) => {
            out.unavailable(at_ns, &track(), &reason, Some(IMPLAUSIBLE_HINT));
            event(at_ns, "device", &reason, out);
            return;
        }
        Plausibility::PlausibleAgain { since_ns, dropped, reason } => {
            out.emit(&UnavailabilityRow {
                from_ns: since_ns,
                to_ns: Some(at_ns),
                track: track().into(),
                reason: reason.as_str().into(),
                hint: Some(IMPLAUSIBLE_HINT.into()),
            });
            let text = format!("{} is plausible again; {dropped} readings were dropped ({reason})", track());
            event(at_ns, "device_back", &text, out);
        }
    }
    out.emit(row);
}

impl Source for DeviceSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    /// Absent devices are reported as rows with a reason; the source itself is always ready.
    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let begin_ns = control.clock().now_ns();
        emit_missing(begin_ns, &self.found.missing, out);
        out.flush();
        if self.found.readers.is_empty() {
            return Ok(());
        }
        let readers = std::mem::take(&mut self.found.readers);
        let mut poller =
            Poller::start(readers, begin_ns).map_err(|error| SourceError::Failed(error.to_string()))?;
        let (mut next_ns, mut filter) = (begin_ns, PlausibilityFilter::default());
        loop {
            let now_ns = control.clock().now_ns();
            let mut emit_result = |result: PollResult| {
                result.rows.iter().for_each(|row| emit_row(row, &mut filter, out));
                emit_lost(result.at_ns, &result.lost, out);
                emit_recovered(&result.back, out);
            };
            let stuck = poller.poll(now_ns, &mut emit_result);
            emit_lost(now_ns, &stuck, out);
            out.flush();
            // After a suspend, missed polls are not made up.
            next_ns = (next_ns + POLL_NS).max(control.clock().now_ns());
            if !control.sleep_until(next_ns) {
                return Ok(());
            }
        }
    }
}

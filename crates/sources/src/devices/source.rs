//! Devices as a source of the pipeline.
//!
//! Files of drivers have hung, and a read of one cannot be called back. So readers are asked by a thread of their own
//! ([`super::rounds`]), and this one only waits as long as is sensible: a sensor that hangs costs itself, nothing else.

use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, UnavailabilityRow};

use super::plausible::{Judged, Sense};
use super::presence::Back;
use super::rounds::{Answer, Rounds};
use super::{Found, Missing, Reading};

/// Shortest time between two rounds.
pub(super) const ROUND_NS: u64 = 100_000_000;
/// Reasons that are told; there are fewer devices than this.
const MAX_REASONS: usize = 64;
/// What to do about a sensor that tells what cannot be.
const NONSENSE: &str = "its driver may need a restart; the rest is read";

/// Reads every device that was found, each at its own pace.
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

fn tell_missing(at_ns: u64, missing: &[Missing], out: &mut Emitter) {
    for Missing { what, why, hint } in missing.iter().take(MAX_REASONS) {
        out.unavailable(at_ns, what, why, Some(hint));
    }
}

fn event(at_ns: u64, kind: &str, text: &str, out: &mut Emitter) {
    out.emit(&AnnotationRow { timestamp_ns: at_ns, kind: kind.into(), text: text.into() });
}

/// What was lost while it was watched is an event as well.
fn tell_lost(at_ns: u64, lost: &[Missing], out: &mut Emitter) {
    tell_missing(at_ns, lost, out);
    lost.iter().take(MAX_REASONS).for_each(|missing| event(at_ns, "device", &missing.why, out));
}

fn tell_back(back: &[Back], out: &mut Emitter) {
    for Back { missing, from_ns, to_ns } in back {
        out.emit(&UnavailabilityRow {
            from_ns: *from_ns,
            to_ns: Some(*to_ns),
            track: missing.what.into(),
            reason: missing.why.as_str().into(),
            hint: Some(missing.hint.as_str().into()),
        });
        let seconds = to_ns.saturating_sub(*from_ns) as f64 / 1e9;
        event(*to_ns, "device_back", &format!("it is back after {seconds:.1} s ({})", missing.why), out);
    }
}

/// One row, if its number can be.
fn tell_row(row: &DeviceSampleRow, sense: &mut Sense, out: &mut Emitter) {
    let reading = Reading {
        at_ns: row.timestamp_ns,
        device: &row.device,
        metric: &row.metric,
        value: row.value,
        source: &row.source,
    };
    let (at_ns, track) = (row.timestamp_ns, || format!("{}/{}", row.device, row.metric));
    match sense.judge(&reading) {
        Judged::Fine => {}
        Judged::StillWrong => return,
        Judged::Wrong(reason) => {
            out.unavailable(at_ns, &track(), &reason, Some(NONSENSE));
            event(at_ns, "device", &reason, out);
            return;
        }
        Judged::FineAgain { since_ns, left_out, reason } => {
            out.emit(&UnavailabilityRow {
                from_ns: since_ns,
                to_ns: Some(at_ns),
                track: track().into(),
                reason: reason.as_str().into(),
                hint: Some(NONSENSE.into()),
            });
            let text = format!("{} makes sense again; {left_out} readings were left out ({reason})", track());
            event(at_ns, "device_back", &text, out);
        }
    }
    out.emit(row);
}

impl Source for DeviceSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    /// Devices that are not there are told as rows, each with its reason: the source itself always works.
    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let begin_ns = control.clock().now_ns();
        tell_missing(begin_ns, &self.found.missing, out);
        out.flush();
        if self.found.readers.is_empty() {
            return Ok(());
        }
        let readers = std::mem::take(&mut self.found.readers);
        let mut rounds =
            Rounds::start(readers, begin_ns).map_err(|error| SourceError::Failed(error.to_string()))?;
        let (mut next_ns, mut sense) = (begin_ns, Sense::default());
        loop {
            let now_ns = control.clock().now_ns();
            let mut take = |answer: Answer| {
                answer.rows.iter().for_each(|row| tell_row(row, &mut sense, out));
                tell_lost(answer.at_ns, &answer.lost, out);
                tell_back(&answer.back, out);
            };
            let stuck = rounds.ask(now_ns, &mut take);
            tell_lost(now_ns, &stuck, out);
            out.flush();
            // A machine that slept has nothing to make up for.
            next_ns = (next_ns + ROUND_NS).max(control.clock().now_ns());
            if !control.sleep_until(next_ns) {
                return Ok(());
            }
        }
    }
}

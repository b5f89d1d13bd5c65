//! Devices as a source of the pipeline.

use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};
use ortscope_core::schema::DeviceSampleRow;

use super::{Found, Missing, Reader};

/// Shortest time between two rounds.
const ROUND_NANOS: u64 = 100_000_000;
/// Reasons that are told; there are fewer devices than this.
const MOST_REASONS: usize = 64;

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
    for Missing { what, why, hint } in missing.iter().take(MOST_REASONS) {
        out.unavailable(at_ns, what, why, Some(hint));
    }
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
        let begin_ns = control.clock().now_nanos();
        tell_missing(begin_ns, &self.found.missing, out);
        out.flush();
        let mut due: Vec<(u64, &mut Box<dyn Reader>)> =
            self.found.readers.iter_mut().map(|reader| (begin_ns, reader)).collect();
        let (mut next_ns, mut lost) = (begin_ns, Vec::new());
        if due.is_empty() {
            return Ok(());
        }
        loop {
            for (due_ns, reader) in due.iter_mut().filter(|(due_ns, _)| *due_ns <= next_ns) {
                let at_ns = control.clock().now_nanos();
                *due_ns = at_ns + reader.period_nanos() - ROUND_NANOS / 2;
                reader.read(
                    at_ns,
                    &mut |reading| {
                        // What is no number is no reading, whoever told it.
                        if !reading.value.is_finite() {
                            return;
                        }
                        out.emit(&DeviceSampleRow {
                            timestamp_ns: reading.at_ns,
                            device: reading.device.into(),
                            metric: reading.metric.into(),
                            value: reading.value,
                            source: reading.source.into(),
                            method: "measured".into(),
                        });
                    },
                    &mut lost,
                );
                tell_missing(at_ns, &lost, out);
                lost.clear();
            }
            out.flush();
            // A machine that slept has nothing to make up for.
            next_ns = (next_ns + ROUND_NANOS).max(control.clock().now_nanos());
            if !control.sleep_until(next_ns) {
                return Ok(());
            }
        }
    }
}

//! Prometheus's remote write 1.0: `WriteRequest`, compressed with snappy. Labels stand in the order of their names, the
//! values of a series in the order of time.

use std::collections::BTreeMap;

use crate::metrics::Family;
use crate::protobuf::{message, number, real, text};

/// Values in one request, as Prometheus's own sender has them.
const MAX_SAMPLES: u64 = 2_000;

mod write_request {
    pub const SERIES: u32 = 1;
    pub const LABEL: u32 = 1;
    pub const SAMPLE: u32 = 2;
    pub const LABEL_NAME: u32 = 1;
    pub const LABEL_VALUE: u32 = 2;
    pub const SAMPLE_VALUE: u32 = 1;
    pub const SAMPLE_MILLIS: u32 = 2;
}

pub(super) const HEADERS: &[(&str, &str)] = &[
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

/// Name and labels, in the order that the format wants.
type Series = Vec<(String, String)>;

/// Values that wait for their request.
#[derive(Debug, Default)]
pub(super) struct Pending {
    series: BTreeMap<Series, Vec<(u64, f64)>>,
    pub(super) samples: u64,
}

impl Pending {
    /// Adds all values of a moment; what is not a number is left out.
    pub(super) fn add(&mut self, unix_ms: u64, host: &str, families: &[Family]) {
        for flat in families.iter().flat_map(Family::flat).filter(|flat| flat.value.is_finite()) {
            let mut labels: Series =
                flat.labels.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
            labels.push(("__name__".to_owned(), flat.name));
            labels.push(("instance".to_owned(), host.to_owned()));
            labels.push(("job".to_owned(), "ortscope".to_owned()));
            labels.sort();
            self.series.entry(labels).or_default().push((unix_ms, flat.value));
            self.samples += 1;
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.samples >= MAX_SAMPLES
    }

    /// The request, and how many values are in it; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<(Vec<u8>, u64)> {
        let all = std::mem::take(self);
        if all.samples == 0 {
            return None;
        }
        let mut out = Vec::new();
        for (labels, samples) in &all.series {
            message(&mut out, write_request::SERIES, |series| {
                for (name, value) in labels {
                    message(series, write_request::LABEL, |label| {
                        text(label, write_request::LABEL_NAME, name);
                        text(label, write_request::LABEL_VALUE, value);
                    });
                }
                for (millis, value) in samples {
                    message(series, write_request::SAMPLE, |sample| {
                        real(sample, write_request::SAMPLE_VALUE, *value);
                        number(sample, write_request::SAMPLE_MILLIS, *millis);
                    });
                }
            });
        }
        // Memory of the right size is given: nothing can go wrong in it.
        let packed = snap::raw::Encoder::new().compress_vec(&out).ok()?;
        Some((packed, all.samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Kind, Point, Value};

    #[test]
    fn labels_are_sorted_and_values_of_a_series_stand_together() {
        let family = |value: f64| Family {
            name: "up".into(),
            help: "",
            unit: "1",
            kind: Kind::Gauge,
            points: vec![Point {
                labels: vec![("zone", "a".into()), ("model", "m".into())],
                value: Value::Number(value),
            }],
        };
        let mut pending = Pending::default();
        pending.add(1_000, "pc1", &[family(1.0)]);
        pending.add(2_000, "pc1", &[family(2.0), family(f64::NAN)]);
        let (packed, samples) = pending.take().unwrap();
        assert_eq!(samples, 2);
        let bytes = snap::raw::Decoder::new().decompress_vec(&packed).unwrap();
        let at = |text: &[u8]| bytes.windows(text.len()).position(|window| window == text).unwrap();
        let places = [&b"__name__"[..], b"instance", b"job", b"model", b"zone"].map(at);
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(bytes.windows(8).filter(|window| *window == b"__name__").count(), 1);
        assert!(pending.take().is_none());
    }
}

//! OTLP: `ExportMetricsServiceRequest` and `ExportTraceServiceRequest`.
//!
//! Metrics are cumulative since the start of the recording or of the watching. Every inference is a trace of its own;
//! the operators of a profiled run are the children of that run.

use std::collections::BTreeMap;

use ortscope_core::schema::{InferenceRow, OperatorKind, OperatorRow, Text};

use crate::metrics::{Family, Kind, Point, Value};
use crate::protobuf::{bytes, fixed64, message, number, real, text};

pub(super) const HEADERS: &[(&str, &str)] = &[("Content-Type", "application/x-protobuf")];
/// Points of metrics, and spans, in one request.
const MAX_POINTS: u64 = 2_000;
const MAX_SPANS: u64 = 1_000;

mod request {
    pub const RESOURCE: u32 = 1;
    /// Of `ResourceMetrics` and `ResourceSpans`.
    pub const ABOUT: u32 = 1;
    pub const SCOPE: u32 = 2;
    pub const SCOPE_ABOUT: u32 = 1;
    pub const SCOPE_ITEM: u32 = 2;
}

mod metric {
    pub const NAME: u32 = 1;
    pub const DESCRIPTION: u32 = 2;
    pub const UNIT: u32 = 3;
    pub const GAUGE: u32 = 5;
    pub const SUM: u32 = 7;
    pub const HISTOGRAM: u32 = 9;
    pub const SUMMARY: u32 = 11;
    pub const POINT: u32 = 1;
    pub const TEMPORALITY: u32 = 2;
    pub const CUMULATIVE: u64 = 2;
    pub const MONOTONIC: u32 = 3;
}

mod point {
    pub const START: u32 = 2;
    pub const TIME: u32 = 3;
    pub const NUMBER: u32 = 4;
    pub const COUNT: u32 = 4;
    pub const SUM: u32 = 5;
    pub const BUCKETS: u32 = 6;
    pub const BOUNDS: u32 = 7;
    pub const QUANTILE: u32 = 6;
    pub const ATTRIBUTE: u32 = 7;
    pub const HISTOGRAM_ATTRIBUTE: u32 = 9;
}

mod span {
    pub const TRACE: u32 = 1;
    pub const ID: u32 = 2;
    pub const PARENT: u32 = 4;
    pub const NAME: u32 = 5;
    pub const KIND: u32 = 6;
    pub const START: u32 = 7;
    pub const END: u32 = 8;
    pub const ATTRIBUTE: u32 = 9;
    pub const STATUS: u32 = 15;
    pub const STATUS_CODE: u32 = 3;
    pub const INTERNAL: u64 = 1;
    pub const ERROR: u64 = 2;
}

/// Who sends.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    attributes: Vec<u8>,
}

impl Resource {
    pub(super) fn new(host: &str, facts: &BTreeMap<String, String>) -> Self {
        let mut attributes = Vec::new();
        for (key, value) in [("service.name", "ortscope"), ("host.name", host)] {
            attribute(&mut attributes, 1, key, value);
        }
        for (key, value) in facts {
            attribute(&mut attributes, 1, &format!("ortscope.{key}"), value);
        }
        Self { attributes }
    }

    fn wrap(&self, items: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(items.len() + 256);
        message(&mut out, request::RESOURCE, |resource| {
            bytes(resource, request::ABOUT, &self.attributes);
            message(resource, request::SCOPE, |scope| {
                message(scope, request::SCOPE_ABOUT, |about| {
                    text(about, 1, "ortscope");
                    text(about, 2, env!("CARGO_PKG_VERSION"));
                });
                scope.extend_from_slice(items);
            });
        });
        out
    }
}

fn attribute(out: &mut Vec<u8>, field: u32, key: &str, value: &str) {
    message(out, field, |pair| {
        text(pair, 1, key);
        message(pair, 2, |any| text(any, 1, value));
    });
}

fn whole_attribute(out: &mut Vec<u8>, field: u32, key: &str, value: Option<u64>) {
    let Some(value) = value else { return };
    message(out, field, |pair| {
        text(pair, 1, key);
        message(pair, 2, |any| number(any, 3, value));
    });
}

/// Points that wait for their request: of every metric, one after the other.
#[derive(Debug, Default)]
pub(super) struct PendingMetrics {
    metrics: BTreeMap<String, (Vec<u8>, Kind, Vec<u8>)>,
    pub(super) points: u64,
}

impl PendingMetrics {
    pub(super) fn add(&mut self, start_unix_ns: u64, unix_ns: u64, families: &[Family]) {
        for family in families {
            let entry = self.metrics.entry(family.name.clone()).or_insert_with(|| {
                let mut head = Vec::new();
                text(&mut head, metric::NAME, &family.name);
                text(&mut head, metric::DESCRIPTION, family.help);
                text(&mut head, metric::UNIT, family.unit);
                (head, family.kind, Vec::new())
            });
            for point in &family.points {
                data_point(&mut entry.2, point, start_unix_ns, unix_ns);
                self.points += 1;
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.points >= MAX_POINTS
    }

    pub(super) fn take(&mut self, resource: &Resource) -> Option<(Vec<u8>, u64)> {
        let all = std::mem::take(self);
        if all.points == 0 {
            return None;
        }
        let mut items = Vec::new();
        for (head, kind, points) in all.metrics.values() {
            message(&mut items, request::SCOPE_ITEM, |metric| {
                metric.extend_from_slice(head);
                let field = match kind {
                    Kind::Gauge => metric::GAUGE,
                    Kind::Counter => metric::SUM,
                    Kind::Histogram => metric::HISTOGRAM,
                    Kind::Summary => metric::SUMMARY,
                };
                message(metric, field, |data| {
                    data.extend_from_slice(points);
                    if matches!(kind, Kind::Counter | Kind::Histogram) {
                        number(data, metric::TEMPORALITY, metric::CUMULATIVE);
                    }
                    if *kind == Kind::Counter {
                        number(data, metric::MONOTONIC, 1);
                    }
                });
            });
        }
        Some((resource.wrap(&items), all.points))
    }
}

fn data_point(out: &mut Vec<u8>, point: &Point, start_unix_ns: u64, unix_ns: u64) {
    message(out, metric::POINT, |out| {
        fixed64(out, point::START, start_unix_ns);
        fixed64(out, point::TIME, unix_ns);
        let field = match &point.value {
            Value::Number(value) => {
                real(out, point::NUMBER, *value);
                point::ATTRIBUTE
            }
            Value::Histogram(histogram) => {
                fixed64(out, point::COUNT, histogram.count);
                real(out, point::SUM, histogram.sum);
                let counts: Vec<u8> = histogram.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
                bytes(out, point::BUCKETS, &counts);
                let bounds: Vec<u8> = histogram.bounds.iter().flat_map(|bound| bound.to_le_bytes()).collect();
                bytes(out, point::BOUNDS, &bounds);
                point::HISTOGRAM_ATTRIBUTE
            }
            Value::Summary(summary) => {
                fixed64(out, point::COUNT, summary.count);
                real(out, point::SUM, summary.sum);
                for (quantile, value) in &summary.quantiles {
                    message(out, point::QUANTILE, |out| {
                        real(out, 1, *quantile);
                        real(out, 2, *value);
                    });
                }
                point::ATTRIBUTE
            }
        };
        for (name, value) in &point.labels {
            attribute(out, field, name, value);
        }
    });
}

/// Spans that wait for their request.
#[derive(Debug, Default)]
pub(super) struct PendingSpans {
    spans: Vec<u8>,
    pub(super) count: u64,
}

/// The same whenever the same row is sent: what arrives twice can be told from what happened twice.
fn identity(parts: &[&[u8]]) -> u128 {
    // FNV-1a: not a secret, only far apart.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in parts.iter().flat_map(|part| part.iter().copied().chain([0xff])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    // All zeros are no identity.
    hash.max(1)
}

fn span_id(identity: u128) -> [u8; 8] {
    (((identity >> 64) as u64) ^ identity as u64).max(1).to_be_bytes()
}

impl PendingSpans {
    pub(super) fn inference(&mut self, row: &InferenceRow, model: &Text, start_unix_ns: u64) {
        let trace = identity(&[b"inference", row.session_id.as_bytes(), &row.sequence.to_le_bytes()]);
        let duration = row.copy_in_ns.saturating_add(row.run_ns).saturating_add(row.copy_out_ns);
        message(&mut self.spans, request::SCOPE_ITEM, |out| {
            bytes(out, span::TRACE, &trace.to_be_bytes());
            bytes(out, span::ID, &span_id(trace));
            text(out, span::NAME, "inference");
            number(out, span::KIND, span::INTERNAL);
            fixed64(out, span::START, start_unix_ns);
            fixed64(out, span::END, start_unix_ns.saturating_add(duration));
            attribute(out, span::ATTRIBUTE, "model", model);
            attribute(out, span::ATTRIBUTE, "session", &row.session_id);
            attribute(out, span::ATTRIBUTE, "phase", &row.phase);
            whole_attribute(out, span::ATTRIBUTE, "sequence", Some(row.sequence));
            whole_attribute(out, span::ATTRIBUTE, "run_ns", Some(row.run_ns));
            whole_attribute(out, span::ATTRIBUTE, "waited_ns", row.timestamp_ns.checked_sub(row.planned_ns));
            whole_attribute(out, span::ATTRIBUTE, "batch_size", row.batch_size);
            whole_attribute(out, span::ATTRIBUTE, "queue_depth", row.queue_depth);
            if !row.ok {
                message(out, span::STATUS, |status| number(status, span::STATUS_CODE, span::ERROR));
            }
        });
        self.count += 1;
    }

    /// `number` tells apart rows that are equal otherwise.
    pub(super) fn operator(&mut self, row: &OperatorRow, model: &Text, start_unix_ns: u64, row_number: u64) {
        let run = row.run.map(u64::to_le_bytes);
        let run: &[u8] = run.as_ref().map_or(b"outside", |run| run);
        let trace = identity(&[b"run", row.session_id.as_bytes(), run]);
        let is_root = row.kind == OperatorKind::Run && row.run.is_some();
        let own = if is_root {
            trace
        } else {
            identity(&[b"row", &trace.to_le_bytes(), &row_number.to_le_bytes()])
        };
        let named = [&row.name, &row.op_type, row.kind.text()].into_iter().find(|name| !name.is_empty());
        message(&mut self.spans, request::SCOPE_ITEM, |out| {
            bytes(out, span::TRACE, &trace.to_be_bytes());
            bytes(out, span::ID, &span_id(own));
            if !is_root && row.run.is_some() {
                bytes(out, span::PARENT, &span_id(trace));
            }
            text(out, span::NAME, named.map_or("operator", |name| name));
            number(out, span::KIND, span::INTERNAL);
            fixed64(out, span::START, start_unix_ns);
            fixed64(out, span::END, start_unix_ns.saturating_add(row.duration_ns));
            attribute(out, span::ATTRIBUTE, "model", model);
            attribute(out, span::ATTRIBUTE, "kind", &row.kind);
            for (key, value) in [
                ("op_type", &row.op_type),
                ("execution_provider", &row.execution_provider),
                ("device", &row.device),
            ] {
                if !value.is_empty() {
                    attribute(out, span::ATTRIBUTE, key, value);
                }
            }
            whole_attribute(out, span::ATTRIBUTE, "node_index", row.node_index);
            whole_attribute(out, span::ATTRIBUTE, "thread", Some(row.thread));
            whole_attribute(
                out,
                span::ATTRIBUTE,
                "flops",
                row.flops.filter(|flops| i64::try_from(*flops).is_ok()),
            );
        });
        self.count += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= MAX_SPANS
    }

    pub(super) fn take(&mut self, resource: &Resource) -> Option<(Vec<u8>, u64)> {
        let all = std::mem::take(self);
        (all.count > 0).then(|| (resource.wrap(&all.spans), all.count))
    }
}

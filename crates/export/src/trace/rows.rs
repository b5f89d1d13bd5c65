//! Name, category and arguments of single rows.

use ortscope_core::schema::{AnnotationRow, FindingRow, InferenceRow, KernelEventRow, LossRow, OperatorRow};

use super::events::{Body, Form};

/// A row as an instant: when, on which lane, and what it says.
pub(super) type Instant = (u64, String, Body);

pub(super) fn inference(form: Form, row: &InferenceRow, model: Option<&str>) -> Box<[u8]> {
    let mut body = Body::new(form, model.unwrap_or("inference"), "inference");
    body.text("phase", &row.phase);
    body.number("sequence", Some(row.sequence));
    body.micros("run_us", row.run_ns);
    body.micros("copy_in_us", row.copy_in_ns);
    body.micros("copy_out_us", row.copy_out_ns);
    if row.planned_ns < row.timestamp_ns {
        body.micros("waited_us", row.timestamp_ns - row.planned_ns);
    }
    body.number("batch_size", row.batch_size);
    body.number("queue_depth", row.queue_depth);
    body.number("token", row.token);
    if !row.ok {
        body.text("error", "the call failed");
    }
    body.done()
}

/// No argument differs from run to run: speedscope takes events for the same only if their arguments are.
pub(super) fn operator(form: Form, row: &OperatorRow) -> Box<[u8]> {
    let named = [&row.name, &row.op_type, row.kind.text()].into_iter().find(|name| !name.is_empty());
    let mut body = Body::new(form, named.map_or("operator", |name| name), &row.kind);
    body.text("op_type", &row.op_type);
    body.text("device", &row.device);
    body.number("node_index", row.node_index);
    for (key, text) in [
        ("input_shapes", &row.input_shapes),
        ("input_types", &row.input_types),
        ("output_shapes", &row.output_shapes),
        ("output_types", &row.output_types),
    ] {
        body.text(key, text.as_deref().unwrap_or_default());
    }
    body.number("output_bytes", row.output_bytes);
    body.number("activation_bytes", row.activation_bytes);
    body.number("parameter_bytes", row.parameter_bytes);
    body.number("flops", row.flops);
    body.number("cycles", row.cycles);
    body.done()
}

pub(super) fn annotation(form: Form, row: &AnnotationRow) -> Instant {
    let mut body = Body::new(form, &row.kind, "annotation");
    body.text("text", &row.text);
    (row.timestamp_ns, row.kind.to_string(), body)
}

pub(super) fn finding(form: Form, row: &FindingRow) -> Instant {
    let mut body = Body::new(form, &row.id, "finding");
    body.text("severity", &row.severity);
    body.text("evidence", &row.evidence);
    body.text("advice", &row.advice);
    body.text("command", row.command.as_deref().unwrap_or_default());
    (row.timestamp_ns, row.severity.to_string(), body)
}

pub(super) fn loss(form: Form, row: &LossRow) -> Instant {
    let mut body = Body::new(form, &format!("lost: {}", row.kind), "loss");
    body.text("place", &row.place);
    body.number("count", Some(row.count));
    (row.timestamp_ns, row.place.to_string(), body)
}

pub(super) fn kernel_event(form: Form, row: &KernelEventRow) -> Instant {
    let mut body = Body::new(form, &row.kind, "kernel");
    body.number("pid", row.pid);
    body.number("tid", row.tid);
    if let Some(duration_ns) = row.duration_ns {
        body.micros("duration_us", duration_ns);
    }
    body.number("value", row.value);
    body.text("detail", row.detail.as_deref().unwrap_or_default());
    let lane = match (row.processor, row.tid) {
        (Some(processor), _) => format!("processor {processor}"),
        (None, Some(tid)) => format!("thread {tid}"),
        (None, None) => "machine".to_owned(),
    };
    (row.timestamp_ns, lane, body)
}

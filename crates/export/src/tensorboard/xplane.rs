//! The Profile tab: `XSpace`, which the plug-in `xprof` reads. One plane for the processors and one for each kind of
//! device, a line for each thread, an event for each row.
//!
//! Times count from the start of the recording: the reader counts picoseconds, in which the time since 1970 overflows.

use std::collections::BTreeMap;
use std::collections::HashMap;

use ortscope_core::schema::{OperatorKind, OperatorRow, Text};

use crate::protobuf::{bytes, message, number, text};

mod space {
    pub const PLANE: u32 = 1;
    pub const HOST: u32 = 4;
}

mod plane {
    pub const ID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const LINE: u32 = 3;
    pub const EVENT_METADATA: u32 = 4;
    pub const STAT_METADATA: u32 = 5;
}

mod line {
    pub const ID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const TIMESTAMP_NS: u32 = 3;
    pub const EVENT: u32 = 4;
    pub const DISPLAY_NAME: u32 = 11;
}

mod event {
    pub const METADATA_ID: u32 = 1;
    pub const OFFSET_PS: u32 = 2;
    pub const DURATION_PS: u32 = 3;
    pub const STAT: u32 = 4;
    pub const STAT_ID: u32 = 1;
    pub const STAT_TEXT: u32 = 5;
}

/// Node and operator type, by which the tables of the tab are made.
const TF_OP: u64 = 1;
const PS_PER_NS: u64 = 1_000;
/// A plane must be in memory to be written, and its viewer becomes slow long before this.
pub(super) const MAX_EVENTS: u64 = 2_000_000;

#[derive(Debug, Default)]
struct Plane {
    names: BTreeMap<Text, u64>,
    lines: BTreeMap<(Text, u64), Vec<u8>>,
}

/// All operators of one model.
#[derive(Debug, Default)]
pub(super) struct Space {
    planes: BTreeMap<String, Plane>,
    ops: HashMap<(Text, Text), Text>,
    pub(super) events: u64,
    /// Beyond [`MAX_EVENTS`], or at times that cannot be shown.
    pub(super) left_out: u64,
}

impl Space {
    pub(super) fn add(&mut self, row: &OperatorRow, start_ns: u64) {
        let since = row.timestamp_ns.checked_sub(start_ns).and_then(|since| since.checked_mul(PS_PER_NS));
        let (Some(offset_ps), Some(duration_ps)) = (since, row.duration_ns.checked_mul(PS_PER_NS)) else {
            self.left_out += 1;
            return;
        };
        // The reader has signed numbers.
        if offset_ps.checked_add(duration_ps).is_none_or(|end| end > i64::MAX as u64)
            || self.events >= MAX_EVENTS
        {
            self.left_out += 1;
            return;
        }
        self.events += 1;
        let plane = match &*row.device {
            "GPU" => "/device:GPU:0".to_owned(),
            "NPU" => "/device:CUSTOM:NPU".to_owned(),
            _ => "/host:CPU".to_owned(),
        };
        let plane = self.planes.entry(plane).or_default();
        let name = [&row.name, &row.op_type, row.kind.text()].into_iter().find(|name| !name.is_empty());
        let name = name.map_or_else(|| Text::from("operator"), Text::clone);
        let next = plane.names.len() as u64 + 1;
        let id = *plane.names.entry(Text::clone(&name)).or_insert(next);
        let op = self.ops.entry((Text::clone(&name), Text::clone(&row.op_type)));
        let op = op.or_insert_with(|| format!("{name}:{}", row.op_type).into());
        let line = plane.lines.entry((Text::clone(&row.execution_provider), row.thread)).or_default();
        message(line, line::EVENT, |event| {
            number(event, event::METADATA_ID, id);
            number(event, event::OFFSET_PS, offset_ps);
            number(event, event::DURATION_PS, duration_ps);
            if row.kind == OperatorKind::Operator {
                message(event, event::STAT, |stat| {
                    number(stat, event::STAT_ID, TF_OP);
                    text(stat, event::STAT_TEXT, op);
                });
            }
        });
    }

    pub(super) fn bytes(&self, host: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut line_id = 0;
        for (index, (name, plane)) in self.planes.iter().enumerate() {
            message(&mut out, space::PLANE, |out| {
                number(out, plane::ID, index as u64 + 1);
                text(out, plane::NAME, name);
                for ((provider, thread), events) in &plane.lines {
                    line_id += 1;
                    let provider = if provider.is_empty() { "ONNX Runtime" } else { provider };
                    let shown = if name.starts_with("/device") {
                        format!("Stream #{thread}(Compute) {provider}")
                    } else {
                        format!("{provider} thread {thread}")
                    };
                    message(out, plane::LINE, |line| {
                        number(line, line::ID, line_id);
                        text(line, line::NAME, &shown);
                        number(line, line::TIMESTAMP_NS, 0);
                        line.extend_from_slice(events);
                        text(line, line::DISPLAY_NAME, &shown);
                    });
                }
                for (name, id) in &plane.names {
                    entry(out, plane::EVENT_METADATA, *id, name, true);
                }
                entry(out, plane::STAT_METADATA, TF_OP, "tf_op", false);
            });
        }
        bytes(&mut out, space::HOST, host.as_bytes());
        out
    }
}

/// An entry of a map from an id to a name.
fn entry(out: &mut Vec<u8>, field: u32, id: u64, name: &str, has_display_name: bool) {
    message(out, field, |entry| {
        number(entry, 1, id);
        message(entry, 2, |metadata| {
            number(metadata, 1, id);
            text(metadata, 2, name);
            if has_display_name {
                text(metadata, 4, name);
            }
        });
    });
}

//! Converts one event to one row.

use ortscope_core::schema::{OperatorKind, OperatorRow, Text};

use super::super::cache::Cache;
use super::super::device::device_of;
use super::super::event::{EventKind, ProfileEvent};
use super::super::shapes::TypesAndShapes;
use super::super::thread_stats::ThreadStats;
use super::{RowOptions, RowSummary};

/// Maximum length of names.
const MAX_NAME_BYTES: usize = 4096;

/// Types and shapes.
type Lists = Option<(Text, Text)>;

#[derive(Debug)]
pub(super) struct Converter {
    session_id: Text,
    offset_ns: i64,
    devices: Vec<(String, Text)>,
    texts: Cache<Text>,
    lists: Cache<Lists>,
}

fn kind_of(event: &ProfileEvent<'_>) -> OperatorKind {
    match event.kind {
        // MemcpyFromHost and MemcpyToHost; providers report MemcpyHostToDevice and others.
        EventKind::Operator if event.op_type.starts_with("Memcpy") => OperatorKind::Copy,
        EventKind::Kernel | EventKind::Api if event.name.starts_with("Memcpy") => OperatorKind::Copy,
        EventKind::Operator => OperatorKind::Operator,
        EventKind::FenceBefore | EventKind::FenceAfter => OperatorKind::Wait,
        EventKind::Run => OperatorKind::Run,
        EventKind::Executor => OperatorKind::Executor,
        EventKind::Session => OperatorKind::Session,
        _ => OperatorKind::Other,
    }
}

impl Converter {
    pub(super) fn new(options: &RowOptions) -> Self {
        let devices = options.devices.iter();
        Self {
            session_id: options.session_id.clone(),
            offset_ns: options.start.clock_domain().offset_ns,
            devices: devices.map(|(provider, device)| (provider.clone(), Text::from(&**device))).collect(),
            texts: Cache::new(),
            lists: Cache::new(),
        }
    }

    /// The row of an event, without its run and depth.
    pub(super) fn row(&mut self, event: &ProfileEvent<'_>, summary: &mut RowSummary) -> OperatorRow {
        let timestamp = self.offset_ns.checked_add(event.start_ns).and_then(|ns| u64::try_from(ns).ok());
        summary.clamped_times += u64::from(timestamp.is_none());
        let inputs = self.lists(event.input_type_shape, summary);
        let outputs = self.lists(event.output_type_shape, summary);
        let (input_types, input_shapes) = inputs.unzip();
        let (output_types, output_shapes) = outputs.unzip();
        let pool = ThreadStats::parse(event.thread_stats);
        OperatorRow {
            timestamp_ns: timestamp.unwrap_or(0),
            duration_ns: event.duration_ns,
            session_id: self.session_id.clone(),
            run: None,
            kind: kind_of(event).into(),
            name: self.text(event.name, summary),
            op_type: self.text(event.op_type, summary),
            node_index: event.node_index,
            device: self.device(event.provider),
            execution_provider: self.text(event.provider, summary),
            // Device work has the thread -1.
            thread: u64::try_from(event.thread).unwrap_or(0),
            depth: 0,
            input_shapes,
            input_types,
            output_shapes,
            output_types,
            output_bytes: event.output_bytes,
            activation_bytes: event.activation_bytes,
            parameter_bytes: event.parameter_bytes,
            flops: None,
            cycles: None,
            memory_in_use_bytes: event.memory.in_use_bytes,
            memory_delta_bytes: event.memory.in_use_delta_bytes,
            arena_bytes: event.memory.arena_bytes,
            pool_run_ns: pool.as_ref().map(|pool| pool.run_us.saturating_mul(1000)),
            pool_wait_ns: pool.as_ref().map(|pool| pool.wait_us.saturating_mul(1000)),
            pool_helper_runs: pool.map(|pool| pool.helper_runs),
        }
    }

    #[inline]
    fn text(&mut self, text: &str, summary: &mut RowSummary) -> Text {
        if text.is_empty() {
            return Text::default();
        }
        if text.len() > MAX_NAME_BYTES {
            summary.cut_texts += 1;
            let end = text.floor_char_boundary(MAX_NAME_BYTES);
            return Text::from(format!("{}…", text.get(..end).unwrap_or_default()));
        }
        self.texts.get(text, Text::clone)
    }

    #[inline]
    fn device(&mut self, provider: &str) -> Text {
        if provider.is_empty() {
            return Text::default();
        }
        match self.devices.iter().find(|(known, _)| known == provider) {
            Some((_, device)) => device.clone(),
            None => self.texts.get(device_of(provider), Text::clone),
        }
    }

    #[inline]
    fn lists(&mut self, text: &str, summary: &mut RowSummary) -> Lists {
        if text.is_empty() {
            return None;
        }
        let lists = self.lists.get(text, |text| {
            let lists = TypesAndShapes::parse(text)?;
            Some((Text::from(lists.types), Text::from(lists.shapes)))
        });
        summary.unreadable_shapes += u64::from(lists.is_none());
        lists
    }
}

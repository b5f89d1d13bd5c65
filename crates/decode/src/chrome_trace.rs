//! Trace events in the JSON format of chrome://tracing from any program: PyTorch, TensorFlow, Perfetto, browsers, and
//! our own exports.
//!
//! | event | result |
//! |---|---|
//! | complete (`X`), begin and end (`B`, `E`) | an operator row; of kind `other` unless its category is one of ours |
//! | complete, with our category `inference` | an inference |
//! | counter (`C`) | a device sample row for each of its numbers |
//! | instant (`i`, `I`, `R`) | an annotation |
//!
//! Names of processes and threads are used if they precede their events. Everything else is counted. A truncated list,
//! for example of a killed program, gives the events before the end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;

use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, InferenceRow, OperatorRow, Text};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Limit for open events of all threads.
const MAX_OPEN: usize = 100_000;
/// Limit for names of processes and threads.
const MAX_NAMES: usize = 100_000;
/// Limit for one event or object key. A file, especially a compressed one, could claim any length; a trace with a longer
/// event ends before it.
const MAX_EVENT_BYTES: u64 = 16 << 20;
/// Limit for the memory of open events; further ones count as unpaired.
const MAX_OPEN_BYTES: usize = 256 << 20;
/// Approximate memory of a JSON map entry besides its texts, and of a small map.
const ENTRY_BYTES: usize = 128;
const MAP_BYTES: usize = 1 << 10;
/// The keys that an operator or an inference needs: nothing else of open events is kept.
const KEYS: [&str; 5] = ["name", "cat", "ts", "pid", "tid"];
const ARGUMENTS: [&str; 24] = [
    "run_us",
    "waited_us",
    "sequence",
    "phase",
    "copy_in_us",
    "copy_out_us",
    "batch_size",
    "queue_depth",
    "token",
    "error",
    "op_type",
    "op_name",
    "node_index",
    "provider",
    "device",
    "input_shapes",
    "input_types",
    "output_shapes",
    "output_types",
    "output_bytes",
    "activation_bytes",
    "parameter_bytes",
    "flops",
    "cycles",
];
/// Maximum length of a name or id of a process or thread.
const MAX_NAME_BYTES: usize = 4 << 10;
/// Kinds of operator rows in `core::schema`.
const OUR_KINDS: [&str; 6] = ["operator", "copy", "wait", "run", "executor", "session"];

/// A row made from an event.
#[derive(Debug, Clone, PartialEq)]
pub enum ChromeRow {
    Operator(Box<OperatorRow>),
    Inference(InferenceRow),
    Counter(DeviceSampleRow),
    Mark(AnnotationRow),
}

/// Result of reading a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChromeOutcome {
    pub events: u64,
    pub slices: u64,
    pub inferences: u64,
    pub counters: u64,
    pub marks: u64,
    /// Names of processes and threads.
    pub names: u64,
    /// Unsupported kinds: flows, asynchronous events, objects.
    pub other: u64,
    /// Objects without a time or kind, and values that are not objects.
    pub unreadable: u64,
    /// Events that never ended or never began.
    pub unpaired: u64,
    /// Why the list is truncated.
    pub cut: Option<String>,
    /// Monotonic time of the first and the last event.
    pub span_ns: Option<(u64, u64)>,
}

/// Why a file is not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChromeError {
    #[error("it is not JSON with a list of trace events: {0}")]
    NotATrace(String),
}

/// Reads a trace. Its first event is placed at `start_ns`; its rows belong to `session`.
pub fn read(
    input: impl Read,
    start_ns: u64,
    session: &Text,
    keep: &mut dyn FnMut(ChromeRow),
) -> Result<ChromeOutcome, ChromeError> {
    let bytes = Rc::new(Cell::new(Some(0)));
    let mut reader = Reader {
        keep,
        bytes: Rc::clone(&bytes),
        open_bytes: 0,
        start_ns,
        session: Text::clone(session),
        first_us: None,
        open: BTreeMap::new(),
        open_count: 0,
        names: BTreeMap::new(),
        outcome: ChromeOutcome::default(),
        found_list: false,
    };
    let mut json = serde_json::Deserializer::from_reader(Bounded { input, bytes });
    let read = Document(&mut reader).deserialize(&mut json);
    if let Err(error) = read {
        if !reader.found_list || reader.outcome.events == 0 {
            return Err(ChromeError::NotATrace(error.to_string()));
        }
        // The closing bracket may be missing by design; other errors are reported the same way.
        reader.outcome.cut = Some(error.to_string());
    }
    if !reader.found_list {
        return Err(ChromeError::NotATrace("it has no 'traceEvents'".to_owned()));
    }
    reader.outcome.unpaired += reader.open_count as u64;
    Ok(reader.outcome)
}

/// Input that returns an error when a single event is too long.
struct Bounded<R> {
    input: R,
    /// Bytes of the current event; `None` while skipping, which needs no memory.
    bytes: Rc<Cell<Option<u64>>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(into)?;
        if let Some(bytes) = self.bytes.get() {
            if bytes >= MAX_EVENT_BYTES {
                return Err(io::Error::other(format!("an event has more than {MAX_EVENT_BYTES} bytes")));
            }
            self.bytes.set(Some(bytes + length as u64));
        }
        Ok(length)
    }
}

/// The kept part of an open event, and its memory.
type OpenEvent = (Map<String, Value>, usize);

/// Keeps only the parts that a slice needs. Lists and objects are dropped because they may be long: a number takes two
/// bytes in a file and 32 in memory.
fn needed(mut event: Map<String, Value>) -> OpenEvent {
    let args = match event.remove("args") {
        Some(Value::Object(args)) => args,
        _ => Map::new(),
    };
    let mut bytes = 0;
    let mut pick = |from: Map<String, Value>, keys: &[&str]| {
        bytes += MAP_BYTES;
        let mut kept = Map::new();
        for (key, value) in from.into_iter().filter(|(key, _)| keys.contains(&key.as_str())) {
            let value = if value.is_array() || value.is_object() { Value::Null } else { value };
            bytes += ENTRY_BYTES + key.len() + value.as_str().map_or(0, str::len);
            kept.insert(key, value);
        }
        kept
    };
    let (mut kept, args) = (pick(event, &KEYS), pick(args, &ARGUMENTS));
    // The ids are stored again as the key of the thread.
    bytes += id(&kept, "pid").len() + id(&kept, "tid").len();
    kept.insert("args".to_owned(), Value::Object(args));
    (kept, bytes)
}

struct Reader<'k> {
    keep: &'k mut dyn FnMut(ChromeRow),
    bytes: Rc<Cell<Option<u64>>>,
    open_bytes: usize,
    start_ns: u64,
    session: Text,
    first_us: Option<f64>,
    /// Open events by process and thread.
    open: BTreeMap<(String, String), Vec<OpenEvent>>,
    open_count: usize,
    /// Names of processes and threads.
    names: BTreeMap<(String, Option<String>), Text>,
    outcome: ChromeOutcome,
    found_list: bool,
}

/// The whole file: a list, or an object with one.
struct Document<'r, 'k>(&'r mut Reader<'k>);

/// The list of events.
struct Events<'r, 'k>(&'r mut Reader<'k>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events, or an object with one")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        Events(self.0).visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events(&mut *self.0))?;
            } else {
                self.0.bytes.set(None);
                map.next_value::<IgnoredAny>()?;
            }
            self.0.bytes.set(Some(0));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Events<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.found_list = true;
        while let Some(event) = list.next_element::<Value>()? {
            match event {
                Value::Object(event) => self.0.event(event),
                // Chrome ends its lists with an empty object, others with null.
                Value::Null => {}
                _ => self.0.outcome.unreadable += 1,
            }
            self.0.bytes.set(Some(0));
        }
        Ok(())
    }
}

fn text<'e>(event: &'e Map<String, Value>, key: &str) -> &'e str {
    event.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Ids are numbers or texts.
fn id(event: &Map<String, Value>, key: &str) -> String {
    match event.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Times are numbers, or texts in traces of some programs.
fn micros(event: &Map<String, Value>, key: &str) -> Option<f64> {
    let value = match event.get(key)? {
        Value::String(text) => text.parse().ok()?,
        other => other.as_f64()?,
    };
    value.is_finite().then_some(value)
}

fn nanos(micros: f64) -> u64 {
    (micros * 1_000.0).round().clamp(0.0, u64::MAX as f64) as u64
}

impl Reader<'_> {
    fn event(&mut self, event: Map<String, Value>) {
        if event.is_empty() {
            return;
        }
        self.outcome.events += 1;
        let phase = text(&event, "ph").to_owned();
        if phase == "M" {
            self.name(&event);
            return;
        }
        if !matches!(phase.as_str(), "X" | "B" | "E" | "C" | "i" | "I" | "R") {
            *(if phase.is_empty() { &mut self.outcome.unreadable } else { &mut self.outcome.other }) += 1;
            return;
        }
        let Some(time_us) = micros(&event, "ts") else {
            self.outcome.unreadable += 1;
            return;
        };
        let time_ns = self.at(time_us);
        match phase.as_str() {
            "X" => {
                let duration = nanos(micros(&event, "dur").unwrap_or(0.0));
                self.slice(&event, time_ns, duration);
            }
            "B" => self.begin(event),
            "E" => self.end(&event, time_us),
            "C" => self.counter(&event, time_ns),
            _ => self.mark(&event, time_ns),
        }
    }

    /// Time on the recording's clock; the first event is at its start.
    fn at(&mut self, time_us: f64) -> u64 {
        let first = *self.first_us.get_or_insert(time_us);
        // Times may be arbitrarily far apart; they are clamped.
        let since = ((time_us - first) * 1_000.0).round() as i128;
        let at = i128::from(self.start_ns).saturating_add(since);
        at.clamp(0, u64::MAX.into()) as u64
    }

    fn seen(&mut self, from_ns: u64, to_ns: u64) {
        let (first, last) = self.outcome.span_ns.unwrap_or((from_ns, to_ns));
        self.outcome.span_ns = Some((first.min(from_ns), last.max(to_ns)));
    }

    fn name(&mut self, event: &Map<String, Value>) {
        self.outcome.names += 1;
        let Some(name) = event.get("args").and_then(|args| args["name"].as_str()) else { return };
        let key = match text(event, "name") {
            "process_name" => (id(event, "pid"), None),
            "thread_name" => (id(event, "pid"), Some(id(event, "tid"))),
            _ => return,
        };
        let (process, thread) = &key;
        let id_bytes = process.len() + thread.as_ref().map_or(0, String::len);
        if self.names.len() < MAX_NAMES && name.len().max(id_bytes) <= MAX_NAME_BYTES {
            self.names.insert(key, name.into());
        }
    }

    fn process_name(&self, event: &Map<String, Value>) -> Text {
        let pid = id(event, "pid");
        match self.names.get(&(pid.clone(), None)) {
            Some(name) => Text::clone(name),
            None => format!("process {pid}").into(),
        }
    }

    fn begin(&mut self, event: Map<String, Value>) {
        let (event, bytes) = needed(event);
        if self.open_count >= MAX_OPEN || self.open_bytes + bytes > MAX_OPEN_BYTES {
            self.outcome.unpaired += 1;
            return;
        }
        self.open_count += 1;
        self.open_bytes += bytes;
        self.open.entry((id(&event, "pid"), id(&event, "tid"))).or_default().push((event, bytes));
    }

    fn end(&mut self, event: &Map<String, Value>, time_us: f64) {
        let thread = (id(event, "pid"), id(event, "tid"));
        let Some((begun, bytes)) = self.open.get_mut(&thread).and_then(Vec::pop) else {
            self.outcome.unpaired += 1;
            return;
        };
        if self.open.get(&thread).is_some_and(Vec::is_empty) {
            self.open.remove(&thread);
        }
        self.open_count -= 1;
        self.open_bytes -= bytes;
        let Some(start_us) = micros(&begun, "ts") else { return };
        let start_ns = self.at(start_us);
        self.slice(&begun, start_ns, nanos(time_us - start_us));
    }

    fn slice(&mut self, event: &Map<String, Value>, time_ns: u64, duration_ns: u64) {
        self.seen(time_ns, time_ns.saturating_add(duration_ns));
        let empty = Map::new();
        let args = event.get("args").and_then(Value::as_object).unwrap_or(&empty);
        let category = text(event, "cat");
        let whole = |key: &str| args.get(key).and_then(Value::as_u64);
        if category == "inference" && args.contains_key("run_us") {
            self.outcome.inferences += 1;
            let part = |key: &str| nanos(micros(args, key).unwrap_or(0.0));
            let row = InferenceRow {
                timestamp_ns: time_ns,
                planned_ns: time_ns.saturating_sub(part("waited_us")),
                session_id: Text::clone(&self.session),
                sequence: whole("sequence").unwrap_or(self.outcome.inferences - 1),
                phase: text(args, "phase").into(),
                copy_in_ns: part("copy_in_us"),
                run_ns: part("run_us"),
                copy_out_ns: part("copy_out_us"),
                batch_size: whole("batch_size"),
                queue_depth: whole("queue_depth"),
                token: whole("token"),
                ok: !args.contains_key("error"),
                ..InferenceRow::default()
            };
            (self.keep)(ChromeRow::Inference(row));
            return;
        }
        self.outcome.slices += 1;
        let process = self.process_name(event);
        let provider = process.strip_prefix("Operators: ").unwrap_or_default();
        let kind = OUR_KINDS.iter().find(|kind| **kind == category).copied().unwrap_or("other");
        let op_type = ["op_type", "op_name"].iter().map(|key| text(args, key)).find(|text| !text.is_empty());
        let optional = |key: &str| args.get(key).and_then(Value::as_str).map(Text::from);
        let row = OperatorRow {
            timestamp_ns: time_ns,
            duration_ns,
            session_id: Text::clone(&self.session),
            kind: kind.into(),
            name: text(event, "name").into(),
            op_type: op_type.unwrap_or_default().into(),
            node_index: whole("node_index"),
            execution_provider: if provider.is_empty() {
                text(args, "provider").into()
            } else {
                provider.into()
            },
            device: text(args, "device").into(),
            thread: self.thread(event),
            input_shapes: optional("input_shapes"),
            input_types: optional("input_types"),
            output_shapes: optional("output_shapes"),
            output_types: optional("output_types"),
            output_bytes: whole("output_bytes"),
            activation_bytes: whole("activation_bytes"),
            parameter_bytes: whole("parameter_bytes"),
            flops: whole("flops"),
            cycles: whole("cycles"),
            ..OperatorRow::default()
        };
        (self.keep)(ChromeRow::Operator(Box::new(row)));
    }

    /// Its number; a lane of our own exports is named after its thread.
    fn thread(&self, event: &Map<String, Value>) -> u64 {
        let tid = id(event, "tid");
        let name = self.names.get(&(id(event, "pid"), Some(tid.clone())));
        let shown = name.and_then(|name| name.strip_prefix("thread ")?.split(' ').next()?.parse().ok());
        shown.or_else(|| tid.parse().ok()).unwrap_or(0)
    }

    fn counter(&mut self, event: &Map<String, Value>, time_ns: u64) {
        self.seen(time_ns, time_ns);
        let Some(args) = event.get("args").and_then(Value::as_object) else {
            self.outcome.unreadable += 1;
            return;
        };
        let device = self.process_name(event);
        let name = text(event, "name");
        for (key, value) in args {
            let Some(value) = value.as_f64() else { continue };
            self.outcome.counters += 1;
            let metric =
                if key.is_empty() || key == "value" { name.into() } else { format!("{name} {key}").into() };
            (self.keep)(ChromeRow::Counter(DeviceSampleRow {
                timestamp_ns: time_ns,
                device: Text::clone(&device),
                metric,
                value,
                source: "trace".into(),
                method: "measured".into(),
            }));
        }
    }

    fn mark(&mut self, event: &Map<String, Value>, time_ns: u64) {
        self.seen(time_ns, time_ns);
        self.outcome.marks += 1;
        let args = event.get("args").filter(|args| args.as_object().is_some_and(|args| !args.is_empty()));
        let name = text(event, "name");
        let words = match args {
            Some(args) => format!("{name} {args}"),
            None => name.to_owned(),
        };
        let category = text(event, "cat");
        let kind = if category.is_empty() { "mark" } else { category };
        (self.keep)(ChromeRow::Mark(AnnotationRow {
            timestamp_ns: time_ns,
            kind: kind.into(),
            text: words.into(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(json: &str) -> Result<(Vec<ChromeRow>, ChromeOutcome), ChromeError> {
        let mut rows = Vec::new();
        let outcome = read(json.as_bytes(), 1_000_000, &"s".into(), &mut |row| rows.push(row))?;
        Ok((rows, outcome))
    }

    #[test]
    fn every_event_kind_gives_its_row() {
        let (rows, outcome) = all(r#"{"displayTimeUnit":"ns","traceEvents":[
            {"ph":"M","name":"process_name","pid":1,"args":{"name":"GPU 0"}},
            {"ph":"X","name":"aten::conv","cat":"cpu_op","pid":1,"tid":"7","ts":"10.5","dur":2.25,"args":{}},
            {"ph":"B","name":"outer","pid":1,"tid":2,"ts":20}, {"ph":"B","name":"inner","pid":1,"tid":2,"ts":21},
            {"ph":"E","pid":1,"tid":2,"ts":22.001}, {"ph":"E","pid":1,"tid":2,"ts":30},
            {"ph":"C","name":"memory","pid":1,"ts":31,"args":{"used":5,"free":2.5,"word":"x"}},
            {"ph":"i","name":"step","cat":"user","pid":1,"ts":32,"args":{"n":3}},
            {"ph":"s","id":4,"ts":33}, {"name":"nothing"}, 7, null, {}]}"#)
        .unwrap();
        let slices: Vec<(&str, u64, u64)> = rows
            .iter()
            .filter_map(|row| match row {
                ChromeRow::Operator(row) => Some((&*row.name, row.timestamp_ns - 1_000_000, row.duration_ns)),
                _ => None,
            })
            .collect();
        assert_eq!(slices, [("aten::conv", 0, 2_250), ("inner", 10_500, 1_001), ("outer", 9_500, 10_000)]);
        assert_eq!(
            (
                outcome.slices,
                outcome.counters,
                outcome.marks,
                outcome.other,
                outcome.unreadable,
                outcome.names
            ),
            (3, 2, 1, 1, 2, 1)
        );
        assert!(matches!(&rows[3], ChromeRow::Counter(row) if &*row.device == "GPU 0" && row.value == 2.5));
        assert_eq!(outcome.cut, None);
    }

    #[test]
    fn a_truncated_list_gives_its_events_and_other_files_are_rejected() {
        let (rows, outcome) = all(r#"[{"ph":"X","name":"a","ts":1,"dur":1},{"ph":"X","na"#).unwrap();
        assert_eq!((rows.len(), outcome.cut.is_some()), (1, true));
        for foreign in ["", "{}", "hello", "[1,2", "{\"a\": [", "\u{1}\u{2}", "[[[[[[["] {
            assert!(all(foreign).is_err(), "{foreign}");
        }
        // An empty list is a valid trace.
        assert_eq!(all("[]").unwrap().1.events, 0);
    }

    #[test]
    fn unpaired_events_are_counted() {
        let (_, outcome) =
            all(r#"[{"ph":"B","name":"a","ts":1},{"ph":"E","ts":1,"tid":9},{"ph":"B","name":"b","ts":2}]"#)
                .unwrap();
        assert_eq!(outcome.unpaired, 3);
    }

    /// Found by fuzzing: the difference of extreme times overflowed, which panicked.
    #[test]
    fn extreme_times_are_clamped() {
        let text = r#"[{"ph":"i","ts":-1.7e308,"name":"a"},{"ph":"i","ts":1.7e308,"name":"b"},{"ph":"i","ts":"-1.79e308"}]"#;
        let mut times = Vec::new();
        let mut keep = |row| {
            if let ChromeRow::Mark(row) = row {
                times.push(row.timestamp_ns);
            }
        };
        let outcome = read(text.as_bytes(), 7, &"s".into(), &mut keep).expect("a trace");
        assert_eq!(times, [7, u64::MAX, 0]);
        assert_eq!(outcome.span_ns, Some((0, u64::MAX)));
    }

    /// Regression: open events were bounded by their bytes in the file, but lists of numbers took sixteen times as
    /// much memory. The row must be complete nevertheless.
    #[test]
    fn an_open_event_with_a_long_list_is_small() {
        let list = "0,".repeat(100_000) + "0";
        let args = format!(
            r#"{{"op_name":"Conv","device":"gpu0","input_shapes":"[1,3]","flops":12,"values":[{list}],"cycles":[{list}]}}"#
        );
        let begun =
            format!(r#"{{"ph":"B","name":"a","cat":"operator","pid":1,"tid":2,"ts":1,"args":{args}}}"#);
        let Ok(Value::Object(event)) = serde_json::from_str(&begun) else { panic!("an object") };
        let (kept, bytes) = needed(event);
        assert!(bytes < 8_000, "{bytes}");
        assert!(kept.values().all(|value| !value.is_array()) && kept["args"].get("values").is_none());
        let whole = format!(
            r#"{{"ph":"X","name":"a","cat":"operator","pid":1,"tid":2,"ts":1,"dur":4,"args":{args}}}"#
        );
        let (rows, outcome) =
            all(&format!(r#"[{begun},{{"ph":"E","pid":1,"tid":2,"ts":5}},{whole}]"#)).unwrap();
        assert_eq!((outcome.slices, rows.len()), (2, 2));
        assert_eq!(rows[0], rows[1], "begun and ended, or complete");
        assert!(
            matches!(&rows[0], ChromeRow::Operator(row) if row.flops == Some(12) && &*row.op_type == "Conv")
        );
    }

    /// An argument that `slice` reads but the list lacks would be missing for begin/end events only.
    #[test]
    fn open_inferences_keep_all_their_arguments() {
        let args = r#"{"run_us":3,"waited_us":1,"sequence":7,"phase":"measured","copy_in_us":1,"copy_out_us":2,
            "batch_size":4,"queue_depth":5,"token":6,"error":["a list"]}"#;
        let text = format!(
            r#"[{{"ph":"B","name":"a","cat":"inference","ts":9,"args":{args}}},{{"ph":"E","ts":12}},
                {{"ph":"X","name":"a","cat":"inference","ts":9,"dur":3,"args":{args}}}]"#
        );
        let (rows, outcome) = all(&text).unwrap();
        assert_eq!((outcome.inferences, rows.len()), (2, 2));
        assert_eq!(rows[0], rows[1]);
        assert!(matches!(&rows[0], ChromeRow::Inference(row) if !row.ok && row.token == Some(6)));
    }

    /// A few compressed kilobytes can claim an endless text.
    #[test]
    fn an_endless_event_uses_bounded_memory() {
        struct Endless(Vec<u8>);
        impl Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                for byte in into.iter_mut() {
                    *byte = self.0.pop().unwrap_or(b'x');
                }
                Ok(into.len())
            }
        }
        let endless = |start: &str| Endless(start.bytes().rev().collect());
        let outcome =
            read(endless("[{\"ph\":\"i\",\"ts\":1},{\"ph\":\""), 0, &"s".into(), &mut |_| {}).unwrap();
        assert_eq!(outcome.events, 1);
        assert!(outcome.cut.is_some_and(|cut| cut.contains("more than 16777216 bytes")));
        for start in ["[\"", "{\"", "{\"traceEvents\":[\""] {
            let refused = read(endless(start), 0, &"s".into(), &mut |_| {}).unwrap_err().to_string();
            assert!(refused.contains("more than 16777216 bytes"), "{start}: {refused}");
        }
        // Skipped parts may have any length.
        let skipped =
            format!("{{\"frames\":\"{}\",\"traceEvents\":[]}}", "x".repeat(MAX_EVENT_BYTES as usize));
        assert!(read(skipped.as_bytes(), 0, &"s".into(), &mut |_| {}).is_ok());
    }
}

//! Trace events as the JSON of chrome://tracing, of whatever program: PyTorch, TensorFlow, Perfetto, browsers, and our own
//! exports.
//!
//! | event | becomes |
//! |---|---|
//! | complete (`X`), begin and end (`B`, `E`) | a row of operators; of kind `other` unless its category is one of ours |
//! | complete, of our category `inference` | an inference |
//! | counter (`C`) | a row of device samples for each of its numbers |
//! | instant (`i`, `I`, `R`) | an annotation |
//!
//! Names of processes and threads are used where they are told before their events. Everything else is counted. A list
//! that ends too early, as that of a program that was killed, gives what is there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;

use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, InferenceRow, OperatorRow, Text};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Events that were begun and not ended, of all threads.
const MAX_OPEN: usize = 100_000;
/// Processes and threads whose names are remembered.
const MAX_NAMES: usize = 100_000;
/// One event, or the name of one part of the file. A file, above all a packed one, could claim any length; a trace that has
/// a longer event ends before it.
const MAX_EVENT_BYTES: u64 = 16 << 20;
/// Memory of begun events together; beyond that they count as unpaired.
const MAX_OPEN_BYTES: usize = 256 << 20;
/// What a key with its value takes in a map of JSON beside its texts, and what a map takes that has few.
const ENTRY_BYTES: usize = 128;
const MAP_BYTES: usize = 1 << 10;
/// What an operator or an inference is made of: of begun events nothing else is kept.
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
/// Longest name of a process or a thread that is remembered, and longest id of one.
const MAX_NAME_BYTES: usize = 4 << 10;
/// Kinds of operator rows, as `core::schema` has them.
const OUR_KINDS: [&str; 6] = ["operator", "copy", "wait", "run", "executor", "session"];

/// A row that an event became.
#[derive(Debug, Clone, PartialEq)]
pub enum ChromeRow {
    Operator(Box<OperatorRow>),
    Inference(InferenceRow),
    Counter(DeviceSampleRow),
    Mark(AnnotationRow),
}

/// What became of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChromeOutcome {
    pub events: u64,
    pub slices: u64,
    pub inferences: u64,
    pub counters: u64,
    pub marks: u64,
    /// Names of processes and threads.
    pub names: u64,
    /// Kinds that say nothing to us: flows, asynchronous events, objects.
    pub other: u64,
    /// Objects without a time or a kind, and things that are no objects.
    pub unreadable: u64,
    /// Begun and never ended, or ended and never begun.
    pub unpaired: u64,
    /// Why the list ends too early.
    pub cut: Option<String>,
    /// Monotonic time of the first and the last moment.
    pub span_ns: Option<(u64, u64)>,
}

/// Why a file is no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChromeError {
    #[error("it is not JSON with a list of trace events: {0}")]
    NotATrace(String),
}

/// Reads a trace. Its first event is at `start_ns`; `session` is what its rows belong to.
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
        // The closing bracket may be missing by design; anything else is worth a word, and both are the same here.
        reader.outcome.cut = Some(error.to_string());
    }
    if !reader.found_list {
        return Err(ChromeError::NotATrace("there is no 'traceEvents' in it".to_owned()));
    }
    reader.outcome.unpaired += reader.open_count as u64;
    Ok(reader.outcome)
}

/// Input that ends with an error where a single event has become too long.
struct Bounded<R> {
    input: R,
    /// Bytes since the event began; `None` while something is skipped, which takes no memory.
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

/// What is kept of a begun event, and the memory that it takes.
type Begun = (Map<String, Value>, usize);

/// Keeps what a slice is made of. A value that is a list or an object is none of it, and may be long: a number takes two bytes in
/// a file and 32 in memory.
fn needed(mut event: Map<String, Value>) -> Begun {
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
    // They name the thread for which it is kept, once more.
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
    /// Begun events by process and thread.
    open: BTreeMap<(String, String), Vec<Begun>>,
    open_count: usize,
    /// Of processes, and of threads.
    names: BTreeMap<(String, Option<String>), Text>,
    outcome: ChromeOutcome,
    found_list: bool,
}

/// The whole file: a list, or an object with one.
struct Document<'r, 'k>(&'r mut Reader<'k>);

/// The list.
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

/// Times are numbers, and texts in traces of some programs.
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

    /// On the recording's clock; the first event is at its start.
    fn at(&mut self, time_us: f64) -> u64 {
        let first = *self.first_us.get_or_insert(time_us);
        // Times may be as far apart as numbers can be; what is out of reach stands at the end of time.
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

    /// Its number; a lane of our own exports is named after the thread that it shows.
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
    fn every_kind_becomes_its_row() {
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
    fn a_list_that_was_cut_gives_what_is_there_and_foreign_files_are_refused() {
        let (rows, outcome) = all(r#"[{"ph":"X","name":"a","ts":1,"dur":1},{"ph":"X","na"#).unwrap();
        assert_eq!((rows.len(), outcome.cut.is_some()), (1, true));
        for foreign in ["", "{}", "hello", "[1,2", "{\"a\": [", "\u{1}\u{2}", "[[[[[[["] {
            assert!(all(foreign).is_err(), "{foreign}");
        }
        // An empty trace is one.
        assert_eq!(all("[]").unwrap().1.events, 0);
    }

    #[test]
    fn what_is_begun_and_not_ended_is_counted() {
        let (_, outcome) =
            all(r#"[{"ph":"B","name":"a","ts":1},{"ph":"E","ts":1,"tid":9},{"ph":"B","name":"b","ts":2}]"#)
                .unwrap();
        assert_eq!(outcome.unpaired, 3);
    }

    /// Found by fuzzing: the difference of such times did not fit, which was a panic.
    #[test]
    fn times_at_the_ends_of_numbers_are_kept_at_the_ends_of_time() {
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

    /// Begun events were bounded by their bytes in the file, and kept whole: those with lists of numbers took sixteen times that
    /// in memory. The row must not miss anything of it.
    #[test]
    fn a_begun_event_with_a_list_of_numbers_is_small() {
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

    /// An argument that `slice` reads and that is not in the list would be lost of begun events alone.
    #[test]
    fn begun_inferences_keep_what_they_are_made_of() {
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

    /// A few packed kilobytes can claim a text without end.
    #[test]
    fn an_event_without_end_costs_bounded_memory() {
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
        let told = read(endless("[{\"ph\":\"i\",\"ts\":1},{\"ph\":\""), 0, &"s".into(), &mut |_| {}).unwrap();
        assert_eq!(told.events, 1);
        assert!(told.cut.is_some_and(|cut| cut.contains("more than 16777216 bytes")));
        for start in ["[\"", "{\"", "{\"traceEvents\":[\""] {
            let refused = read(endless(start), 0, &"s".into(), &mut |_| {}).unwrap_err().to_string();
            assert!(refused.contains("more than 16777216 bytes"), "{start}: {refused}");
        }
        // What is skipped may be as long as it wants.
        let skipped =
            format!("{{\"frames\":\"{}\",\"traceEvents\":[]}}", "x".repeat(MAX_EVENT_BYTES as usize));
        assert!(read(skipped.as_bytes(), 0, &"s".into(), &mut |_| {}).is_ok());
    }
}

//! `ortscope etl dump`: events with their fields, one after the other, in the order of time.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use ortscope_etl::payload::{Nest, SchemaSource, SchemaStore, Value, Visitor};
use ortscope_etl::{Clock, EtlFile, EventRecord, Walk};

use super::naming::{EventName, name_of};
use super::selection::Selection;
use super::{finish, losses_json, open, schemas, unreadable};
use crate::args::EtlDumpArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

pub fn run(args: &EtlDumpArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let file = open(&args.file)?;
    let store = schemas(&file)?;
    let selection = Selection::new(&args.selection, args.event.as_deref(), &file.header().clock)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut shown = 0u64;
    let form = if terminal.json { Form::JsonDocument } else { Form::Text };
    let written = write_events(&file, &store, &selection, args.limit, form, &mut out, &mut shown);
    match written {
        Ok(walk) => Ok(finish(&walk.losses, terminal)),
        Err(WriteFailure::Read(failure)) => Err(failure),
        // `| head` has seen enough.
        Err(WriteFailure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(WriteFailure::Write(error)) => Err(error.into()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Csv,
    JsonLines,
    JsonDocument,
}

#[derive(Debug)]
pub enum WriteFailure {
    Read(Failure),
    Write(io::Error),
}

impl From<io::Error> for WriteFailure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Writes the selected events.
pub fn write_events(
    file: &EtlFile,
    store: &SchemaStore,
    selection: &Selection,
    limit: Option<u64>,
    form: Form,
    out: &mut dyn Write,
    shown: &mut u64,
) -> Result<Walk, WriteFailure> {
    match form {
        Form::Csv => {
            writeln!(out, "seconds,unix_ns,provider,event,version,pid,tid,processor,decoded_by,fields")?;
        }
        Form::JsonDocument => write!(out, "{{\"schema\":\"ortscope.etl.dump/1\",\"events\":[")?,
        Form::Text | Form::JsonLines => {}
    }
    let clock = file.header().clock;
    let (mut line, mut fields, mut failed) = (String::new(), FieldText::default(), None);
    let walk = file.ordered(|record| {
        if limit.is_some_and(|limit| *shown >= limit) {
            return ControlFlow::Break(());
        }
        if !selection.may_have(record, record.process_id) {
            return ControlFlow::Continue(());
        }
        let name = name_of(record, store);
        if !selection.has(&name) {
            return ControlFlow::Continue(());
        }
        line.clear();
        fields.begin(form);
        let decoded = store.decode(record, &mut fields);
        let event = Shown {
            record,
            name: &name,
            clock: &clock,
            source: decoded.source,
            left_over: decoded.left_over,
        };
        event.write(form, &fields.finish(), *shown == 0, &mut line);
        *shown += 1;
        match out.write_all(line.as_bytes()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let walk = walk.map_err(|error| WriteFailure::Read(unreadable(&error)))?;
    if form == Form::JsonDocument {
        let shown = *shown;
        writeln!(out, "\n],\"shown\":{shown},\"losses\":{}}}", losses_json(&walk.losses))?;
    }
    out.flush()?;
    Ok(walk)
}

/// One event on its way to the output.
struct Shown<'a> {
    record: &'a EventRecord<'a>,
    name: &'a EventName<'a>,
    clock: &'a Clock,
    source: SchemaSource,
    left_over: usize,
}

impl Shown<'_> {
    /// Writing to a string cannot fail.
    fn write(&self, form: Form, fields: &str, is_first: bool, out: &mut String) {
        let record = self.record;
        let nanos = self.clock.nanos_since_start(record.ticks);
        let sign = if nanos < 0 { "-" } else { "" };
        let (seconds, fraction) =
            (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
        let id = |id: Option<u32>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        match form {
            Form::Text => {
                write!(
                    out,
                    "{sign}{seconds:>5}.{fraction:09}  {}/{} on {}  {} {}",
                    id(record.process_id),
                    id(record.thread_id),
                    record.processor,
                    self.name.provider,
                    self.name.event
                )
                .ok();
                if !fields.is_empty() {
                    write!(out, "  {fields}").ok();
                }
                match (self.source, self.left_over) {
                    (SchemaSource::Unknown, 0) => {}
                    (SchemaSource::Unknown, _) => {
                        write!(
                            out,
                            "  {} bytes, layout unknown: {}",
                            record.payload.len(),
                            Hex(record.payload)
                        )
                        .ok();
                    }
                    (_, left_over @ 1..) => {
                        write!(out, "  (+{left_over} bytes)").ok();
                    }
                    _ => {}
                }
                out.push('\n');
            }
            Form::Csv => {
                let empty_or = |id: Option<u32>| id.map_or_else(String::new, |id| id.to_string());
                writeln!(
                    out,
                    "{sign}{seconds}.{fraction:09},{},{},{},{},{},{},{},{},{}",
                    self.clock.unix_ns(record.ticks),
                    csv(&self.name.provider),
                    csv(&self.name.event),
                    self.name.version,
                    empty_or(record.process_id),
                    empty_or(record.thread_id),
                    record.processor,
                    source_name(self.source),
                    csv(fields)
                )
                .ok();
            }
            Form::JsonLines | Form::JsonDocument => {
                if form == Form::JsonDocument {
                    out.push_str(if is_first { "\n" } else { ",\n" });
                }
                let text = |text: &str| serde_json::Value::from(text).to_string();
                let number = |id: Option<u32>| id.map_or_else(|| "null".to_owned(), |id| id.to_string());
                let guid = self.name.guid.map_or_else(|| "null".to_owned(), |guid| format!("\"{guid}\""));
                write!(
                    out,
                    "{{\"ns_since_start\":{nanos},\"unix_ns\":{},\"provider\":{},\"provider_guid\":{guid},\"event\":{},\
                     \"version\":{},\"pid\":{},\"tid\":{},\"processor\":{},\"decoded_by\":\"{}\",\"fields\":{fields}",
                    self.clock.unix_ns(record.ticks),
                    text(&self.name.provider),
                    text(&self.name.event),
                    self.name.version,
                    number(record.process_id),
                    number(record.thread_id),
                    record.processor,
                    source_name(self.source),
                ).ok();
                if self.left_over > 0 {
                    write!(out, ",\"undecoded_bytes\":{}", self.left_over).ok();
                }
                out.push('}');
                if form == Form::JsonLines {
                    out.push('\n');
                }
            }
        }
    }
}

pub fn source_name(source: SchemaSource) -> &'static str {
    match source {
        SchemaSource::Kernel => "kernel",
        SchemaSource::TraceLogging => "trace_logging",
        SchemaSource::Tdh => "tdh",
        SchemaSource::EventSource => "event_source",
        SchemaSource::BuiltIn => "built_in",
        SchemaSource::Metadata => "metadata",
        SchemaSource::Unknown => "unknown",
    }
}

/// A CSV field in quotes if it needs them.
fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The first bytes of a payload whose layout is not known.
struct Hex<'a>(&'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MOST: usize = 32;
        self.0.iter().take(MOST).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if self.0.len() > MOST { f.write_str("…") } else { Ok(()) }
    }
}

/// Collects the fields of one event as text or as a JSON object.
#[derive(Debug, Default)]
struct FieldText {
    text: String,
    is_json: bool,
    /// What closes each open group, and whether something stands in it already.
    open: Vec<(char, bool)>,
}

impl FieldText {
    fn begin(&mut self, form: Form) {
        self.text.clear();
        self.open.clear();
        self.is_json = form != Form::Text;
        if self.is_json {
            self.text.push('{');
        }
        self.open.push(('}', false));
    }

    fn finish(&mut self) -> String {
        // A schema that was cut leaves groups open.
        while self.open.len() > 1 {
            self.close();
        }
        if self.is_json {
            self.text.push('}');
        }
        std::mem::take(&mut self.text)
    }

    /// Before a field or a group: what parts it from the one before, and its name where it has one.
    fn lead(&mut self, name: &str) {
        let Some((closing, has_some)) = self.open.last_mut() else { return };
        let (in_array, first) = (*closing == ']', !*has_some);
        *has_some = true;
        if !first {
            self.text.push_str(if self.is_json { "," } else { " " });
        }
        if in_array {
            return;
        }
        if self.is_json {
            write!(self.text, "{}:", serde_json::Value::from(name)).ok();
        } else {
            write!(self.text, "{name}=").ok();
        }
    }
}

impl Visitor for FieldText {
    fn field(&mut self, name: &str, value: Value<'_>) {
        self.lead(name);
        // Writing to a string cannot fail.
        if self.is_json || matches!(value, Value::Wide(_) | Value::Narrow(_)) {
            value.write_json(&mut self.text).ok();
        } else {
            write!(self.text, "{value}").ok();
        }
    }

    fn open(&mut self, name: &str, nest: Nest) {
        self.lead(name);
        let (opening, closing) = match nest {
            Nest::Array(_) => ('[', ']'),
            _ => ('{', '}'),
        };
        self.text.push(opening);
        self.open.push((closing, false));
    }

    fn close(&mut self) {
        if self.open.len() > 1
            && let Some((closing, _)) = self.open.pop()
        {
            self.text.push(closing);
        }
    }
}

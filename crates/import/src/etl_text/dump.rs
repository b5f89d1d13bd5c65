//! Events with their fields as text, CSV or JSON.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::ControlFlow;

use ortscope_etl::payload::{EventName, Nest, SchemaSource, SchemaStore, Value, Visitor};
use ortscope_etl::{Clock, EtlError, EtlFile, EventRecord, Matcher, Walk};

use super::losses_json;

/// The format of written events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Csv,
    JsonLines,
    JsonDocument,
}

/// Why events could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteEventsError {
    #[error(transparent)]
    Read(#[from] EtlError),
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes the selected events in time order, at most `limit`. Returns how many were written.
pub fn write_events(
    file: &EtlFile,
    store: &SchemaStore,
    selected: &Matcher,
    limit: Option<u64>,
    form: Form,
    out: &mut dyn Write,
) -> Result<(u64, Walk), WriteEventsError> {
    match form {
        Form::Csv => {
            writeln!(out, "seconds,unix_ns,provider,event,version,pid,tid,processor,decoded_by,fields")?;
        }
        Form::JsonDocument => write!(out, "{{\"schema\":\"ortscope.etl.dump/1\",\"events\":[")?,
        Form::Text | Form::JsonLines => {}
    }
    let clock = file.header().clock;
    let (mut line, mut fields, mut failed, mut written) = (String::new(), FieldText::default(), None, 0u64);
    let walk = file.ordered(|record| {
        if limit.is_some_and(|limit| written >= limit) {
            return ControlFlow::Break(());
        }
        if !selected.may_match(record) {
            return ControlFlow::Continue(());
        }
        let name = store.event_name(record);
        if !selected.matches(&name) {
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
        event.write(form, &fields.finish(), written == 0, &mut line);
        written += 1;
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
    let walk = walk?;
    if form == Form::JsonDocument {
        writeln!(out, "\n],\"shown\":{written},\"losses\":{}}}", losses_json(&walk.losses))?;
    }
    out.flush()?;
    Ok((written, walk))
}

/// One event to be written.
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
                    self.source.name(),
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
                    self.source.name(),
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

/// A CSV field in quotes if it needs them.
fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The first bytes of a payload with an unknown layout.
struct Hex<'a>(&'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MAX: usize = 32;
        self.0.iter().take(MAX).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if self.0.len() > MAX { f.write_str("…") } else { Ok(()) }
    }
}

/// Collects the fields of one event as text or as a JSON object.
#[derive(Debug, Default)]
struct FieldText {
    text: String,
    is_json: bool,
    /// The closing character of each open group, and whether the group has a member already.
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
        // A truncated payload leaves groups open.
        while self.open.len() > 1 {
            self.close();
        }
        if self.is_json {
            self.text.push('}');
        }
        std::mem::take(&mut self.text)
    }

    /// Writes the separator and the name in front of a field or group.
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

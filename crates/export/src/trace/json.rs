//! Events as the JSON of chrome://tracing.
//!
//! The form is the plain list of events: unlike the form with `traceEvents` it still opens when the end is missing.
//! Times are microseconds since the trace's start with nanoseconds behind the point.

use std::io::{self, Write};

use super::events::Lane;
use crate::text::{Chunked, json};

/// Every piece that leaves the buffer ends behind an event, without a comma.
pub(super) struct JsonEvents<'w> {
    out: Chunked<'w>,
    first: bool,
}

impl<'w> JsonEvents<'w> {
    pub(super) fn new(out: Box<dyn Write + Send + 'w>) -> Self {
        let mut out = Chunked::new(out);
        out.text("[");
        Self { out, first: true }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub(super) fn written(&self) -> u64 {
        self.out.written()
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.text("\n]\n");
        self.out.flush()
    }

    /// Begins an event; `end` completes it.
    fn begin(&mut self, phase: char) {
        self.out.text(if self.first { "\n" } else { ",\n" });
        self.first = false;
        self.out.text("{\"ph\":\"");
        self.out.text(phase.encode_utf8(&mut [0; 4]));
        self.out.text("\"");
    }

    fn number(&mut self, key: &str, value: u64) {
        self.out.text(key);
        self.out.json(&value);
    }

    /// Microseconds with all nanoseconds behind the point.
    fn micros(&mut self, key: &str, nanos: u64) {
        self.number(key, nanos / 1_000);
        let rest = nanos % 1_000;
        if rest > 0 {
            self.out.text(&format!(".{rest:03}"));
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.text("}");
        self.out.boundary()
    }

    pub(super) fn head<T: serde::Serialize>(&mut self, head: &T) -> io::Result<()> {
        self.begin('M');
        self.out.text(",\"pid\":0,\"tid\":0,\"name\":\"ortscope\",\"cat\":\"__metadata\",\"args\":");
        self.out.json(head);
        self.end()
    }

    fn name(&mut self, what: &str, lane: Lane, name: &str) -> io::Result<()> {
        self.begin('M');
        self.number(",\"pid\":", lane.process);
        self.number(",\"tid\":", lane.thread);
        self.out.text(&format!(",\"name\":\"{what}\",\"cat\":\"__metadata\",\"args\":{{\"name\":"));
        self.out.json(name);
        self.out.text("}");
        self.end()
    }

    pub(super) fn process(&mut self, process: u64, name: &str) -> io::Result<()> {
        self.name("process_name", Lane { process, thread: 0 }, name)?;
        self.begin('M');
        self.number(",\"pid\":", process);
        let order =
            ",\"tid\":0,\"name\":\"process_sort_index\",\"cat\":\"__metadata\",\"args\":{\"sort_index\":";
        self.number(order, process);
        self.out.text("}");
        self.end()
    }

    pub(super) fn lane(&mut self, lane: Lane, name: &str) -> io::Result<()> {
        self.name("thread_name", lane, name)
    }

    pub(super) fn slice(
        &mut self,
        lane: Lane,
        since_ns: u64,
        duration_ns: u64,
        body: &[u8],
    ) -> io::Result<()> {
        self.begin('X');
        self.micros(",\"ts\":", since_ns);
        self.micros(",\"dur\":", duration_ns);
        self.number(",\"pid\":", lane.process);
        self.number(",\"tid\":", lane.thread);
        self.out.bytes.extend_from_slice(body);
        self.end()
    }

    pub(super) fn instant(&mut self, lane: Lane, since_ns: u64, body: &[u8]) -> io::Result<()> {
        self.begin('i');
        self.micros(",\"ts\":", since_ns);
        self.number(",\"pid\":", lane.process);
        self.number(",\"tid\":", lane.thread);
        self.out.text(",\"s\":\"t\"");
        self.out.bytes.extend_from_slice(body);
        self.end()
    }

    pub(super) fn counter(
        &mut self,
        process: u64,
        since_ns: u64,
        name: &str,
        key: &str,
        value: f64,
    ) -> io::Result<()> {
        self.begin('C');
        self.micros(",\"ts\":", since_ns);
        self.number(",\"pid\":", process);
        self.number(",\"tid\":", process);
        self.out.text(",\"name\":");
        self.out.json(name);
        self.out.text(",\"cat\":\"sample\",\"args\":{");
        self.out.json(key);
        self.out.text(":");
        self.out.json(&value);
        self.out.text("}");
        self.end()
    }
}

pub(super) struct JsonBody {
    bytes: Vec<u8>,
    empty: bool,
}

/// Viewers read numbers as doubles.
const MAX_EXACT: u64 = 1 << 53;

impl JsonBody {
    pub(super) fn new(name: &str, category: &str) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(b",\"name\":");
        json(&mut bytes, name);
        bytes.extend_from_slice(b",\"cat\":");
        json(&mut bytes, category);
        bytes.extend_from_slice(b",\"args\":{");
        Self { bytes, empty: true }
    }

    fn key(&mut self, key: &str) {
        if !self.empty {
            self.bytes.push(b',');
        }
        self.empty = false;
        json(&mut self.bytes, key);
        self.bytes.push(b':');
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        json(&mut self.bytes, value);
    }

    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        if value <= MAX_EXACT {
            json(&mut self.bytes, &value);
        } else {
            json(&mut self.bytes, &value.to_string());
        }
    }

    pub(super) fn micros(&mut self, key: &str, nanos: u64) {
        self.key(key);
        json(&mut self.bytes, &(nanos as f64 / 1_000.0));
    }

    pub(super) fn done(mut self) -> Box<[u8]> {
        self.bytes.push(b'}');
        self.bytes.into_boxed_slice()
    }
}

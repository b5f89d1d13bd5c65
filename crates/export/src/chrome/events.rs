//! Single trace events as text.

use std::io::{self, Write};

use crate::text::{Chunked, json};

/// Times beyond this (73 years after the start) overflow in viewers; such events, and those before the start, are left
/// out and counted.
const LATEST_NS: u64 = i64::MAX as u64 / 4;

/// A process and a thread of the trace. Both are numbers of our own, each used once, because viewers mix up lanes whose
/// numbers happen to be equal; names tell what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) process: u64,
    pub(super) thread: u64,
}

/// Writes a list of events. Every piece that leaves the buffer ends behind an event, without a comma: a file that is cut
/// there still opens.
pub(super) struct Events<'w> {
    out: Chunked<'w>,
    first: bool,
    start_ns: u64,
    last_id: u64,
    /// Events with impossible times.
    pub(super) out_of_range: u64,
    /// Counter values that are not numbers.
    pub(super) not_numbers: u64,
}

impl<'w> Events<'w> {
    pub(super) fn new(out: &'w mut dyn Write, start_ns: u64) -> Self {
        let mut out = Chunked::new(out);
        out.text("[");
        Self { out, first: true, start_ns, last_id: 0, out_of_range: 0, not_numbers: 0 }
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

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// What the trace is of; viewers pass over it, people and programs can read it.
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

    /// A new group of lanes. Groups are shown in the order in which they are made.
    pub(super) fn process(&mut self, name: &str) -> io::Result<u64> {
        let process = self.new_id();
        self.name("process_name", Lane { process, thread: 0 }, name)?;
        self.begin('M');
        self.number(",\"pid\":", process);
        let order =
            ",\"tid\":0,\"name\":\"process_sort_index\",\"cat\":\"__metadata\",\"args\":{\"sort_index\":";
        self.number(order, process);
        self.out.text("}");
        self.end()?;
        Ok(process)
    }

    pub(super) fn lane(&mut self, process: u64, name: &str) -> io::Result<Lane> {
        let lane = Lane { process, thread: self.new_id() };
        self.name("thread_name", lane, name)?;
        Ok(lane)
    }

    /// Nanoseconds since the start of the trace; `None` (and counted) if no viewer could show it.
    pub(super) fn since_start(&mut self, time_ns: u64, duration_ns: u64) -> Option<u64> {
        let since = time_ns.checked_sub(self.start_ns);
        let fits = since.filter(|since| *since <= LATEST_NS && duration_ns <= LATEST_NS);
        self.out_of_range += u64::from(fits.is_none());
        fits
    }

    /// `body` is made by [`body`].
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

    /// `false` if it had to be left out.
    pub(super) fn instant(&mut self, lane: Lane, time_ns: u64, body: &[u8]) -> io::Result<bool> {
        let Some(since) = self.since_start(time_ns, 0) else {
            return Ok(false);
        };
        self.begin('i');
        self.micros(",\"ts\":", since);
        self.number(",\"pid\":", lane.process);
        self.number(",\"tid\":", lane.thread);
        self.out.text(",\"s\":\"t\"");
        self.out.bytes.extend_from_slice(body);
        self.end()?;
        Ok(true)
    }

    pub(super) fn counter(
        &mut self,
        process: u64,
        time_ns: u64,
        name: &str,
        key: &str,
        value: f64,
    ) -> io::Result<()> {
        if !value.is_finite() {
            self.not_numbers += 1;
            return Ok(());
        }
        let Some(since) = self.since_start(time_ns, 0) else {
            return Ok(());
        };
        self.begin('C');
        self.micros(",\"ts\":", since);
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

/// Name, category and arguments of an event.
pub(super) struct Body {
    bytes: Vec<u8>,
    empty: bool,
}

/// Viewers read numbers as doubles.
const LARGEST_EXACT: u64 = 1 << 53;

impl Body {
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
        if !value.is_empty() {
            self.key(key);
            json(&mut self.bytes, value);
        }
    }

    pub(super) fn number(&mut self, key: &str, value: Option<u64>) {
        let Some(value) = value else {
            return;
        };
        self.key(key);
        if value <= LARGEST_EXACT {
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

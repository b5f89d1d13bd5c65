//! Single trace events, in either form.

use std::io::{self, Write};

use super::json::{self, JsonEvents};
use super::perfetto::{self, PerfettoEvents};

/// Times beyond this (73 years after the start) overflow in viewers; such events, and those before the start, are left
/// out and counted.
const LATEST_NS: u64 = i64::MAX as u64 / 4;

/// How a trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A list of JSON objects, which every viewer reads.
    Json,
    /// Perfetto's own packets: smaller, and times are whole nanoseconds.
    Perfetto,
}

/// A process and a thread of the trace. Both are numbers of our own, each used once, because viewers mix up lanes whose
/// numbers happen to be equal; names tell what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) process: u64,
    pub(super) thread: u64,
}

enum Writer<'w> {
    Json(JsonEvents<'w>),
    Perfetto(PerfettoEvents<'w>),
}

/// Writes events. Every piece that leaves the buffer ends behind an event: a file that is cut there still opens.
pub(super) struct Events<'w> {
    writer: Writer<'w>,
    start_ns: u64,
    last_id: u64,
    /// Events with impossible times.
    out_of_range: u64,
    /// Counter values that are not numbers.
    not_numbers: u64,
}

impl<'w> Events<'w> {
    pub(super) fn new(out: Box<dyn Write + Send + 'w>, form: Form, start_ns: u64) -> Self {
        let writer = match form {
            Form::Json => Writer::Json(JsonEvents::new(out)),
            Form::Perfetto => Writer::Perfetto(PerfettoEvents::new(out)),
        };
        Self { writer, start_ns, last_id: 0, out_of_range: 0, not_numbers: 0 }
    }

    pub(super) fn form(&self) -> Form {
        match self.writer {
            Writer::Json(_) => Form::Json,
            Writer::Perfetto(_) => Form::Perfetto,
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self.writer {
            Writer::Json(events) => events.finish(),
            Writer::Perfetto(events) => events.finish(),
        }
    }

    /// Everything so far is in the output, which may be cut here.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Writer::Json(events) => events.flush(),
            Writer::Perfetto(events) => events.flush(),
        }
    }

    /// Bytes of the output so far.
    pub(super) fn written(&self) -> u64 {
        match &self.writer {
            Writer::Json(events) => events.written(),
            Writer::Perfetto(events) => events.written(),
        }
    }

    pub(super) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// What could not be drawn, in sentences.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + use<> {
        let rows = (self.out_of_range > 0).then(|| {
            format!("{} rows have times that no trace can show and are not in it", self.out_of_range)
        });
        let samples = (self.not_numbers > 0)
            .then(|| format!("{} samples are not numbers and are not in the trace", self.not_numbers));
        rows.into_iter().chain(samples)
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// What the trace is of; viewers pass over it, people and programs can read it.
    pub(super) fn head<T: serde::Serialize>(&mut self, head: &T) -> io::Result<()> {
        match &mut self.writer {
            Writer::Json(events) => events.head(head),
            Writer::Perfetto(events) => events.head(head),
        }
    }

    /// A new group of lanes. Groups are shown in the order in which they are made.
    pub(super) fn process(&mut self, name: &str) -> io::Result<u64> {
        let process = self.new_id();
        match &mut self.writer {
            Writer::Json(events) => events.process(process, name)?,
            Writer::Perfetto(events) => events.process(process, name)?,
        }
        Ok(process)
    }

    pub(super) fn lane(&mut self, process: u64, name: &str) -> io::Result<Lane> {
        let lane = Lane { process, thread: self.new_id() };
        match &mut self.writer {
            Writer::Json(events) => events.lane(lane, name)?,
            Writer::Perfetto(events) => events.lane(lane, name)?,
        }
        Ok(lane)
    }

    /// Nanoseconds since the start of the trace; `None` (and counted) if no viewer could show it.
    pub(super) fn since_start(&mut self, time_ns: u64, duration_ns: u64) -> Option<u64> {
        let since = time_ns.checked_sub(self.start_ns);
        let fits = since.filter(|since| *since <= LATEST_NS && duration_ns <= LATEST_NS);
        self.out_of_range += u64::from(fits.is_none());
        fits
    }

    /// `body` is made by [`Body`] in the same form.
    pub(super) fn slice(
        &mut self,
        lane: Lane,
        since_ns: u64,
        duration_ns: u64,
        body: &[u8],
    ) -> io::Result<()> {
        match &mut self.writer {
            Writer::Json(events) => events.slice(lane, since_ns, duration_ns, body),
            Writer::Perfetto(events) => events.slice(lane, since_ns, duration_ns, body),
        }
    }

    /// `false` if it had to be left out.
    pub(super) fn instant(&mut self, lane: Lane, time_ns: u64, body: &[u8]) -> io::Result<bool> {
        let Some(since) = self.since_start(time_ns, 0) else {
            return Ok(false);
        };
        match &mut self.writer {
            Writer::Json(events) => events.instant(lane, since, body)?,
            Writer::Perfetto(events) => events.instant(lane, since, body)?,
        }
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
        match &mut self.writer {
            Writer::Json(events) => events.counter(process, since, name, key, value),
            Writer::Perfetto(events) => {
                let next_id = &mut self.last_id;
                events.counter(process, since, name, key, value, || {
                    *next_id += 1;
                    *next_id
                })
            }
        }
    }
}

/// Name, category and arguments of an event.
pub(super) enum Body {
    Json(json::JsonBody),
    Perfetto(perfetto::PerfettoBody),
}

impl Body {
    pub(super) fn new(form: Form, name: &str, category: &str) -> Self {
        match form {
            Form::Json => Self::Json(json::JsonBody::new(name, category)),
            Form::Perfetto => Self::Perfetto(perfetto::PerfettoBody::new(name, category)),
        }
    }

    /// Nothing for an empty text.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        match self {
            Self::Json(body) => body.text(key, value),
            Self::Perfetto(body) => body.text(key, value),
        }
    }

    pub(super) fn number(&mut self, key: &str, value: Option<u64>) {
        let Some(value) = value else {
            return;
        };
        match self {
            Self::Json(body) => body.number(key, value),
            Self::Perfetto(body) => body.number(key, value),
        }
    }

    pub(super) fn micros(&mut self, key: &str, nanos: u64) {
        match self {
            Self::Json(body) => body.micros(key, nanos),
            Self::Perfetto(body) => body.micros(key, nanos),
        }
    }

    pub(super) fn done(self) -> Box<[u8]> {
        match self {
            Self::Json(body) => body.done(),
            Self::Perfetto(body) => body.done(),
        }
    }
}

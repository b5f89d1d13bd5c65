//! Events as Perfetto's own packets (`perfetto.protos.Trace`).
//!
//! Only a few message types are needed, so they are written by hand; the numbers of their fields are below. A lane is
//! a thread of its process, as in the JSON form, so that the same questions in SQL have the same answers. A slice is two
//! packets, its beginning and its end; the reader puts packets in the order of their times, and those of one time in the
//! order of the file. A file that is cut between two packets opens.

use std::collections::HashMap;
use std::io::{self, Write};

use super::events::Lane;
use crate::protobuf::{bytes, number, real};
use crate::text::Chunked;

/// Packets of one writer.
const SEQUENCE: u64 = 1;

/// `Trace`.
const PACKET: u32 = 1;

mod packet {
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK_DESCRIPTOR: u32 = 60;
}

mod descriptor {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const DESCRIPTION: u32 = 14;
    pub const PROCESS_ID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;
    pub const THREAD_PROCESS_ID: u32 = 1;
    pub const THREAD_ID: u32 = 2;
    pub const THREAD_NAME: u32 = 5;
}

mod event {
    pub const ANNOTATION: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const TRACK: u32 = 11;
    pub const CATEGORY: u32 = 22;
    pub const NAME: u32 = 23;
    pub const REAL_VALUE: u32 = 44;
    pub const BEGIN: u64 = 1;
    pub const END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

mod annotation {
    pub const UNSIGNED: u32 = 3;
    pub const REAL: u32 = 5;
    pub const TEXT: u32 = 6;
    pub const NAME: u32 = 10;
}

/// The first packet of a sequence says that nothing was before it.
const NOTHING_BEFORE: u64 = 1;

pub(super) struct PerfettoEvents<'w> {
    out: Chunked<'w>,
    is_first: bool,
    /// A track for each counter, made when it is first drawn.
    counters: HashMap<(u64, String), u64>,
    scratch: Vec<u8>,
}

impl<'w> PerfettoEvents<'w> {
    pub(super) fn new(out: Box<dyn Write + Send + 'w>) -> Self {
        Self { out: Chunked::new(out), is_first: true, counters: HashMap::new(), scratch: Vec::new() }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub(super) fn written(&self) -> u64 {
        self.out.written()
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A packet around what `fill` writes.
    fn packet(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut packet = std::mem::take(&mut self.scratch);
        packet.clear();
        number(&mut packet, packet::SEQUENCE_ID, SEQUENCE);
        if std::mem::take(&mut self.is_first) {
            number(&mut packet, packet::SEQUENCE_FLAGS, NOTHING_BEFORE);
        }
        fill(&mut packet);
        bytes(&mut self.out.bytes, PACKET, &packet);
        self.scratch = packet;
        self.out.boundary()
    }

    fn track(&mut self, uuid: u64, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut track = Vec::with_capacity(64);
        number(&mut track, descriptor::UUID, uuid);
        fill(&mut track);
        self.packet(|packet| bytes(packet, packet::TRACK_DESCRIPTOR, &track))
    }

    fn event(&mut self, at_ns: u64, kind: u64, track: u64, body: &[u8]) -> io::Result<()> {
        let mut told = Vec::with_capacity(body.len() + 16);
        number(&mut told, event::TYPE, kind);
        number(&mut told, event::TRACK, track);
        told.extend_from_slice(body);
        self.packet(|packet| {
            number(packet, packet::TIMESTAMP, at_ns);
            bytes(packet, packet::TRACK_EVENT, &told);
        })
    }

    /// As the description of a track that nothing is drawn on: viewers do not show it.
    pub(super) fn head<T: serde::Serialize>(&mut self, head: &T) -> io::Result<()> {
        let mut text = Vec::new();
        crate::text::json(&mut text, head);
        self.track(u64::MAX, |track| {
            bytes(track, descriptor::NAME, b"ortscope");
            bytes(track, descriptor::DESCRIPTION, &text);
        })
    }

    pub(super) fn process(&mut self, process: u64, name: &str) -> io::Result<()> {
        let mut about = Vec::new();
        number(&mut about, descriptor::PROCESS_ID, process);
        bytes(&mut about, descriptor::PROCESS_NAME, name.as_bytes());
        self.track(process, |track| bytes(track, descriptor::PROCESS, &about))
    }

    pub(super) fn lane(&mut self, lane: Lane, name: &str) -> io::Result<()> {
        let mut about = Vec::new();
        number(&mut about, descriptor::THREAD_PROCESS_ID, lane.process);
        number(&mut about, descriptor::THREAD_ID, lane.thread);
        bytes(&mut about, descriptor::THREAD_NAME, name.as_bytes());
        self.track(lane.thread, |track| {
            number(track, descriptor::PARENT, lane.process);
            bytes(track, descriptor::THREAD, &about);
        })
    }

    pub(super) fn slice(
        &mut self,
        lane: Lane,
        since_ns: u64,
        duration_ns: u64,
        body: &[u8],
    ) -> io::Result<()> {
        self.event(since_ns, event::BEGIN, lane.thread, body)?;
        self.event(since_ns + duration_ns, event::END, lane.thread, &[])
    }

    pub(super) fn instant(&mut self, lane: Lane, since_ns: u64, body: &[u8]) -> io::Result<()> {
        self.event(since_ns, event::INSTANT, lane.thread, body)
    }

    pub(super) fn counter(
        &mut self,
        process: u64,
        since_ns: u64,
        name: &str,
        key: &str,
        value: f64,
        new_id: impl FnOnce() -> u64,
    ) -> io::Result<()> {
        let name = format!("{name} {key}");
        let track = match self.counters.get(&(process, name.clone())) {
            Some(track) => *track,
            None => {
                let uuid = new_id();
                self.track(uuid, |track| {
                    number(track, descriptor::PARENT, process);
                    bytes(track, descriptor::NAME, name.as_bytes());
                    bytes(track, descriptor::COUNTER, &[]);
                })?;
                self.counters.insert((process, name), uuid);
                uuid
            }
        };
        let mut body = Vec::with_capacity(10);
        real(&mut body, event::REAL_VALUE, value);
        self.event(since_ns, event::COUNTER, track, &body)
    }
}

pub(super) struct PerfettoBody(Vec<u8>);

impl PerfettoBody {
    pub(super) fn new(name: &str, category: &str) -> Self {
        let mut body = Vec::with_capacity(128);
        bytes(&mut body, event::CATEGORY, category.as_bytes());
        bytes(&mut body, event::NAME, name.as_bytes());
        Self(body)
    }

    fn annotation(&mut self, key: &str, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut about = Vec::with_capacity(32);
        bytes(&mut about, annotation::NAME, key.as_bytes());
        fill(&mut about);
        bytes(&mut self.0, event::ANNOTATION, &about);
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.annotation(key, |about| bytes(about, annotation::TEXT, value.as_bytes()));
    }

    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.annotation(key, |about| number(about, annotation::UNSIGNED, value));
    }

    pub(super) fn micros(&mut self, key: &str, nanos: u64) {
        self.annotation(key, |about| real(about, annotation::REAL, nanos as f64 / 1_000.0));
    }

    pub(super) fn done(self) -> Box<[u8]> {
        self.0.into_boxed_slice()
    }
}

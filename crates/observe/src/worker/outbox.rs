//! The worker's output: messages, and a ring for each stream of inferences.

use std::collections::BTreeMap;
use std::time::Duration;

use ortscope_channel::{FrameKind, RingWriter};
use ortscope_core::clock::now_ns;
use ortscope_core::identity::ProcessIdentity;
use ortscope_sources::own_usage;

use crate::measure::plan::WorkerPlan;
use ortscope_analyze::facts::{Fact, FactRecord, MemoryStage};
use ortscope_core::failure::Failure;

/// Capacity for messages, which are few and wait for free space.
const MESSAGE_RING_BYTES: u64 = 1 << 20;
/// Capacity for the records of all streams: 95,000 inferences, read 20 times a second. A reader that is delayed by 100 ms
/// loses nothing even of the smallest model.
const STREAM_RINGS_BYTES: u64 = 8 << 20;
/// Minimum for one stream.
const MIN_STREAM_RING_BYTES: u64 = 1 << 18;
/// Capacity for hundreds of arena samples.
const ARENA_RING_BYTES: u64 = 1 << 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// All rings are created and their pages touched before the measurement: their memory is then a known constant that is
/// excluded from the model's memory.
#[derive(Debug)]
pub struct Outbox {
    /// The first session, which names the measurement that the facts belong to.
    session_id: String,
    messages: RingWriter,
    streams: BTreeMap<u16, RingWriter>,
    /// A ring has one writer, and the arena has its own thread.
    arena: Option<RingWriter>,
    own_bytes: u64,
}

impl Outbox {
    pub fn open(plan: &WorkerPlan) -> Result<Self, Failure> {
        let start = own_usage().map_or(0, |usage| usage.identity.start);
        let owner = ProcessIdentity { pid: std::process::id(), start };
        let count = plan.scenario.streams().max(1);
        let share = (STREAM_RINGS_BYTES / u64::from(count)).next_power_of_two().max(MIN_STREAM_RING_BYTES);
        // A recording distinguishes the rings of all its workers by name.
        let ring = |name: &str, capacity| {
            let name = format!("{name}-{}", owner.pid);
            RingWriter::create(&plan.channel, &name, capacity, owner).map_err(Failure::internal)
        };
        let messages = ring("messages", MESSAGE_RING_BYTES)?;
        let mut streams = BTreeMap::new();
        for number in 0..count {
            streams.insert(number, ring(&format!("stream-{number}"), share)?);
        }
        let arena = plan.arena_every_ns.map(|_| ring("arena", ARENA_RING_BYTES)).transpose()?;
        let rings = [&messages].into_iter().chain(streams.values()).chain(&arena);
        let own_bytes = rings.map(RingWriter::resident_bytes).sum::<u64>();
        let session_id = session_id(plan);
        let mut outbox = Self { session_id, messages, streams, arena, own_bytes };
        outbox.send(Fact::OwnMemory { bytes: own_bytes });
        Ok(outbox)
    }

    /// Takes the ring of a stream.
    pub fn take_stream(&mut self, number: u16) -> Result<RingWriter, Failure> {
        self.streams
            .remove(&number)
            .ok_or_else(|| Failure::internal(format!("there is no ring for stream {number}")))
    }

    /// Takes the ring for arena samples; none unless the plan asks for it.
    pub fn take_arena(&mut self) -> Option<RingWriter> {
        self.arena.take()
    }

    /// A fact that does not get through is counted by the ring.
    pub fn send(&mut self, fact: Fact) {
        send_through(&mut self.messages, self.session_id.clone(), fact);
    }

    pub fn memory(&mut self, stage: MemoryStage) {
        // Without the counter nothing is sent, and the report says that it is unavailable.
        if let Ok(usage) = own_usage() {
            self.send(Fact::Memory {
                stage,
                working_set_bytes: usage.working_set_bytes.saturating_sub(self.own_bytes),
                peak_working_set_bytes: usage
                    .peak_working_set_bytes
                    .map(|bytes| bytes.saturating_sub(self.own_bytes)),
            });
        }
    }

    pub fn steady(&mut self, begin: bool) {
        let cpu_time_ns = own_usage().map_or(0, |usage| usage.cpu_time_ns);
        self.send(Fact::Steady { begin, timestamp_ns: now_ns(), cpu_time_ns });
    }
}

/// The identifier that the facts of a measurement carry.
pub fn session_id(plan: &WorkerPlan) -> String {
    plan.session_ids.first().cloned().unwrap_or_default()
}

pub fn send_through(ring: &mut RingWriter, session_id: String, fact: Fact) {
    match serde_json::to_vec(&FactRecord { session_id, fact }) {
        Ok(text) => {
            ring.write_or_wait(FrameKind::MESSAGE, &text, PATIENCE);
        }
        Err(error) => tracing::error!(%error, "a fact could not be written"),
    }
}

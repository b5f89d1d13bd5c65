//! The worker's messages to its supervisor.

use std::path::Path;
use std::time::Duration;

use ortscope_channel::{FrameKind, RingWriter};
use ortscope_core::clock::now_nanos;
use ortscope_core::identity::ProcessIdentity;
use ortscope_sources::own_usage;

use crate::exit::Failure;
use crate::measure::protocol::{MemoryStage, WorkerMessage};

/// Room for messages; they are few, and written with patience.
const MESSAGE_RING_BYTES: u64 = 1 << 20;
/// Room for the records of all streams: 190,000 inferences, while the reader comes 20 times a second. Even a reader
/// that is held up for most of a second loses nothing of the smallest model.
const STREAM_RINGS_BYTES: u64 = 16 << 20;
/// The least for one stream.
const MIN_STREAM_RING_BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Outbox {
    ring: RingWriter,
    owner: ProcessIdentity,
}

impl Outbox {
    pub fn open(channel: &Path) -> Result<Self, Failure> {
        let start = own_usage().map_or(0, |usage| usage.identity.start);
        let owner = ProcessIdentity { pid: std::process::id(), start };
        let ring =
            RingWriter::create(channel, "messages", MESSAGE_RING_BYTES, owner).map_err(Failure::internal)?;
        Ok(Self { ring, owner })
    }

    /// A ring for one stream of inferences, of `streams` in all.
    pub fn stream(&self, channel: &Path, number: u16, streams: u16) -> Result<RingWriter, Failure> {
        let share = STREAM_RINGS_BYTES / u64::from(streams.max(1));
        let capacity = share.next_power_of_two().max(MIN_STREAM_RING_BYTES);
        RingWriter::create(channel, &format!("stream-{number}"), capacity, self.owner)
            .map_err(Failure::internal)
    }

    /// A message that does not get through is counted by the ring.
    pub fn send(&mut self, message: &WorkerMessage) {
        match serde_json::to_vec(message) {
            Ok(text) => {
                self.ring.write_or_wait(FrameKind::MESSAGE, &text, PATIENCE);
            }
            Err(error) => tracing::error!(%error, "a message could not be written"),
        }
    }

    pub fn memory(&mut self, stage: MemoryStage) {
        // Systems without the counter send nothing; the report says that it is unavailable.
        if let Ok(usage) = own_usage() {
            self.send(&WorkerMessage::Memory {
                stage,
                working_set_bytes: usage.working_set_bytes,
                peak_working_set_bytes: usage.peak_working_set_bytes,
            });
        }
    }

    pub fn steady(&mut self, begin: bool) {
        let cpu_time_nanos = own_usage().map_or(0, |usage| usage.cpu_time_nanos);
        self.send(&WorkerMessage::Steady { begin, timestamp_nanos: now_nanos(), cpu_time_nanos });
    }
}

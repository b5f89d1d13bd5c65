//! The writing side of a channel: one ring per thread, created when the thread first writes.
//!
//! A child of `fork` gets its own rings. It notices with its first write, at the cost of one memory load per write.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use ortscope_core::clock::now_ns;
use ortscope_core::identity::ProcessIdentity;

use crate::fork_guard::Incarnation;
use crate::frame::FrameKind;
use crate::last_ring::{LastRing, PlacedRing};
use crate::record::{InferenceRecord, PlainInference};
use crate::ring::{RingMemory, RingWriter, is_possible_capacity};
use crate::{ChannelError, private_files};

/// A thread whose ring could not be made tries again after this many records.
const RECORDS_UNTIL_RETRY: u64 = 4096;

/// The lock below is held for a few instructions at a time.
const LOCK_TRIES: usize = 10_000;

/// Distinguishes the writers of one process.
static NEXT_WRITER: AtomicU64 = AtomicU64::new(0);
/// Distinguishes the rings of one process.
static NEXT_RING: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The rings of this thread; nearly always one. Dropped, and so closed, when the thread ends.
    static RINGS: RefCell<Vec<ThreadRing>> = const { RefCell::new(Vec::new()) };
}

/// Writes into a channel from any thread of this process. Threads never wait for each other, nor for the observer.
#[derive(Debug)]
pub struct ChannelWriter {
    number: u64,
    directory: PathBuf,
    ring_bytes: u64,
    identity: fn() -> ProcessIdentity,
    /// The rings of all threads, to close them. Locked only when a thread makes its ring and when all are closed.
    made: Mutex<Vec<RingMemory>>,
}

#[derive(Debug)]
struct ThreadRing {
    writer: u64,
    maker: Incarnation,
    ring: Option<PlacedRing>,
    /// Records that were lost because there was no ring: (inferences, others).
    lost: (u64, u64),
}

impl ChannelWriter {
    /// `ring_bytes` is the capacity of each thread's ring, a power of two from 4 KiB to 1 GiB. When it is full,
    /// records are dropped and counted. `identity` is called for each ring, because a child of `fork` is another
    /// process.
    pub fn new(
        directory: &Path,
        ring_bytes: u64,
        identity: fn() -> ProcessIdentity,
    ) -> Result<Self, ChannelError> {
        if !is_possible_capacity(ring_bytes) {
            return Err(ChannelError::BadCapacity(ring_bytes));
        }
        private_files::create_directory(directory)?;
        let number = NEXT_WRITER.fetch_add(1, Ordering::Relaxed);
        Ok(Self { number, directory: directory.to_owned(), ring_bytes, identity, made: Mutex::default() })
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The address of this thread's ring; `last` is notified when the ring goes away.
    pub(crate) fn own_ring_known_to(&self, last: &'static LastRing) -> Option<NonNull<RingWriter>> {
        RINGS
            .try_with(|rings| {
                let mut rings = rings.borrow_mut();
                let known = rings.iter_mut().find(|known| known.writer == self.number)?;
                known.ring.as_mut().filter(|ring| ring.get().is_own()).map(|ring| ring.known_to(last))
            })
            .ok()
            .flatten()
    }

    /// Writes a record into this thread's ring; `false` if it was dropped and counted.
    #[inline]
    pub fn write_inference(&self, record: &InferenceRecord) -> bool {
        self.write(FrameKind::INFERENCE, &record.to_bytes())
    }

    /// The same in the short form.
    pub fn write_plain_inference(&self, record: PlainInference) -> bool {
        self.write(FrameKind::INFERENCE, record.to_words().map(u64::to_ne_bytes).as_flattened())
    }

    /// Writes a frame into this thread's ring; `false` if it was dropped and counted.
    #[inline]
    pub fn write(&self, kind: FrameKind, payload: &[u8]) -> bool {
        // A thread that is ending has no rings any more; nothing can be counted there either.
        RINGS.try_with(|rings| self.write_to(&mut rings.borrow_mut(), kind, payload)).unwrap_or(false)
    }

    #[inline]
    fn write_to(&self, rings: &mut Vec<ThreadRing>, kind: FrameKind, payload: &[u8]) -> bool {
        // There is nearly always only one; the others are searched below.
        if let Some(known) = rings.first_mut()
            && known.writer == self.number
            && let Some(ring) = known.ring.as_mut().map(PlacedRing::get_mut)
            && ring.is_own()
        {
            return ring.try_write(kind, payload);
        }
        self.write_to_other(rings, kind, payload)
    }

    #[cold]
    fn write_to_other(&self, rings: &mut Vec<ThreadRing>, kind: FrameKind, payload: &[u8]) -> bool {
        if let Some(known) = rings.iter_mut().find(|known| known.writer == self.number)
            && let Some(ring) = known.ring.as_mut().map(PlacedRing::get_mut)
            && ring.is_own()
        {
            return ring.try_write(kind, payload);
        }
        self.write_to_new(rings, kind, payload)
    }

    /// The first write of a thread, of a forked child, or of a thread whose ring could not be made.
    fn write_to_new(&self, rings: &mut Vec<ThreadRing>, kind: FrameKind, payload: &[u8]) -> bool {
        // Those of the parent, which dropping them here only unmaps, and those of writers that are gone.
        rings.retain(|known| {
            known.maker.is_current() && known.ring.as_ref().is_none_or(|ring| !ring.get().is_closed())
        });
        let index = rings.iter().position(|known| known.writer == self.number).unwrap_or_else(|| {
            let maker = Incarnation::current();
            rings.push(ThreadRing { writer: self.number, maker, ring: None, lost: (0, 0) });
            rings.len() - 1
        });
        let known = &mut rings[index];
        if (known.lost.0 + known.lost.1).is_multiple_of(RECORDS_UNTIL_RETRY)
            && let Ok(mut ring) = self.make_ring()
        {
            ring.add_losses(FrameKind::INFERENCE, known.lost.0);
            ring.add_losses(FrameKind::MESSAGE, known.lost.1);
            let written = ring.try_write(kind, payload);
            known.ring = Some(PlacedRing::new(ring));
            known.lost = (0, 0);
            return written;
        }
        let lost = if kind == FrameKind::INFERENCE { &mut known.lost.0 } else { &mut known.lost.1 };
        *lost += 1;
        false
    }

    /// The name has the process id and a number; the time makes it differ from that of an earlier process with the same
    /// id, and of one in another container.
    fn make_ring(&self) -> Result<RingWriter, ChannelError> {
        let owner = (self.identity)();
        let number = NEXT_RING.fetch_add(1, Ordering::Relaxed);
        let name = format!("process-{}-{:x}-{number}", owner.pid, now_ns());
        let ring = RingWriter::create(&self.directory, &name, self.ring_bytes, owner)?;
        // One that is not in the list is closed when its thread ends.
        if let Some(mut made) = self.lock_made() {
            made.retain(RingMemory::is_mapped);
            made.push(ring.memory());
        }
        Ok(ring)
    }

    /// Marks the rings of all threads as closed; later writes may not be read.
    pub fn close(&self) {
        for ring in self.lock_made().iter().flat_map(|made| made.iter()) {
            ring.close();
        }
    }

    /// `None` in a child of `fork` whose parent held the lock at that moment: it is never released there.
    fn lock_made(&self) -> Option<MutexGuard<'_, Vec<RingMemory>>> {
        for _ in 0..LOCK_TRIES {
            match self.made.try_lock() {
                Ok(made) => return Some(made),
                Err(TryLockError::Poisoned(made)) => return Some(made.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }
}

impl Drop for ChannelWriter {
    /// Closes the rings of all threads. The memory of this thread's ring is released at once, that of the others when
    /// they next create a ring, or end.
    fn drop(&mut self) {
        self.close();
        RINGS
            .try_with(|rings| rings.borrow_mut().retain(|known| known.writer != self.number))
            .unwrap_or_default();
    }
}

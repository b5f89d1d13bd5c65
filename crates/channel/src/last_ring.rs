//! The ring of the thread that wrote last, found without thread-local storage.
//!
//! A program with an interpreter lock writes from one thread at a time, nearly always from the same one. The holder
//! of the lock keeps a [`LastRing`]. A thread is identified by a register ([`thread_marker`]); when it ends, its
//! rings are removed here before another thread can get its number.
#![expect(
    unsafe_code,
    reason = "a ring that belongs to a thread is reached by an address, and forgotten before it goes"
)]

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::channel_writer::ChannelWriter;
use crate::record::PlainInference;
use crate::ring::RingWriter;
use crate::shared_memory::{fetch, thread_marker};

/// See the module's description.
#[derive(Debug)]
pub struct LastRing {
    ring: AtomicPtr<RingWriter>,
    thread: AtomicUsize,
    /// Number of the writer whose ring it is.
    writer: AtomicU64,
    /// Per-thread data of the user.
    stream: AtomicU32,
}

/// A ring at an address that stays the same as long as it lives.
#[derive(Debug)]
pub(crate) struct PlacedRing {
    ring: NonNull<RingWriter>,
    known_to: Option<&'static LastRing>,
}

impl LastRing {
    pub const fn none() -> Self {
        Self {
            ring: AtomicPtr::new(null_mut()),
            thread: AtomicUsize::new(0),
            writer: AtomicU64::new(0),
            stream: AtomicU32::new(0),
        }
    }

    /// Has the next write look for its ring.
    pub fn forget(&self) {
        self.ring.store(null_mut(), Ordering::SeqCst);
    }

    /// Has the processor fetch the ring, while other work is done.
    #[inline]
    pub fn fetch(&self) {
        fetch(self.ring.load(Ordering::Relaxed).cast());
    }

    /// Writes a record into the calling thread's ring of `writer`; `false` if it was dropped and counted. `record` is given
    /// the stream that `stream` gave when the thread first wrote here.
    ///
    /// # Safety
    /// Calls for the same `LastRing` do not overlap; a lock that every caller holds is one way. In a child of `fork`,
    /// [`Self::forget`] was called before: the ring is still the parent's.
    #[inline]
    pub unsafe fn write(
        &'static self,
        writer: &ChannelWriter,
        stream: impl FnOnce() -> u16,
        record: impl FnOnce(u16) -> PlainInference,
    ) -> bool {
        let ring = self.ring.load(Ordering::Relaxed);
        if ring.is_null()
            || self.thread.load(Ordering::Relaxed) != thread_marker()
            || self.writer.load(Ordering::Relaxed) != writer.number()
        {
            let stream = stream();
            // SAFETY: the caller's.
            return unsafe { self.write_and_remember(writer, stream, record(stream)) };
        }
        // SAFETY: the ring lives: it belongs to the calling thread, which forgets it here before it ends or drops it; no
        // other reference exists, because only this thread makes one, for the length of one write.
        let ring = unsafe { &mut *ring };
        ring.fetch_next();
        ring.write_plain_inference(record(self.stream.load(Ordering::Relaxed) as u16))
    }

    #[cold]
    unsafe fn write_and_remember(
        &'static self,
        writer: &ChannelWriter,
        stream: u16,
        record: PlainInference,
    ) -> bool {
        let written = writer.write_plain_inference(record);
        // In this order: a ring that forgets itself meanwhile finds its own address here, or another, or none.
        self.ring.store(null_mut(), Ordering::SeqCst);
        if let Some(ring) = writer.own_ring_known_to(self) {
            self.thread.store(thread_marker(), Ordering::Relaxed);
            self.writer.store(writer.number(), Ordering::Relaxed);
            self.stream.store(u32::from(stream), Ordering::Relaxed);
            self.ring.store(ring.as_ptr(), Ordering::SeqCst);
        }
        written
    }
}

impl PlacedRing {
    pub fn new(ring: RingWriter) -> Self {
        Self { ring: NonNull::from(Box::leak(Box::new(ring))), known_to: None }
    }

    pub fn get(&self) -> &RingWriter {
        // SAFETY: out of a box that is dropped with `self`; a write through a `LastRing` is over when this is called, because
        // both happen on the thread that owns it.
        unsafe { self.ring.as_ref() }
    }

    pub fn get_mut(&mut self) -> &mut RingWriter {
        // SAFETY: as above.
        unsafe { self.ring.as_mut() }
    }

    fn forgotten_by(&self, last: &LastRing) {
        let own = self.ring.as_ptr();
        last.ring.compare_exchange(own, null_mut(), Ordering::SeqCst, Ordering::SeqCst).ok();
    }

    /// Its address; `last` is notified when it goes away.
    pub fn known_to(&mut self, last: &'static LastRing) -> NonNull<RingWriter> {
        // Only one is notified: a previous one forgets it now.
        if let Some(before) = self.known_to.replace(last).filter(|before| !std::ptr::eq(*before, last)) {
            self.forgotten_by(before);
        }
        self.ring
    }
}

impl Drop for PlacedRing {
    fn drop(&mut self) {
        if let Some(last) = self.known_to {
            self.forgotten_by(last);
        }
        // SAFETY: it came out of a box in `new`, and no reference to it remains.
        drop(unsafe { Box::from_raw(self.ring.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ortscope_core::identity::ProcessIdentity;

    use super::*;
    use crate::channel_reader::ChannelReader;
    use crate::record::{InferenceRecord, Phase};

    fn own() -> ProcessIdentity {
        ProcessIdentity { pid: std::process::id(), start: 1 }
    }

    fn plain(sequence: u64, stream: u16) -> PlainInference {
        PlainInference {
            start_ns: sequence * 10,
            run_ns: 5,
            sequence,
            batch_size: 2,
            stream,
            session: 1,
            phase: Phase::Steady,
            ok: true,
        }
    }

    fn recorded(directory: &Path) -> Vec<(u64, u16)> {
        let mut found = Vec::new();
        let mut reader = ChannelReader::new(directory);
        reader
            .drain(|_, payload| {
                let record = InferenceRecord::from_bytes(payload).expect("a record");
                assert_eq!((record.start_ns, record.batch_size), (record.sequence * 10, 2));
                found.push((record.sequence, record.stream));
            })
            .expect("read");
        found.sort_unstable();
        found
    }

    /// A thread that reuses the number of an ended one must not write to that one's ring, which is no longer mapped.
    #[test]
    fn each_thread_writes_to_its_own_ring_after_others_ended() {
        static LAST: LastRing = LastRing::none();
        let directory = tempfile::tempdir().expect("a directory");
        let writer = ChannelWriter::new(directory.path(), 4096, own).expect("a writer");
        for thread in 0..20_u16 {
            std::thread::scope(|scope| {
                let writes = scope.spawn(|| {
                    for run in 0..3 {
                        let sequence = u64::from(thread) * 3 + run;
                        // SAFETY: one thread after the other.
                        assert!(unsafe { LAST.write(&writer, || thread, |stream| plain(sequence, stream)) });
                    }
                });
                writes.join().expect("it writes");
            });
            assert!(LAST.ring.load(Ordering::SeqCst).is_null(), "a thread that ended is forgotten");
        }
        let expected: Vec<_> = (0..60).map(|sequence| (sequence, (sequence / 3) as u16)).collect();
        assert_eq!(recorded(directory.path()), expected);
    }

    #[test]
    fn another_writer_is_not_mistaken_for_the_last_one() {
        static LAST: LastRing = LastRing::none();
        let directories = [tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two")];
        let writers = directories
            .each_ref()
            .map(|directory| ChannelWriter::new(directory.path(), 4096, own).expect("a writer"));
        for sequence in 0..10 {
            for (which, writer) in writers.iter().enumerate() {
                // SAFETY: one thread.
                unsafe { LAST.write(writer, || which as u16, |stream| plain(sequence, stream)) };
            }
            LAST.forget();
        }
        for (which, directory) in directories.iter().enumerate() {
            let expected: Vec<_> = (0..10).map(|sequence| (sequence, which as u16)).collect();
            assert_eq!(recorded(directory.path()), expected);
        }
    }

    /// 4096 bytes hold 64 records: the rest is counted, and there is space again after reading.
    #[test]
    fn records_without_space_are_counted() {
        static LAST: LastRing = LastRing::none();
        let directory = tempfile::tempdir().expect("a directory");
        let writer = ChannelWriter::new(directory.path(), 4096, own).expect("a writer");
        // SAFETY: one thread.
        let write = |sequence| unsafe { LAST.write(&writer, || 0, |stream| plain(sequence, stream)) };
        let written = (0..100).filter(|sequence| write(*sequence)).count() as u64;
        assert!((50..=64).contains(&written), "{written}");
        let mut reader = ChannelReader::new(directory.path());
        let drained = reader.drain(|_, _| {}).expect("read");
        assert_eq!(drained.lost.values().sum::<u64>(), 100 - written);
        assert!((100..130).all(write), "there is room again");
    }
}

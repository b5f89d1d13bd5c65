//! The ring of each processor: an array that programs write and we read through shared memory, without a system call.
//!
//! A program reserves the next number with an atomic addition, because an interrupt may run another program on the same
//! processor in between. It then writes the record and last its sequence number. If the ring is full it increments the
//! loss count instead: unread records are never overwritten, so the count is exact.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ortscope_core::kernel::{KernelEvent, SwitchReason, Task};

use super::asm::{Assembler, Helper, Label, Reg, Width};
use super::call;
use super::namespace::OUTSIDE;
use super::record::{self, at};
use crate::kernel::TraceError;
use crate::sys::merge::Lane;
use crate::sys::rights;
use crate::sys::shared::SharedMemory;

/// Control block of a ring. Fields written by the kernel and by us are in different cache lines.
const CONTROL_BYTES: usize = 128;
const HEAD: usize = 0;
const LOST: usize = 8;
const TAIL: usize = 64;
/// Kept free for programs that interrupt each other between the check and the addition.
const SLACK: usize = 32;
/// Space is returned to the programs in steps.
const RELEASE_EVERY: u64 = 256;
/// A smaller ring could not hold a burst.
const MIN_SLOTS: usize = 256;

/// The rings of all processors.
#[derive(Debug)]
pub struct Rings {
    control: OwnedFd,
    records: OwnedFd,
    slots: usize,
}

impl Rings {
    pub fn create(cpus: usize, bytes_per_cpu: usize) -> Result<Self, TraceError> {
        let slots = (bytes_per_cpu / record::BYTES).max(MIN_SLOTS);
        // Rounded down to a power of two, so that the index is a mask.
        let slots = 1 << slots.ilog2();
        let create = |label: &str, bytes: usize, entries: usize| {
            let (bytes, entries) = (u32::try_from(bytes), u32::try_from(entries));
            let (Ok(bytes), Ok(entries)) = (bytes, entries) else {
                return Err(TraceError::System {
                    what: "creating rings".to_owned(),
                    source: std::io::Error::other("too many processors"),
                });
            };
            call::create_array(label, bytes, entries)
                .map_err(|error| rights::bpf_error("tracing with BPF", error))
        };
        let control = create("ortscope_ctl", CONTROL_BYTES, cpus)?;
        let records = create("ortscope_ring", record::BYTES, cpus * slots)?;
        Ok(Self { control, records, slots })
    }

    pub fn bytes(&self, cpus: usize) -> usize {
        cpus * (self.slots * record::BYTES + CONTROL_BYTES)
    }

    /// The readers, one lane per processor.
    pub fn lanes(&self, cpus: usize) -> Result<Vec<RingLane>, TraceError> {
        let map = |descriptor: &OwnedFd, bytes: usize| {
            SharedMemory::map(descriptor, bytes.next_multiple_of(4096))
                .map(Arc::new)
                .map_err(|source| TraceError::System { what: "mapping the rings".to_owned(), source })
        };
        let control = map(&self.control, cpus * CONTROL_BYTES)?;
        let records = map(&self.records, cpus * self.slots * record::BYTES)?;
        let lane = |cpu: usize| RingLane {
            control: control.clone(),
            records: records.clone(),
            cpu: cpu as u32,
            slots: self.slots as u64,
            tail: 0,
            lost_before: 0,
            overwritten: 0,
            unknown: 0,
            running: None,
        };
        Ok((0..cpus).map(lane).collect())
    }

    /// Starts a program: afterwards R6 has the program's arguments, R8 the record and R9 its number. Jumps to the
    /// returned label, where the program ends, if the ring is full or `filter` decides so.
    pub fn reserve(
        &self,
        code: &mut Assembler,
        kind: i32,
        filter: impl FnOnce(&mut Assembler, Label),
    ) -> Label {
        use Reg::{R0, R1, R2, R6, R7, R8, R9};
        let (out, full) = (code.label(), code.label());
        let begin = code.label();
        code.mov(R6, R1);
        filter(code, out);
        code.call(Helper::SmpProcessorId);
        code.mov(R7, R0);
        lookup(code, &self.control, R0, out);
        code.mov(R8, R0);
        code.load(Width::U64, R1, R8, HEAD as i16);
        code.load(Width::U64, R2, R8, TAIL as i16);
        code.sub(R1, R2);
        code.jump_if_above(R1, (self.slots - SLACK - 1) as i32, full);
        code.mov_immediate(R9, 1);
        code.fetch_add(R8, HEAD as i16, R9);
        code.mov(R1, R9);
        code.and_immediate(R1, (self.slots - 1) as i32);
        code.shift_left(R7, self.slots.ilog2() as i32);
        code.add(R1, R7);
        lookup(code, &self.records, R1, out);
        code.mov(R8, R0);
        code.call(Helper::KtimeGetNs);
        code.store(Width::U64, R8, at::TIME, R0);
        code.store_immediate(Width::U32, R8, at::KIND, kind);
        code.jump(begin);
        code.place(full);
        code.mov_immediate(R1, 1);
        code.atomic_add(R8, LOST as i16, R1);
        code.jump(out);
        code.place(begin);
        out
    }

    /// Ends a program: publishes the record.
    pub fn commit(&self, code: &mut Assembler, out: Label) {
        use Reg::{R0, R8, R9};
        code.add_immediate(R9, 1);
        code.store_release(R8, at::SEQUENCE, R9);
        code.place(out);
        code.mov_immediate(R0, 0);
        code.exit();
    }
}

/// Looks up the entry with the number in `key`; R0 has its address.
pub fn lookup(code: &mut Assembler, map: &OwnedFd, key: Reg, missing: Label) {
    use Reg::{R0, R1, R2, R10};
    code.store(Width::U32, R10, -4, key);
    code.mov(R2, R10);
    code.add_immediate(R2, -4);
    code.load_map(R1, map.as_raw_fd());
    code.call(Helper::MapLookup);
    code.jump_if_zero(R0, missing);
}

/// The reader of one processor's ring.
#[derive(Debug)]
pub struct RingLane {
    control: Arc<SharedMemory>,
    records: Arc<SharedMemory>,
    cpu: u32,
    slots: u64,
    tail: u64,
    lost_before: u64,
    /// Records overwritten by later ones: only if programs interrupted each other beyond the slack.
    overwritten: u64,
    unknown: u64,
    /// In a container: the current thread. An exited and reaped thread has no id of ours in its last switch.
    running: Option<Task>,
}

impl RingLane {
    fn control(&self, offset: usize) -> &AtomicU64 {
        self.control.word(self.cpu as usize * CONTROL_BYTES + offset)
    }

    /// Returns the space of all read records.
    pub fn release(&self) {
        self.control(TAIL).store(self.tail, Ordering::Release);
    }

    /// Events lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        let lost = self.control(LOST).load(Ordering::Relaxed);
        let new = lost.wrapping_sub(self.lost_before) + std::mem::take(&mut self.overwritten);
        self.lost_before = lost;
        new
    }

    /// Records of an unknown kind since the last call.
    pub fn take_unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown)
    }
}

impl Lane for RingLane {
    #[inline]
    fn next(&mut self, until_ns: u64) -> Option<KernelEvent> {
        loop {
            let slot = self.cpu as u64 * self.slots + (self.tail & (self.slots - 1));
            let offset = slot as usize * record::BYTES;
            let sequence = self.records.word(offset).load(Ordering::Acquire);
            if sequence != self.tail + 1 {
                // Empty or unfinished; or overwritten, which must not block the lane forever.
                if sequence <= self.tail {
                    return None;
                }
                self.tail += 1;
                self.overwritten += 1;
                continue;
            }
            let words = self.records.words::<{ record::WORDS }>(offset);
            if words[1] > until_ns {
                return None;
            }
            self.tail += 1;
            if self.tail.is_multiple_of(RELEASE_EVERY) {
                self.release();
            }
            if let Some(mut event) = record::decode(&words, self.cpu) {
                if let KernelEvent::Switch(switch) = &mut event {
                    if switch.reason == SwitchReason::Ended
                        && switch.prev.tid & OUTSIDE != 0
                        && let Some(running) = self.running
                    {
                        switch.prev = running;
                    }
                    self.running = Some(switch.next);
                }
                return Some(event);
            }
            self.unknown += 1;
        }
    }
}

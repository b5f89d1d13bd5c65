//! Samples that wait for their stacks: a stack follows its event, and the definition of a stack key follows even later.

use std::collections::VecDeque;

use ortscope_core::kernel::{MAX_FRAMES, StackWalk};
use ortscope_etl::PointerSize;

use super::lifetimes::UNKNOWN_ID;
use super::sink::{EtwSink, Sample};

/// Limits for pending samples (13 MB) and their frames (8 MB): beyond these the oldest is emitted. Samples of idle
/// processors are the majority in a quiet trace: they have a queue of their own, so that they do not push out others.
const MAX_WAITING: usize = 1 << 17;
const MAX_WAITING_FRAMES: usize = 1 << 20;

/// Marks sample numbers among the tokens of all events, and those of idle processors among them.
const SAMPLE: u64 = 1 << 63;
const IDLE: u64 = 1 << 62;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleCounts {
    pub samples: u64,
    pub with_stack: u64,
    /// Stacks whose sample was already emitted because too many were pending.
    pub late_stacks: u64,
    /// Frames beyond the limit.
    pub dropped_frames: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Sample>,
    /// The number of the first pending sample.
    first: u64,
}

#[derive(Debug, Default)]
pub(super) struct Samples {
    busy: Queue,
    idle: Queue,
    /// In both queues.
    frames: usize,
    pub counts: SampleCounts,
}

/// Whether an address belongs to the kernel: the upper half of the address space.
pub(super) fn is_kernel(address: u64, pointer_size: PointerSize) -> bool {
    match pointer_size {
        PointerSize::Four => address >= 1 << 31,
        PointerSize::Eight => address >= 1 << 63,
    }
}

pub(super) fn split(
    addresses: impl Iterator<Item = u64>,
    pointer_size: PointerSize,
    kernel: &mut Vec<u64>,
    user: &mut Vec<u64>,
) -> u64 {
    let mut left_out = 0;
    for address in addresses {
        let frames = if is_kernel(address, pointer_size) { &mut *kernel } else { &mut *user };
        if frames.len() < MAX_FRAMES {
            frames.push(address);
        } else {
            left_out += 1;
        }
    }
    left_out
}

impl Samples {
    /// Queues a sample; returns the token of its stacks.
    pub fn push<S: EtwSink + ?Sized>(
        &mut self,
        sample: Sample,
        pointer_size: PointerSize,
        sink: &mut S,
    ) -> u64 {
        self.counts.samples += 1;
        let is_idle = sample.cpu.thread.is_idle();
        if self.queue(is_idle).waiting.len() >= MAX_WAITING || self.frames >= MAX_WAITING_FRAMES {
            self.emit_oldest(is_idle, pointer_size, sink);
        }
        let queue = self.queue(is_idle);
        queue.waiting.push_back(sample);
        SAMPLE | if is_idle { IDLE } else { 0 } | (queue.first + queue.waiting.len() as u64 - 1)
    }

    fn queue(&mut self, is_idle: bool) -> &mut Queue {
        if is_idle { &mut self.idle } else { &mut self.busy }
    }

    pub fn is_sample(token: u64) -> bool {
        token & SAMPLE != 0
    }

    pub fn attach(
        &mut self,
        token: u64,
        pid: Option<u32>,
        addresses: impl Iterator<Item = u64>,
        pointer_size: PointerSize,
    ) {
        let queue = if token & IDLE == 0 { &mut self.busy } else { &mut self.idle };
        let number = token & !(SAMPLE | IDLE);
        let place = number.checked_sub(queue.first).and_then(|place| usize::try_from(place).ok());
        let Some(sample) = place.and_then(|place| queue.waiting.get_mut(place)) else {
            self.counts.late_stacks += 1;
            return;
        };
        self.counts.with_stack += u64::from(!sample.has_stack);
        sample.has_stack = true;
        if sample.cpu.thread.pid == UNKNOWN_ID
            && let Some(pid) = pid
        {
            sample.cpu.thread.pid = pid;
        }
        let before = sample.cpu.kernel.len() + sample.cpu.user.len();
        self.counts.dropped_frames +=
            split(addresses, pointer_size, &mut sample.cpu.kernel, &mut sample.cpu.user);
        self.frames += sample.cpu.kernel.len() + sample.cpu.user.len() - before;
    }

    fn emit_oldest<S: EtwSink + ?Sized>(&mut self, is_idle: bool, pointer_size: PointerSize, sink: &mut S) {
        let queue = self.queue(is_idle);
        let Some(mut sample) = queue.waiting.pop_front() else { return };
        queue.first += 1;
        self.frames -= sample.cpu.kernel.len() + sample.cpu.user.len();
        if sample.cpu.kernel.is_empty() && sample.cpu.user.is_empty() {
            let ip = sample.instruction_pointer;
            let frames =
                if is_kernel(ip, pointer_size) { &mut sample.cpu.kernel } else { &mut sample.cpu.user };
            frames.push(ip);
        }
        sample.cpu.walk = match (sample.cpu.user.is_empty() || !sample.has_stack, pointer_size) {
            (true, _) => StackWalk::None,
            (false, PointerSize::Four) => StackWalk::FramePointers,
            (false, PointerSize::Eight) => StackWalk::Tables,
        };
        sink.sample(&sample);
    }

    /// Emits samples from before a time: their stacks had time to arrive.
    pub fn settle<S: EtwSink + ?Sized>(&mut self, before_ns: u64, pointer_size: PointerSize, sink: &mut S) {
        for is_idle in [false, true] {
            let is_old =
                |queue: &Queue| queue.waiting.front().is_some_and(|sample| sample.cpu.at_ns < before_ns);
            while is_old(self.queue(is_idle)) {
                self.emit_oldest(is_idle, pointer_size, sink);
            }
        }
    }

    pub fn finish<S: EtwSink + ?Sized>(&mut self, pointer_size: PointerSize, sink: &mut S) {
        for is_idle in [false, true] {
            while !self.queue(is_idle).waiting.is_empty() {
                self.emit_oldest(is_idle, pointer_size, sink);
            }
        }
    }
}

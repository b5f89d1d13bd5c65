//! Samples that wait for their stacks: a stack follows its event, the meaning of a stack's key follows later still.

use std::collections::VecDeque;

use ortscope_core::kernel::{MAX_FRAMES, StackWalk};
use ortscope_etl::PointerSize;

use super::lives::UNKNOWN_ID;
use super::sink::{EtwSink, Sample};

/// Samples that wait (13 MB), and frames of all of them (8 MB): the oldest is given away when there are more. Those of idle
/// processors are most of a quiet trace: they wait apart, as many, so that they drive no others out.
const MAX_WAITING: usize = 1 << 17;
const MAX_WAITING_FRAMES: usize = 1 << 20;

/// Marks the numbers of samples among the tokens of all events, and those of idle processors among them.
const SAMPLE: u64 = 1 << 63;
const IDLE: u64 = 1 << 62;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleCounts {
    pub samples: u64,
    pub with_stack: u64,
    /// Stacks whose sample was given away already, because too many waited.
    pub late_stacks: u64,
    /// Frames beyond the deepest that are kept.
    pub frames_left_out: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Sample>,
    /// The number of the first that waits.
    first: u64,
}

#[derive(Debug, Default)]
pub(super) struct Samples {
    busy: Queue,
    idle: Queue,
    /// In both.
    frames: usize,
    pub counts: SampleCounts,
}

/// Whether an address is the kernel's: the upper half of the address space.
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
    /// Keeps a sample; the token with which its stacks come.
    pub fn push<S: EtwSink + ?Sized>(
        &mut self,
        sample: Sample,
        pointer_size: PointerSize,
        sink: &mut S,
    ) -> u64 {
        self.counts.samples += 1;
        let is_idle = sample.cpu.thread.is_idle();
        if self.queue(is_idle).waiting.len() >= MAX_WAITING || self.frames >= MAX_WAITING_FRAMES {
            self.give(is_idle, pointer_size, sink);
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
        self.counts.frames_left_out +=
            split(addresses, pointer_size, &mut sample.cpu.kernel, &mut sample.cpu.user);
        self.frames += sample.cpu.kernel.len() + sample.cpu.user.len() - before;
    }

    fn give<S: EtwSink + ?Sized>(&mut self, is_idle: bool, pointer_size: PointerSize, sink: &mut S) {
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

    /// Gives away those from before a moment: their stacks had time to come.
    pub fn settle<S: EtwSink + ?Sized>(&mut self, before_ns: u64, pointer_size: PointerSize, sink: &mut S) {
        for is_idle in [false, true] {
            let is_old =
                |queue: &Queue| queue.waiting.front().is_some_and(|sample| sample.cpu.at_ns < before_ns);
            while is_old(self.queue(is_idle)) {
                self.give(is_idle, pointer_size, sink);
            }
        }
    }

    pub fn finish<S: EtwSink + ?Sized>(&mut self, pointer_size: PointerSize, sink: &mut S) {
        for is_idle in [false, true] {
            while !self.queue(is_idle).waiting.is_empty() {
                self.give(is_idle, pointer_size, sink);
            }
        }
    }
}

//! Stack samples from perf's clock: which functions programs spend their time in.

mod images;
mod open;
mod spaces;

use std::collections::HashSet;

use ortscope_core::clock::now_ns;
use ortscope_core::kernel::{CpuSample, Frame, FrameId, FrameKind, MAX_FRAMES, StackProfile, StackWalk};
use ortscope_decode::perf_record_samples::{self as records, Sample, SampleRecord};
use ortscope_decode::symbols::{NameList, parse_kallsyms};
use ortscope_decode::unwind::{Machine, Snapshot};

use self::open::Opened;
use self::spaces::Spaces;
use super::perf_raw::Next;
use crate::kernel::{SampleCounts, SampleOptions, TraceError};

/// A CPython function that exists only because of sampling: it wraps every Python function.
const PYTHON_SUPPORT: &str = "py_trampoline_evaluator";

/// Samples until it is dropped.
#[derive(Debug)]
pub struct SampleTrace {
    opened: Opened,
    spaces: Spaces,
    /// Set only if whole processors are sampled.
    watched: Option<HashSet<u32>>,
    kernel_names: Option<NameList>,
    counts: SampleCounts,
    /// Records of one drain: (time, start, end) in the buffer.
    order: Vec<(u64, usize, usize)>,
    bytes: Vec<u8>,
}

impl SampleTrace {
    /// Starts sampling with everything that is permitted. The error names the privilege missing for the minimum.
    pub fn open(options: &SampleOptions) -> Result<Self, TraceError> {
        let opened = open::open(options)?;
        let machine = Machine::native().filter(|_| opened.sampling.stack.is_some());
        let mut spaces = Spaces::new(machine);
        // After opening the events, which report later mappings.
        for pid in &options.pids {
            spaces.add_running(*pid);
        }
        let watched = opened.is_machine_wide.then(|| options.pids.iter().copied().collect());
        Ok(Self {
            opened,
            spaces,
            watched,
            kernel_names: None,
            counts: SampleCounts::default(),
            order: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Samples per second on each processor.
    pub fn hertz(&self) -> u32 {
        u32::try_from(self.opened.sampling.hertz).unwrap_or(u32::MAX)
    }

    /// What is not sampled, and why.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = self.opened.missing.clone();
        if self.kernel_names.as_ref().is_some_and(NameList::is_empty) {
            let why = "/proc/kallsyms hides addresses (kernel.kptr_restrict, or CAP_SYSLOG is missing)";
            missing.push(format!("names of kernel functions: {why}"));
        }
        let images = &self.spaces.images;
        if images.replaced > 0 {
            let count = images.replaced;
            missing.push(format!(
                "names of functions in {count} files that were replaced or deleted after they were mapped"
            ));
        }
        if images.unreadable > 0 {
            missing.push(format!("names of functions in {} files that cannot be read", images.unreadable));
        }
        missing
    }

    pub fn counts(&self) -> SampleCounts {
        self.counts
    }

    /// Adds all samples since the last drain to a profile in chronological order, and passes each one on with its
    /// innermost function.
    pub fn drain(&mut self, profile: &mut StackProfile, each: &mut dyn FnMut(&CpuSample, Option<FrameId>)) {
        let until_ns = now_ns();
        self.collect(until_ns);
        // A file mapped on one processor may be needed for samples of another.
        self.order.sort_by_key(|(at_ns, ..)| *at_ns);
        let order = std::mem::take(&mut self.order);
        let bytes = std::mem::take(&mut self.bytes);
        let mut fresh = HashSet::new();
        for (at_ns, from, to) in &order {
            self.handle_record(&bytes[*from..*to], *at_ns, profile, &mut fresh, each);
        }
        self.spaces.forget_ended();
        (self.order, self.bytes) = (order, bytes);
    }

    /// The last drain: everything is already in the rings.
    pub fn finish(&mut self, profile: &mut StackProfile, each: &mut dyn FnMut(&CpuSample, Option<FrameId>)) {
        self.drain(profile, each);
    }

    /// Copies the contents of the rings.
    fn collect(&mut self, until_ns: u64) {
        self.order.clear();
        self.bytes.clear();
        for ring in &mut self.opened.rings {
            loop {
                let length = match ring.peek() {
                    Next::Nothing => break,
                    Next::Record(length) => length,
                    Next::Damaged => {
                        self.counts.damaged += 1;
                        break;
                    }
                };
                let from = self.bytes.len();
                self.bytes.resize(from + length, 0);
                ring.copy(&mut self.bytes[from..]);
                let at_ns = records::time_ns(&self.bytes[from..]).unwrap_or(0);
                if at_ns > until_ns {
                    self.bytes.truncate(from);
                    break;
                }
                ring.skip(length);
                self.order.push((at_ns, from, from + length));
            }
            ring.release();
        }
    }

    fn handle_record(
        &mut self,
        record: &[u8],
        at_ns: u64,
        profile: &mut StackProfile,
        fresh: &mut HashSet<u32>,
        each: &mut dyn FnMut(&CpuSample, Option<FrameId>),
    ) {
        let register_count = self.spaces.machine.map_or(0, Machine::register_count);
        match records::decode(record, register_count) {
            SampleRecord::Sample(sample)
                if self.watched.as_ref().is_none_or(|watched| watched.contains(&sample.thread.pid)) =>
            {
                self.sample(&sample, at_ns, profile, fresh, each);
            }
            SampleRecord::Mapped(mapped) if self.spaces.knows(mapped.pid) => {
                if let Some((space, _)) = self.spaces.get(mapped.pid) {
                    space.map(&mapped);
                }
            }
            SampleRecord::Named { thread, name, is_exec } if self.spaces.knows(thread.pid) => {
                if is_exec {
                    self.spaces.exec(thread.pid, &name.to_string());
                } else if thread.tid == thread.pid
                    && let Some((space, _)) = self.spaces.get(thread.pid)
                {
                    space.rename(&name.to_string());
                }
            }
            SampleRecord::Forked { thread, parent } if thread.pid != parent.pid => {
                if let Some(watched) = &mut self.watched
                    && watched.contains(&parent.pid)
                {
                    watched.insert(thread.pid);
                }
                self.spaces.fork(parent.pid, thread.pid);
            }
            SampleRecord::Exited { thread } if thread.pid == thread.tid => self.spaces.end(thread.pid),
            SampleRecord::Lost(lost) => self.counts.lost += lost,
            SampleRecord::Throttled => self.counts.throttled += 1,
            SampleRecord::Damaged => self.counts.damaged += 1,
            _ => {}
        }
    }

    fn sample(
        &mut self,
        sample: &Sample<'_>,
        at_ns: u64,
        profile: &mut StackProfile,
        fresh: &mut HashSet<u32>,
        each: &mut dyn FnMut(&CpuSample, Option<FrameId>),
    ) {
        self.counts.samples += 1;
        let pid = sample.thread.pid;
        let Some((space, images)) = self.spaces.get(pid) else { return };
        space.read(images);
        // JIT-compiled code grows while it runs.
        if fresh.insert(pid) {
            space.refresh_jit(now_ns());
        }
        let mut user = sample.user.clone();
        let mut walk = if user.is_empty() { StackWalk::None } else { StackWalk::FramePointers };
        if !sample.registers.is_empty()
            && let Some((frames, is_whole)) =
                space.walk(Snapshot { registers: &sample.registers, stack: sample.stack })
            && (is_whole || frames.len() >= user.len())
        {
            walk = if is_whole { StackWalk::Tables } else { StackWalk::TablesCut };
            user = frames;
        }
        match walk {
            StackWalk::None => {}
            StackWalk::FramePointers => self.counts.by_frame_pointers += 1,
            StackWalk::Tables => self.counts.by_tables += 1,
            StackWalk::TablesCut => self.counts.cut += 1,
        }
        user.truncate(MAX_FRAMES);
        let note = |name: &str| Frame { name: name.into(), module: "".into(), kind: FrameKind::Note };
        let process = Frame { name: space.name.clone(), module: "".into(), kind: FrameKind::Process };
        let mut stack = vec![profile.frame(process)];
        if walk == StackWalk::TablesCut {
            stack.push(profile.frame(note("(callers unknown)")));
        }
        for (index, address) in user.iter().enumerate().rev() {
            // A return address follows the call and may belong to the next function.
            let address = if index == 0 { *address } else { address.saturating_sub(1) };
            let frame = space.frame(address);
            if &*frame.name != PYTHON_SUPPORT {
                stack.push(profile.frame(frame));
            }
        }
        for (index, address) in sample.kernel.iter().enumerate().rev() {
            let names = self.kernel_names.get_or_insert_with(read_kernel_names);
            let address = if index == 0 { *address } else { address.saturating_sub(1) };
            let name = names.find(address).map_or("[kernel]", |(_, name)| name);
            let frame = Frame { name: name.into(), module: "kernel".into(), kind: FrameKind::Kernel };
            stack.push(profile.frame(frame));
        }
        profile.add(&stack);
        let leaf = stack.last().copied().filter(|_| stack.len() > 1);
        let kernel = sample.kernel.clone();
        each(&CpuSample { at_ns, cpu: sample.cpu, thread: sample.thread, kernel, user, walk }, leaf);
    }
}

fn read_kernel_names() -> NameList {
    parse_kallsyms(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
}

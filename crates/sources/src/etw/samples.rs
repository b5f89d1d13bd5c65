//! Live CPU samples with stacks, from a separate session with timer samples.
//!
//! Windows walks the stacks. Frames are offsets in a program or library; function names would need symbol files, which
//! Windows programs do not include.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ortscope_core::kernel::threads::Limits;
use ortscope_core::kernel::{CpuSample, Frame, FrameId, FrameKind, StackProfile, StackWalk};
use ortscope_decode::etw::{EtwSink, Image, ImageMoment, KERNEL_PROCESSES, Modules, ProcessLife, Sample};

use super::{EtwApi, EtwError, KernelFlags, LiveSession, ProcessFilter, Settings};
use crate::kernel::{SampleCounts, SampleOptions, TraceError};

/// The stack of a program follows its sample when the thread leaves the kernel; one that did not come by then has none.
const STACKS_WITHIN_NS: u64 = 2_000_000_000;
/// Windows samples at most so often.
const MAX_HERTZ: u32 = 8_192;
/// Names of processes: 65,536.
const MAX_NAMES: usize = 1 << 16;

/// Samples from the moment it is opened until it is dropped.
#[derive(Debug)]
pub struct EtwSamples {
    session: LiveSession,
    taken: Taken,
    /// Why nothing came any more before we ended it.
    ended: Option<String>,
}

#[derive(Debug)]
struct Taken {
    watched: HashSet<u32>,
    with_kernel: bool,
    modules: Modules,
    names: HashMap<u32, Arc<str>>,
    counts: SampleCounts,
    with_stack: u64,
}

/// Adds samples to a profile as they come.
struct Sink<'a> {
    taken: &'a mut Taken,
    profile: &'a mut StackProfile,
    each: &'a mut dyn FnMut(&CpuSample, Option<FrameId>),
}

impl EtwSink for Sink<'_> {
    fn process_begins(&mut self, process: &ProcessLife) {
        let taken = &mut *self.taken;
        // Children of those who are watched are watched, from their start.
        if process.start_ns.is_some() && taken.watched.contains(&process.parent_pid) {
            taken.watched.insert(process.pid);
        }
        if taken.names.len() < MAX_NAMES || taken.names.contains_key(&process.pid) {
            taken.names.insert(process.pid, process.image_name.as_str().into());
        }
    }

    fn image(&mut self, image: &Image) {
        let is_wanted = KERNEL_PROCESSES.contains(&image.pid) || self.taken.watched.contains(&image.pid);
        if is_wanted && image.moment != ImageMoment::Unload {
            self.taken.modules.add(image.pid, image.base, image.bytes, &image.path);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let Taken { watched, with_kernel, modules, names, counts, with_stack } = &mut *self.taken;
        let pid = sample.cpu.thread.pid;
        if !watched.contains(&pid) {
            return;
        }
        counts.samples += u64::from(sample.count.max(1));
        *with_stack += u64::from(sample.has_stack);
        match sample.cpu.walk {
            StackWalk::None => {}
            StackWalk::FramePointers => counts.by_frame_pointers += 1,
            StackWalk::Tables => counts.by_tables += 1,
            StackWalk::TablesCut => counts.cut += 1,
        }
        let name = names.get(&pid).cloned().unwrap_or_else(|| format!("process {pid}").into());
        let mut stack = vec![self.profile.frame(Frame { name, module: "".into(), kind: FrameKind::Process })];
        let cpu = &sample.cpu;
        let innermost = if cpu.kernel.is_empty() { cpu.user.first() } else { cpu.kernel.first() };
        let mut frames = |addresses: &[u64], is_kernel: bool| {
            for address in addresses.iter().rev() {
                let is_return = innermost.is_some_and(|first| !std::ptr::eq(first, address));
                stack.push(self.profile.frame(modules.frame(pid, *address, is_kernel, is_return)));
            }
        };
        frames(&cpu.user, false);
        if *with_kernel {
            frames(&cpu.kernel, true);
        }
        for _ in 0..sample.count.max(1) {
            self.profile.add(&stack);
        }
        let leaf = stack.last().copied().filter(|_| stack.len() > 1);
        (self.each)(&sample.cpu, leaf);
    }
}

impl EtwSamples {
    /// With this system's own functions.
    pub fn open(options: &SampleOptions) -> Result<Self, TraceError> {
        match crate::etw_functions() {
            Some(api) => Self::with_functions(api, options),
            None => {
                Err(TraceError::Session(EtwError::NotSupported { why: "this is not Windows".to_owned() }))
            }
        }
    }

    pub fn with_functions(api: Arc<dyn EtwApi>, options: &SampleOptions) -> Result<Self, TraceError> {
        let settings = Settings {
            // Beside the session of kernel events that this process may have.
            name: format!("ortscope-{}-samples", std::process::id()),
            kernel: KernelFlags::PROCESS
                | KernelFlags::THREAD
                | KernelFlags::IMAGE_LOAD
                | KernelFlags::PROFILE,
            samples_per_second: options.hertz.clamp(1, MAX_HERTZ),
            stacks: true,
            // Children are found by their starts, and only this knows who is watched.
            filter: ProcessFilter::everything(),
            waiting_bytes: options.ring_bytes_total / 2,
            ..Settings::default()
        };
        super::close_orphans(&*api);
        let session = LiveSession::open(api, settings, Limits::default())?;
        let taken = Taken {
            watched: options.pids.iter().copied().collect(),
            with_kernel: options.kernel,
            modules: Modules::default(),
            names: HashMap::new(),
            counts: SampleCounts::default(),
            with_stack: 0,
        };
        Ok(Self { session, taken, ended: None })
    }

    /// Samples of each processor per second: what the session tells, or what it was asked for.
    pub fn hertz(&self) -> u32 {
        let told = self.session.decoder().sample_interval_ns().filter(|interval_ns| *interval_ns > 0);
        told.and_then(|interval_ns| u32::try_from(1_000_000_000 / interval_ns).ok())
            .unwrap_or(self.session.settings().samples_per_second)
    }

    /// What is not seen, and why.
    pub fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> = self.session.notes().iter().map(ToString::to_string).collect();
        missing.extend(self.ended.clone());
        let Taken { counts, with_stack, modules, .. } = &self.taken;
        if counts.samples > 0 {
            missing.push(
                "names of functions: they stand in files of symbols, which are not read; frames are places in programs and \
                 libraries"
                    .to_owned(),
            );
        }
        if counts.samples > 0 && *with_stack == 0 {
            missing.push("stacks: none came with any sample".to_owned());
        }
        if modules.dropped > 0 {
            missing.push(format!("{} images beyond the limit of those that are kept", modules.dropped));
        }
        missing
    }

    pub fn counts(&self) -> SampleCounts {
        SampleCounts { lost: self.session.losses().total(), ..self.taken.counts }
    }

    /// Adds all samples whose stacks had their time to come, and shows each one with the place it was in.
    pub fn drain(&mut self, profile: &mut StackProfile, each: &mut dyn FnMut(&CpuSample, Option<FrameId>)) {
        let mut sink = Sink { taken: &mut self.taken, profile, each };
        self.session.drain(&mut sink);
        self.session.settle_samples(STACKS_WITHIN_NS, &mut sink);
        self.ended = self.session.ended().map(str::to_owned);
    }

    /// The last drain: stops the session first, and waits for nothing more.
    pub fn finish(&mut self, profile: &mut StackProfile, each: &mut dyn FnMut(&CpuSample, Option<FrameId>)) {
        self.session.finish(&mut Sink { taken: &mut self.taken, profile, each });
    }
}

//! Live CPU samples with stacks, from a separate session with timer samples.
//!
//! Windows walks the stacks. Frames are offsets in a program or library; function names would need symbol files, which
//! Windows programs do not include.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ortscope_core::kernel::threads::Limits;
use ortscope_core::kernel::{CpuSample, Frame, FrameId, FrameKind, StackProfile, StackWalk};
use ortscope_decode::etw::{EtwSink, Image, ImageMoment, KERNEL_PROCESSES, Modules, ProcessLife, Sample};

use super::{EtwApi, KernelFlags, LiveSession, ProcessFilter, Settings};
use crate::kernel::{SampleCounts, SampleOptions, TraceError};

/// A user stack follows its sample when the thread leaves the kernel; after this time a sample has no stack.
const STACK_TIMEOUT_NS: u64 = 2_000_000_000;
/// Maximum sampling rate of Windows.
const MAX_HERTZ: u32 = 8_192;
/// Limit for process names: 65,536.
const MAX_NAMES: usize = 1 << 16;

/// Samples until it is dropped.
#[derive(Debug)]
pub struct EtwSamples {
    session: LiveSession,
    state: SampleState,
    /// Why events stopped arriving before we ended the session.
    ended: Option<String>,
}

#[derive(Debug)]
struct SampleState {
    watched: HashSet<u32>,
    with_kernel: bool,
    modules: Modules,
    names: HashMap<u32, Arc<str>>,
    counts: SampleCounts,
    with_stack: u64,
}

/// Adds samples to a profile.
struct Sink<'a> {
    state: &'a mut SampleState,
    profile: &'a mut StackProfile,
    each: &'a mut dyn FnMut(&CpuSample, Option<FrameId>),
}

impl EtwSink for Sink<'_> {
    fn process_begins(&mut self, process: &ProcessLife) {
        let state = &mut *self.state;
        // Children of watched processes are watched from their start.
        if process.start_ns.is_some() && state.watched.contains(&process.parent_pid) {
            state.watched.insert(process.pid);
        }
        if state.names.len() < MAX_NAMES || state.names.contains_key(&process.pid) {
            state.names.insert(process.pid, process.image_name.as_str().into());
        }
    }

    fn image(&mut self, image: &Image) {
        let is_wanted = KERNEL_PROCESSES.contains(&image.pid) || self.state.watched.contains(&image.pid);
        if is_wanted && image.moment != ImageMoment::Unload {
            self.state.modules.add(image.pid, image.base, image.bytes, &image.path);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let SampleState { watched, with_kernel, modules, names, counts, with_stack } = &mut *self.state;
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
            None => Err(TraceError::not_implemented("sampling processors with stacks")),
        }
    }

    pub fn with_functions(api: Arc<dyn EtwApi>, options: &SampleOptions) -> Result<Self, TraceError> {
        let settings = Settings {
            // In addition to this process's session for kernel events.
            name: format!("ortscope-{}-samples", std::process::id()),
            kernel: KernelFlags::PROCESS
                | KernelFlags::THREAD
                | KernelFlags::IMAGE_LOAD
                | KernelFlags::PROFILE,
            samples_per_second: options.hertz.clamp(1, MAX_HERTZ),
            stacks: true,
            // Children are found by their starts, which a filter would not know.
            filter: ProcessFilter::everything(),
            waiting_bytes: options.ring_bytes_total / 2,
            ..Settings::default()
        };
        super::close_orphans(&*api);
        let session = LiveSession::open(api, settings, Limits::default())?;
        let state = SampleState {
            watched: options.pids.iter().copied().collect(),
            with_kernel: options.kernel,
            modules: Modules::default(),
            names: HashMap::new(),
            counts: SampleCounts::default(),
            with_stack: 0,
        };
        Ok(Self { session, state, ended: None })
    }

    /// Samples per second on each processor: as reported by the session, or as requested.
    pub fn hertz(&self) -> u32 {
        let reported = self.session.decoder().sample_interval_ns().filter(|interval_ns| *interval_ns > 0);
        reported
            .and_then(|interval_ns| u32::try_from(1_000_000_000 / interval_ns).ok())
            .unwrap_or(self.session.settings().samples_per_second)
    }

    /// What is not sampled, and why.
    pub fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> = self.session.notes().iter().map(ToString::to_string).collect();
        missing.extend(self.ended.clone());
        let SampleState { counts, with_stack, modules, .. } = &self.state;
        if counts.samples > 0 {
            missing.push(
                "function names: symbol files are not read; frames are offsets in programs and \
                 libraries"
                    .to_owned(),
            );
        }
        if counts.samples > 0 && *with_stack == 0 {
            missing.push("stacks: no sample had one".to_owned());
        }
        if modules.dropped > 0 {
            missing.push(format!("{} images beyond the limit", modules.dropped));
        }
        missing
    }

    pub fn counts(&self) -> SampleCounts {
        SampleCounts { lost: self.session.losses().total(), ..self.state.counts }
    }

    /// Adds all samples whose stacks had time to arrive, and passes each one on with its innermost frame.
    pub fn drain(&mut self, profile: &mut StackProfile, each: &mut dyn FnMut(&CpuSample, Option<FrameId>)) {
        let mut sink = Sink { state: &mut self.state, profile, each };
        self.session.drain(&mut sink);
        self.session.settle_samples(STACK_TIMEOUT_NS, &mut sink);
        self.ended = self.session.ended().map(str::to_owned);
    }

    /// The last drain: stops the session first and waits for no more stacks.
    pub fn finish(&mut self, profile: &mut StackProfile, each: &mut dyn FnMut(&CpuSample, Option<FrameId>)) {
        self.session.finish(&mut Sink { state: &mut self.state, profile, each });
    }
}

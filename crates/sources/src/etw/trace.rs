//! Kernel events from an event tracing session, with the interface of other systems.

use std::collections::HashMap;
use std::sync::Arc;

use ortscope_core::kernel::threads::Limits;
use ortscope_core::kernel::{FileIo, ImageLoad, KernelEvent};
use ortscope_decode::etw::{
    EtwSink, FileOperation, FileSums, Image, ImageMoment, MAX_COUNTERS, SwitchDetail,
};

use super::{EtwApi, KernelFlags, LiveSession, Settings};
use crate::kernel::{
    Class, ClassUnavailable, CounterSum, DrainStats, ProgramCost, TraceBackend, TraceError, TraceOptions,
};

/// Limit for pending image loads.
const MAX_IMAGES: usize = 1 << 16;
/// Limit for processes with counter sums.
const MAX_COUNTED: usize = 1 << 14;
/// A flushed buffer is delivered within this time.
const DELIVERY_NS: u64 = 500_000_000;

/// Events of the whole machine until it is dropped.
#[derive(Debug)]
pub struct EtwTrace {
    session: LiveSession,
    unavailable: Vec<ClassUnavailable>,
    kept: Kept,
    notes_told: usize,
}

/// Data that is not emitted event by event.
#[derive(Debug, Default)]
struct Kept {
    wants_images: bool,
    images: Vec<ImageLoad>,
    images_lost: u64,
    wants_files: bool,
    files: FileSums,
    counters: HashMap<u32, [u64; MAX_COUNTERS]>,
    counters_lost: u64,
}

struct Sink<'a, F> {
    out: &'a mut F,
    kept: &'a mut Kept,
}

impl<F: FnMut(KernelEvent)> EtwSink for Sink<'_, F> {
    fn kernel(&mut self, event: &KernelEvent) {
        (self.out)(*event);
    }

    fn switch(&mut self, switch: &SwitchDetail<'_>) {
        let Some(counted) = switch.counted else { return };
        let (pid, counters) = (switch.switch.prev.pid, &mut self.kept.counters);
        if switch.switch.prev.is_idle() {
            return;
        }
        if counters.len() >= MAX_COUNTED && !counters.contains_key(&pid) {
            self.kept.counters_lost += 1;
            return;
        }
        for (sum, more) in counters.entry(pid).or_default().iter_mut().zip(counted) {
            *sum = sum.wrapping_add(*more);
        }
    }

    fn file(&mut self, operation: &FileOperation) {
        if self.kept.wants_files {
            self.kept.files.add(operation);
        }
    }

    fn image(&mut self, image: &Image) {
        if !self.kept.wants_images || image.moment == ImageMoment::Unload {
            return;
        }
        if self.kept.images.len() >= MAX_IMAGES {
            self.kept.images_lost += 1;
            return;
        }
        self.kept.images.push(image.load());
    }
}

impl EtwTrace {
    /// With this system's own functions.
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        match crate::etw_functions() {
            Some(api) => Self::with_functions(api, options),
            None => Err(TraceError::not_implemented("reading kernel events")),
        }
    }

    pub fn with_functions(api: Arc<dyn EtwApi>, options: &TraceOptions) -> Result<Self, TraceError> {
        let (mut kernel, mut unavailable) = (KernelFlags::ALWAYS, Vec::new());
        for &class in &options.classes {
            match KernelFlags::of_class(class) {
                Some(flags) => kernel = kernel | flags,
                None => unavailable.push(ClassUnavailable {
                    class,
                    why: "Windows has no event for it; every switch has its processor".to_owned(),
                }),
            }
        }
        // Distinct from the sessions of our other processes.
        let usual = || Settings { name: format!("ortscope-{}", std::process::id()), ..Settings::default() };
        let requested = options.etw.clone().unwrap_or_else(usual);
        let settings = Settings {
            name: options.session.clone().unwrap_or_else(|| requested.name.clone()),
            attach: options.session.is_some(),
            kernel: kernel | requested.kernel,
            waiting_bytes: options.ring_bytes_total / 4,
            counters: [requested.counters.clone(), options.counters.clone()].concat(),
            ..requested
        };
        super::close_orphans(&*api);
        let session = LiveSession::open(api, settings, Limits::default())?;
        let kept = Kept {
            wants_images: options.classes.contains(&Class::Images),
            wants_files: options.classes.contains(&Class::FileIo),
            ..Kept::default()
        };
        Ok(Self { session, unavailable, kept, notes_told: 0 })
    }

    pub fn backend(&self) -> TraceBackend {
        TraceBackend::Etw
    }

    pub fn unavailable(&self) -> &[ClassUnavailable] {
        &self.unavailable
    }

    pub fn ring_bytes(&self) -> usize {
        self.session.ring_bytes()
    }

    /// Events are delivered in buffers: a partly filled one waits for the session's flush.
    pub fn latest_ns(&self) -> u64 {
        u64::from(self.session.settings().flush_seconds) * 1_000_000_000 + DELIVERY_NS
    }

    /// Why no more events arrive.
    pub fn ended(&self) -> Option<&str> {
        self.session.ended()
    }

    /// Warnings since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        let new = self.session.notes().get(self.notes_told..).unwrap_or_default();
        let notes: Vec<String> = new.iter().map(ToString::to_string).collect();
        self.notes_told += notes.len();
        notes
    }

    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        self.session.drain(&mut Sink { out, kept: &mut self.kept })
    }

    /// The last drain: the session is stopped first, which delivers the events of its last second.
    pub fn finish(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        self.session.finish(&mut Sink { out, kept: &mut self.kept })
    }

    /// File I/O sums since the last call, and the number of operations beyond the limit.
    pub fn take_file_io(&mut self) -> (Vec<FileIo>, u64) {
        self.kept.files.take()
    }

    /// Processor counters since the last call, and the number of switches beyond the limit.
    pub fn take_counters(&mut self) -> (Vec<CounterSum>, u64) {
        let names = self.session.decoder().counter_names();
        let mut sums: Vec<CounterSum> = Vec::new();
        let mut counted: Vec<(u32, [u64; MAX_COUNTERS])> = self.kept.counters.drain().collect();
        counted.sort_unstable_by_key(|(pid, _)| *pid);
        for (pid, values) in counted {
            let named = names.iter().zip(values);
            sums.extend(named.map(|(name, value)| CounterSum { pid, name: name.clone(), value }));
        }
        (sums, std::mem::take(&mut self.kept.counters_lost))
    }

    pub fn drain_images(&mut self, out: &mut dyn FnMut(ImageLoad)) -> u64 {
        self.kept.images.drain(..).for_each(out);
        std::mem::take(&mut self.kept.images_lost)
    }

    /// Windows does not report the overhead of its events.
    pub fn measured_ns(&self) -> u64 {
        0
    }

    pub fn costs(&self) -> Vec<ProgramCost> {
        Vec::new()
    }
}

//! Kernel events on Windows: a session of event tracing with the kernel's flags.

use std::sync::Arc;

use ortscope_core::kernel::threads::Limits;
use ortscope_core::kernel::{FileIo, ImageLoad, KernelEvent};
use ortscope_decode::etw::{EtwSink, Image, ImageMoment};

use super::etw::WindowsTable;
pub use crate::absent::{SampleTrace, ThreadSnapshot};
use crate::etw::{EtwApi, KernelFlags, LiveSession, Settings};
use crate::kernel::{
    BackendChoice, Class, ClassUnavailable, DrainStats, ProgramCost, TraceBackend, TraceError, TraceOptions,
    TraceWay,
};

pub const WAYS: &[TraceWay] = &[TraceWay {
    name: "etw events",
    choice: BackendChoice::Auto,
    sees: "every context switch, exact to the event; every class of events",
}];

/// Loaded images that wait to be asked for.
const MOST_IMAGES: usize = 1 << 16;

/// Events of the whole machine, from the moment it is opened until it is dropped.
#[derive(Debug)]
pub struct KernelTrace {
    session: LiveSession,
    unavailable: Vec<ClassUnavailable>,
    images: Images,
    notes_told: usize,
}

#[derive(Debug, Default)]
struct Images {
    wanted: bool,
    waiting: Vec<ImageLoad>,
    lost: u64,
}

/// Hands kernel events on and keeps images.
struct Sink<'a, F> {
    out: &'a mut F,
    images: &'a mut Images,
}

impl<F: FnMut(KernelEvent)> EtwSink for Sink<'_, F> {
    fn kernel(&mut self, event: &KernelEvent) {
        (self.out)(*event);
    }

    fn image(&mut self, image: &Image) {
        if !self.images.wanted || image.moment == ImageMoment::Unload {
            return;
        }
        if self.images.waiting.len() >= MOST_IMAGES {
            self.images.lost += 1;
            return;
        }
        self.images.waiting.push(load_of(image));
    }
}

fn load_of(image: &Image) -> ImageLoad {
    ImageLoad {
        at_ns: image.at_ns,
        pid: image.pid,
        address: image.base,
        bytes: image.bytes,
        path: image.path.clone().into_bytes(),
        build_id: None,
    }
}

/// Processes are not held here: the beginning of a program is seen by the session that runs already.
pub fn hold(_pid: u32) -> bool {
    false
}

pub fn release(_pid: u32) {}

/// Asked beside a trace; the sampler's snapshot has it too.
#[derive(Debug)]
pub struct ResidentMemory;

impl ResidentMemory {
    pub fn new() -> Self {
        Self
    }

    pub fn read_bytes(&mut self, pid: u32) -> Option<u64> {
        crate::process_usage(pid).ok().map(|usage| usage.working_set_bytes)
    }
}

impl KernelTrace {
    pub fn open(options: &TraceOptions) -> Result<Self, TraceError> {
        let api: Arc<dyn EtwApi> = Arc::new(WindowsTable::new());
        let (mut kernel, mut unavailable) = (KernelFlags::ALWAYS, Vec::new());
        for &class in &options.classes {
            match KernelFlags::of_class(class) {
                Some(flags) => kernel = kernel | flags,
                None => unavailable.push(ClassUnavailable {
                    class,
                    why: "Windows has no event for it; every switch tells its processor".to_owned(),
                }),
            }
        }
        // Beside sessions of other processes of ours.
        let usual = || Settings { name: format!("ortscope-{}", std::process::id()), ..Settings::default() };
        let asked = options.etw.clone().unwrap_or_else(usual);
        let settings = Settings {
            name: options.session.clone().unwrap_or_else(|| asked.name.clone()),
            attach: options.session.is_some(),
            kernel: kernel | asked.kernel,
            waiting_bytes: options.ring_bytes_total / 4,
            ..asked
        };
        crate::etw::close_orphans(&*api);
        let session = LiveSession::open(api, settings, Limits::default())?;
        let images = Images { wanted: options.classes.contains(&Class::Images), ..Images::default() };
        Ok(Self { session, unavailable, images, notes_told: 0 })
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

    /// Why nothing comes any more.
    pub fn ended(&self) -> Option<&str> {
        self.session.ended()
    }

    /// What was refused or went wrong since the last call, in sentences.
    pub fn take_notes(&mut self) -> Vec<String> {
        let notes = self.session.notes().get(self.notes_told..).unwrap_or_default().to_vec();
        self.notes_told += notes.len();
        notes
    }

    pub fn drain(&mut self, out: &mut impl FnMut(KernelEvent)) -> DrainStats {
        self.session.drain(&mut Sink { out, images: &mut self.images })
    }

    /// Single operations are in recordings of sessions; sums are not made on this system.
    pub fn take_file_io(&mut self) -> (Vec<FileIo>, u64) {
        Default::default()
    }

    pub fn drain_images(&mut self, out: &mut dyn FnMut(ImageLoad)) -> u64 {
        self.images.waiting.drain(..).for_each(out);
        std::mem::take(&mut self.images.lost)
    }

    /// Windows does not tell what its events cost.
    pub fn measured_ns(&self) -> u64 {
        0
    }

    pub fn costs(&self) -> Vec<ProgramCost> {
        Vec::new()
    }
}

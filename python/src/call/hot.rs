//! What every inference looks at, side by side: monitoring is so little work that reaching for its data is most of it.
//!
//! All of it is written with the GIL held, and so is nearly all read: plain loads and stores are enough.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use ortscope_channel::{ChannelWriter, FrameKind, InferenceRecord};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::probe::Probe;

/// Methods of a session, in the order of their slots.
pub const METHODS: [&str; 4] =
    ["run", "run_with_ort_values", "run_with_iobinding", "run_with_ortvaluevector"];
/// Two classes can have wrappers: ONNX Runtime's own, and ours that derives from it.
pub const SLOTS: usize = 2 * METHODS.len();
/// Sessions whose probe is found without asking Python for the attribute.
const KNOWN_SESSIONS: usize = 4;

#[repr(C, align(64))]
#[derive(Debug)]
pub struct Hot {
    /// Where records go, out of a box; null while nothing is recorded.
    writer: AtomicPtr<ChannelWriter>,
    pub has_hooks: AtomicBool,
    pub open_batches: AtomicU32,
    /// `PyObject_Vectorcall`, where the interpreter has it.
    pub vectorcall: AtomicPtr<c_void>,
    /// `numpy.ndarray`, once its layout was found to be the known one.
    pub array_type: AtomicPtr<ffi::PyTypeObject>,
    /// The attribute under which a session keeps its probe, and the probe's type.
    pub probe_name: AtomicPtr<ffi::PyObject>,
    pub probe_type: AtomicPtr<ffi::PyTypeObject>,
    known: [KnownSession; KNOWN_SESSIONS],
    /// What each slot calls. Set once with a reference that is kept for ever.
    pub originals: [AtomicPtr<ffi::PyObject>; SLOTS],
}

/// A session, the object that it keeps as its probe, and what is inside of that.
#[derive(Debug)]
struct KnownSession {
    session: AtomicPtr<ffi::PyObject>,
    probe: AtomicPtr<Probe>,
    object: AtomicPtr<ffi::PyObject>,
    /// Whether some of its runs are profiled: only then need a run ask the probe beforehand.
    has_profiles: AtomicBool,
}

impl KnownSession {
    const fn none() -> Self {
        let (session, object) = (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
        Self { session, probe: AtomicPtr::new(null_mut()), object, has_profiles: AtomicBool::new(false) }
    }
}

pub static HOT: Hot = Hot {
    writer: AtomicPtr::new(null_mut()),
    has_hooks: AtomicBool::new(false),
    open_batches: AtomicU32::new(0),
    vectorcall: AtomicPtr::new(null_mut()),
    array_type: AtomicPtr::new(null_mut()),
    probe_name: AtomicPtr::new(null_mut()),
    probe_type: AtomicPtr::new(null_mut()),
    known: [const { KnownSession::none() }; KNOWN_SESSIONS],
    originals: [const { AtomicPtr::new(null_mut()) }; SLOTS],
};

impl Hot {
    #[inline]
    pub fn is_recording(&self) -> bool {
        !self.writer.load(Ordering::Relaxed).is_null()
    }

    /// Whether a run can be a plain one: it is recorded, and nobody listens or has opened a batch.
    #[inline]
    pub fn has_plain_runs(&self) -> bool {
        self.is_recording()
            && !self.has_hooks.load(Ordering::Relaxed)
            && self.open_batches.load(Ordering::Relaxed) == 0
    }

    /// Has records go there from now on, or nowhere; gives back where they went.
    pub fn set_writer(&self, _py: Python<'_>, writer: Option<ChannelWriter>) -> Option<Box<ChannelWriter>> {
        let new = writer.map_or(null_mut(), |writer| Box::into_raw(Box::new(writer)));
        let old = self.writer.swap(new, Ordering::AcqRel);
        // SAFETY: it came out of a box, here, and is no longer to be found. Whoever found it before had the GIL, which
        // the caller has now.
        (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
    }

    /// The writer as long as the GIL is held. A lock would be a quarter of what writing a record costs.
    #[inline]
    fn writer<'py>(&self, _py: Python<'py>) -> Option<&'py ChannelWriter> {
        // SAFETY: it lives until `set_writer` takes it, for which the GIL is needed; nobody here gives that up while
        // it has the reference.
        unsafe { self.writer.load(Ordering::Relaxed).as_ref() }
    }

    /// Writes a record; nothing happens while nothing is recorded.
    #[inline]
    pub fn write_inference(&self, py: Python<'_>, record: &InferenceRecord) {
        if let Some(writer) = self.writer(py) {
            writer.write_inference(record);
        }
    }

    /// Writes a message; one that finds no room is counted by the ring.
    pub fn write_message(&self, py: Python<'_>, text: &[u8]) {
        if let Some(writer) = self.writer(py) {
            writer.write(FrameKind::MESSAGE, text);
        }
    }

    #[inline]
    fn place(&self, session: *mut ffi::PyObject) -> &KnownSession {
        &self.known[(session.addr() >> 5) % KNOWN_SESSIONS]
    }

    /// The probe of a session that was asked for before; null if it was not. The session keeps it, so it is borrowed.
    #[inline]
    pub fn probe_of(&self, session: *mut ffi::PyObject) -> *const Probe {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) == session {
            known.probe.load(Ordering::Relaxed)
        } else {
            null()
        }
    }

    /// The object around the probe of a session that is known.
    pub fn object_of(&self, session: *mut ffi::PyObject) -> *mut ffi::PyObject {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) == session {
            known.object.load(Ordering::Relaxed)
        } else {
            null_mut()
        }
    }

    /// Remembers the probe that a session keeps as an attribute.
    pub fn remember(&self, session: *mut ffi::PyObject, object: *mut ffi::PyObject, probe: *const Probe) {
        let known = self.place(session);
        known.session.store(session, Ordering::Relaxed);
        known.probe.store(probe.cast_mut(), Ordering::Relaxed);
        known.object.store(object, Ordering::Relaxed);
        // SAFETY: the session keeps the object, and with it the probe.
        known.has_profiles.store(unsafe { (*probe).has_profiles() }, Ordering::Relaxed);
    }

    /// Whether a run of this session is known to be a plain one; counts it if runs are counted.
    #[inline]
    pub fn passes_plainly(&self, session: *mut ffi::PyObject) -> bool {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) != session {
            return false;
        }
        // SAFETY: a probe that is known is alive.
        !known.has_profiles.load(Ordering::Relaxed)
            || unsafe { (*known.probe.load(Ordering::Relaxed)).passes_unprofiled() }
    }

    /// Forgets all: with every probe that is made or ends, and when a class gets its methods. So a probe that is found is
    /// alive, and an address that has become another session's is not taken for the old one.
    pub fn forget_probes(&self) {
        for known in &self.known {
            known.session.store(null_mut(), Ordering::Relaxed);
            known.probe.store(null_mut(), Ordering::Relaxed);
            known.object.store(null_mut(), Ordering::Relaxed);
        }
    }
}

//! The state that every inference accesses, stored contiguously: monitoring is so little work that memory access is
//! most of it.
//!
//! All of it is written, and nearly all read, with the GIL held: plain loads and stores are enough.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use ortscope_channel::{ChannelWriter, FrameKind, InferenceRecord, LastRing, PlainInference};
use pyo3::ffi;
use pyo3::prelude::*;

use super::session_counters::{INLINE_SESSIONS, SessionCounters};
use crate::output;
use crate::probe::Probe;

/// Methods of a session, in the order of their slots.
pub const METHODS: [&str; 4] =
    ["run", "run_with_ort_values", "run_with_iobinding", "run_with_ortvaluevector"];
/// Two classes can have wrappers: ONNX Runtime's own, and ours that derives from it.
pub const SLOTS: usize = 2 * METHODS.len();
/// Sessions whose probe is found without asking Python for the attribute.
const KNOWN_SESSIONS: usize = 4;

#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Hot {
    /// Where records go, out of a box; null while nothing is recorded.
    writer: AtomicPtr<ChannelWriter>,
    pub has_hooks: AtomicBool,
    pub open_batches: AtomicU32,
    /// `numpy.ndarray`, once its layout was found to be the known one.
    pub array_type: AtomicPtr<ffi::PyTypeObject>,
    /// The first has the session that came first: most programs have one, and find it in the line of all of the above.
    known: [KnownSession; KNOWN_SESSIONS],
    /// `PyObject_Vectorcall`, where the interpreter has it.
    pub vectorcall: AtomicPtr<c_void>,
    /// Where the thread writes that wrote last.
    last_ring: LastRing,
    /// The first is in the line of the above.
    pub session_counters: [SessionCounters; INLINE_SESSIONS],
    /// The attribute under which a session keeps its probe, and the probe's type.
    pub probe_name: AtomicPtr<ffi::PyObject>,
    pub probe_type: AtomicPtr<ffi::PyTypeObject>,
    /// The original method of each slot. Set once with a reference that is never released.
    pub originals: [AtomicPtr<ffi::PyObject>; SLOTS],
}

/// The end of a plain run needs only two cache lines: the first, and the one with the last ring and the first
/// counters.
#[cfg(target_pointer_width = "64")]
const _: () = {
    const LINE: usize = 64;
    assert!(offset_of!(Hot, known) + size_of::<KnownSession>() <= LINE);
    let (from, to) =
        (offset_of!(Hot, last_ring), offset_of!(Hot, session_counters) + size_of::<SessionCounters>() - 1);
    assert!(from / LINE == to / LINE);
};

/// A session, its probe object, and the data inside it.
#[derive(Debug)]
struct KnownSession {
    session: AtomicPtr<ffi::PyObject>,
    probe: AtomicPtr<Probe>,
    counters: AtomicPtr<SessionCounters>,
    object: AtomicPtr<ffi::PyObject>,
    /// Whether some of its runs are profiled: only then need a run ask the probe beforehand.
    has_profiles: AtomicBool,
}

impl KnownSession {
    const fn none() -> Self {
        let (session, object) = (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
        let (probe, counters) = (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
        Self { session, probe, counters, object, has_profiles: AtomicBool::new(false) }
    }
}

pub static HOT: Hot = Hot {
    writer: AtomicPtr::new(null_mut()),
    has_hooks: AtomicBool::new(false),
    open_batches: AtomicU32::new(0),
    array_type: AtomicPtr::new(null_mut()),
    known: [const { KnownSession::none() }; KNOWN_SESSIONS],
    vectorcall: AtomicPtr::new(null_mut()),
    last_ring: LastRing::none(),
    session_counters: [const { SessionCounters::empty() }; INLINE_SESSIONS],
    probe_name: AtomicPtr::new(null_mut()),
    probe_type: AtomicPtr::new(null_mut()),
    originals: [const { AtomicPtr::new(null_mut()) }; SLOTS],
};

impl Hot {
    #[inline]
    pub fn is_recording(&self) -> bool {
        !self.writer.load(Ordering::Relaxed).is_null()
    }

    /// Whether a run can be a plain one: it is recorded, and there is no listener and no open batch.
    #[inline]
    pub fn has_plain_runs(&self) -> bool {
        self.is_recording()
            && !self.has_hooks.load(Ordering::Relaxed)
            && self.open_batches.load(Ordering::Relaxed) == 0
    }

    /// Redirects records to `writer`, or nowhere; returns the previous writer.
    pub fn set_writer(&self, _py: Python<'_>, writer: Option<ChannelWriter>) -> Option<Box<ChannelWriter>> {
        self.last_ring.forget();
        let new = writer.map_or(null_mut(), |writer| Box::into_raw(Box::new(writer)));
        let old = self.writer.swap(new, Ordering::AcqRel);
        // SAFETY: it came out of a box here and is no longer reachable. Earlier users had the GIL, which the caller
        // has now.
        (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
    }

    /// The writer as long as the GIL is held. A lock would be a quarter of what writing a record costs.
    #[inline]
    fn writer<'py>(&self, _py: Python<'py>) -> Option<&'py ChannelWriter> {
        // SAFETY: it lives until `set_writer` takes it, which needs the GIL; the GIL is not released here while the
        // reference exists.
        unsafe { self.writer.load(Ordering::Relaxed).as_ref() }
    }

    /// Writes a record; nothing happens while nothing is recorded.
    #[inline]
    pub fn write_inference(&self, py: Python<'_>, record: &InferenceRecord) {
        if let Some(writer) = self.writer(py) {
            writer.write_inference(record);
        }
    }

    /// Fast path for nearly all records.
    #[inline]
    pub fn write_plain_inference(&'static self, py: Python<'_>, record: impl FnOnce(u16) -> PlainInference) {
        if let Some(writer) = self.writer(py) {
            // SAFETY: all callers have the GIL, and children of `fork` forget (`prepare`).
            unsafe { self.last_ring.write(writer, output::stream, record) };
        }
    }

    /// In a child of `fork`: what the last thread wrote to is its parent's.
    pub fn forget_ring(&self) {
        self.last_ring.forget();
    }

    /// Prefetches the memory of the next record.
    #[inline]
    pub fn fetch_for_write(&self) {
        self.last_ring.fetch();
    }

    /// Writes a message; one that does not fit is counted by the ring.
    pub fn write_message(&self, py: Python<'_>, text: &[u8]) {
        if let Some(writer) = self.writer(py) {
            writer.write(FrameKind::MESSAGE, text);
        }
    }

    #[inline]
    fn place(&self, session: *mut ffi::PyObject) -> &KnownSession {
        let first = &self.known[0];
        let found = first.session.load(Ordering::Relaxed);
        if found == session || found.is_null() {
            first
        } else {
            &self.known[1 + (session.addr() >> 5) % (KNOWN_SESSIONS - 1)]
        }
    }

    /// The probe of a known session; null otherwise. The session owns it, so it is borrowed.
    #[inline]
    pub fn probe_of(&self, session: *mut ffi::PyObject) -> *const Probe {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) == session {
            known.probe.load(Ordering::Relaxed)
        } else {
            null()
        }
    }

    /// The counters of a known session.
    #[inline]
    pub fn counters_of(&self, session: *mut ffi::PyObject) -> Option<&'static SessionCounters> {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) == session {
            // SAFETY: null, or from a reference to counters, which are never freed.
            unsafe { known.counters.load(Ordering::Relaxed).as_ref() }
        } else {
            None
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
        let probe = unsafe { &*probe };
        known.counters.store(std::ptr::from_ref(probe.counters()).cast_mut(), Ordering::Relaxed);
        known.has_profiles.store(probe.has_profiles(), Ordering::Relaxed);
    }

    /// The probe of a session of which a run is known to be a plain one, which is counted if runs are counted; else null.
    #[inline]
    pub fn probe_of_plain_run(&self, session: *mut ffi::PyObject) -> *const Probe {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) != session {
            return null();
        }
        let probe = known.probe.load(Ordering::Relaxed);
        // SAFETY: a probe that is known is alive.
        let is_plain = !known.has_profiles.load(Ordering::Relaxed) || unsafe { (*probe).passes_unprofiled() };
        if is_plain { probe } else { null() }
    }

    /// Forgets all: with every probe that is made or ends, and when a class gets its methods. So a probe that is found is
    /// alive, and an address that has become another session's is not taken for the old one.
    pub fn forget_probes(&self) {
        for known in &self.known {
            known.session.store(null_mut(), Ordering::Relaxed);
            known.probe.store(null_mut(), Ordering::Relaxed);
            known.counters.store(null_mut(), Ordering::Relaxed);
            known.object.store(null_mut(), Ordering::Relaxed);
        }
    }
}

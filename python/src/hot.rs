//! What every inference looks at, side by side: monitoring is so little work that reaching for its data is most of it.
//!
//! All of it is written with the GIL held, and so is nearly all read: plain loads and stores are enough.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use pyo3::ffi;

/// Methods of a session, in the order of their slots.
pub const METHODS: [&str; 4] =
    ["run", "run_with_ort_values", "run_with_iobinding", "run_with_ortvaluevector"];
/// Two classes can have descriptors: ONNX Runtime's own, and ours that derives from it.
pub const SLOTS: usize = 2 * METHODS.len();
/// Sessions whose probe is found without asking Python for the attribute.
const KNOWN_SESSIONS: usize = 4;

#[repr(C, align(64))]
#[derive(Debug)]
pub struct Hot {
    /// Whether anything is recorded.
    pub active: AtomicBool,
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

#[derive(Debug)]
struct KnownSession {
    session: AtomicPtr<ffi::PyObject>,
    probe: AtomicPtr<ffi::PyObject>,
}

pub static HOT: Hot = Hot {
    active: AtomicBool::new(false),
    has_hooks: AtomicBool::new(false),
    open_batches: AtomicU32::new(0),
    vectorcall: AtomicPtr::new(null_mut()),
    array_type: AtomicPtr::new(null_mut()),
    probe_name: AtomicPtr::new(null_mut()),
    probe_type: AtomicPtr::new(null_mut()),
    known: [const { KnownSession { session: AtomicPtr::new(null_mut()), probe: AtomicPtr::new(null_mut()) } };
        KNOWN_SESSIONS],
    originals: [const { AtomicPtr::new(null_mut()) }; SLOTS],
};

impl Hot {
    #[inline]
    fn place(&self, session: *mut ffi::PyObject) -> &KnownSession {
        &self.known[(session.addr() >> 5) % KNOWN_SESSIONS]
    }

    /// The probe of a session that was asked for before; null if it was not. The session keeps it, so it is borrowed.
    #[inline]
    pub fn probe_of(&self, session: *mut ffi::PyObject) -> *mut ffi::PyObject {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) == session {
            known.probe.load(Ordering::Relaxed)
        } else {
            null_mut()
        }
    }

    /// Remembers the probe that a session keeps as an attribute.
    pub fn remember(&self, session: *mut ffi::PyObject, probe: *mut ffi::PyObject) {
        let known = self.place(session);
        known.session.store(session, Ordering::Relaxed);
        known.probe.store(probe, Ordering::Relaxed);
    }

    /// Forgets all: with every probe that is made or ends, and when a class gets its methods. So a probe that is found is
    /// alive, and an address that has become another session's is not taken for the old one.
    pub fn forget_probes(&self) {
        for known in &self.known {
            known.session.store(null_mut(), Ordering::Relaxed);
            known.probe.store(null_mut(), Ordering::Relaxed);
        }
    }
}

//! What every inference looks at, side by side: monitoring is so little work that reaching for its data is most of it.
//!
//! All of it is written with the GIL held, and so is nearly all read: plain loads and stores are enough.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use ortscope_channel::{ChannelWriter, FrameKind, InferenceRecord, LastRing, PlainInference};
use pyo3::ffi;
use pyo3::prelude::*;

use super::seats::{SEATS, Seat};
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
    pub seats: [Seat; SEATS],
    /// The attribute under which a session keeps its probe, and the probe's type.
    pub probe_name: AtomicPtr<ffi::PyObject>,
    pub probe_type: AtomicPtr<ffi::PyTypeObject>,
    /// What each slot calls. Set once with a reference that is kept for ever.
    pub originals: [AtomicPtr<ffi::PyObject>; SLOTS],
}

/// Two lines are all that the end of a plain run needs: the first, and the one with the last ring and the first seat.
#[cfg(target_pointer_width = "64")]
const _: () = {
    const LINE: usize = 64;
    assert!(offset_of!(Hot, known) + size_of::<KnownSession>() <= LINE);
    let (from, to) = (offset_of!(Hot, last_ring), offset_of!(Hot, seats) + size_of::<Seat>() - 1);
    assert!(from / LINE == to / LINE);
};

/// A session, the object that it keeps as its probe, and what is inside of that.
#[derive(Debug)]
struct KnownSession {
    session: AtomicPtr<ffi::PyObject>,
    probe: AtomicPtr<Probe>,
    seat: AtomicPtr<Seat>,
    object: AtomicPtr<ffi::PyObject>,
    /// Whether some of its runs are profiled: only then need a run ask the probe beforehand.
    has_profiles: AtomicBool,
}

impl KnownSession {
    const fn none() -> Self {
        let (session, object) = (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
        let (probe, seat) = (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
        Self { session, probe, seat, object, has_profiles: AtomicBool::new(false) }
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
    seats: [const { Seat::empty() }; SEATS],
    probe_name: AtomicPtr::new(null_mut()),
    probe_type: AtomicPtr::new(null_mut()),
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
        self.last_ring.forget();
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

    /// The same for what is nearly always to be told.
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

    /// Has the processor fetch what a record is written to, while other work is done.
    #[inline]
    pub fn fetch_for_write(&self) {
        self.last_ring.fetch();
    }

    /// Writes a message; one that finds no room is counted by the ring.
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

    /// The seat of a session that was asked for before, if it was.
    #[inline]
    pub fn seat_of(&self, session: *mut ffi::PyObject) -> Option<&'static Seat> {
        let known = self.place(session);
        if known.session.load(Ordering::Relaxed) == session {
            // SAFETY: null, or out of a reference to a seat; seats are for ever.
            unsafe { known.seat.load(Ordering::Relaxed).as_ref() }
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
        known.seat.store(std::ptr::from_ref(probe.seat()).cast_mut(), Ordering::Relaxed);
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
            known.seat.store(null_mut(), Ordering::Relaxed);
            known.object.store(null_mut(), Ordering::Relaxed);
        }
    }
}

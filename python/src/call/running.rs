//! Plain runs: those with only times and shapes to record, which are nearly all.
//!
//! A model evicts everything else from the caches, so memory accesses matter more than instructions. A wrapper in
//! Python, even an empty one, accesses its function, code, constants and frame: 2.5 to 5 µs at 1,000 inferences a
//! second, where a native method takes 1 to 2. The state needed after the run is in as few cache lines as possible:
//! two of [`HOT`], one each of the channel's writer, of the ring's and of the ring. The probe is not among them: a
//! session's counters are in [`HOT`]; and the inputs are read before the run, which fetches them in any case.

use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use ortscope_core::clock::now_ns;
use pyo3::ffi;
use pyo3::prelude::*;

use super::arguments::{Arguments, argument, invoke};
use super::detailed_run::batch_size_of;
use super::hooks::{keeping_exception, report_error};
use super::hot::{HOT, METHODS};
use super::session_counters::SessionCounters;
use super::{probe_of, unusual};
use crate::ndarray;
use crate::probe::Probe;

/// A method that replaces ONNX Runtime's own: calls the original with the same arguments, and records the run.
///
/// # Safety
/// Called by the interpreter with METH_FASTCALL | METH_KEYWORDS, so with the GIL held, `positional` valid objects and
/// one more for each of the names in `keywords`.
pub unsafe extern "C" fn method<const SLOT: usize>(
    session: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: isize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let arguments = Arguments { session, values, positional: positional.unsigned_abs(), keywords };
    // Only runs with a feed can be profiled, and only their inputs are read.
    let feeds = SLOT.is_multiple_of(METHODS.len());
    // SAFETY: by the contract of this function; a probe that is known is alive.
    unsafe {
        if !HOT.has_plain_runs() {
            return unusual::<SLOT>(arguments);
        }
        let feed = if feeds { argument(arguments, 1, c"input_feed") } else { null_mut() };
        if feeds && feed.is_null() {
            return unusual::<SLOT>(arguments);
        }
        // Last: it counts the run.
        let probe = if feeds { HOT.probe_of_plain_run(session) } else { HOT.probe_of(session) };
        if probe.is_null() {
            return unusual::<SLOT>(arguments);
        }
        // In this order: shapes that change afterwards do so later than the run began.
        let had_known_shapes = feeds && ndarray::same_shapes(feed, &(*probe).shapes);
        let start = now_ns();
        let result = invoke(HOT.originals[SLOT].load(Ordering::Relaxed), arguments);
        let nanos = (start, now_ns());
        if result.is_null() {
            record_failed(session, feed, nanos);
            return result;
        }
        HOT.fetch_for_write();
        // The session may have lost its probe meanwhile. Shapes that have been remembered since before the run are its own.
        match HOT.counters_of(session) {
            Some(counters) if !feeds => record_plain(counters, nanos, 0),
            Some(counters) if had_known_shapes && counters.has_shapes_since(start) => {
                record_plain(counters, nanos, counters.batch_size.load(Ordering::Relaxed));
            }
            _ => record_unknown(session, feed, nanos, null_mut()),
        }
        result
    }
}

/// The run raised; its exception stays set.
#[cold]
unsafe fn record_failed(session: *mut ffi::PyObject, feed: *mut ffi::PyObject, nanos: (u64, u64)) {
    // SAFETY: the GIL is held. The type lives as long as the exception, which is put aside and not given up.
    unsafe {
        let raised = ffi::PyErr_Occurred();
        keeping_exception(|| record_unknown(session, feed, nanos, raised));
    }
}

#[inline]
fn record_plain(counters: &SessionCounters, nanos: (u64, u64), batch_size: u32) {
    // SAFETY: the caller has the GIL.
    let py = unsafe { Python::assume_attached() };
    counters.record(py, counters.next(), nanos, true, batch_size);
}

/// Writes the record. `feed` may be null; `raised` is the type of the run's exception, or null.
unsafe fn record(probe: &Probe, feed: *mut ffi::PyObject, nanos: (u64, u64), raised: *mut ffi::PyObject) {
    // SAFETY: the callers': valid objects and the GIL.
    unsafe {
        let sequence = probe.next();
        let batch_size = if feed.is_null() { 0 } else { batch_size_of(probe, sequence, feed) };
        probe.counters().record(Python::assume_attached(), sequence, nanos, raised.is_null(), batch_size);
        if !raised.is_null() {
            report_error(probe, sequence, nanos.1, raised);
        }
    }
}

/// The slow path: the run failed, has other shapes, or the probe was forgotten. No exception is set.
#[cold]
unsafe fn record_unknown(
    session: *mut ffi::PyObject,
    feed: *mut ffi::PyObject,
    nanos: (u64, u64),
    raised: *mut ffi::PyObject,
) {
    // SAFETY: the session lives as long as the call of its method; the reference that is given is given back.
    unsafe {
        let Some(held) = probe_of(session) else { return };
        record(&*held.probe, feed, nanos, raised);
        ffi::Py_DECREF(held.object);
    }
}

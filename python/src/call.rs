//! The hot path: method descriptors that stand in for the `run` methods of ONNX Runtime's session class.
//!
//! A descriptor made by `PyDescr_NewMethod` is what C types have for methods: the interpreter calls it without making a
//! bound method and without packing arguments. It times ONNX Runtime's own method, which it calls with the very same
//! arguments, and hands the times to the session's probe. The exception of a failed run passes through untouched.
#![expect(unsafe_code, reason = "speaks the interpreter's calling convention")]

use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use ortscope_core::clock::now_nanos;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::hot::{HOT, METHODS, SLOTS};
use crate::ndarray;
use crate::probe::{Context, Probe};
use crate::{doorway, symbols};

type FastCall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    isize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type Vectorcall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The calling convention since Python 3.7; the stable interface names it from 3.10 on.
const METH_FASTCALL: c_int = 0x0080;
const METH_KEYWORDS: c_int = 0x0002;
/// Arguments that are passed on without an allocation.
const MOST_ARGUMENTS: usize = 12;

static HOOKS: Mutex<Option<Hooks>> = Mutex::new(None);

/// Python's part of the slow path.
struct Hooks {
    /// Gives a session that has none a probe: `attach(session)`.
    attach: Py<PyAny>,
    /// `before(session)` and `after(session, seconds, ok)`; `None`: nobody listens.
    before: Option<Py<PyAny>>,
    after: Option<Py<PyAny>>,
    /// `batch()` gives `(batch_size, queue_depth)` of the batch that the caller is in, or `None`.
    batch: Py<PyAny>,
}

/// Looks up what the hot path needs; called once when the module is loaded.
pub fn prepare(py: Python<'_>) {
    if let Some(address) = symbols::find(py, "PyObject_Vectorcall") {
        HOT.vectorcall.store(address.cast_mut(), Ordering::Release);
    }
    // Kept for ever: both are as old as the module.
    HOT.probe_name.store(pyo3::intern!(py, "_ortscope_probe").clone().into_ptr(), Ordering::Release);
    HOT.probe_type.store(py.get_type::<Probe>().into_ptr().cast(), Ordering::Release);
}

/// What Python does beside the hot path.
#[pyfunction]
pub fn set_hooks(attach: Py<PyAny>, batch: Py<PyAny>, before: Option<Py<PyAny>>, after: Option<Py<PyAny>>) {
    let has_hooks = before.is_some() || after.is_some();
    let hooks = Hooks { attach, before, after, batch };
    let old = HOOKS.lock().unwrap_or_else(PoisonError::into_inner).replace(hooks);
    HOT.has_hooks.store(has_hooks, Ordering::Release);
    drop(old);
}

/// How many batches are open: only then is the caller's batch asked for.
#[pyfunction]
pub fn set_batch_source(open: u32) {
    HOT.open_batches.store(open, Ordering::Release);
}

/// A descriptor for `owner.name` that calls `original`. `derived` tells our own class from ONNX Runtime's.
#[pyfunction]
pub fn method<'py>(
    owner: &Bound<'py, PyType>,
    name: &str,
    original: &Bound<'py, PyAny>,
    signature: &str,
    derived: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    ndarray::learn(py);
    let Some(kind) = METHODS.iter().position(|known| *known == name) else {
        return Err(PyValueError::new_err(format!("{name} is not a method that can be monitored")));
    };
    let slot = kind + if derived { METHODS.len() } else { 0 };
    HOT.forget_probes();
    let before = HOT.originals[slot].swap(original.clone().into_ptr(), Ordering::AcqRel);
    // Another thread may be inside of the old one: its reference is never given back.
    let _ = before;
    let text = |text: String| CString::new(text).map_err(|error| PyValueError::new_err(error.to_string()));
    let doc = original.getattr("__doc__").and_then(|doc| doc.extract::<String>()).unwrap_or_default();
    // SAFETY: with the flags below the interpreter calls the pointer with exactly the arguments of `FastCall`.
    let entry = unsafe { std::mem::transmute::<FastCall, ffi::PyCFunction>(ENTRIES[slot]) };
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: text(name.to_owned())?.into_raw(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: entry },
        ml_flags: METH_FASTCALL | METH_KEYWORDS,
        ml_doc: text(format!("{name}{signature}\n--\n\n{doc}").replace('\0', " "))?.into_raw(),
    }));
    // SAFETY: the type is valid, the definition lives for ever; an error is set where null is returned.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(owner.as_ptr().cast(), definition)) }
}

const ENTRIES: [FastCall; SLOTS] =
    [entry::<0>, entry::<1>, entry::<2>, entry::<3>, entry::<4>, entry::<5>, entry::<6>, entry::<7>];

/// The arguments of one call, as the interpreter gave them.
#[derive(Clone, Copy)]
struct Arguments {
    session: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: usize,
    keywords: *mut ffi::PyObject,
}

/// # Safety
/// Called by the interpreter as a method with METH_FASTCALL | METH_KEYWORDS, so with the GIL held and valid objects.
unsafe extern "C" fn entry<const SLOT: usize>(
    session: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: isize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let arguments = Arguments { session, values, positional: positional as usize, keywords };
    // SAFETY: everything is valid for the length of this call, by the contract of this function.
    unsafe {
        let original = HOT.originals[SLOT].load(Ordering::Relaxed);
        if !HOT.active.load(Ordering::Relaxed) && !HOT.has_hooks.load(Ordering::Relaxed) {
            return invoke(original, arguments);
        }
        let probe = HOT.probe_of(session);
        if !probe.is_null()
            && let Some(batch_size) = plain_run::<SLOT>(probe, arguments)
        {
            return measured(probe, batch_size, original, arguments);
        }
        let Some(held) = probe_of(session) else {
            return invoke(original, arguments);
        };
        // The session may lose its probe while it runs; this reference keeps it.
        let result = monitored::<SLOT>(&*held.probe, original, arguments);
        ffi::Py_DECREF(held.object);
        result
    }
}

/// The batch size of a run about which nothing but its times is to be told: no new shapes, no listeners, no profile.
#[inline]
unsafe fn plain_run<const SLOT: usize>(probe: *mut ffi::PyObject, arguments: Arguments) -> Option<u32> {
    if HOT.has_hooks.load(Ordering::Relaxed) || HOT.open_batches.load(Ordering::Relaxed) > 0 {
        return None;
    }
    // SAFETY: as in `entry`; a probe that is known is alive.
    unsafe {
        let probe = inside(probe);
        if !SLOT.is_multiple_of(METHODS.len()) {
            return Some(0);
        }
        if (*probe).is_profiling() {
            return None;
        }
        let feed = argument(arguments, 1, c"input_feed".as_ptr());
        if feed.is_null() { Some(0) } else { ndarray::same_shapes(feed, &(*probe).shapes) }
    }
}

/// A plain run. No reference is taken: whether the probe has outlived the run is asked behind it.
#[inline]
unsafe fn measured(
    probe: *mut ffi::PyObject,
    batch_size: u32,
    original: *mut ffi::PyObject,
    arguments: Arguments,
) -> *mut ffi::PyObject {
    // SAFETY: as in `entry`; the probe is not touched behind the run unless it is still known, and so alive.
    unsafe {
        let sequence = (*inside(probe)).next();
        let start = now_nanos();
        let result = invoke(original, arguments);
        let end = now_nanos();
        if HOT.probe_of(arguments.session) != probe || result.is_null() {
            let context = Context { batch_size, ..Context::default() };
            record_unusual(probe, sequence, (start, end), result.is_null(), context, arguments);
            return result;
        }
        let context = Context { batch_size, ..Context::default() };
        (*inside(probe)).record(sequence, start, end, true, context);
        result
    }
}

/// The record of a plain run that failed, or whose session was forgotten meanwhile: perhaps it has another probe now.
#[cold]
unsafe fn record_unusual(
    before: *mut ffi::PyObject,
    sequence: u64,
    (start, end): (u64, u64),
    failed: bool,
    context: Context,
    arguments: Arguments,
) {
    let mut held = None;
    // SAFETY: as in `entry`. Looking for the probe may set and clear exceptions, so the one that is set is put aside.
    keeping_exception(|| held = unsafe { probe_of(arguments.session) });
    let Some(held) = held else { return };
    // SAFETY: the reference that was given is given back below.
    unsafe {
        let probe = &*held.probe;
        let sequence = if held.object == before { sequence } else { probe.next() };
        probe.record(sequence, start, end, !failed, context);
        if failed {
            tell_error(probe, sequence, end);
        }
        ffi::Py_DECREF(held.object);
    }
}

/// # Safety
/// `object` is a probe, and the GIL is held.
#[inline]
unsafe fn inside(object: *mut ffi::PyObject) -> *const Probe {
    // SAFETY: the caller's.
    unsafe { Borrowed::from_ptr(Python::assume_attached(), object).cast_unchecked::<Probe>().get() }
}

/// A run with all that there can be to tell.
#[cold]
unsafe fn monitored<const SLOT: usize>(
    probe: &Probe,
    original: *mut ffi::PyObject,
    arguments: Arguments,
) -> *mut ffi::PyObject {
    let feeds = SLOT.is_multiple_of(METHODS.len());
    // SAFETY: as in `entry`.
    unsafe {
        let feed = if feeds { argument(arguments, 1, c"input_feed".as_ptr()) } else { null_mut() };
        let sequence = probe.next();
        let mut context = Context::default();
        if !feed.is_null() {
            context.batch_size = match ndarray::same_shapes(feed, &probe.shapes) {
                Some(batch_size) => batch_size,
                None => new_shapes(probe, sequence, feed),
            };
        }
        if HOT.has_hooks.load(Ordering::Relaxed) || HOT.open_batches.load(Ordering::Relaxed) > 0 {
            before_in_python(arguments.session, &mut context);
        }
        if feeds && probe.is_profile_due() {
            return profiled(probe, sequence, context, original, arguments);
        }
        let start = now_nanos();
        let result = invoke(original, arguments);
        let end = now_nanos();
        probe.record(sequence, start, end, !result.is_null(), context);
        if result.is_null() {
            tell_error(probe, sequence, end);
        }
        if HOT.has_hooks.load(Ordering::Relaxed) {
            after_in_python(arguments.session, end.saturating_sub(start), !result.is_null());
        }
        result
    }
}

struct Held {
    object: *mut ffi::PyObject,
    probe: *const Probe,
}

/// The session's probe with a reference to it; a session without one gets one.
#[cold]
unsafe fn probe_of(session: *mut ffi::PyObject) -> Option<Held> {
    // SAFETY: valid objects and the GIL, as in `entry`; only an object of exactly the probe's type is taken for one.
    unsafe {
        let known = HOT.probe_of(session);
        if !known.is_null() {
            ffi::Py_INCREF(known);
            return Some(Held { object: known, probe: inside(known) });
        }
        let mut object = ffi::PyObject_GetAttr(session, HOT.probe_name.load(Ordering::Relaxed));
        if object.is_null() {
            ffi::PyErr_Clear();
            attach(session);
            object = ffi::PyObject_GetAttr(session, HOT.probe_name.load(Ordering::Relaxed));
            if object.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
        }
        if ffi::Py_TYPE(object) != HOT.probe_type.load(Ordering::Relaxed) {
            ffi::Py_DECREF(object);
            return None;
        }
        // The reference that was just given is not the only one: the session has its own, and with it the probe lives.
        HOT.remember(session, object);
        Some(Held { object, probe: inside(object) })
    }
}

/// An argument by its position or name; null if it was not given. The reference is the caller's.
#[inline]
unsafe fn argument(
    arguments: Arguments,
    position: usize,
    name: *const std::ffi::c_char,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter gives `positional` values and, behind them, one for each name in `keywords`.
    unsafe {
        if position < arguments.positional {
            return *arguments.values.add(position);
        }
        if arguments.keywords.is_null() {
            return null_mut();
        }
        for index in 0..ffi::PyTuple_Size(arguments.keywords) {
            let key = ffi::PyTuple_GetItem(arguments.keywords, index);
            if !key.is_null() && ffi::PyUnicode_CompareWithASCIIString(key, name) == 0 {
                return *arguments.values.add(arguments.positional + index as usize);
            }
        }
        null_mut()
    }
}

/// Calls ONNX Runtime's own method with the arguments as they came.
#[inline]
unsafe fn invoke(original: *mut ffi::PyObject, arguments: Arguments) -> *mut ffi::PyObject {
    // SAFETY: the array holds the session and then the values in the order of the calling convention; the pointer was
    // looked up under the name of a function of this type.
    unsafe {
        let named =
            if arguments.keywords.is_null() { 0 } else { ffi::PyTuple_Size(arguments.keywords) as usize };
        let given = arguments.positional + named;
        let vectorcall = HOT.vectorcall.load(Ordering::Relaxed);
        if vectorcall.is_null() || given >= MOST_ARGUMENTS {
            return invoke_packed(original, arguments, named);
        }
        let vectorcall = std::mem::transmute::<*mut c_void, Vectorcall>(vectorcall);
        let mut stack = [null_mut(); MOST_ARGUMENTS];
        stack[0] = arguments.session;
        std::ptr::copy_nonoverlapping(arguments.values, stack.as_mut_ptr().add(1), given);
        vectorcall(original, stack.as_ptr(), arguments.positional + 1, arguments.keywords)
    }
}

/// The same with a tuple and a dictionary: Python 3.8, and calls with absurdly many arguments.
#[cold]
unsafe fn invoke_packed(
    original: *mut ffi::PyObject,
    arguments: Arguments,
    named: usize,
) -> *mut ffi::PyObject {
    // SAFETY: as in `invoke`; SetItem takes over the reference that is made for it, SetItem of a dictionary does not.
    unsafe {
        let tuple = ffi::PyTuple_New(arguments.positional as isize + 1);
        if tuple.is_null() {
            return null_mut();
        }
        ffi::Py_INCREF(arguments.session);
        ffi::PyTuple_SetItem(tuple, 0, arguments.session);
        for index in 0..arguments.positional {
            let value = *arguments.values.add(index);
            ffi::Py_INCREF(value);
            ffi::PyTuple_SetItem(tuple, index as isize + 1, value);
        }
        let mut dictionary = null_mut();
        if named > 0 {
            dictionary = ffi::PyDict_New();
            for index in 0..named {
                let key = ffi::PyTuple_GetItem(arguments.keywords, index as isize);
                ffi::PyDict_SetItem(dictionary, key, *arguments.values.add(arguments.positional + index));
            }
        }
        let result = ffi::PyObject_Call(original, tuple, dictionary);
        ffi::Py_DECREF(tuple);
        ffi::Py_XDECREF(dictionary);
        result
    }
}

/// Runs Python's part. Whatever goes wrong there is reported as unraisable and never reaches the caller's run.
fn in_python(work: impl FnOnce(Python<'_>) -> PyResult<()>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        Python::attach(|py| {
            if let Err(error) = work(py) {
                error.write_unraisable(py, None);
            }
        });
    }));
    // A panic has printed its message; there is nobody to hand it to.
    drop(outcome);
}

/// A hook as a reference of its own: it may be replaced while it runs.
fn hook(py: Python<'_>, pick: impl FnOnce(&Hooks) -> Option<&Py<PyAny>>) -> Option<Py<PyAny>> {
    let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    hooks.as_ref().and_then(pick).map(|hook| hook.clone_ref(py))
}

/// # Safety
/// `object` is valid and the GIL is held.
unsafe fn borrowed<'py>(py: Python<'py>, object: *mut ffi::PyObject) -> Bound<'py, PyAny> {
    // SAFETY: the caller's.
    unsafe { Bound::from_borrowed_ptr(py, object) }
}

#[cold]
unsafe fn attach(session: *mut ffi::PyObject) {
    in_python(|py| {
        // SAFETY: as in `entry`.
        let session = unsafe { borrowed(py, session) };
        hook(py, |hooks| Some(&hooks.attach)).map_or(Ok(()), |attach| attach.call1(py, (session,)).map(drop))
    });
}

/// Remembers and tells the shapes of a feed; gives its batch size.
#[cold]
unsafe fn new_shapes(probe: &Probe, sequence: u64, feed: *mut ffi::PyObject) -> u32 {
    // SAFETY: as in `entry`.
    let batch_size = unsafe { ndarray::remember(feed, &probe.shapes) };
    in_python(|py| {
        // SAFETY: as in `entry`.
        let feed = unsafe { borrowed(py, feed) };
        probe.tell_shapes(sequence, now_nanos(), || ndarray::named(&feed));
        Ok(())
    });
    batch_size
}

#[cold]
unsafe fn before_in_python(session: *mut ffi::PyObject, context: &mut Context) {
    in_python(|py| {
        if HOT.open_batches.load(Ordering::Relaxed) > 0
            && let Some(batch) = hook(py, |hooks| Some(&hooks.batch))
        {
            let batch: Option<(u32, Option<u32>)> = batch.call0(py)?.extract(py)?;
            if let Some((batch_size, queue_depth)) = batch {
                *context = Context { batch_size, queue_depth, ..*context };
            }
        }
        // SAFETY: as in `entry`.
        let session = unsafe { borrowed(py, session) };
        hook(py, |hooks| hooks.before.as_ref())
            .map_or(Ok(()), |before| before.call1(py, (session,)).map(drop))
    });
}

/// Hooks run after a failed inference too; its exception waits meanwhile.
#[cold]
unsafe fn after_in_python(session: *mut ffi::PyObject, nanos: u64, ok: bool) {
    keeping_exception(|| {
        in_python(|py| {
            // SAFETY: as in `entry`.
            let session = unsafe { borrowed(py, session) };
            let seconds = nanos as f64 / 1e9;
            hook(py, |hooks| hooks.after.as_ref())
                .map_or(Ok(()), |after| after.call1(py, (session, seconds, ok)).map(drop))
        });
    });
}

/// Tells the type of the exception that is on its way to the caller, which stays as it is.
#[cold]
unsafe fn tell_error(probe: &Probe, sequence: u64, timestamp_ns: u64) {
    // SAFETY: the GIL is held; the type is borrowed from the exception that is set.
    let raised = unsafe { ffi::PyErr_Occurred() };
    if raised.is_null() {
        return;
    }
    // SAFETY: as above; the reference is given back below.
    unsafe { ffi::Py_INCREF(raised) };
    keeping_exception(|| {
        in_python(|py| {
            // SAFETY: a valid type, kept by the reference taken above.
            let name = unsafe { borrowed(py, raised) }.getattr("__name__")?.extract()?;
            probe.tell_error(sequence, timestamp_ns, name);
            Ok(())
        });
    });
    // SAFETY: taken above.
    unsafe { ffi::Py_DECREF(raised) };
}

/// Does something while the exception that is set, if any, is put aside.
fn keeping_exception(work: impl FnOnce()) {
    let (mut kind, mut value, mut trace) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the GIL is held; what is fetched is restored as it was, references included.
    unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace) };
    work();
    // SAFETY: as above.
    unsafe { ffi::PyErr_Restore(kind, value, trace) };
}

/// Where single runs cannot be profiled, a session of our own runs the same inputs: `shadow(sequence, feed)` copies them.
#[cold]
unsafe fn offer_to_shadow(probe: &Probe, sequence: u64, feed: *mut ffi::PyObject) -> bool {
    let mut has_shadow = false;
    in_python(|py| {
        let Some(shadow) = probe.shadow(py) else { return Ok(()) };
        has_shadow = true;
        // SAFETY: as in `entry`.
        let feed = unsafe { borrowed(py, feed) };
        shadow.call1(py, (sequence, feed)).map(drop)
    });
    has_shadow
}

/// One run with the operator profiler on. If that is not possible it is a run like any other.
#[cold]
unsafe fn profiled(
    probe: &Probe,
    sequence: u64,
    context: Context,
    original: *mut ffi::PyObject,
    arguments: Arguments,
) -> *mut ffi::PyObject {
    // SAFETY: as in `entry`; the array lives as long as the call.
    unsafe {
        let given = argument(arguments, 2, c"run_options".as_ptr());
        let feed = argument(arguments, 1, c"input_feed".as_ptr());
        let mut options = None;
        let is_shadowed = !feed.is_null() && offer_to_shadow(probe, sequence, feed);
        if !is_shadowed && (given.is_null() || given == ffi::Py_None()) {
            in_python(|py| {
                options = doorway::options_for(py, probe.number_of(), sequence)?;
                Ok(())
            });
        }
        let names = argument(arguments, 0, c"output_names".as_ptr());
        let start = now_nanos();
        let (result, profiled) = match &options {
            Some((options, _)) if !names.is_null() && !feed.is_null() => {
                let values = [names, feed, options.as_ptr()];
                let call =
                    Arguments { values: values.as_ptr(), positional: 3, keywords: null_mut(), ..arguments };
                (invoke(original, call), true)
            }
            _ => (invoke(original, arguments), false),
        };
        let end = now_nanos();
        probe.record(sequence, start, end, !result.is_null(), Context { profiled, ..context });
        if result.is_null() {
            tell_error(probe, sequence, end);
        }
        if let Some((options, prefix)) = options {
            if profiled {
                probe.tell_profile(sequence, start, prefix);
            }
            keeping_exception(|| Python::attach(|_| drop(options)));
        }
        if HOT.has_hooks.load(Ordering::Relaxed) {
            after_in_python(arguments.session, end.saturating_sub(start), !result.is_null());
        }
        result
    }
}

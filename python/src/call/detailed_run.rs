//! Runs that need more than their times recorded: new shapes, listeners, an operator profile.

use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use ortscope_core::clock::now_ns;
use pyo3::ffi;
use pyo3::prelude::*;

use super::arguments::{Arguments, argument, invoke};
use super::hooks::{after_in_python, before_in_python, borrowed, in_python, keeping_exception, report_error};
use super::hot::{HOT, METHODS};
use crate::probe::{Context, Probe};
use crate::{custom_op_hook, ndarray};

/// A run with all details.
#[cold]
pub unsafe fn monitored<const SLOT: usize>(
    probe: &Probe,
    original: *mut ffi::PyObject,
    arguments: Arguments,
) -> *mut ffi::PyObject {
    let feeds = SLOT.is_multiple_of(METHODS.len());
    // SAFETY: as in `unusual`.
    unsafe {
        let feed = if feeds { argument(arguments, 1, c"input_feed") } else { null_mut() };
        let sequence = probe.next();
        let mut context = Context::default();
        if !feed.is_null() {
            context.batch_size = batch_size_of(probe, sequence, feed);
        }
        if HOT.has_hooks.load(Ordering::Relaxed) || HOT.open_batches.load(Ordering::Relaxed) > 0 {
            before_in_python(arguments.session, &mut context);
        }
        if feeds && probe.is_profile_due() {
            return profiled(probe, sequence, context, original, arguments);
        }
        let start = now_ns();
        let result = invoke(original, arguments);
        let end = now_ns();
        probe.record(Python::assume_attached(), sequence, (start, end), !result.is_null(), context);
        if result.is_null() {
            report_error(probe, sequence, end, ffi::PyErr_Occurred());
        }
        if HOT.has_hooks.load(Ordering::Relaxed) {
            after_in_python(arguments.session, end.saturating_sub(start), !result.is_null());
        }
        result
    }
}

/// The batch size of a feed. New shapes are remembered and reported.
pub unsafe fn batch_size_of(probe: &Probe, sequence: u64, feed: *mut ffi::PyObject) -> u32 {
    // SAFETY: as in `unusual`.
    unsafe {
        if ndarray::same_shapes(feed, &probe.shapes) {
            return probe.counters().batch_size.load(Ordering::Relaxed);
        }
        let batch_size = ndarray::remember(feed, &probe.shapes);
        probe.counters().set_batch_size(batch_size);
        in_python(|py| {
            let feed = borrowed(py, feed);
            probe.tell_shapes(py, sequence, now_ns(), || ndarray::named(&feed));
            Ok(())
        });
        batch_size
    }
}

/// Where single runs cannot be profiled, a session of our own runs the same inputs: `shadow(sequence, feed)` copies them.
#[cold]
unsafe fn offer_to_shadow(probe: &Probe, sequence: u64, feed: *mut ffi::PyObject) -> bool {
    let mut has_shadow = false;
    in_python(|py| {
        let Some(shadow) = probe.shadow(py) else { return Ok(()) };
        has_shadow = true;
        // SAFETY: as in `unusual`.
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
    // SAFETY: as in `unusual`; the array lives as long as the call.
    unsafe {
        let given = argument(arguments, 2, c"run_options");
        let feed = argument(arguments, 1, c"input_feed");
        let mut options = None;
        let is_shadowed = !feed.is_null() && offer_to_shadow(probe, sequence, feed);
        if !is_shadowed && (given.is_null() || given == ffi::Py_None()) {
            in_python(|py| {
                options = custom_op_hook::options_for(py, probe.number_of(), sequence)?;
                Ok(())
            });
        }
        let names = argument(arguments, 0, c"output_names");
        let start = now_ns();
        let (result, profiled) = match &options {
            Some((options, _)) if !names.is_null() && !feed.is_null() => {
                let values = [names, feed, options.as_ptr()];
                let call =
                    Arguments { values: values.as_ptr(), positional: 3, keywords: null_mut(), ..arguments };
                (invoke(original, call), true)
            }
            _ => (invoke(original, arguments), false),
        };
        let end = now_ns();
        let context = Context { profiled, ..context };
        probe.record(Python::assume_attached(), sequence, (start, end), !result.is_null(), context);
        if result.is_null() {
            report_error(probe, sequence, end, ffi::PyErr_Occurred());
        }
        if let Some((options, prefix)) = options {
            if profiled {
                probe.tell_profile(Python::assume_attached(), sequence, start, prefix);
            }
            keeping_exception(|| Python::attach(|_| drop(options)));
        }
        if HOT.has_hooks.load(Ordering::Relaxed) {
            after_in_python(arguments.session, end.saturating_sub(start), !result.is_null());
        }
        result
    }
}

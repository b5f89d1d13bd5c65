//! Bare `OrtApi::Run`, the loop everything else is compared with.
#![expect(unsafe_code, reason = "passes arrays of pointers to C")]

use std::ffi::{CString, c_char};
use std::ptr;

use ort_sys as sys;
use ortscope_core::tensor::Value;

use crate::{OrtError, OrtValue, Session, text};

/// Runs a session with prepared names and values and nothing else.
#[derive(Debug)]
pub struct PlainRunner<'s> {
    session: &'s Session,
    inputs: Vec<OrtValue>,
    _names: Vec<CString>,
    input_names: Vec<*const c_char>,
    input_values: Vec<*const sys::OrtValue>,
    output_names: Vec<*const c_char>,
    /// Null, or the values of the last run.
    output_values: Vec<*mut sys::OrtValue>,
    reuse_outputs: bool,
}

// SAFETY: the pointers lead to values and strings that this struct owns, and ONNX Runtime's objects may move between
// threads.
unsafe impl Send for PlainRunner<'_> {}

impl<'s> PlainRunner<'s> {
    pub(crate) fn new(session: &'s Session, inputs: &[(String, Value)]) -> Result<Self, OrtError> {
        let runtime = session.environment().runtime();
        let values = inputs
            .iter()
            .map(|(_, value)| OrtValue::from_value(runtime, value))
            .collect::<Result<Vec<_>, _>>()?;
        let outputs = session.outputs().iter().map(|info| &info.name);
        Self::with_values(session, inputs.iter().map(|(name, _)| name), values, outputs)
    }

    /// A runner of these outputs; inputs are named in the order of their values.
    pub(crate) fn with_values<'n>(
        session: &'s Session,
        input_names: impl Iterator<Item = &'n String>,
        values: Vec<OrtValue>,
        output_names: impl Iterator<Item = &'n String>,
    ) -> Result<Self, OrtError> {
        let names = input_names.chain(output_names).map(|name| text::c_string(name, "the name"));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let (input_names, output_names) = pointers.split_at(values.len());
        Ok(Self {
            session,
            input_names: input_names.to_vec(),
            output_names: output_names.to_vec(),
            input_values: values.iter().map(|value| value.as_ptr().cast_const()).collect(),
            output_values: vec![ptr::null_mut(); output_names.len()],
            inputs: values,
            _names: names,
            reuse_outputs: false,
        })
    }

    /// Replaces one input.
    pub(crate) fn set_input(&mut self, index: usize, value: OrtValue) {
        self.input_values[index] = value.as_ptr().cast_const();
        self.inputs[index] = value;
    }

    /// Lets later runs write into the outputs of the first one, instead of allocating new ones.
    #[must_use]
    pub fn reuse_outputs(mut self, reuse: bool) -> Self {
        self.reuse_outputs = reuse;
        self
    }

    /// One run. Unless outputs are reused, releases those of the run before; call [`Self::release_outputs`] first to
    /// keep that out of a measurement.
    #[inline]
    pub fn run(&mut self) -> Result<(), OrtError> {
        if !self.reuse_outputs {
            self.release_outputs();
        }
        // SAFETY: names and values are as many as stated and alive; outputs are null or values ONNX Runtime gave.
        unsafe {
            call!(
                self.session.api(),
                Run(
                    self.session.as_ptr(),
                    ptr::null(),
                    self.input_names.as_ptr(),
                    self.input_values.as_ptr(),
                    self.input_names.len(),
                    self.output_names.as_ptr(),
                    self.output_names.len(),
                    self.output_values.as_mut_ptr(),
                )
            )
        }
    }

    /// Releases the outputs of the last run.
    #[inline]
    pub fn release_outputs(&mut self) {
        for output in &mut self.output_values {
            let value = *output;
            *output = ptr::null_mut();
            if !value.is_null() {
                // SAFETY: the value came from a run and is forgotten here.
                drop(unsafe { OrtValue::from_raw(self.session.api(), "Run", value) });
            }
        }
    }

    /// Copies the outputs of the last run out; the next run makes new ones.
    pub fn take_outputs(&mut self) -> Result<Vec<(String, Value)>, OrtError> {
        let values = self.take_values()?;
        let names = self.session.outputs().iter().map(|info| info.name.clone());
        names.zip(values).map(|(name, value)| Ok((name, value.to_value()?))).collect()
    }

    pub(crate) fn take_values(&mut self) -> Result<Vec<OrtValue>, OrtError> {
        let api = self.session.api();
        let take = |output: &mut *mut sys::OrtValue| {
            let value = *output;
            *output = ptr::null_mut();
            // SAFETY: null or a value of the last run, which is forgotten here.
            unsafe { OrtValue::from_raw(api, "Run", value) }
        };
        self.output_values.iter_mut().map(take).collect()
    }
}

impl Drop for PlainRunner<'_> {
    fn drop(&mut self) {
        self.release_outputs();
    }
}

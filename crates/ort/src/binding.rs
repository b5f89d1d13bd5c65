//! The hot path: repeated runs through an `OrtIoBinding`, with separately timed copies in and out.
//!
//! Everything is allocated before the measured run. Inputs are tensors owned by ONNX Runtime, so that
//! [`Binding::copy_inputs`] is the memcpy a real program would pay. Outputs are first bound to the CPU; after the first
//! run their shapes are known, and those that depend only on the input shapes become preallocated tensors. The others
//! (data dependent, strings, sequences, maps) stay bound to the CPU and are allocated by ONNX Runtime in each run.
#![expect(
    unsafe_code,
    reason = "copies memory through pointers fetched once, and calls C without checks in between"
)]

use std::ffi::CString;
use std::path::Path;
use std::ptr;

use ort_sys as sys;
use ortscope_core::clock::now_ns;
use ortscope_core::tensor::{Dimension, Value, ValueInfo, ValueType};

use crate::handle::Handle;
use crate::os::OsPath;
use crate::{OrtError, OrtValue, Session, gates, text};

/// The moments of one pass, by the machine's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct RunTimes {
    pub start_ns: u64,
    /// The inputs are in place.
    pub copied_ns: u64,
    /// The run has returned.
    pub ran_ns: u64,
    /// Devices are done and the outputs are copied.
    pub end_ns: u64,
}

/// Prepared runs of a session with fixed inputs.
#[derive(Debug)]
pub struct Binding<'s> {
    // Before the values it refers to.
    io: Handle<sys::OrtIoBinding>,
    session: &'s Session,
    run_options: Handle<sys::OrtRunOptions>,
    cpu: Handle<sys::OrtMemoryInfo>,
    _inputs: Vec<OrtValue>,
    copies_in: Vec<CopyIn>,
    outputs: Vec<Output>,
    input_bytes: u64,
    /// Some outputs are bound to the CPU rather than to a tensor, so they must be bound again before each run: ONNX
    /// Runtime would take the last run's tensor for a preallocated one and fail when the shape differs.
    any_floating: bool,
    /// The floating outputs are bound and empty.
    armed: bool,
    has_run: bool,
    settled: bool,
    synchronize: bool,
}

/// A host buffer and the tensor it is copied to.
#[derive(Debug)]
struct CopyIn {
    host: Vec<u8>,
    tensor: *mut u8,
}

#[derive(Debug)]
struct Output {
    name: CString,
    /// Where `copy_outputs` copies to.
    host: Vec<u8>,
    /// The preallocated tensor and its memory; `None` while or if ONNX Runtime allocates it.
    fixed: Option<(OrtValue, *const u8)>,
    may_be_fixed: bool,
}

// SAFETY: the raw pointers lead into values that this struct owns, and ONNX Runtime's objects may move between threads.
unsafe impl Send for Binding<'_> {}

impl<'s> Binding<'s> {
    pub(crate) fn new(session: &'s Session, inputs: &[(String, Value)]) -> Result<Self, OrtError> {
        let api = session.api();
        let (arena, kind) = (sys::OrtAllocatorType::OrtArenaAllocator, sys::OrtMemType::OrtMemTypeDefault);
        // SAFETY: the session is alive; handles release the created objects.
        let (io, run_options, cpu) = unsafe {
            (
                create!(api, CreateIoBinding(session.as_ptr()), ReleaseIoBinding)?,
                create!(api, CreateRunOptions(), ReleaseRunOptions)?,
                create!(api, CreateCpuMemoryInfo(arena, kind), ReleaseMemoryInfo)?,
            )
        };
        let mut bound = Vec::with_capacity(inputs.len());
        let mut copies_in = Vec::new();
        for (name, value) in inputs {
            let ort_value = OrtValue::from_value(session.environment().runtime(), value)?;
            let name = text::c_string(name, "the input name")?;
            // SAFETY: binding and value are alive; the binding shares ownership of the value's content.
            unsafe { call!(api, BindInput(io.as_ptr(), name.as_ptr(), ort_value.as_ptr())) }?;
            if let Value::Tensor(ortscope_core::tensor::Tensor {
                data: ortscope_core::tensor::TensorData::Bytes(bytes),
                ..
            }) = value
            {
                let (tensor, len) = ort_value.payload()?;
                debug_assert_eq!(len, bytes.len());
                copies_in.push(CopyIn { host: bytes.clone(), tensor });
            }
            bound.push(ort_value);
        }
        let outputs = session
            .outputs()
            .iter()
            .map(|info| {
                Ok(Output {
                    name: text::c_string(&info.name, "the output name")?,
                    host: Vec::new(),
                    fixed: None,
                    may_be_fixed: follows_from_inputs(info, session.inputs()),
                })
            })
            .collect::<Result<Vec<_>, OrtError>>()?;
        let mut binding = Self {
            io,
            session,
            run_options,
            cpu,
            _inputs: bound,
            copies_in,
            any_floating: !outputs.is_empty(),
            outputs,
            input_bytes: inputs.iter().map(|(_, value)| byte_len(value)).sum(),
            armed: false,
            has_run: false,
            settled: false,
            synchronize: session.uses_other_devices(),
        };
        binding.arm()?;
        Ok(binding)
    }

    /// One timed pass: copies the inputs, runs, waits, copies the outputs. The measuring loop calls little else; it
    /// is one function here so that the crate of that loop need not be optimized for it.
    #[inline(never)]
    pub fn timed_run(&mut self) -> Result<RunTimes, OrtError> {
        let start_ns = now_ns();
        self.copy_inputs()?;
        let copied_ns = now_ns();
        self.run()?;
        let ran_ns = now_ns();
        self.synchronize()?;
        self.copy_outputs()?;
        Ok(RunTimes { start_ns, copied_ns, ran_ns, end_ns: now_ns() })
    }

    /// Copies the inputs from the host's buffers. Strings, sequences and maps were copied once, when bound, and are left
    /// alone here ([`Self::copied_input_bytes`] against [`Self::input_bytes`]).
    #[inline]
    pub fn copy_inputs(&mut self) -> Result<(), OrtError> {
        for copy in &self.copies_in {
            // SAFETY: the tensor was made with exactly as many bytes as the host buffer has (checked by
            // `OrtValue::from_value`), lives in `_inputs`, and no run is under way while `self` is borrowed.
            unsafe { ptr::copy_nonoverlapping(copy.host.as_ptr(), copy.tensor, copy.host.len()) };
        }
        if self.any_floating && !self.armed {
            self.arm()?;
        }
        Ok(())
    }

    /// Runs the model.
    #[inline]
    pub fn run(&mut self) -> Result<(), OrtError> {
        if self.any_floating && !self.armed {
            self.arm()?;
        }
        self.armed = false;
        // SAFETY: session, options and binding are alive, and everything bound is owned by `self`.
        unsafe {
            call!(
                self.session.api(),
                RunWithBinding(self.session.as_ptr(), self.run_options.as_ptr(), self.io.as_ptr())
            )
        }?;
        self.has_run = true;
        Ok(())
    }

    /// Runs the model with the operator profiler enabled for this run only (since 1.25). ONNX Runtime writes a file
    /// whose name begins with `prefix`; the suffix has only millisecond resolution, so every run needs its own prefix.
    pub fn run_profiled(&mut self, prefix: &Path) -> Result<(), OrtError> {
        let api = self.session.api();
        let prefix = OsPath::new(prefix)?;
        // SAFETY: the options are alive, and the path is until the call returns.
        unsafe { call!(api, RunOptionsEnableProfiling(self.run_options.as_ptr(), prefix.as_ptr())) }?;
        let result = self.run();
        // SAFETY: as above.
        unsafe { call!(api, RunOptionsDisableProfiling(self.run_options.as_ptr())) }?;
        result
    }

    /// Whether [`Self::run_profiled`] can work with this library.
    pub fn can_profile_runs(&self) -> bool {
        self.session
            .api()
            .require("RunOptionsEnableProfiling", const { gates::since("RunOptionsEnableProfiling") })
            .is_ok()
    }

    /// Waits for devices other than the CPU; does nothing when there are none.
    #[inline]
    pub fn synchronize(&mut self) -> Result<(), OrtError> {
        if !self.synchronize {
            return Ok(());
        }
        // SAFETY: the binding is alive.
        unsafe { call!(self.session.api(), SynchronizeBoundOutputs(self.io.as_ptr())) }
    }

    /// Copies the outputs into host buffers. The first call allocates them ([`Self::settle`]).
    #[inline]
    pub fn copy_outputs(&mut self) -> Result<(), OrtError> {
        if !self.settled {
            self.settle()?;
        }
        for output in &mut self.outputs {
            if let Some((_, tensor)) = &output.fixed {
                // SAFETY: the tensor was made with as many bytes as the host buffer has, and no run is under way.
                unsafe { ptr::copy_nonoverlapping(*tensor, output.host.as_mut_ptr(), output.host.len()) };
            }
        }
        if self.any_floating && self.has_run && !self.armed {
            self.copy_floating()?;
        }
        Ok(())
    }

    /// Uses the shapes of the first run to preallocate the outputs. Call it after a run; does its work only once.
    pub fn settle(&mut self) -> Result<(), OrtError> {
        if self.settled {
            return Ok(());
        }
        let values = self.bound_outputs()?;
        let runtime = self.session.environment().runtime().clone();
        for (output, value) in self.outputs.iter_mut().zip(values) {
            let Some(info) = value.tensor_info()? else {
                continue;
            };
            let (true, Some(len)) = (output.may_be_fixed, info.byte_len()) else {
                continue;
            };
            let mut tensor = OrtValue::zeroed(&runtime, info.element, &info.dims)?;
            // The first run's results stay readable.
            tensor.bytes_mut()?.copy_from_slice(value.bytes()?);
            // SAFETY: binding and tensor are alive, and `self` keeps the tensor.
            unsafe {
                call!(
                    self.session.api(),
                    BindOutput(self.io.as_ptr(), output.name.as_ptr(), tensor.as_ptr())
                )?;
            }
            let (memory, _) = tensor.payload()?;
            output.host = vec![0; len];
            output.fixed = Some((tensor, memory));
        }
        self.any_floating = self.outputs.iter().any(|output| output.fixed.is_none());
        self.settled = true;
        Ok(())
    }

    /// The outputs of the last run.
    pub fn outputs(&self) -> Result<Vec<(String, Value)>, OrtError> {
        let values = self.bound_outputs()?;
        self.session
            .outputs()
            .iter()
            .zip(values)
            .map(|(info, value)| Ok((info.name.clone(), value.to_value()?)))
            .collect()
    }

    /// Bytes of all inputs.
    pub fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// Bytes that [`Self::copy_inputs`] copies.
    pub fn copied_input_bytes(&self) -> u64 {
        self.copies_in.iter().map(|copy| copy.host.len() as u64).sum()
    }

    /// Bytes that the last [`Self::copy_outputs`] copied.
    pub fn output_bytes(&self) -> u64 {
        self.outputs.iter().map(|output| output.host.len() as u64).sum()
    }

    /// Outputs that ONNX Runtime allocates in each run, because their size is not known before.
    pub fn floating_outputs(&self) -> usize {
        self.outputs.iter().filter(|output| output.fixed.is_none()).count()
    }

    /// Binds the floating outputs to the CPU again, which forgets the last run's values.
    fn arm(&mut self) -> Result<(), OrtError> {
        for output in self.outputs.iter().filter(|output| output.fixed.is_none()) {
            // SAFETY: binding, name and memory description are alive.
            unsafe {
                call!(
                    self.session.api(),
                    BindOutputToDevice(self.io.as_ptr(), output.name.as_ptr(), self.cpu.as_ptr())
                )?;
            }
        }
        self.armed = true;
        Ok(())
    }

    fn copy_floating(&mut self) -> Result<(), OrtError> {
        let values = self.bound_outputs()?;
        for (output, value) in
            self.outputs.iter_mut().zip(values).filter(|(output, _)| output.fixed.is_none())
        {
            // Strings, sequences and maps have no flat memory to copy; `outputs` reads them.
            if let Some(info) = value.tensor_info()?
                && info.byte_len().is_some()
            {
                output.host.clear();
                output.host.extend_from_slice(value.bytes()?);
            }
        }
        Ok(())
    }

    /// The values of the last run, in the order of the session's outputs, which is the order they were bound in.
    fn bound_outputs(&self) -> Result<Vec<OrtValue>, OrtError> {
        if !self.has_run || (self.any_floating && self.armed) {
            return Err(OrtError::Unsupported(
                "there are no outputs: no run since the inputs were copied".to_owned(),
            ));
        }
        let api = self.session.api();
        let allocator = text::default_allocator(api)?;
        let (mut values, mut count) = (ptr::null_mut(), 0usize);
        // SAFETY: the binding is alive; ONNX Runtime fills an array of `count` values from `allocator`, all ours.
        unsafe {
            call!(api, GetBoundOutputValues(self.io.as_ptr(), allocator, &raw mut values, &raw mut count))?;
            let owned: Vec<_> = (0..count)
                .map(|index| OrtValue::from_raw(api, "GetBoundOutputValues", *values.add(index)))
                .collect();
            if !values.is_null() {
                call!(api, AllocatorFree(allocator, values.cast()))?;
            }
            owned.into_iter().collect()
        }
    }
}

/// Whether an output's shape is a function of the input shapes, as far as the model specifies: every size is fixed or
/// has the name of a size of some input.
fn follows_from_inputs(output: &ValueInfo, inputs: &[ValueInfo]) -> bool {
    let ValueType::Tensor { shape: Some(shape), .. } = &output.value_type else {
        return false;
    };
    let named_by_an_input = |name: &String| {
        inputs.iter().any(|input| match &input.value_type {
            ValueType::Tensor { shape: Some(shape), .. } => {
                shape.iter().any(|dimension| matches!(dimension, Dimension::Symbolic(other) if other == name))
            }
            _ => false,
        })
    };
    shape.iter().all(|dimension| match dimension {
        Dimension::Fixed(_) => true,
        Dimension::Symbolic(name) => named_by_an_input(name),
        Dimension::Unknown => false,
    })
}

fn byte_len(value: &Value) -> u64 {
    match value {
        Value::Tensor(tensor) => tensor.byte_len(),
        Value::Sequence(items) => items.iter().map(byte_len).sum(),
        Value::Map { keys, values } => keys.byte_len() + values.byte_len(),
    }
}

//! A model ready to run.
#![expect(unsafe_code, reason = "creates and uses C sessions")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::ptr;

use ort_sys as sys;
use ortscope_core::tensor::{Value, ValueInfo};

use crate::binding::Binding;
use crate::ep::{self, DeviceClass};
use crate::handle::Handle;
use crate::os::OsPath;
use crate::plain::PlainRunner;
use crate::session_info::{self, AssignedSubgraph, ModelMetadata};
use crate::session_setup::Setup;
use crate::signature::{self, Side};
use crate::{Environment, OrtError, text};
use ortscope_core::session::{Fallback, FallbackPolicy, LogLevel, LogLine, SessionOptions};

/// A model loaded by ONNX Runtime. Runs may happen from several threads at once.
#[derive(Debug)]
pub struct Session {
    // Before the environment, which it must not outlive.
    handle: Handle<sys::OrtSession>,
    environment: Environment,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    providers: Vec<String>,
    device_classes: Vec<DeviceClass>,
    fallbacks: Vec<Fallback>,
}

enum Model<'a> {
    File(&'a Path),
    Bytes(&'a [u8]),
}

/// Outcome of the requested providers.
#[derive(Default)]
struct Appended {
    providers: Vec<String>,
    device_classes: Vec<DeviceClass>,
    fallbacks: Vec<Fallback>,
}

impl Session {
    /// Loads a model file.
    pub fn create(
        environment: &Environment,
        model: &Path,
        options: &SessionOptions,
    ) -> Result<Self, OrtError> {
        Self::build(environment, &Model::File(model), options)
    }

    /// Loads a model from memory; it cannot refer to external data.
    pub fn from_bytes(
        environment: &Environment,
        model: &[u8],
        options: &SessionOptions,
    ) -> Result<Self, OrtError> {
        // With these ONNX Runtime would go on reading `model` after this function has returned.
        let borrows = |key: &&String| key.starts_with("session.use_ort_model_bytes_");
        if let Some(key) = options.config_entries.keys().find(borrows) {
            return Err(OrtError::Unsupported(format!("'{key}' cannot be used with a model from memory")));
        }
        Self::build(environment, &Model::Bytes(model), options)
    }

    fn build(
        environment: &Environment,
        model: &Model<'_>,
        options: &SessionOptions,
    ) -> Result<Self, OrtError> {
        let logs = environment.runtime().logs();
        let mark = logs.mark();
        let setup = Setup::new(environment, options)?;
        let mut appended = append_providers(environment, &setup, options)?;
        let handle = match create(environment, model, &setup) {
            Ok(handle) => handle,
            // A provider may take part of a model and then fail to compile it; the CPU may still run all of it.
            Err(error)
                if options.fallback == FallbackPolicy::ContinueOnCpu && !appended.providers.is_empty() =>
            {
                let reason = error.to_string();
                let lost = appended.providers.drain(..);
                appended.fallbacks.extend(lost.map(|provider| Fallback { provider, reason: reason.clone() }));
                appended.device_classes.clear();
                create(environment, model, &Setup::new(environment, options)?)?
            }
            Err(error) => return Err(error),
        };
        let Appended { providers, device_classes, mut fallbacks } = appended;
        fallbacks.extend(logged_fallbacks(&providers, &logs.since(mark)));

        let api = environment.runtime().api();
        // SAFETY: the session is alive.
        let (inputs, outputs) = unsafe {
            (
                signature::read(api, handle.as_ptr(), Side::Input)?,
                signature::read(api, handle.as_ptr(), Side::Output)?,
            )
        };
        Ok(Self {
            handle,
            environment: environment.clone(),
            inputs,
            outputs,
            providers,
            device_classes,
            fallbacks,
        })
    }

    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    pub fn inputs(&self) -> &[ValueInfo] {
        &self.inputs
    }

    pub fn outputs(&self) -> &[ValueInfo] {
        &self.outputs
    }

    /// ONNX Runtime's names of the requested providers that it accepted, in order, without the CPU that always
    /// follows. Accepted does not mean used: see [`Self::placement`].
    pub fn providers(&self) -> &[String] {
        &self.providers
    }

    /// The class of device behind each of [`Self::providers`].
    pub fn device_classes(&self) -> &[DeviceClass] {
        &self.device_classes
    }

    /// Requested providers that are not used or that ONNX Runtime complained about, each with the reason.
    pub fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }

    pub fn metadata(&self) -> Result<ModelMetadata, OrtError> {
        // SAFETY: the session is alive.
        unsafe { session_info::metadata(self.api(), self.as_ptr()) }
    }

    /// Which provider got which nodes (since 1.24).
    pub fn placement(&self) -> Result<Vec<AssignedSubgraph>, OrtError> {
        // SAFETY: the session is alive, and the needed option was set when it was created.
        unsafe { session_info::placement(self.api(), self.as_ptr()) }
    }

    /// Statistics of the session's CPU arena (since 1.23); `None` when the arena is off.
    pub fn allocator_stats(&self) -> Result<Option<BTreeMap<String, String>>, OrtError> {
        // SAFETY: the session is alive.
        unsafe { session_info::allocator_stats(self.api(), self.as_ptr()) }
    }

    /// When profiling started, in nanoseconds of ONNX Runtime's clock (the system clock's epoch).
    pub fn profiling_start_ns(&self) -> Result<u64, OrtError> {
        let mut start = 0;
        // SAFETY: the session is alive.
        unsafe { call!(self.api(), SessionGetProfilingStartTimeNs(self.as_ptr(), &raw mut start)) }?;
        Ok(start)
    }

    /// Writes the profile and returns its file. Needs `&mut`, because versions up to 1.20 abort the process when a run is
    /// under way.
    pub fn end_profiling(&mut self) -> Result<PathBuf, OrtError> {
        let allocator = text::default_allocator(self.api())?;
        let mut path = ptr::null_mut();
        // SAFETY: the session is alive and idle; the string comes from `allocator`.
        let path = unsafe {
            call!(self.api(), SessionEndProfiling(self.as_ptr(), allocator, &raw mut path))?;
            text::take(self.api(), allocator, path)?
        };
        if path.is_empty() {
            return Err(OrtError::Unsupported("the session was not being profiled".to_owned()));
        }
        Ok(PathBuf::from(path))
    }

    /// Prepares repeated runs with these inputs.
    pub fn bind(&self, inputs: &[(String, Value)]) -> Result<Binding<'_>, OrtError> {
        Binding::new(self, inputs)
    }

    /// Prepares bare `OrtApi::Run` calls with these inputs: the loop to compare a [`Binding`] with.
    pub fn run_plain(&self, inputs: &[(String, Value)]) -> Result<PlainRunner<'_>, OrtError> {
        PlainRunner::new(self, inputs)
    }

    /// Whether anything but the CPU was requested and accepted.
    pub(crate) fn uses_other_devices(&self) -> bool {
        self.device_classes.iter().any(|class| *class != DeviceClass::Cpu)
    }

    #[inline(always)]
    pub(crate) fn api(&self) -> crate::api::Api {
        self.environment.runtime().api()
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut sys::OrtSession {
        self.handle.as_ptr()
    }
}

fn create(
    environment: &Environment,
    model: &Model<'_>,
    setup: &Setup,
) -> Result<Handle<sys::OrtSession>, OrtError> {
    let api = environment.runtime().api();
    let (env, options) = (environment.as_ptr(), setup.handle.as_ptr());
    match model {
        Model::File(path) => {
            let path = OsPath::new(path)?;
            // SAFETY: environment, path and options are alive; ONNX Runtime copies the parts of the options that it
            // keeps.
            unsafe { create!(api, CreateSession(env, path.as_ptr(), options), ReleaseSession) }
        }
        Model::Bytes(bytes) => {
            // SAFETY: as above; ONNX Runtime copies the bytes, because `from_bytes` rejects the entries that make it
            // keep using them.
            unsafe {
                create!(
                    api,
                    CreateSessionFromArray(env, bytes.as_ptr().cast(), bytes.len(), options),
                    ReleaseSession
                )
            }
        }
    }
}

fn append_providers(
    environment: &Environment,
    setup: &Setup,
    options: &SessionOptions,
) -> Result<Appended, OrtError> {
    let logs = environment.runtime().logs();
    let mut appended = Appended::default();
    for request in &options.providers {
        let mark = logs.mark();
        let resolved = ep::resolve(request);
        match resolved.append(environment, setup) {
            Ok(accepted) => {
                appended.device_classes.push(accepted.device_class);
                appended.providers.push(accepted.name);
            }
            Err(error) => {
                let reason = with_log(reason_of(error), &logs.since(mark));
                match options.fallback {
                    FallbackPolicy::Fail => {
                        return Err(OrtError::ProviderUnavailable {
                            provider: resolved.ort_name().to_owned(),
                            available: environment.runtime().available_providers(),
                            reason,
                        });
                    }
                    FallbackPolicy::ContinueOnCpu => {
                        let provider = resolved.ort_name().to_owned();
                        appended.fallbacks.push(Fallback { provider, reason });
                    }
                }
            }
        }
    }
    Ok(appended)
}

fn reason_of(error: OrtError) -> String {
    match error {
        OrtError::Call { message, .. } => message.trim().to_owned(),
        OrtError::ProviderUnavailable { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// ONNX Runtime's status is often only "failed to load shared library"; the missing dependency is in the log.
fn with_log(reason: String, lines: &[LogLine]) -> String {
    match lines
        .iter()
        .rev()
        .find(|line| line.level >= LogLevel::Warning && !reason.contains(line.message.trim()))
    {
        Some(line) => format!("{reason} ({})", line.message.trim()),
        None => reason,
    }
}

/// Providers that were accepted, and then given up with nothing but a log line.
fn logged_fallbacks(providers: &[String], lines: &[LogLine]) -> Vec<Fallback> {
    let complaint = |provider: &String| {
        lines
            .iter()
            .find(|line| {
                line.level >= LogLevel::Warning
                    && line.message.contains("Failed to")
                    && line.message.contains(provider.as_str())
            })
            .map(|line| Fallback { provider: provider.clone(), reason: line.message.trim().to_owned() })
    };
    providers.iter().filter_map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(message: &str) -> LogLine {
        LogLine { level: LogLevel::Warning, category: String::new(), message: message.to_owned() }
    }

    #[test]
    fn the_log_explains_a_rejected_provider() {
        let lines = [
            warning("Some nodes were not assigned to the preferred execution providers"),
            warning("Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 13.*"),
        ];
        let providers = ["CUDAExecutionProvider".to_owned(), "QNNExecutionProvider".to_owned()];
        let found = logged_fallbacks(&providers, &lines);
        assert_eq!(found.len(), 1);
        assert!(found[0].reason.contains("Require cuDNN"));
    }

    #[test]
    fn the_log_completes_a_short_reason() {
        let lines = [warning("libcublasLt.so.13: cannot open shared object file")];
        assert_eq!(
            with_log("Failed to load shared library".to_owned(), &lines),
            "Failed to load shared library (libcublasLt.so.13: cannot open shared object file)"
        );
        assert_eq!(with_log("alone".to_owned(), &[]), "alone");
    }
}

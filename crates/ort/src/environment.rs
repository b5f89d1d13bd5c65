//! The environment that sessions live in: logging, telemetry, plug-in providers.
#![expect(unsafe_code, reason = "creates and uses the C environment")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use ort_sys as sys;

use crate::device::{self, EpDevice};
use crate::handle::Handle;
use crate::logging::{self, level_to_raw};
use crate::os::OsPath;
use crate::{LogLevel, LogLine};
use crate::{OrtError, Runtime, text};

/// A process's environment in one library. Cheap to clone; sessions keep it alive.
///
/// ONNX Runtime itself has only one per process: a second `Environment` shares it, its log lines, and sets the level for
/// both. Telemetry is off in every environment made here.
#[derive(Debug, Clone)]
pub struct Environment {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    runtime: Runtime,
    handle: Handle<sys::OrtEnv>,
    /// Plug-in libraries registered here, with the providers that each brought.
    plugins: Mutex<BTreeMap<PathBuf, Vec<String>>>,
}

impl Environment {
    pub fn new(runtime: &Runtime, level: LogLevel) -> Result<Self, OrtError> {
        let api = runtime.api();
        let collector = ptr::from_ref(runtime.logs()).cast_mut().cast();
        // SAFETY: the collector lives for ever, as the callback needs; the other arguments are locals or constants, and
        // the environment is released by its handle.
        let handle = unsafe {
            let handle = create!(
                api,
                CreateEnvWithCustomLogger(
                    logging::callback(),
                    collector,
                    level_to_raw(level),
                    c"ortscope".as_ptr()
                ),
                ReleaseEnv
            )?;
            // The level of an environment that already existed is not changed by creating it again.
            call!(api, UpdateEnvWithCustomLogLevel(handle.as_ptr(), level_to_raw(level)))?;
            call!(api, DisableTelemetryEvents(handle.as_ptr()))?;
            handle
        };
        Ok(Self { inner: Arc::new(Inner { runtime: runtime.clone(), handle, plugins: Mutex::default() }) })
    }

    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// Takes the log lines so far; at most [`crate::MAX_LOG_LINES`], and one more with the number of dropped ones.
    pub fn take_logs(&self) -> Vec<LogLine> {
        self.inner.runtime.logs().take()
    }

    /// Log lines dropped since the library was loaded because they were not taken in time.
    pub fn dropped_logs(&self) -> u64 {
        self.inner.runtime.logs().dropped_total()
    }

    /// Loads a plug-in provider (since 1.22) under a name of the caller's choice.
    pub fn register_provider_library(&self, name: &str, path: &Path) -> Result<(), OrtError> {
        let name = text::c_string(name, "the provider name")?;
        let path = OsPath::new(path)?;
        // SAFETY: the environment is alive and both strings outlive the call.
        unsafe {
            call!(
                self.inner.runtime.api(),
                RegisterExecutionProviderLibrary(self.as_ptr(), name.as_ptr(), path.as_ptr())
            )
        }
    }

    /// The devices that the built-in and the registered providers offer (since 1.22).
    pub fn devices(&self) -> Result<Vec<EpDevice>, OrtError> {
        let api = self.inner.runtime.api();
        // SAFETY: the environment is alive, and nothing is unregistered in between: that function is not wrapped.
        unsafe {
            device::raw_devices(api, self.as_ptr())?
                .into_iter()
                .map(|raw| device::describe(api, raw))
                .collect()
        }
    }

    /// Registers a plug-in unless it already is, and returns the names of the providers it brought.
    pub(crate) fn ensure_registered(&self, name: &str, path: &Path) -> Result<Vec<String>, OrtError> {
        let mut plugins = self.inner.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = plugins.get(path) {
            return Ok(names.clone());
        }
        let before = self.devices()?;
        self.register_provider_library(name, path)?;
        let mut names: Vec<String> = self
            .devices()?
            .into_iter()
            .filter(|device| !before.contains(device))
            .map(|device| device.ep_name)
            .collect();
        names.dedup();
        plugins.insert(path.to_owned(), names.clone());
        Ok(names)
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::OrtEnv {
        self.inner.handle.as_ptr()
    }
}

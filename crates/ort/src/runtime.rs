//! A loaded ONNX Runtime library.
#![expect(unsafe_code, reason = "loads a library and reads its entry points")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use ort_sys as sys;

use crate::api::Api;
use crate::logging::LogCollector;
use crate::{OrtError, text};

/// The oldest version whose table this program understands.
pub const MINIMUM_VERSION: &str = "1.15";
pub const OLDEST_MINOR: u32 = 15;
/// The newest table this program knows; a newer library is used through this one.
pub const NEWEST_MINOR: u32 = 31;

type GetApiBase = unsafe extern "system" fn() -> *const sys::OrtApiBase;

/// A loaded library. Cheap to clone; the library stays loaded until the process ends.
#[derive(Debug, Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    api: Api,
    library: &'static libloading::Library,
    logs: &'static LogCollector,
    path: PathBuf,
    version: &'static str,
    minor: u32,
}

impl Runtime {
    /// Loads the library at `path`.
    ///
    /// ONNX Runtime 1.29 and newer start to send usage data as soon as they load. [`crate::Environment`] turns that off,
    /// but a process that wants none of it from the first moment must be started with `ORT_DISABLE_TELEMETRY=1`: a
    /// running, possibly threaded process cannot change its environment safely.
    pub fn load(path: &Path) -> Result<Self, OrtError> {
        // A bare name would be searched in the system's directories, not next to the file.
        let place = std::path::absolute(path).ok().filter(|place| place.is_file());
        // SAFETY: loading runs the library's initializers. That the file is the ONNX Runtime the user chose is all that
        // can be known; the alternative would be not to load any.
        let library = unsafe { libloading::Library::new(place.as_deref().unwrap_or(path)) }
            .map_err(|error| OrtError::LibraryLoad { path: path.to_owned(), reason: describe(&error) })?;
        // Never unloaded, see the crate's documentation.
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        // SAFETY: the symbol has this signature in every version since 1.0.
        let base = unsafe {
            library
                .get::<GetApiBase>(b"OrtGetApiBase\0")
                .map_err(|_| OrtError::NotOnnxRuntime { path: path.to_owned() })?()
        };
        if base.is_null() {
            return Err(OrtError::NotOnnxRuntime { path: path.to_owned() });
        }
        // SAFETY: OrtApiBase is two function pointers in every version; the version string is static.
        let version = unsafe { text::copy(((*base).GetVersionString)()) };
        let minor = minor_of(&version).ok_or_else(|| OrtError::NotOnnxRuntime { path: path.to_owned() })?;
        if minor < OLDEST_MINOR {
            return Err(OrtError::TooOld { found: version, minimum: MINIMUM_VERSION });
        }
        let table = minor.min(NEWEST_MINOR);
        // SAFETY: as above; an unsupported version yields null.
        let raw = unsafe { ((*base).GetApi)(table) };
        if raw.is_null() {
            return Err(OrtError::LibraryLoad {
                path: path.to_owned(),
                reason: format!("version {version} refuses its own API version {table}"),
            });
        }
        let version: &'static str = String::leak(version);
        // SAFETY: `raw` is GetApi(table)'s answer and the library is never unloaded.
        let api = unsafe { Api::new(raw, table, version) };
        let logs = collector_of(raw);
        Ok(Self { inner: Arc::new(Inner { api, library, logs, path: path.to_owned(), version, minor }) })
    }

    /// The library's own version, for example `1.31.1`.
    pub fn version(&self) -> &str {
        self.inner.version
    }

    /// 31 for `1.31.1`.
    pub fn minor(&self) -> u32 {
        self.inner.minor
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The commit and compiler flags the library was built with.
    pub fn build_info(&self) -> String {
        // SAFETY: takes nothing and returns a static string.
        unsafe { call_plain!(self.api(), GetBuildInfoString()).map(|info| text::copy(info)) }
            .unwrap_or_default()
    }

    /// ONNX Runtime's names of the providers compiled into this library. Being listed does not mean that it works
    /// here: the GPU package lists CUDA on machines without one.
    pub fn available_providers(&self) -> Vec<String> {
        let (mut names, mut count) = (ptr::null_mut(), 0);
        // SAFETY: ONNX Runtime fills an array of `count` strings, which is copied and then given back.
        unsafe {
            if call!(self.api(), GetAvailableProviders(&raw mut names, &raw mut count)).is_err() {
                return Vec::new();
            }
            let listed =
                (0..usize::try_from(count).unwrap_or(0)).map(|index| text::copy(*names.add(index))).collect();
            // Nothing can be done about a failure to free.
            drop(call!(self.api(), ReleaseAvailableProviders(names, count)));
            listed
        }
    }

    #[inline(always)]
    pub(crate) fn api(&self) -> Api {
        self.inner.api
    }

    pub(crate) fn logs(&self) -> &'static LogCollector {
        self.inner.logs
    }

    pub(crate) fn library(&self) -> &'static libloading::Library {
        self.inner.library
    }
}

/// The collector of the library behind a table: loading a file twice gives the same library, and thus one collector.
fn collector_of(raw: *const sys::OrtApi) -> &'static LogCollector {
    static COLLECTORS: Mutex<BTreeMap<usize, &'static LogCollector>> = Mutex::new(BTreeMap::new());
    let mut collectors = COLLECTORS.lock().unwrap_or_else(PoisonError::into_inner);
    collectors.entry(raw.addr()).or_insert_with(|| Box::leak(Box::default()))
}

fn minor_of(version: &str) -> Option<u32> {
    let mut parts = version.split('.');
    (parts.next()? == "1").then_some(())?;
    parts.next()?.parse().ok()
}

/// libloading's own text is only "dlopen failed"; the loader's words are in the source.
fn describe(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(minor_of("1.31.1"), Some(31));
        assert_eq!(minor_of("1.16.0-dev-20230801"), Some(16));
        assert_eq!(minor_of("2.0.0"), None);
        assert_eq!(minor_of(""), None);
    }

    #[test]
    fn a_missing_file_is_a_load_error() {
        let error =
            Runtime::load(Path::new("/nonexistent/libonnxruntime.so")).expect_err("there is no such file");
        assert!(matches!(error, OrtError::LibraryLoad { .. }), "{error}");
    }
}

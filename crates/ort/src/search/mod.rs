//! Finds the ONNX Runtime library to load, and reports every searched place with its result.
//!
//! The user's intent comes first: a flag, a variable, the active Python environment, any Python, the system. No
//! library is loaded here.

mod places;
mod python;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use places::Layout;

/// The inputs of a search.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// The library, or a directory that contains it, as named by the user.
    pub explicit: Option<PathBuf>,
    pub environment: EnvironmentVariables,
    /// The interpreter to ask instead of `python3` and `python` from PATH.
    pub python: Option<PathBuf>,
}

/// The relevant environment variables, separate from the process so that tests can set them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentVariables(BTreeMap<String, OsString>);

impl EnvironmentVariables {
    const NAMES: [&str; 7] = [
        "ORTSCOPE_ORT_LIBRARY",
        "ORT_DYLIB_PATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PATH",
        "LD_LIBRARY_PATH",
        "SystemRoot",
    ];

    pub fn from_process() -> Self {
        Self::from_pairs(
            Self::NAMES.into_iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value))),
        )
    }

    pub fn from_pairs(pairs: impl IntoIterator<Item = (impl Into<String>, impl Into<OsString>)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The variable's value, unless it is empty.
    fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.get(name).map(|value| std::env::split_paths(value).collect()).unwrap_or_default()
    }
}

/// A library that exists; [`crate::Runtime::load`] determines whether it loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundLibrary {
    pub path: PathBuf,
    /// How it was found, for example `ORTSCOPE_ORT_LIBRARY`.
    pub how: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchStep {
    pub place: String,
    pub outcome: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchReport {
    pub found: Option<FoundLibrary>,
    /// In the order they were tried; the last one is the successful one, if any.
    pub steps: Vec<SearchStep>,
}

impl SearchReport {
    /// The library, or an error that lists the searched places.
    pub fn into_result(self) -> Result<FoundLibrary, crate::OrtError> {
        let steps = &self.steps;
        let places = || {
            steps
                .iter()
                .map(|step| format!("{}: {}", step.place, step.outcome))
                .collect::<Vec<_>>()
                .join("; ")
        };
        let searched = places();
        self.found.ok_or(crate::OrtError::LibraryNotFound { searched })
    }

    /// Records the result of a place. `true` ends the search.
    fn note(&mut self, place: &str, result: Result<PathBuf, String>) -> bool {
        let outcome = match result {
            Ok(path) => {
                let outcome = format!("found {}", path.display());
                self.found = Some(FoundLibrary { path, how: place.to_owned() });
                outcome
            }
            Err(why) => why,
        };
        self.steps.push(SearchStep { place: place.to_owned(), outcome });
        self.found.is_some()
    }
}

/// Searches this machine.
pub fn search(request: &SearchRequest) -> SearchReport {
    search_in(request, &Layout::of_this_machine(&request.environment))
}

fn search_in(request: &SearchRequest, layout: &Layout) -> SearchReport {
    let mut report = SearchReport::default();
    let environment = &request.environment;

    // A library the user named is the one to use, or an error: never quietly another one.
    if let Some(explicit) = &request.explicit {
        report.note("--ort-library", layout.named(explicit));
        return report;
    }
    if let Some(named) = environment.get("ORTSCOPE_ORT_LIBRARY") {
        report.note("ORTSCOPE_ORT_LIBRARY", layout.named(Path::new(named)));
        return report;
    }
    // This one belongs to the `ort` crate, and may have been set for another program.
    if let Some(named) = environment.get("ORT_DYLIB_PATH")
        && report.note("ORT_DYLIB_PATH", layout.named(Path::new(named)))
    {
        return report;
    }
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(prefix) = environment.get(variable) {
            let place = format!("{variable} ({})", prefix.display());
            if report.note(&place, layout.python_prefix(Path::new(prefix))) {
                return report;
            }
        }
    }
    for interpreter in python::interpreters(request, layout) {
        let answer = python::package_directory(&interpreter).and_then(|package| layout.package(&package));
        if report.note(&format!("Python {}", interpreter.display()), answer) {
            return report;
        }
    }
    for (place, directories) in layout.system(environment) {
        if report.note(&place, layout.first_in(&directories)) {
            return report;
        }
    }
    if let Some(last) = layout.windows_own() {
        let place = "Windows' own copy (old, and without this program's choice of providers; used as nothing else was found)";
        report.note(place, layout.directory(&last).ok_or_else(|| "not there".to_owned()));
    }
    report
}

#[cfg(test)]
mod tests;

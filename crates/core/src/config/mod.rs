//! The configuration file `ortscope.toml`: its keys, defaults and validation.
//!
//! Callers read the file; this module turns text into validated values and reports every mistake with its position.
//! Unknown keys are errors, because a silently ignored setting is worse than none.

mod etw;
mod gate;
mod monitoring;
mod overhead;
mod run;
mod server;
mod store;

use serde::{Deserialize, Serialize};

pub use etw::EtwSettings;
pub use gate::{GateModel, GateSettings};
pub use monitoring::{
    Aggregation, CpuMonitoring, GpuMetric, GpuMonitoring, MemoryMonitoring, Monitoring, NpuMonitoring,
    RateMonitoring, Storage, StorageType,
};
pub use overhead::{OVERHEAD_LIMITS, UseCase};
pub use run::{OrtSettings, RunSettings};
pub use server::{ServerSettings, TlsSetting};
pub use store::StoreSettings;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub monitoring: Monitoring,
    /// Defaults of `ortscope run`.
    pub run: RunSettings,
    /// How to find and set up ONNX Runtime.
    pub ort: OrtSettings,
    /// Where recordings are kept, and for how long.
    pub store: StoreSettings,
    /// What `ortscope gate` measures, and against what.
    pub gate: GateSettings,
    /// Addresses, access and TLS of `ortscope serve`.
    pub server: ServerSettings,
    /// Sessions of event tracing on Windows.
    pub etw: EtwSettings,
}

/// A mistake in a configuration, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    /// The file, and the line if known.
    pub place: String,
    pub problem: String,
}

impl Config {
    /// Reads one file's text and checks it.
    pub fn parse(text: &str, place: &str) -> Result<Self, ConfigError> {
        Self::from_layers(&[(place.to_owned(), text.to_owned())])
    }

    /// Lays files over one another, weakest first, and checks the result. Each layer is also checked alone, so that a
    /// mistake is reported with its own file and line.
    pub fn from_layers(layers: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut merged = toml::Table::new();
        for (place, text) in layers {
            let alone: Self = toml::from_str(text).map_err(|error| describe(place, text, &error))?;
            alone.check(place)?;
            let table: toml::Table = toml::from_str(text).map_err(|error| describe(place, text, &error))?;
            overlay(&mut merged, table);
        }
        merged.try_into().map_err(|error: toml::de::Error| ConfigError {
            place: "configuration".into(),
            problem: error.message().to_owned(),
        })
    }

    fn check(&self, place: &str) -> Result<(), ConfigError> {
        self.monitoring
            .check()
            .and_then(|()| self.run.check())
            .and_then(|()| self.store.check())
            .and_then(|()| self.gate.check())
            .and_then(|()| self.server.check())
            .and_then(|()| self.etw.check())
            .map_err(|problem| ConfigError { place: place.to_owned(), problem })
    }

    /// The configuration as a file.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string_pretty(self)
            .map_err(|error| ConfigError { place: "configuration".into(), problem: error.to_string() })
    }
}

/// Tables are merged key by key; any other value in the upper layer replaces the lower one.
fn overlay(below: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => overlay(old, new),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

fn describe(place: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map_or_else(|| place.to_owned(), |line| format!("{place}:{line}"));
    ConfigError { place, problem: error.message().replace('\n', " ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("", "x").unwrap(), Config::default());
    }

    #[test]
    fn the_default_survives_a_round_trip() {
        let text = Config::default().to_toml().unwrap();
        assert_eq!(Config::parse(&text, "x").unwrap(), Config::default());
    }

    #[test]
    fn unknown_keys_are_refused_with_their_line() {
        let error =
            Config::parse("[monitoring.cpu]\nbackend = \"auto\"\nsampling_herz = 3\n", "a.toml").unwrap_err();
        assert_eq!(error.place, "a.toml:3");
        assert!(error.problem.contains("sampling_herz"), "{}", error.problem);
        assert!(error.problem.contains("sampling_hz"), "the known keys are listed: {}", error.problem);
    }

    #[test]
    fn absurd_values_are_refused() {
        for (text, wanted) in [
            ("[monitoring.cpu]\nsampling_hz = 0\n", "monitoring.cpu.sampling_hz"),
            ("[monitoring.network]\nsampling_hz = 1e9\n", "monitoring.network.sampling_hz"),
            ("[monitoring]\noverhead_limit = -1.0\n", "monitoring.overhead_limit"),
            ("[monitoring.storage]\nmax_samples = 0\n", "monitoring.storage.max_samples"),
            ("[run]\nprecision = 0.0\n", "run.precision"),
            ("[store]\nmax_age_days = 0\n", "store.max_age_days"),
            ("[gate]\nmargins = { p50 = 0.0 }\n", "gate.margins.p50"),
            ("[gate]\nmax_rounds = 3\n", "gate.max_rounds"),
            ("[gate]\nfail_on = \"sometimes\"\n", "gate.fail_on"),
            ("[server]\ntls_key = \"k.pem\"\n", "server.tls_certificate"),
            ("[server]\ntls = \"auto\"\ntls_key = \"k\"\ntls_certificate = \"c\"\n", "exclude each other"),
            ("[server]\ncarbon_grams_per_kwh = -1.0\n", "server.carbon_grams_per_kwh"),
            ("[server]\nlisten = [\"localhost\"]\n", "socket address"),
            ("[server]\ntls = \"yes\"\n", "auto"),
            ("[server]\ntoken = \"x\"\n", "token"),
            ("[etw]\nsession_name = \" \"\n", "etw.session_name"),
            ("[etw]\nbuffer_size_kb = 0\n", "etw.buffer_size_kb"),
            ("[etw]\nmin_buffers = 9\nmax_buffers = 8\n", "etw.min_buffers"),
            ("[etw]\nflush_timer_seconds = 0\n", "etw.flush_timer_seconds"),
            ("[etw]\nstack = true\n", "stack"),
        ] {
            let error = Config::parse(text, "a.toml").unwrap_err();
            assert!(error.problem.contains(wanted), "{text:?} gave {error}");
        }
    }

    #[test]
    fn upper_layers_win_key_by_key() {
        let user = "[monitoring.cpu]\nsampling_hz = 10\naggregation = \"max\"\n[run]\nthreads = 1\n";
        let local = "[monitoring.cpu]\nsampling_hz = 100\n";
        let config =
            Config::from_layers(&[("user".into(), user.into()), ("local".into(), local.into())]).unwrap();
        assert_eq!(config.monitoring.cpu.sampling_hz, 100.0);
        assert_eq!(config.monitoring.cpu.aggregation, Aggregation::Max);
        assert_eq!(config.run.threads, Some(1));
    }
}

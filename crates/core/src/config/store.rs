//! `[store]`: where recordings are kept, and for how long.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// Where recordings are kept; none: the user's data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Whether `ortscope run` keeps a recording by default.
    pub save: bool,
    /// Recordings without a name or tag are removed when they are older, in days.
    pub max_age_days: f64,
    /// Encrypt every recording, as with `--encrypt`.
    pub encrypt: bool,
    /// The key of encrypted recordings, in a file that only its owner can read; none: `ORTSCOPE_KEY`, or the system's key
    /// store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// When all recordings together are larger, the oldest without a name or tag are removed.
    pub max_gigabytes: f64,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            directory: None,
            save: true,
            encrypt: false,
            key_file: None,
            max_age_days: 90.0,
            max_gigabytes: 10.0,
        }
    }
}

impl StoreSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, value) in
            [("store.max_age_days", self.max_age_days), ("store.max_gigabytes", self.max_gigabytes)]
        {
            if !(value > 0.0 && value < 1e6) {
                return Err(format!("{name} is {value}: it must be above 0 and below 1000000"));
            }
        }
        Ok(())
    }
}

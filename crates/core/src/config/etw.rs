//! `[etw]`: sessions of event tracing that `attach --kernel` and `record --kernel` start on Windows.

use serde::{Deserialize, Serialize};

/// `[etw]`. Names of flags and counters are checked by the command that uses them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EtwSettings {
    /// None: a name with the number of this process, so that several may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    pub buffer_size_kb: u32,
    pub min_buffers: u32,
    pub max_buffers: u32,
    /// A buffer that is not full is handed on after this.
    pub flush_timer_seconds: u32,
    /// `EVENT_TRACE_FLAG_*` in addition to those of the classes given by `--kernel`.
    pub kernel_flags: Vec<String>,
    /// Processor counters read at every context switch, in addition to `--counters`.
    pub pmc_sources: Vec<String>,
    /// Events of all processes are collected if both inclusion lists are empty. Exclusions take precedence.
    pub include_pids: Vec<u32>,
    pub exclude_pids: Vec<u32>,
    pub include_names: Vec<String>,
    pub exclude_names: Vec<String>,
}

impl Default for EtwSettings {
    fn default() -> Self {
        Self {
            session_name: None,
            buffer_size_kb: 64,
            min_buffers: 4,
            max_buffers: 64,
            flush_timer_seconds: 1,
            kernel_flags: Vec::new(),
            pmc_sources: Vec::new(),
            include_pids: Vec::new(),
            exclude_pids: vec![0, 4],
            include_names: Vec::new(),
            exclude_names: ["System", "Idle", "Registry"].map(str::to_owned).to_vec(),
        }
    }
}

impl EtwSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(name) = &self.session_name
            && (name.trim().is_empty() || name.len() > 1000 || name.chars().any(char::is_control))
        {
            return Err("etw.session_name is not a name of a session: 1 to 1000 letters".into());
        }
        for (key, value, least, most) in [
            ("buffer_size_kb", self.buffer_size_kb, 4, 16_384),
            ("min_buffers", self.min_buffers, 2, 65_536),
            ("max_buffers", self.max_buffers, 2, 65_536),
            ("flush_timer_seconds", self.flush_timer_seconds, 1, 3600),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!("etw.{key} is {value}: it must be from {least} to {most}"));
            }
        }
        if self.min_buffers > self.max_buffers {
            return Err(format!(
                "etw.min_buffers {} is more than etw.max_buffers {}",
                self.min_buffers, self.max_buffers
            ));
        }
        Ok(())
    }
}

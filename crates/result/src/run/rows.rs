//! The rows that a finished run adds to its recording, so that exports show its findings, memory and gaps as tables.

use ortscope_analyze::leak::{ARENA_RESERVED, ARENA_SCOPE, ARENA_USED, ArenaPoint};
use ortscope_core::schema::{FindingRow, MemoryRow, SessionRow, Text, UnavailabilityRow};

use super::RunResult;

impl RunResult {
    pub fn session_rows(&self, now_ns: u64) -> impl Iterator<Item = SessionRow> + '_ {
        let options = serde_json::to_string(&self.configuration).ok().map(Text::from);
        let providers = self.placement.as_ref().map_or_else(String::new, |placed| placed.providers.join(","));
        self.session_ids.iter().map(move |id| SessionRow {
            timestamp_ns: now_ns,
            session_id: id.as_str().into(),
            pid: None,
            model_name: self.model.name.as_str().into(),
            execution_providers: providers.as_str().into(),
            ort_version: self.runtime.as_ref().map(|runtime| runtime.version.as_str().into()),
            options: options.clone(),
        })
    }

    pub fn finding_rows(&self, now_ns: u64) -> impl Iterator<Item = FindingRow> + '_ {
        self.findings.iter().map(move |finding| FindingRow {
            timestamp_ns: now_ns,
            id: finding.id.as_str().into(),
            severity: finding.severity.into(),
            evidence: finding.evidence.as_str().into(),
            advice: finding.advice.as_str().into(),
            command: finding.command.as_deref().map(Into::into),
        })
    }

    /// The memory of the process at each stage, and of the arena over time, in the order of time.
    pub fn memory_rows(&self, now_ns: u64) -> impl Iterator<Item = MemoryRow> + '_ {
        let session: Text = self.session_ids.first().map_or_else(Text::default, |id| id.as_str().into());
        let memory = &self.memory;
        let process = [
            ("before_session", memory.before_session_bytes),
            ("after_session", memory.after_session_bytes),
            ("after_first_run", memory.after_first_run_bytes),
            ("end", memory.end_bytes),
            ("peak", memory.peak_bytes),
        ];
        let process =
            process.into_iter().filter_map(move |(metric, bytes)| Some((now_ns, "process", metric, bytes?)));
        let arena = self.arena_samples.iter().flat_map(|sample| {
            let ArenaPoint { reserved_bytes, used_bytes, .. } = sample.arena;
            [(ARENA_RESERVED, reserved_bytes), (ARENA_USED, used_bytes)]
                .map(|(metric, bytes)| (sample.timestamp_ns, ARENA_SCOPE, metric, bytes))
        });
        arena.chain(process).filter_map(move |(timestamp_ns, scope, metric, bytes)| {
            Some(MemoryRow {
                timestamp_ns,
                session_id: Text::clone(&session),
                scope: scope.into(),
                metric: metric.into(),
                bytes: i64::try_from(bytes).ok()?,
            })
        })
    }

    pub fn unavailability_rows(&self, now_ns: u64) -> impl Iterator<Item = UnavailabilityRow> + '_ {
        self.unavailable.iter().map(move |(track, reason)| UnavailabilityRow {
            from_ns: now_ns,
            to_ns: None,
            track: track.as_str().into(),
            reason: reason.as_str().into(),
            hint: None,
        })
    }
}

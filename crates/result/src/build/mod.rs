//! Builds the model: two passes over the inferences, two over the operators and the process samples, one over the
//! rest, all in batches. What each pass keeps is bounded; see the limits at the top of each module.

mod exact;
mod explain;
mod head;
mod inferences;
mod machine;
mod operators;
mod processes;
mod reader;
mod remarks;
mod runs;
mod sessions;
mod steady;
mod thin;

use std::collections::{HashMap, HashSet};

use ortscope_core::schema::{SessionRow, Text};
use ortscope_core::tables::Tables;

use self::explain::Explainer;
use self::reader::Reader;
use self::runs::Runs;
pub use self::runs::runs;
use self::sessions::Draft;
use super::{
    OtherSessions, ReportError, ReportInput, ReportModel, ReportOptions, SCHEMA, SessionReport,
    ThroughputReport,
};
use ortscope_core::units::{clean, count};

impl ReportModel {
    /// Reads a recording. Damaged parts are left out and named in the header's condition.
    pub fn build(
        tables: &dyn Tables,
        input: &ReportInput,
        options: &ReportOptions,
    ) -> Result<Self, ReportError> {
        let reader = &mut Reader::new(tables, input.recording.started.monotonic_ns);
        let runs = Runs::read(reader.tables(), input.run_document.as_ref())?;
        let rows = head::sessions(reader)?;
        let mut left_out = Vec::new();
        let findings = remarks::findings(reader, &runs, &mut left_out)?;
        let losses = remarks::losses(reader, &runs, &mut left_out)?;
        let unavailable = remarks::unavailable(reader, &runs, &mut left_out)?;
        let annotations = remarks::annotations(reader, &mut left_out)?;

        let (mut drafts, other_sessions) = measured_sessions(reader, &rows, &runs, options)?;
        let mut explainer = second_pass(reader, &mut drafts, options)?;
        explainer.collect(reader)?;
        let system = machine::system(reader, &mut explainer)?;
        let (devices, sensors_left_out) = machine::devices(reader)?;
        if sensors_left_out > 0 {
            left_out.push(format!("{} further sensors", count(sensors_left_out)));
        }
        let names = processes::names(reader)?;
        let observed: HashSet<u64> = rows.values().filter_map(|row| row.pid).collect();
        let processes = processes::read(reader, &mut explainer, &observed, &names)?;
        if processes.beyond > 0 {
            left_out.push(format!("{} further processes, which are in no figure", count(processes.beyond)));
        }
        let mut slow = explainer.finish(reader, &names).into_iter();
        for draft in drafts.iter_mut().filter(|draft| draft.steady.is_some()) {
            draft.report.slow = slow.next();
        }
        let mut sessions: Vec<SessionReport> = drafts.into_iter().map(|draft| draft.report).collect();
        // A run with one session has these figures already; computing them again could differ in the last digit.
        for session in &mut sessions {
            let alone = runs.of_session(&session.session_id).filter(|run| run.session_ids.len() == 1);
            if let Some(run) = alone {
                session.server.clone_from(&run.server);
                session.generation.clone_from(&run.generation);
                if let Some(found) = &run.throughput {
                    session.throughput = Some(ThroughputReport {
                        requests: found.requests,
                        seconds: found.seconds,
                        requests_per_second: found.requests_per_second,
                        samples_per_second: Some(found.samples_per_second),
                        concurrency: found.concurrency,
                    });
                }
            }
        }
        let operators = operators::read(reader, &Known { sessions: &sessions, rows: &rows })?;
        left_out.extend(operators.left_out);
        let header = head::header(reader, input, &rows, &runs);
        let provenance = head::provenance(reader, input, &runs);
        Ok(Self {
            schema: SCHEMA.to_owned(),
            ortscope_version: env!("CARGO_PKG_VERSION").to_owned(),
            header,
            sessions,
            other_sessions,
            runs: runs.results,
            operators: operators.reports,
            explanation_sources: explain::checks(reader, &unavailable),
            processes: processes.shown,
            other_processes: processes.others,
            system,
            devices,
            findings,
            losses,
            unavailable,
            annotations,
            left_out,
            provenance,
        })
    }
}

/// The first pass: the sessions with most inferences, in the order of their first one.
fn measured_sessions(
    reader: &mut Reader<'_>,
    rows: &HashMap<Text, SessionRow>,
    runs: &Runs,
    options: &ReportOptions,
) -> Result<(Vec<Draft>, OtherSessions), ReportError> {
    let inferences = inferences::read(reader, options)?;
    let mut sessions = inferences.sessions;
    sessions.sort_by_key(|series| (std::cmp::Reverse(series.total), Text::clone(&series.session_id)));
    let rest = sessions.split_off(sessions.len().min(options.max_sessions.max(1)));
    let others = OtherSessions {
        sessions: inferences.sessions_beyond + rest.len() as u64,
        inferences: inferences.beyond + rest.iter().map(|series| series.total).sum::<u64>(),
    };
    drop(rest);
    sessions.sort_by_key(|series| (series.first_start_ns, Text::clone(&series.session_id)));
    // Each session's latencies are freed as soon as they are summed up.
    Ok((sessions.into_iter().map(|series| Draft::new(series, rows, runs, reader)).collect(), others))
}

/// The second pass: exact sums, and the slow inferences that are to be explained.
fn second_pass(
    reader: &mut Reader<'_>,
    drafts: &mut [Draft],
    options: &ReportOptions,
) -> Result<Explainer, ReportError> {
    let wanted = drafts.iter_mut().filter_map(|draft| draft.wanted(options.max_slow_inferences)).collect();
    let found = exact::read(reader, wanted)?;
    let mut cases = Vec::new();
    for (draft, (wanted, exact)) in drafts.iter_mut().filter(|draft| draft.steady.is_some()).zip(found) {
        draft.take_exact(&wanted, &exact, reader);
        cases.push(draft.case(exact, &wanted));
    }
    Ok(Explainer::new(cases))
}

/// Sessions as the operators know them: by their identifier.
struct Known<'k> {
    sessions: &'k [SessionReport],
    rows: &'k HashMap<Text, SessionRow>,
}

impl operators::KnownSessions for Known<'_> {
    fn title(&self, session_id: &str) -> String {
        let id = clean(session_id, 100);
        if let Some(session) = self.sessions.iter().find(|session| session.session_id == id) {
            return session.title.clone();
        }
        let model = self.rows.get(session_id).map(|row| clean(&row.model_name, 100)).unwrap_or_default();
        sessions::title(&id, &model, None)
    }

    fn median_ms(&self, session_id: &str) -> Option<f64> {
        let id = clean(session_id, 100);
        let session = self.sessions.iter().find(|session| session.session_id == id)?;
        session.inference.as_ref().map(|latency| latency.median_ms)
    }
}

//! The first pass over the inferences: who ran how often, and the latencies that fit into memory.

use std::collections::{BTreeMap, HashMap};

use ortscope_analyze::generation::Sequence;
use ortscope_core::batch::Batch;
use ortscope_core::schema::{NameSet as _, Phase, TableId, Text};
use ortscope_core::tables::Scan;

use super::reader::{Optional, Reader, flags, numbers, same, texts};
use super::thin::Decimated;
use crate::{ReportError, ReportOptions};

/// Sessions that are told apart; those beyond are only counted.
const MAX_SESSIONS: usize = 1024;
/// Phases that are counted by name.
const MAX_PHASES: usize = 16;
/// First runs that are listed.
const MAX_FIRST_RUNS: usize = 16;
/// Tokens that are kept for the statistics of generation.
const MAX_TOKENS: u64 = 4_000_000;

/// Columns of the first pass.
const COLUMNS: &[&str] = &[
    "timestamp_ns",
    "planned_ns",
    "session_id",
    "stream",
    "phase",
    "copy_in_ns",
    "run_ns",
    "copy_out_ns",
    "token",
    "ok",
];

/// A steady inference, reduced to what the statistics need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub start_ns: u64,
    pub run_ns: u64,
    pub end_to_end_ns: u64,
}

/// What the first pass knows of a session.
#[derive(Debug, Default)]
pub(super) struct SessionSeries {
    pub session_id: Text,
    pub total: u64,
    pub failed: u64,
    pub by_phase: BTreeMap<Text, u64>,
    pub first_start_ns: u64,
    pub last_end_ns: u64,
    pub first_runs_ns: Vec<u64>,
    pub steady: Decimated<Kept>,
    /// Some request was planned for another moment than it started.
    pub open_loop: bool,
    pub planned_ns: Option<(u64, u64)>,
    pub sequences: Vec<Sequence>,
    /// Tokens that were not kept.
    pub tokens_left_out: u64,
}

/// All sessions after the first pass.
#[derive(Debug, Default)]
pub(super) struct Inferences {
    pub sessions: Vec<SessionSeries>,
    /// Inferences of sessions beyond the limit.
    pub beyond: u64,
    pub sessions_beyond: u64,
}

pub(super) fn read(reader: &mut Reader<'_>, options: &ReportOptions) -> Result<Inferences, ReportError> {
    let mut pass = Pass { options: *options, ..Pass::default() };
    reader.each_batch(TableId::Inferences, &Scan::all().columns(COLUMNS), |batch| pass.batch(batch))?;
    for session in &mut pass.sessions {
        // Streams are interleaved only roughly; statistics of neighbours need the order of time.
        if !session.steady.kept.is_sorted_by_key(|kept| kept.start_ns) {
            session.steady.kept.sort_by_key(|kept| kept.start_ns);
        }
    }
    Ok(Inferences {
        sessions: pass.sessions,
        beyond: pass.beyond,
        sessions_beyond: pass.names_beyond.len() as u64,
    })
}

/// Finds sessions by their name; neighbours usually share it.
#[derive(Debug, Default)]
pub(super) struct SessionIndex {
    by_name: HashMap<Text, usize>,
    last: Option<(Text, usize)>,
}

impl SessionIndex {
    pub fn new<'s>(names: impl Iterator<Item = &'s Text>) -> Self {
        let by_name = names.enumerate().map(|(index, name)| (Text::clone(name), index)).collect();
        Self { by_name, last: None }
    }

    pub fn find(&mut self, name: &Text) -> Option<usize> {
        if let Some((last, index)) = &self.last
            && (same(last, name) || last == name)
        {
            return Some(*index);
        }
        let index = *self.by_name.get(name)?;
        self.last = Some((Text::clone(name), index));
        Some(index)
    }

    fn insert(&mut self, name: &Text, index: usize) {
        self.by_name.insert(Text::clone(name), index);
    }
}

#[derive(Debug, Default)]
struct Pass {
    options: ReportOptions,
    sessions: Vec<SessionSeries>,
    index: SessionIndex,
    /// Hashes would do, but a bounded set of names says the same and is exact.
    names_beyond: std::collections::BTreeSet<Text>,
    beyond: u64,
    kept: usize,
    tokens: u64,
    /// Where the sequence of a session's stream stands.
    open_sequences: HashMap<(usize, u64), usize>,
}

/// One row, as far as this pass reads it.
struct Step {
    start_ns: u64,
    stream: u64,
    run_ns: u64,
    end_to_end_ns: u64,
    token: Option<u64>,
}

impl Pass {
    fn batch(&mut self, batch: &Batch) {
        let (names, phases) = (texts(batch, "session_id"), texts(batch, "phase"));
        let (starts, planned) = (batch.times_ns(), numbers(batch, "planned_ns"));
        let (copy_in, runs) = (numbers(batch, "copy_in_ns"), numbers(batch, "run_ns"));
        let (copy_out, streams) = (numbers(batch, "copy_out_ns"), numbers(batch, "stream"));
        let (ok, tokens) = (flags(batch, "ok"), Optional::of(batch, "token"));
        let mut phase: Option<(Text, Phase, usize)> = None;
        let mut in_phase = 0;
        for row in 0..batch.len() {
            let Some(session) = self.session(&names[row]) else { continue };
            let end_to_end_ns = copy_in[row].saturating_add(runs[row]).saturating_add(copy_out[row]);
            // Rows of one session and phase come in long stretches: count a stretch, then book it.
            let same_phase = phase.as_ref().is_some_and(|(name, _, of)| {
                *of == session && (same(name, &phases[row]) || *name == phases[row])
            });
            if !same_phase {
                self.book_phase(phase.take(), in_phase);
                // Unknown phases count as measured.
                let known = Phase::by_name(&phases[row]).unwrap_or(Phase::Steady);
                phase = Some((Text::clone(&phases[row]), known, session));
                in_phase = 0;
            }
            in_phase += 1;
            let series = &mut self.sessions[session];
            series.last_end_ns = series.last_end_ns.max(starts[row].saturating_add(end_to_end_ns));
            series.first_start_ns = match series.total {
                0 => starts[row],
                _ => series.first_start_ns.min(starts[row]),
            };
            series.total += 1;
            if !ok[row] {
                series.failed += 1;
                continue;
            }
            let step = Step {
                start_ns: starts[row],
                stream: streams[row],
                run_ns: runs[row],
                end_to_end_ns,
                token: tokens.get(row),
            };
            match phase.as_ref().map(|(_, phase, _)| *phase) {
                Some(Phase::First) => {
                    if series.first_runs_ns.len() < MAX_FIRST_RUNS {
                        series.first_runs_ns.push(end_to_end_ns);
                    }
                }
                Some(Phase::Prefill | Phase::Token) => self.token(session, &step),
                Some(Phase::Profiled) => {}
                _ => {
                    series.open_loop |= planned[row] != starts[row];
                    let (low, high) = series.planned_ns.unwrap_or((u64::MAX, 0));
                    series.planned_ns = Some((low.min(planned[row]), high.max(planned[row])));
                    self.keep(session, &step);
                }
            }
        }
        self.book_phase(phase, in_phase);
    }

    fn session(&mut self, name: &Text) -> Option<usize> {
        if let Some(index) = self.index.find(name) {
            return Some(index);
        }
        if self.sessions.len() >= MAX_SESSIONS {
            self.beyond += 1;
            if self.names_beyond.len() < 100 * MAX_SESSIONS {
                self.names_beyond.insert(Text::clone(name));
            }
            return None;
        }
        let index = self.sessions.len();
        self.index.insert(name, index);
        self.sessions.push(SessionSeries { session_id: Text::clone(name), ..SessionSeries::default() });
        Some(index)
    }

    fn book_phase(&mut self, phase: Option<(Text, Phase, usize)>, rows: u64) {
        let Some((name, _, session)) = phase else { return };
        let phases = &mut self.sessions[session].by_phase;
        let known = phases.len() < MAX_PHASES || phases.contains_key(&name);
        *phases.entry(if known { name } else { "other".into() }).or_default() += rows;
    }

    fn keep(&mut self, session: usize, step: &Step) {
        let steady = &mut self.sessions[session].steady;
        let before = steady.kept.len();
        let kept = Kept { start_ns: step.start_ns, run_ns: step.run_ns, end_to_end_ns: step.end_to_end_ns };
        steady.push(kept, self.options.max_latencies);
        self.kept = self.kept + steady.kept.len() - before;
        if self.kept > self.options.max_latencies_together.max(4)
            && let Some(longest) = self.sessions.iter_mut().max_by_key(|series| series.steady.kept.len())
        {
            let before = longest.steady.kept.len();
            longest.steady.halve();
            self.kept -= before - longest.steady.kept.len();
        }
    }

    /// A step of a generator: token 0 begins a sequence of its stream.
    fn token(&mut self, session: usize, step: &Step) {
        let series = &mut self.sessions[session];
        if self.tokens >= MAX_TOKENS {
            series.tokens_left_out += 1;
            return;
        }
        let end_ns = step.start_ns.saturating_add(step.end_to_end_ns);
        let open = self.open_sequences.get(&(session, step.stream)).copied();
        match (step.token, open.and_then(|index| series.sequences.get_mut(index))) {
            (Some(0), _) => {
                // Streams beyond a sane number would only cost memory.
                if self.open_sequences.len() < 100_000 {
                    self.open_sequences.insert((session, step.stream), series.sequences.len());
                    series.sequences.push(Sequence { start_ns: step.start_ns, token_ns: vec![end_ns] });
                }
            }
            (_, Some(sequence)) => sequence.token_ns.push(end_ns),
            // A recording that begins in the middle of a sequence cannot tell its first token.
            (_, None) => return,
        }
        self.tokens += 1;
    }
}

//! Selects events by time, process, provider and name.

use std::collections::BTreeSet;

use crate::payload::EventName;
use crate::{Clock, EventRecord, Filter, Guid};

/// Selected events; all by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// From this many seconds after the start of the trace.
    pub from_seconds: Option<f64>,
    /// Before this many seconds after the start of the trace.
    pub to_seconds: Option<f64>,
    /// Process ids; empty for all.
    pub processes: Vec<u32>,
    /// GUIDs or parts of provider names; empty for all.
    pub providers: Vec<String>,
    /// A part of the event's name.
    pub event: Option<String>,
}

/// Why a selection cannot be applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    #[error("the range is not in seconds after the start of the trace")]
    NotFinite,
    #[error("{from} s is not before {to} s")]
    EmptyRange { from: f64, to: f64 },
    #[error("'{0}' is not a GUID")]
    NotGuid(String),
}

impl Selection {
    /// Whether every event is selected.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    fn ticks(&self, clock: &Clock) -> Result<(u64, u64), SelectionError> {
        // Beyond 300 years the conversion to nanoseconds saturates, which is as good as any limit.
        let ticks = |seconds: f64| clock.ticks_after_start((seconds * 1e9) as i64);
        if [self.from_seconds, self.to_seconds].into_iter().flatten().any(|seconds| !seconds.is_finite()) {
            return Err(SelectionError::NotFinite);
        }
        if let (Some(from), Some(to)) = (self.from_seconds, self.to_seconds)
            && from >= to
        {
            return Err(SelectionError::EmptyRange { from, to });
        }
        Ok((self.from_seconds.map_or(0, ticks), self.to_seconds.map_or(u64::MAX, ticks)))
    }

    /// Decides on single events of a trace with this clock.
    pub fn matcher(&self, clock: &Clock) -> Result<Matcher, SelectionError> {
        let (from_ticks, until_ticks) = self.ticks(clock)?;
        let (mut guids, mut provider_names) = (BTreeSet::new(), Vec::new());
        for provider in &self.providers {
            match provider.parse::<Guid>() {
                Ok(guid) => {
                    guids.insert(guid);
                }
                Err(_) => provider_names.push(provider.to_lowercase()),
            }
        }
        Ok(Matcher {
            from_ticks,
            until_ticks,
            processes: self.processes.iter().copied().collect(),
            guids,
            provider_names,
            event: self.event.as_deref().map(str::to_lowercase),
        })
    }

    /// The filter for [`Etl::cut`](crate::Etl::cut), which knows providers by their GUIDs only.
    pub fn filter(&self, clock: &Clock) -> Result<Filter, SelectionError> {
        let (from_ticks, until_ticks) = self.ticks(clock)?;
        let guid = |text: &String| text.parse().map_err(|_| SelectionError::NotGuid(text.clone()));
        let providers: BTreeSet<Guid> = self.providers.iter().map(guid).collect::<Result<_, _>>()?;
        Ok(Filter {
            from_ticks,
            until_ticks,
            processes: (!self.processes.is_empty()).then(|| self.processes.iter().copied().collect()),
            providers: (!providers.is_empty()).then_some(providers),
            ..Filter::default()
        })
    }
}

/// Decides whether an event is selected.
#[derive(Debug, Clone)]
pub struct Matcher {
    from_ticks: u64,
    until_ticks: u64,
    processes: BTreeSet<u32>,
    guids: BTreeSet<Guid>,
    provider_names: Vec<String>,
    event: Option<String>,
}

impl Matcher {
    /// Checks time and process, which is cheap because it needs no name.
    pub fn may_match(&self, record: &EventRecord<'_>) -> bool {
        (self.from_ticks..self.until_ticks).contains(&record.ticks)
            && (self.processes.is_empty()
                || record.process_id.is_some_and(|process| self.processes.contains(&process)))
    }

    /// Checks the provider and the event's name.
    pub fn matches(&self, name: &EventName<'_>) -> bool {
        let any_provider = self.guids.is_empty() && self.provider_names.is_empty();
        let is_provider = || {
            let lower = name.provider.to_lowercase();
            name.guid.is_some_and(|guid| self.guids.contains(&guid))
                || self.provider_names.iter().any(|part| lower.contains(part))
        };
        let is_event = || self.event.as_ref().is_none_or(|part| name.event.to_lowercase().contains(part));
        (any_provider || is_provider()) && is_event()
    }
}

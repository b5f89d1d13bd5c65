//! Which events of a trace a command is about.

use std::collections::BTreeSet;

use ortscope_etl::{Clock, EventRecord, Filter, Guid};

use super::naming::EventName;
use crate::args::EtlSelection;
use crate::exit::Failure;

/// Decides event by event.
#[derive(Debug)]
pub struct Selection {
    from_ticks: u64,
    until_ticks: u64,
    pids: BTreeSet<u32>,
    guids: BTreeSet<Guid>,
    provider_names: Vec<String>,
    event: Option<String>,
}

impl Selection {
    pub fn new(args: &EtlSelection, event: Option<&str>, clock: &Clock) -> Result<Self, Failure> {
        let (from_ticks, until_ticks) = range(args, clock)?;
        let (mut guids, mut provider_names) = (BTreeSet::new(), Vec::new());
        for provider in &args.provider {
            match provider.parse::<Guid>() {
                Ok(guid) => {
                    guids.insert(guid);
                }
                Err(_) => provider_names.push(provider.to_lowercase()),
            }
        }
        Ok(Self {
            from_ticks,
            until_ticks,
            pids: args.pid.iter().copied().collect(),
            guids,
            provider_names,
            event: event.map(str::to_lowercase),
        })
    }

    /// Time and process, which need no names.
    pub fn may_have(&self, record: &EventRecord<'_>, pid: Option<u32>) -> bool {
        (self.from_ticks..self.until_ticks).contains(&record.ticks)
            && (self.pids.is_empty() || pid.is_some_and(|pid| self.pids.contains(&pid)))
    }

    pub fn has(&self, name: &EventName<'_>) -> bool {
        let any_provider = self.guids.is_empty() && self.provider_names.is_empty();
        let is_provider = || {
            let lower = name.provider.to_lowercase();
            name.guid.is_some_and(|guid| self.guids.contains(&guid))
                || self.provider_names.iter().any(|wanted| lower.contains(wanted))
        };
        let is_event = || self.event.as_ref().is_none_or(|wanted| name.event.to_lowercase().contains(wanted));
        (any_provider || is_provider()) && is_event()
    }
}

fn range(args: &EtlSelection, clock: &Clock) -> Result<(u64, u64), Failure> {
    let ticks = |seconds: f64| {
        // Beyond 300 years either way the conversion stops at its ends, which is what is meant.
        clock.ticks_after_start((seconds * 1e9) as i64)
    };
    for seconds in [args.from, args.to].into_iter().flatten() {
        if !seconds.is_finite() {
            return Err(Failure::usage("--from and --to are seconds after the start of the trace"));
        }
    }
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Failure::usage(format!("--from {from} is not before --to {to}")));
    }
    Ok((args.from.map_or(0, ticks), args.to.map_or(u64::MAX, ticks)))
}

/// The same for the library's own cutting, which knows providers by their GUIDs.
pub fn filter(args: &EtlSelection, clock: &Clock) -> Result<Filter, Failure> {
    let (from_ticks, until_ticks) = range(args, clock)?;
    let mut providers = BTreeSet::new();
    for provider in &args.provider {
        let guid = provider.parse().map_err(|_| {
            Failure::usage(format!("'{provider}' is not a GUID"))
                .with_hint("`ortscope etl stats` lists the GUIDs of a trace")
        })?;
        providers.insert(guid);
    }
    Ok(Filter {
        from_ticks,
        until_ticks,
        processes: (!args.pid.is_empty()).then(|| args.pid.iter().copied().collect()),
        providers: (!providers.is_empty()).then_some(providers),
        ..Filter::default()
    })
}

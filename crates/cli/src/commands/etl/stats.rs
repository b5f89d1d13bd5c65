//! `ortscope etl stats`: how many events of which kind, and how well they are understood.

use std::collections::BTreeMap;
use std::path::Path;

use ortscope_etl::Guid;
use ortscope_etl::payload::{SchemaSource, SchemaStore};
use serde_json::json;

use super::dump::source_name;
use super::naming::name_of;
use super::{finish, losses_json, open, print_json, schemas, unreadable};
use crate::exit::{Exit, Failure};
use crate::terminal::{self, Terminal};
use ortscope_core::units;

/// Kinds of events that are counted apart; further ones are counted together.
const MAX_KINDS: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    provider: String,
    event: String,
    version: u16,
    guid: Option<Guid>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    events: u64,
    bytes: u64,
    /// Every byte of the payload belonged to a field that is known.
    whole: u64,
    source: Option<SchemaSource>,
}

#[derive(Debug, Default)]
struct Counts {
    kinds: BTreeMap<Kind, Count>,
    beyond: u64,
}

pub fn run(path: &Path, terminal: &Terminal) -> Result<Exit, Failure> {
    let file = open(path)?;
    let store = schemas(&file)?;
    let (workers, walk) = file
        .unordered(0, Counts::default, |counts, record| counts.add(record, &store))
        .map_err(|error| unreadable(&error))?;
    let mut all = Counts::default();
    for worker in workers {
        all.beyond += worker.beyond;
        for (kind, count) in worker.kinds {
            let total = all.kinds.entry(kind).or_default();
            total.events += count.events;
            total.bytes += count.bytes;
            total.whole += count.whole;
            total.source = total.source.or(count.source);
        }
    }
    let mut kinds: Vec<(&Kind, &Count)> = all.kinds.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(count.events));
    if terminal.json {
        let rows: Vec<_> = kinds
            .iter()
            .map(|(kind, count)| {
                json!({
                    "provider": kind.provider, "provider_guid": kind.guid.map(|guid| guid.to_string()),
                    "event": kind.event, "version": kind.version, "count": count.events,
                    "payload_bytes": count.bytes, "fully_decoded": count.whole,
                    "decoded_by": count.source.map(source_name),
                })
            })
            .collect();
        let losses = store.losses();
        print_json(&json!({
            "schema": "ortscope.etl.stats/1", "file": path.display().to_string(), "records": walk.records,
            "events": rows, "of_further_kinds": all.beyond,
            "schemas": {"known": store.len(), "unreadable": losses.unreadable, "refused": losses.refused,
                        "stray_manifest_chunks": losses.stray_chunks},
            "losses": losses_json(&walk.losses),
        }))?;
    } else {
        terminal::print_data(&text(walk.records, &kinds, all.beyond));
    }
    Ok(finish(&walk.losses, terminal))
}

impl Counts {
    fn add(&mut self, record: &ortscope_etl::EventRecord<'_>, store: &SchemaStore) {
        let name = name_of(record, store);
        let kind = Kind {
            provider: name.provider.into_owned(),
            event: name.event.into_owned(),
            version: name.version,
            guid: name.guid,
        };
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind) {
            self.beyond += 1;
            return;
        }
        let decoded = store.decode(record, &mut ());
        let count = self.kinds.entry(kind).or_default();
        count.events += 1;
        count.bytes += record.payload.len() as u64;
        let is_known = decoded.source != SchemaSource::Unknown;
        count.whole += u64::from(is_known && !decoded.is_short && decoded.left_over == 0);
        count.source = Some(decoded.source);
    }
}

fn text(records: u64, kinds: &[(&Kind, &Count)], beyond: u64) -> String {
    let mut out =
        format!("{:>10}  {:>9}  {:<13} provider, event, version\n", "events", "decoded", "layout from");
    for (kind, count) in kinds {
        let share = if count.events == count.whole {
            "all".to_owned()
        } else {
            units::percent(count.whole as f64 / count.events as f64)
        };
        out.push_str(&format!(
            "{:>10}  {share:>9}  {:<13} {}  {}  v{}\n",
            units::count(count.events),
            count.source.map_or("", source_name),
            kind.provider,
            kind.event,
            kind.version
        ));
    }
    if beyond > 0 {
        out.push_str(&format!("{:>10}  of further kinds\n", units::count(beyond)));
    }
    let whole: u64 = kinds.iter().map(|(_, count)| count.whole).sum();
    out.push_str(&format!(
        "{:>10}  records of {}, {} decoded to the last byte\n",
        units::count(records),
        units::counted(kinds.len() as u64, "kind"),
        units::percent(whole as f64 / records.max(1) as f64)
    ));
    out
}

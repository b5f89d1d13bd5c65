//! How many events of which kind a trace has, and how many bytes of them were decoded.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use ortscope_core::units;
use ortscope_etl::payload::{SchemaSource, SchemaStore};
use ortscope_etl::{EtlError, EtlFile, EventRecord, Guid, Losses, Walk};
use serde_json::{Value, json};

use super::losses_json;

/// Maximum number of event kinds with their own count; further kinds share one.
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
    /// Events of which every payload byte was decoded.
    whole: u64,
    source: Option<SchemaSource>,
}

#[derive(Debug, Default)]
struct Counts {
    kinds: BTreeMap<Kind, Count>,
    beyond: u64,
}

/// Event counts of a whole trace.
#[derive(Debug)]
pub struct TraceStats {
    /// The most frequent first.
    kinds: Vec<(Kind, Count)>,
    beyond: u64,
    walk: Walk,
}

impl TraceStats {
    /// Reads and decodes all records of the file.
    pub fn read(file: &EtlFile, store: &SchemaStore) -> Result<Self, EtlError> {
        let (workers, walk) =
            file.unordered(0, Counts::default, |counts, record| counts.add(record, store))?;
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
        let mut kinds: Vec<(Kind, Count)> = all.kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| Reverse(count.events));
        Ok(Self { kinds, beyond: all.beyond, walk })
    }

    pub fn losses(&self) -> &Losses {
        &self.walk.losses
    }

    /// The counts as a JSON document.
    pub fn document(&self, path: &Path, store: &SchemaStore) -> Value {
        let row = |(kind, count): &(Kind, Count)| {
            json!({
                "provider": kind.provider, "provider_guid": kind.guid.map(|guid| guid.to_string()),
                "event": kind.event, "version": kind.version, "count": count.events,
                "payload_bytes": count.bytes, "fully_decoded": count.whole,
                "decoded_by": count.source.map(SchemaSource::name),
            })
        };
        let losses = store.losses();
        json!({
            "schema": "ortscope.etl.stats/1", "file": path.display().to_string(), "records": self.walk.records,
            "events": self.kinds.iter().map(row).collect::<Vec<_>>(), "of_further_kinds": self.beyond,
            "schemas": {"known": store.len(), "unreadable": losses.unreadable, "refused": losses.refused,
                        "stray_manifest_chunks": losses.stray_chunks},
            "losses": losses_json(&self.walk.losses),
        })
    }

    /// The counts as a table.
    pub fn text(&self) -> String {
        let mut out =
            format!("{:>10}  {:>9}  {:<13} provider, event, version\n", "events", "decoded", "layout from");
        for (kind, count) in &self.kinds {
            let share = if count.events == count.whole {
                "all".to_owned()
            } else {
                units::percent(count.whole as f64 / count.events as f64)
            };
            out.push_str(&format!(
                "{:>10}  {share:>9}  {:<13} {}  {}  v{}\n",
                units::count(count.events),
                count.source.map_or("", SchemaSource::name),
                kind.provider,
                kind.event,
                kind.version
            ));
        }
        if self.beyond > 0 {
            out.push_str(&format!("{:>10}  of further kinds\n", units::count(self.beyond)));
        }
        let whole: u64 = self.kinds.iter().map(|(_, count)| count.whole).sum();
        out.push_str(&format!(
            "{:>10}  records of {}, {} decoded to the last byte\n",
            units::count(self.walk.records),
            units::counted(self.kinds.len() as u64, "kind"),
            units::percent(whole as f64 / self.walk.records.max(1) as f64)
        ));
        out
    }
}

impl Counts {
    fn add(&mut self, record: &EventRecord<'_>, store: &SchemaStore) {
        let name = store.event_name(record);
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

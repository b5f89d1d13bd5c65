//! Measures how fast ETL traces are read: record headers only, and every field of every event. For `cargo xtask bench etl`.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use ortscope_etl::EtlFile;
use ortscope_etl::payload::stacks::StackMatcher;
use ortscope_etl::payload::{SchemaStore, Value, Visitor};
use ortscope_sources::own_usage;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub struct EtlArgs {
    #[arg(long, value_enum)]
    phase: Phase,
    #[arg(long, default_value_t = 1)]
    passes: u32,
    files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    /// Record headers only
    Walk,
    /// Every field of every event
    Full,
}

pub fn run(args: &EtlArgs) -> Result<serde_json::Value> {
    let before_ns = own_usage()?.cpu_time_ns;
    let mut total = Total::default();
    for _ in 0..args.passes {
        for file in &args.files {
            let file = EtlFile::open(file).with_context(|| format!("cannot open {}", file.display()))?;
            match args.phase {
                Phase::Walk => walk(&file, &mut total)?,
                Phase::Full => full(&file, &mut total)?,
            }
        }
    }
    let usage = own_usage()?;
    let seconds = (usage.cpu_time_ns - before_ns) as f64 / 1e9;
    Ok(json!({
        "records": total.records, "fields": total.seen.fields, "frames": total.frames, "undecoded": total.undecoded,
        "check": total.seen.check, "cpu_seconds": seconds, "events_per_s": total.records as f64 / seconds,
        "peak_memory_mb": usage.peak_working_set_bytes.map(|bytes| bytes as f64 / 1e6),
    }))
}

#[derive(Debug, Default)]
struct Total {
    records: u64,
    frames: u64,
    undecoded: u64,
    seen: Seen,
}

fn walk(file: &EtlFile, total: &mut Total) -> Result<()> {
    let walk = file.ordered(|record| {
        total.seen.check = total.seen.check.wrapping_add(record.ticks);
        ControlFlow::Continue(())
    });
    total.records += walk?.records;
    Ok(())
}

/// Reads a file in one pass, like a stream: schemas are learned as they arrive, and stacks are matched to their events.
fn full(file: &EtlFile, total: &mut Total) -> Result<()> {
    let (mut store, mut stacks) = (SchemaStore::new(), StackMatcher::default());
    let walk = file.ordered(|record| {
        store.learn(record);
        let decoded = store.decode(record, &mut total.seen);
        total.undecoded += u64::from(decoded.consumed == 0 && decoded.left_over > 0);
        stacks.push(record, 0, |stack| {
            for address in stack.addresses() {
                total.frames += 1;
                total.seen.check = total.seen.check.wrapping_add(address);
            }
        });
        ControlFlow::Continue(())
    });
    total.records += walk?.records;
    Ok(())
}

/// Reads every value, so that no decoding can be skipped.
#[derive(Debug, Default)]
struct Seen {
    fields: u64,
    check: u64,
}

impl Visitor for Seen {
    fn field(&mut self, name: &str, value: Value<'_>) {
        self.fields += 1;
        let weight = match value {
            Value::Array(array) => array.iter().filter_map(|item| item.as_u64()).fold(0, u64::wrapping_add),
            Value::Binary(bytes) => bytes.len() as u64,
            Value::Wide(text) => text.bytes().iter().map(|byte| u64::from(*byte)).sum(),
            Value::Narrow(text) => text.bytes().iter().map(|byte| u64::from(*byte)).sum(),
            value => value.as_u64().unwrap_or(1),
        };
        self.check = self.check.wrapping_add(weight).wrapping_add(name.len() as u64);
    }
}

//! How fast traces are read: the header of every record, and again every field of every event. For `cargo xtask bench etl`.

use std::ops::ControlFlow;

use ortscope_etl::EtlFile;
use ortscope_etl::payload::stacks::StackMatcher;
use ortscope_etl::payload::{SchemaStore, Value, Visitor};
use ortscope_sources::own_usage;
use serde_json::json;

use crate::args::{BenchEtlArgs, EtlPhase};
use crate::exit::{Exit, Failure};
use crate::terminal;

pub fn run(args: &BenchEtlArgs) -> Result<Exit, Failure> {
    let cpu = || own_usage().map(|usage| usage.cpu_time_ns).map_err(Failure::internal);
    let before = cpu()?;
    let mut total = Total::default();
    for _ in 0..args.passes {
        for file in &args.files {
            let file = EtlFile::open(file).map_err(|error| Failure::usage(error.to_string()))?;
            match args.phase {
                EtlPhase::Walk => walk(&file, &mut total)?,
                EtlPhase::Full => full(&file, &mut total)?,
            }
        }
    }
    let seconds = (cpu()? - before) as f64 / 1e9;
    let usage = own_usage().map_err(Failure::internal)?;
    let document = json!({
        "records": total.records, "fields": total.seen.fields, "frames": total.frames, "undecoded": total.undecoded,
        "check": total.seen.check, "cpu_seconds": seconds, "events_per_s": total.records as f64 / seconds,
        "peak_memory_mb": usage.peak_working_set_bytes.map(|bytes| bytes as f64 / 1e6),
    });
    terminal::print_data(&format!("{document}\n"));
    Ok(Exit::Ok)
}

#[derive(Debug, Default)]
struct Total {
    records: u64,
    frames: u64,
    undecoded: u64,
    seen: Seen,
}

fn walk(file: &EtlFile, total: &mut Total) -> Result<(), Failure> {
    let walk = file.ordered(|record| {
        total.seen.check = total.seen.check.wrapping_add(record.ticks);
        ControlFlow::Continue(())
    });
    total.records += walk.map_err(Failure::internal)?.records;
    Ok(())
}

/// One pass, as a stream is read: schemas are learned as they come, stacks find their events.
fn full(file: &EtlFile, total: &mut Total) -> Result<(), Failure> {
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
    total.records += walk.map_err(Failure::internal)?.records;
    Ok(())
}

/// Looks at every value, so that none is skipped.
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

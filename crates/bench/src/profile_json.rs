//! Measures how fast an operator profile is read: into the summary that a user's script would compute, and into rows of the
//! schema. For `cargo xtask bench profile-json`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use ortscope_core::batch::Batch;
use ortscope_core::schema::TableId;
use ortscope_decode::ort_profile::{EventKind, ProfileOptions, ProfileReader, RowOptions};
use ortscope_import::ort_profile;
use ortscope_sources::own_usage;
use serde_json::{Value, json};

const CHUNK_BYTES: usize = 256 << 10;
/// Rows in a batch.
const BATCH_ROWS: usize = 4096;

#[derive(Debug, clap::Args)]
pub struct ProfileJsonArgs {
    file: PathBuf,
    #[arg(long, value_enum)]
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    Summary,
    Rows,
}

pub fn run(args: &ProfileJsonArgs) -> Result<Value> {
    let mut document = match args.phase {
        Phase::Summary => summary(args)?,
        Phase::Rows => rows(args)?,
    };
    let usage = own_usage()?;
    document["peak_memory_mb"] = json!(usage.peak_working_set_bytes.map(|bytes| bytes as f64 / 1e6));
    document["cpu_seconds"] = json!(usage.cpu_time_ns as f64 / 1e9);
    Ok(document)
}

/// Does the same as `tools/profile_json_peer.py`, with the same results.
fn summary(args: &ProfileJsonArgs) -> Result<Value> {
    let started = Instant::now();
    let mut file = fs_err::File::open(&args.file)?;
    let mut reader = ProfileReader::new(ProfileOptions::default());
    let mut by_op: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let (mut events, mut operators, mut runs, mut duration_ns) = (0u64, 0u64, 0u64, 0u64);
    let mut take = |event: ortscope_decode::ort_profile::ProfileEvent<'_>| {
        events += 1;
        duration_ns += event.duration_ns;
        match event.kind {
            EventKind::Operator => {
                operators += 1;
                match by_op.get_mut(event.op_type) {
                    Some((count, total)) => (*count, *total) = (*count + 1, *total + event.duration_ns),
                    None => {
                        by_op.insert(event.op_type.to_owned(), (1, event.duration_ns));
                    }
                }
            }
            EventKind::Run => runs += 1,
            _ => {}
        }
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => reader.feed(&chunk[..read], &mut take),
        }
    }
    let outcome = reader.finish(&mut take);
    let seconds = started.elapsed().as_secs_f64();
    let by_op: BTreeMap<String, [u64; 2]> =
        by_op.into_iter().map(|(op, (count, total))| (op, [count, total / 1000])).collect();
    Ok(json!({
        "mb_per_s": outcome.bytes as f64 / 1e6 / seconds, "seconds": seconds, "bytes": outcome.bytes,
        "events": events, "operators": operators, "runs": runs, "duration_us": duration_ns / 1000, "by_op": by_op,
    }))
}

/// Does the same as `import` and the operator pass, without keeping the rows.
fn rows(args: &ProfileJsonArgs) -> Result<Value> {
    let started = Instant::now();
    let mut kept = 0u64;
    // Rows go into batches of columns, as on their way through the pipeline.
    let mut batch = Batch::new(TableId::Operators);
    let read = ort_profile::read(&args.file, RowOptions::default(), &mut |row| {
        kept += 1;
        batch.push(&row);
        if batch.len() >= BATCH_ROWS {
            batch = Batch::new(TableId::Operators);
        }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({
        "mb_per_s": read.outcome.bytes as f64 / 1e6 / seconds, "seconds": seconds, "rows": kept,
        "bytes": read.outcome.bytes, "events": read.outcome.events,
    }))
}

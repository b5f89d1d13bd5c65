//! What a recording holds after its makers were killed: for `cargo xtask bench trust`, which kills them.

use std::collections::BTreeMap;

use ortscope_core::clock::now_nanos;
use ortscope_core::schema::{InferenceRow, TableId, Text};
use ortscope_core::tables::{Scan, Tables as _};
use ortscope_store::Recording;
use serde_json::json;

use crate::args::BenchTrustArgs;
use crate::exit::{Exit, Failure};
use crate::terminal;

pub fn run(args: &BenchTrustArgs) -> Result<Exit, Failure> {
    let now_ns = now_nanos();
    let recording = Recording::open(&args.recording)?;
    let damaged = |error: ortscope_core::tables::ReadError| Failure::new(Exit::DataLost, error.to_string());
    // Per session, stream and phase the numbers must follow one another without a gap.
    let mut next: BTreeMap<(Text, u64, Text), u64> = BTreeMap::new();
    let (mut rows, mut gaps, mut repeated, mut last_inference_ns) = (0u64, 0u64, 0u64, 0u64);
    for batch in recording.scan(TableId::Inferences, &Scan::all()) {
        for row in batch.map_err(damaged)?.rows::<InferenceRow>() {
            rows += 1;
            last_inference_ns = last_inference_ns.max(row.timestamp_ns + row.run_ns);
            let expected = next.entry((row.session_id, row.stream, row.phase)).or_insert(row.sequence);
            match row.sequence.cmp(expected) {
                std::cmp::Ordering::Greater => gaps += row.sequence - *expected,
                std::cmp::Ordering::Less => repeated += 1,
                std::cmp::Ordering::Equal => {}
            }
            *expected = (*expected).max(row.sequence + 1);
        }
    }
    let mut last_sample_ns = 0;
    for batch in recording.scan(TableId::Ticks, &Scan::all()) {
        last_sample_ns =
            batch.map_err(damaged)?.times_ns().iter().copied().max().unwrap_or(0).max(last_sample_ns);
    }
    let document = json!({
        "now_ns": now_ns, "inferences": rows, "gaps": gaps, "repeated": repeated,
        "last_inference_ns": last_inference_ns, "last_sample_ns": last_sample_ns,
        "damaged": recording.condition().damaged.len(), "condition": recording.condition().sentences(),
    });
    terminal::print_data(&format!("{document}\n"));
    Ok(Exit::Ok)
}

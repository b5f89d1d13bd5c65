//! Measures the cost of observation: a bare `OrtApi::Run` loop against the same inferences in the measured loop of
//! `ortscope run`, in alternating blocks of one process. For `cargo xtask bench overhead`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use ortscope_channel::{ChannelReader, ControlPage, Phase, RingWriter};
use ortscope_core::clock::now_ns;
use ortscope_core::identity::ProcessIdentity;
use ortscope_observe::measure::channel_directory;
use ortscope_observe::worker::Lap;
use serde_json::{Value, json};

use crate::ort::{self, OrtArgs};

#[derive(Debug, clap::Args)]
pub struct OverheadArgs {
    #[command(flatten)]
    ort: OrtArgs,
    /// Blocks of each kind, alternating
    #[arg(long, default_value_t = 400)]
    blocks: u32,
    /// Inferences per block
    #[arg(long, default_value_t = 2_000)]
    runs: u32,
}

pub fn run(args: &OverheadArgs) -> Result<Value> {
    let (runtime, environment) = ort::load(&args.ort)?;
    let (session, inputs) = ort::session(&environment, &args.ort.model)?;

    let channel = channel_directory(false)?;
    let page = ControlPage::create(channel.path())?;
    let owner = ProcessIdentity { pid: std::process::id(), start: 0 };
    let mut ring = RingWriter::create(channel.path(), "stream-0", 8 << 20, owner)?;
    let done = Arc::new(AtomicBool::new(false));
    // In `ortscope run` another process reads the ring 20 times a second; here it is a thread.
    let reader = {
        let (mut reader, done) = (ChannelReader::new(channel.path()), Arc::clone(&done));
        std::thread::Builder::new().name("reader".into()).spawn(move || {
            let mut records = 0;
            loop {
                let last = done.load(Ordering::SeqCst);
                records += reader.drain(|_, _| {}).map_or(0, |drained| drained.frames);
                if last {
                    return records;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        })?
    };

    // Like a careful program: names, inputs and outputs are created once.
    let mut bare_runner = session.run_plain(&inputs)?.reuse_outputs(true);
    let mut bare_binding = session.bind(&inputs)?;
    let mut binding = session.bind(&inputs)?;
    let lap = Lap { stream: 0, session: 0, batch_size: 1 };
    let (mut bare, mut bound, mut measured) = (Vec::new(), Vec::new(), Vec::new());
    // The first round is a warm-up and does not count.
    for block in 0..=args.blocks {
        let begin = now_ns();
        for _ in 0..args.runs {
            bare_runner.run()?;
        }
        let after_bare = now_ns();
        for _ in 0..args.runs {
            bare_binding.run()?;
            bare_binding.settle()?;
        }
        let after_bound = now_ns();
        for number in 0..args.runs {
            if page.stop_requested() {
                break;
            }
            let record = lap.run(&mut binding, Phase::Steady, u64::from(number), None)?;
            ring.write_inference(&record);
        }
        let end = now_ns();
        if block > 0 {
            let per_run = |nanos: u64| nanos as f64 / f64::from(args.runs);
            bare.push(per_run(after_bare - begin));
            bound.push(per_run(after_bound - after_bare));
            measured.push(per_run(end - after_bound));
        }
    }
    done.store(true, Ordering::SeqCst);
    let records = reader.join().unwrap_or(0);
    let (bare_ns, bare_binding_ns, measured_ns) =
        (undisturbed(bare), undisturbed(bound), undisturbed(measured));
    Ok(json!({
        "added_ns_per_inference": measured_ns - bare_ns,
        // Against a bare loop over the same I/O binding: clock, copies and record alone.
        "added_ns_over_bare_binding": measured_ns - bare_binding_ns,
        "bare_ns": bare_ns, "bare_binding_ns": bare_binding_ns, "measured_ns": measured_ns,
        "blocks": args.blocks, "runs_per_block": args.runs,
        // Records that reached the reader: none was skipped.
        "checksum_records": records, "ort_version": runtime.version(),
    }))
}

/// The median of the fastest quarter of the blocks, because other work on the machine only makes a block slower.
fn undisturbed(mut blocks: Vec<f64>) -> f64 {
    blocks.sort_by(f64::total_cmp);
    blocks.get(blocks.len() / 8).copied().unwrap_or(f64::NAN)
}

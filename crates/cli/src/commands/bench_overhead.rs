//! The cost of observing: a bare `OrtApi::Run` loop against the same inferences under the measuring code, in
//! alternating blocks of one process. For `cargo xtask bench overhead`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ortscope_channel::{ChannelReader, ControlPage, Phase, RingWriter};
use ortscope_core::clock::now_ns;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::tensor::{Value, element_count};
use ortscope_decode::onnx::InputHints;
use ortscope_ort::inputs::{InputRequest, resolve};
use ortscope_ort::{Environment, LogLevel, OrtError, Runtime, Session, SessionOptions};
use serde::Serialize;

use crate::args::{BenchOverheadArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::{self, Terminal};
use crate::{ort_library, settings};
use ortscope_observe::worker::{Lap, input_failure};

#[derive(Debug, Serialize)]
struct Figures {
    /// Measured minus bare, per inference, over the fastest quarter of the blocks of each.
    added_ns_per_inference: f64,
    /// The same against a bare loop over the same I/O binding: clock, copies and record alone.
    added_ns_over_bare_binding: f64,
    bare_ns: f64,
    bare_binding_ns: f64,
    measured_ns: f64,
    blocks: u32,
    runs_per_block: u32,
    /// Records that reached the reader: nothing was skipped.
    checksum_records: u64,
    ort_version: String,
}

pub fn run(args: &BenchOverheadArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = settings::load(global.config.as_deref())?;
    let library = ort_library::find(global, &config)?;
    let figures = measure(args, &library).map_err(|error| match error {
        Problem::Ort(error) => Failure::model(error.to_string()),
        Problem::Other(failure) => failure,
    })?;
    let text = if terminal.json {
        serde_json::to_string_pretty(&figures).map_err(Failure::internal)?
    } else {
        format!(
            "bare {:.0} ns  measured {:.0} ns  added {:.0} ns per inference",
            figures.bare_ns, figures.measured_ns, figures.added_ns_per_inference
        )
    };
    terminal::print_data(&(text + "\n"));
    Ok(Exit::Ok)
}

enum Problem {
    Ort(OrtError),
    Other(Failure),
}

impl From<OrtError> for Problem {
    fn from(error: OrtError) -> Self {
        Self::Ort(error)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}

fn measure(args: &BenchOverheadArgs, library: &std::path::Path) -> Result<Figures, Problem> {
    let runtime = Runtime::load(library)?;
    let environment = Environment::new(&runtime, LogLevel::Error)?;
    let options = SessionOptions { intra_op_threads: Some(1), ..SessionOptions::default() };
    let session = Session::create(&environment, &args.model, &options)?;
    let inputs = make_inputs(&session)?;

    let channel = ortscope_observe::measure::channel_directory(false)?;
    let page = ControlPage::create(channel.path()).map_err(Failure::internal)?;
    let owner = ProcessIdentity { pid: std::process::id(), start: 0 };
    let mut ring =
        RingWriter::create(channel.path(), "stream-0", 8 << 20, owner).map_err(Failure::internal)?;
    let done = Arc::new(AtomicBool::new(false));
    // In `ortscope run` another process reads the ring, 20 times a second; here a thread stands in for it.
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

    // As a careful program would: names, inputs and outputs are made once.
    let mut bare_runner = session.run_plain(&inputs)?.reuse_outputs(true);
    let mut bare_binding = session.bind(&inputs)?;
    let mut binding = session.bind(&inputs)?;
    let lap = Lap { stream: 0, session: 0, batch_size: 1 };
    let (mut bare, mut bound, mut measured) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms everything up and is not counted.
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
    Ok(Figures {
        added_ns_per_inference: measured_ns - bare_ns,
        added_ns_over_bare_binding: measured_ns - bare_binding_ns,
        bare_ns,
        bare_binding_ns,
        measured_ns,
        blocks: args.blocks,
        runs_per_block: args.runs,
        checksum_records: records,
        ort_version: runtime.version().to_owned(),
    })
}

pub(super) fn make_inputs(session: &Session) -> Result<Vec<(String, Value)>, Failure> {
    let hints = InputHints::default();
    let resolved = resolve(&InputRequest {
        signature: session.inputs(),
        hints: &hints,
        given: Vec::new(),
        shapes: std::collections::BTreeMap::new(),
        batch: None,
        seed: 42,
        max_bytes: 1 << 30,
    })
    .map_err(|error| input_failure(&error))?;
    let trivial = resolved.values.iter().all(|(_, value)| match value {
        Value::Tensor(tensor) => element_count(&tensor.dims).is_some_and(|elements| elements < 1_000_000),
        _ => false,
    });
    if !trivial {
        return Err(Failure::usage(
            "the overhead is measured on a trivial model: its inputs must be small tensors",
        ));
    }
    Ok(resolved.values)
}

/// The median of the fastest quarter of the blocks: whatever else runs on a machine only makes a block slower.
fn undisturbed(mut blocks: Vec<f64>) -> f64 {
    blocks.sort_by(f64::total_cmp);
    blocks.get(blocks.len() / 8).copied().unwrap_or(f64::NAN)
}

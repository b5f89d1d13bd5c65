//! A program that runs models as a busy server does: several sessions, each with so many inferences per second. It knows
//! nothing of who watches it. For `cargo xtask trust`, which runs it alone and under `ortscope record`.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use ortscope_core::clock::now_ns;
use ortscope_ort::{Environment, LogLevel, OrtError, Runtime, Session, SessionOptions};
use ortscope_sources::own_usage;
use serde_json::json;

use super::bench_overhead::make_inputs;
use crate::args::{BenchLoadArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::{ort_library, settings, terminal};

/// Runs before the clock starts: the first ones allocate.
const WARM_UP: u32 = 20;
/// A machine that cannot keep the pace gets so many times the time before the rest is left undone, and counted.
const PATIENCE: f64 = 1.5;

/// What one session did.
struct Done {
    latencies_ns: Vec<u64>,
    late: u64,
    undone: u64,
}

pub fn run(args: &BenchLoadArgs, global: &GlobalArgs) -> Result<Exit, Failure> {
    let is_sane = args.rate > 0.0 && args.rate <= 1e6 && args.seconds > 0.0 && args.seconds <= 1e6;
    if args.sessions == 0 || !is_sane {
        return Err(Failure::usage("there must be sessions, a rate and a time"));
    }
    let config = settings::load(global.config.as_deref())?;
    let library = ort_library::find(global, &config)?;
    let runtime = Runtime::load(&library).map_err(|error| Failure::model(error.to_string()))?;
    let environment =
        Environment::new(&runtime, LogLevel::Error).map_err(|error| Failure::model(error.to_string()))?;
    let ready = Barrier::new(usize::from(args.sessions));
    let cpu_seconds = || own_usage().map_or(f64::NAN, |usage| usage.cpu_time_ns as f64 / 1e9);
    let before = cpu_seconds();
    let started = std::time::Instant::now();
    let results: Vec<Result<Done, Failure>> = std::thread::scope(|scope| {
        let work = |_| scope.spawn(|| serve(&environment, &args.model, args, &ready));
        let threads: Vec<_> = (0..args.sessions).map(work).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::internal("a session panicked"))))
            .collect()
    });
    let (mut latencies, mut late, mut undone) = (Vec::new(), 0, 0);
    for result in results {
        let mut done = result?;
        latencies.append(&mut done.latencies_ns);
        late += done.late;
        undone += done.undone;
    }
    latencies.sort_unstable();
    let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied();
    let document = json!({
        "sessions": args.sessions, "rate_hertz": args.rate, "inferences": latencies.len(),
        // Beside those of the clock: a recorder counts them too.
        "warm_up_inferences": u64::from(WARM_UP) * u64::from(args.sessions),
        "late": late, "undone": undone, "seconds": started.elapsed().as_secs_f64(),
        "p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99), "cpu_seconds": cpu_seconds() - before,
    });
    terminal::print_data(&format!("{document}\n"));
    Ok(Exit::Ok)
}

/// One session at its pace. A run that is late begins at once: nothing that is due is left out.
fn serve(
    environment: &Environment,
    model: &Path,
    args: &BenchLoadArgs,
    ready: &Barrier,
) -> Result<Done, Failure> {
    // Whoever fails must not let the others wait for ever.
    let prepared = prepare(environment, model);
    ready.wait();
    let (session, inputs) = prepared?;
    let wrong = |error: OrtError| Failure::model(error.to_string());
    let mut runner = session.run_plain(&inputs).map_err(wrong)?.reuse_outputs(true);
    for _ in 0..WARM_UP {
        runner.run().map_err(wrong)?;
    }
    let total = (args.rate * args.seconds).round() as u64;
    let period_ns = 1e9 / args.rate;
    let mut done = Done { latencies_ns: Vec::with_capacity(total as usize), late: 0, undone: 0 };
    let begin_ns = now_ns();
    let limit_ns = begin_ns + (args.seconds * PATIENCE * 1e9) as u64;
    for number in 0..total {
        let due_ns = begin_ns + (number as f64 * period_ns) as u64;
        let reached_ns = now_ns();
        if reached_ns < due_ns {
            std::thread::sleep(Duration::from_nanos(due_ns - reached_ns));
        } else {
            done.late += u64::from((reached_ns - due_ns) as f64 > period_ns);
        }
        if reached_ns > limit_ns {
            done.undone = total - number;
            break;
        }
        let start_ns = now_ns();
        runner.run().map_err(wrong)?;
        done.latencies_ns.push(now_ns() - start_ns);
    }
    Ok(done)
}

type Inputs = Vec<(String, ortscope_core::tensor::Value)>;

fn prepare(environment: &Environment, model: &Path) -> Result<(Session, Inputs), Failure> {
    let options = SessionOptions { intra_op_threads: Some(1), ..SessionOptions::default() };
    let session = Session::create(environment, model, &options)
        .map_err(|error: OrtError| Failure::model(error.to_string()))?;
    let inputs = make_inputs(&session)?;
    Ok((session, inputs))
}

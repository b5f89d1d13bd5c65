//! Runs a model like a busy server: several sessions, each at a fixed rate. It is not aware of being observed.
//! `cargo xtask trust` runs it alone and under `ortscope record`.

use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use ortscope_core::clock::now_ns;
use ortscope_ort::Environment;
use ortscope_sources::own_usage;
use serde_json::{Value, json};

use crate::ort::{self, OrtArgs};

/// Runs before the clock starts, because the first ones allocate.
const WARM_UP: u32 = 20;
/// A machine that cannot keep the rate may take this multiple of the time; the remaining runs are counted as undone.
const PATIENCE: f64 = 1.5;

#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    #[command(flatten)]
    ort: OrtArgs,
    #[arg(long, default_value_t = 10)]
    sessions: u16,
    /// Inferences per second of each session
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
}

/// The result of one session.
struct Done {
    latencies_ns: Vec<u64>,
    late: u64,
    undone: u64,
}

pub fn run(args: &LoadArgs) -> Result<Value> {
    let is_sane = args.rate > 0.0 && args.rate <= 1e6 && args.seconds > 0.0 && args.seconds <= 1e6;
    ensure!(args.sessions > 0 && is_sane, "sessions, rate and seconds must be above 0 and at most 1,000,000");
    let (_runtime, environment) = ort::load(&args.ort)?;
    let ready = Barrier::new(usize::from(args.sessions));
    let cpu_seconds = || own_usage().map_or(f64::NAN, |usage| usage.cpu_time_ns as f64 / 1e9);
    let before = cpu_seconds();
    let started = std::time::Instant::now();
    let results: Vec<Result<Done>> = std::thread::scope(|scope| {
        let work = |_| scope.spawn(|| serve(&environment, args, &ready));
        let threads: Vec<_> = (0..args.sessions).map(work).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a session panicked"))))
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
    Ok(json!({
        "sessions": args.sessions, "rate_hertz": args.rate, "inferences": latencies.len(),
        // Not among the inferences above, but a recorder counts them too.
        "warm_up_inferences": u64::from(WARM_UP) * u64::from(args.sessions),
        "late": late, "undone": undone, "seconds": started.elapsed().as_secs_f64(),
        "p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99), "cpu_seconds": cpu_seconds() - before,
    }))
}

/// Runs one session at its rate. A late run starts at once: no planned run is skipped.
fn serve(environment: &Environment, args: &LoadArgs, ready: &Barrier) -> Result<Done> {
    // A session that fails must not keep the others waiting at the barrier.
    let prepared = ort::session(environment, &args.ort.model);
    ready.wait();
    let (session, inputs) = prepared?;
    let mut runner = session.run_plain(&inputs)?.reuse_outputs(true);
    for _ in 0..WARM_UP {
        runner.run()?;
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
        runner.run()?;
        done.latencies_ns.push(now_ns() - start_ns);
    }
    Ok(done)
}

//! The worker process: loads ONNX Runtime and the model, and runs it according to the plan. It decides nothing and prints
//! nothing; records and messages go through the channel.

mod arena;
pub mod check;
mod failures;
mod generate;
mod inputs;
mod levels;
mod outbox;
pub mod own_profiles;
mod profile;
mod session;
mod streams;
mod turns;
mod windows;

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use ortscope_channel::ControlPage;
use ortscope_core::clock::now_ns;
use ortscope_core::tensor::Value;
use ortscope_ort::{Environment, LogLevel, Runtime, Session};

use crate::interrupt::Interrupt;
use crate::measure::plan::WorkerPlan;
pub use inputs::input_failure;
use ortscope_analyze::facts::{Fact, MemoryStage};
use ortscope_core::failure::Failure;
use outbox::Outbox;
pub use streams::Lap;

/// A worker ends when its supervisor has been silent for this long: nothing would read its results.
const ORPHAN_AFTER: Duration = Duration::from_secs(10);
/// The second session is skipped if the first took longer: its time is not worth the wait.
const SECOND_SESSION_LIMIT: Duration = Duration::from_secs(3);

/// The only argument of a worker process. The supervisor starts its own executable with it; `main` checks for it before
/// arguments are parsed, so it is neither a command nor part of the help. An environment variable would also reach the
/// processes that a worker starts.
pub const ARGUMENT: &str = "worker-process";

/// Whether this process was started as a worker: it has [`ARGUMENT`] and nothing else.
pub fn is_requested() -> bool {
    std::env::args_os().skip(1).eq([ARGUMENT])
}

/// Runs the worker. The plan arrives as JSON on stdin. A failure reaches the user through the channel; the caller prints it
/// for the case that the channel could not be opened.
pub fn main() -> Result<(), Failure> {
    Interrupt::ignore();
    let mut text = String::new();
    let plan = std::io::stdin()
        .read_to_string(&mut text)
        .map_err(Failure::from)
        .and_then(|_| serde_json::from_str::<WorkerPlan>(&text).map_err(Failure::internal));
    plan.and_then(|plan| {
        let mut outbox = Outbox::open(&plan)?;
        let page = ControlPage::open(&plan.channel).map_err(Failure::internal)?;
        end_when_orphaned(&plan.channel)?;
        let result = work(&plan, &page, &mut outbox);
        match &result {
            Ok(()) => outbox.send(Fact::Done),
            Err(stop) => {
                outbox.send(Fact::Failed { failure: stop.failure.clone(), after_runs: stop.after_runs });
            }
        }
        result.map_err(|stop| stop.failure)
    })
}

/// Why the work ended early, and after how many runs.
#[derive(Debug)]
pub struct Stopped {
    pub failure: Failure,
    pub after_runs: Option<u64>,
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self { failure, after_runs: None }
    }
}

fn work(plan: &WorkerPlan, page: &ControlPage, outbox: &mut Outbox) -> Result<(), Stopped> {
    let runtime = Runtime::load(&plan.library).map_err(|error| failures::from_ort(&error, plan))?;
    outbox.send(Fact::Runtime {
        version: runtime.version().to_owned(),
        build_info: runtime.build_info(),
        available_providers: runtime.available_providers(),
    });
    let environment =
        Environment::new(&runtime, LogLevel::Warning).map_err(|error| failures::from_ort(&error, plan))?;
    let result = match (&plan.profile, &plan.levels) {
        (Some(profile), _) => profile::run(plan, profile, page, outbox, &environment),
        (None, Some(levels)) => levels::run(plan, levels, page, outbox, &environment),
        (None, None) => measure(plan, page, outbox, &environment),
    };
    outbox.send(Fact::Logs { lines: environment.take_logs(), dropped: environment.dropped_logs() });
    result
}

fn measure(
    plan: &WorkerPlan,
    page: &ControlPage,
    outbox: &mut Outbox,
    environment: &Environment,
) -> Result<(), Stopped> {
    let (nanos, bytes) = read_once(&plan.model).map_err(Failure::from)?;
    outbox.send(Fact::FileRead { nanos, bytes });
    outbox.memory(MemoryStage::BeforeSession);

    let (session, first_ns) = session::create(plan, environment, outbox)?;
    outbox.memory(MemoryStage::AfterSession);
    let made = inputs::make(plan, &session)?;

    if let Some(generate) = plan.generate {
        outbox.send(Fact::Inputs(made.for_generation(generate)));
        let reason = "not timed when tokens are generated".to_owned();
        outbox.send(Fact::SecondSession { nanos: None, reason: Some(reason) });
        generate::run(plan, generate, page, outbox, &session, &made.values)?;
        send_allocator(outbox, Some(&session));
    } else {
        let mut sessions = vec![session];
        for _ in 1..plan.sessions {
            sessions.push(session::another(plan, environment)?);
        }
        let windows =
            plan.windows.as_ref().map(|of| windows::Windows::new(plan, of, environment, &made.values));
        let ring = outbox.take_arena();
        let answers = arena::watched(sessions.first(), plan, ring, || {
            streams::run(plan, page, outbox, &sessions, &made, windows, || {
                session::time_another(plan, environment, first_ns)
            })
        })?;
        if plan.check_outputs {
            check_outputs(plan, environment, outbox, &made.values, &answers)?;
        }
        if let Some(path) = &plan.answers_file {
            check::save(path, &made.values, &answers)?;
        }
        send_allocator(outbox, sessions.first());
    }
    outbox.memory(MemoryStage::End);
    Ok(())
}

fn check_outputs(
    plan: &WorkerPlan,
    environment: &Environment,
    outbox: &mut Outbox,
    values: &[(String, Value)],
    answers: &[(String, Value)],
) -> Result<(), Stopped> {
    let checked = check::against_cpu(plan, environment, values, answers)?;
    outbox.send(checked);
    Ok(())
}

fn send_allocator(outbox: &mut Outbox, session: Option<&Session>) {
    // Absent before 1.23 and for sessions without an arena: not a failure.
    if let Some(Ok(Some(statistics))) = session.map(Session::allocator_stats) {
        outbox.send(Fact::Allocator { statistics });
    }
}

/// Reads the file without keeping it, to time the disk or page cache.
fn read_once(path: &Path) -> std::io::Result<(u64, u64)> {
    let begin = now_ns();
    let mut file = fs_err::File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0u64;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    Ok((now_ns() - begin, bytes))
}

/// A killed supervisor cannot stop its worker, so the worker checks for the supervisor's heartbeat.
fn end_when_orphaned(channel: &Path) -> Result<(), Failure> {
    let page = ControlPage::open(channel).map_err(Failure::internal)?;
    std::thread::Builder::new().name("orphan-watch".into()).spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(2));
            let silent = page.last_beat_ns().map_or(0, |beat| now_ns().saturating_sub(beat));
            if u128::from(silent) > ORPHAN_AFTER.as_nanos() {
                #[expect(clippy::exit, reason = "a process of its own, whose only reader is gone")]
                std::process::exit(1);
            }
        }
    })?;
    Ok(())
}

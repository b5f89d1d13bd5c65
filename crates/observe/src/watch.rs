//! Observing processes until they end, the time is over or the user interrupts.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use ortscope_core::failure::Failure;
use ortscope_core::pipeline::Sink;
use ortscope_sources::PausedProcess;
use ortscope_sources::sampler::OwnCost;
use ortscope_store::RecordingWriter;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::plan::{Ended, Inferences, Plan};
use crate::programs::Programs;
use crate::progress::Progress;

/// How often it is checked whether the observation is over.
const PERIOD: Duration = Duration::from_millis(50);
/// A program that was interrupted by Ctrl-C may take this long to end before the report is made without it.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(5);
/// A held program waits at most this long until its observers are ready.
const MAX_READY_WAIT: Duration = Duration::from_secs(5);

/// A program that was started to be observed.
#[derive(Debug)]
pub struct Started {
    pub child: Child,
    /// Keeps it from running until all observers are ready.
    pub held: Option<PausedProcess>,
    /// Number of words of its command.
    pub words: usize,
}

/// Why the observation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    ProcessesEnded,
    Duration,
    Interrupted,
}

impl Ending {
    pub fn name(self) -> &'static str {
        match self {
            Self::ProcessesEnded => "processes_ended",
            Self::Duration => "duration",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What to observe, and for how long.
pub struct Watch<'a> {
    pub plan: Plan,
    /// The program to wait for, if ortscope started one.
    pub program: Option<Started>,
    pub programs: &'a mut Programs,
    pub duration: Option<Duration>,
    pub recording: Option<&'a RecordingWriter>,
    pub sinks: Vec<Box<dyn Sink>>,
    /// The progress text, without the elapsed time.
    pub status: &'a dyn Fn() -> String,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("plan", &self.plan).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Watched {
    pub ended: Ended,
    pub ending: Ending,
    pub seconds: f64,
    pub own_cost: OwnCost,
    pub backend: &'static str,
    /// Exit status of the program that was started.
    pub exit: Option<ExitStatus>,
}

impl Watch<'_> {
    pub fn run(self, interrupt: &Interrupt, progress: &mut dyn Progress) -> Result<Watched, Failure> {
        let Self { mut plan, program, programs, duration, recording, sinks, status } = self;
        plan.inferences = Inferences::Programs {
            recording: programs.take_source().map(Box::new),
            events: programs.take_events().map(Box::new),
        };
        let observation = plan.start(recording, sinks)?;

        // A short program would be over before kernel events and stacks begin, so it is held until then.
        let (mut child, held) = program.map_or((None, None), |program| (Some(program.child), program.held));
        let begun = Instant::now();
        while held.is_some()
            && !observation.is_ready()
            && begun.elapsed() < MAX_READY_WAIT
            && !interrupt.requested()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(held);

        let started = Instant::now();
        let (mut exit, mut interrupted_at) = (None, None);
        let ending = loop {
            if let Some(program) = &mut child {
                exit = program.try_wait()?;
                if exit.is_some() {
                    break Ending::ProcessesEnded;
                }
            }
            if observation.is_over() {
                break Ending::ProcessesEnded;
            }
            if duration.is_some_and(|most| started.elapsed() >= most) {
                break Ending::Duration;
            }
            if interrupt.requested() {
                let since = *interrupted_at.get_or_insert_with(Instant::now);
                // The terminal has sent the signal to the program too: let it end in its own way.
                if child.is_none() || interrupt.insisted() || since.elapsed() > MAX_EXIT_WAIT {
                    break Ending::Interrupted;
                }
            }
            progress.update(&|| format!("{}  {:.1} s", status(), started.elapsed().as_secs_f64()));
            programs.wait(PERIOD, recording);
        };
        let (own_cost, backend) = (observation.own_cost(), observation.backend());
        Ok(Watched {
            ended: observation.finish(),
            ending,
            seconds: started.elapsed().as_secs_f64(),
            own_cost: own_cost.get(),
            backend,
            exit,
        })
    }
}

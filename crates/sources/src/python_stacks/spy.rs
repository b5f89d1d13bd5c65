//! The few calls of py-spy's library that are needed.

use std::fmt;

use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy};

use super::{PythonFrame, Refusal};

pub struct Spy(PythonSpy);

impl fmt::Debug for Spy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Spy").field("pid", &self.0.pid).finish_non_exhaustive()
    }
}

impl Spy {
    pub fn open(pid: u32) -> Result<Self, Refusal> {
        // Stopping the program for every reading would be exact, but would distort the measurement.
        let config = Config { blocking: LockingStrategy::NonBlocking, ..Config::default() };
        PythonSpy::new(pid as py_spy::Pid, &config).map(Self).map_err(|error| refusal(&format!("{error:#}")))
    }

    /// The stack of every running thread, outermost function first.
    pub fn running_threads(&mut self, each: &mut dyn FnMut(&[PythonFrame])) -> Result<(), Refusal> {
        let traces = self.0.get_stack_traces().map_err(|error| refusal(&format!("{error:#}")))?;
        for trace in traces.iter().filter(|trace| trace.active && !trace.frames.is_empty()) {
            let frames: Vec<PythonFrame> = trace
                .frames
                .iter()
                .rev()
                .map(|frame| PythonFrame {
                    function: frame.name.clone(),
                    file: frame.short_filename.as_ref().unwrap_or(&frame.filename).clone(),
                })
                .collect();
            each(&frames);
        }
        Ok(())
    }
}

fn refusal(why: &str) -> Refusal {
    let denied = ["ermission denied", "peration not permitted", "os error 13", "os error 1)"];
    let is_final = denied.iter().any(|sign| why.contains(sign));
    let hint = if is_final {
        "reading another process's memory needs the same user and kernel.yama.ptrace_scope 0, CAP_SYS_PTRACE, or root"
    } else {
        "only CPython is supported; other programs have native stacks only"
    };
    Refusal { why: why.lines().next().unwrap_or_default().to_owned(), hint, is_final }
}

//! A loaded program, with the verifier's log if it is rejected.

use std::os::fd::OwnedFd;

use super::asm::Assembler;
use super::call::{self, ProgramCounts, ProgramKind};
use crate::kernel::TraceError;
use crate::sys::{perf_open, rights};

/// The verifier logs every instruction; the reason is at the end.
const LOG_BYTES: usize = 1 << 18;
const LOG_BYTES_SHOWN: usize = 2000;

/// A loaded program, attached if it has a target.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    program: OwnedFd,
    /// Detached on drop.
    attached: Vec<OwnedFd>,
}

impl Program {
    /// Loads the program, and attaches it if it is for a tracepoint.
    pub fn load(
        name: &'static str,
        kind: ProgramKind,
        attach_to: u32,
        code: Assembler,
    ) -> Result<Self, TraceError> {
        let code = code.finish().ok_or_else(|| TraceError::System {
            what: format!("assembling {name}"),
            source: std::io::Error::other("a jump has no target"),
        })?;
        let program = match call::load_program(name, kind, attach_to, &code, &mut []) {
            Ok(program) => program,
            // The log is useful only for a program that was verified and rejected.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES | libc::E2BIG)) => {
                let mut log = vec![0; LOG_BYTES];
                match call::load_program(name, kind, attach_to, &code, &mut log) {
                    Ok(program) => program,
                    Err(_) if log[0] == 0 => {
                        return Err(rights::bpf_error(&format!("loading {name}"), error));
                    }
                    Err(source) => {
                        return Err(TraceError::Rejected {
                            program: name.to_owned(),
                            source,
                            log: log_tail(&log),
                        });
                    }
                }
            }
            Err(error) => return Err(rights::bpf_error(&format!("loading {name}"), error)),
        };
        let attached = match kind {
            ProgramKind::Call | ProgramKind::PerfEvent => Vec::new(),
            ProgramKind::Tracepoint => {
                let refused = |error| rights::bpf_error(&format!("attaching {name}"), error);
                vec![call::attach(&program).map_err(refused)?]
            }
        };
        Ok(Self { name, program, attached })
    }

    /// Assigns it to a perf event, which is kept as long as the program.
    pub fn attach_to(&mut self, event: OwnedFd) -> Result<(), TraceError> {
        perf_open::set_program(&event, &self.program)
            .map_err(|error| rights::perf_error(&format!("attaching {}", self.name), error))?;
        self.attached.push(event);
        Ok(())
    }

    pub fn run(&self) -> std::io::Result<u32> {
        call::run(&self.program)
    }

    pub fn counts(&self) -> ProgramCounts {
        call::program_counts(&self.program).unwrap_or_default()
    }
}

fn log_tail(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[end.saturating_sub(LOG_BYTES_SHOWN)..end]).trim().to_owned()
}

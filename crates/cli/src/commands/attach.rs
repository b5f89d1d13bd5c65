//! `ortscope attach`: watches processes that are already running.

use ortscope_sources::sampler::{Glob, ProcessFacts, Targets};

use super::record::observe;
use crate::args::{AttachArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::observe::plan;
use crate::terminal::Terminal;
use ortscope_observe::programs::{Programs, sweep_in_background};

pub fn run(args: &AttachArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let targets = targets(args)?;
    let plan = plan(targets, args.targets.join(", "), &args.watch, global)?;
    sweep_in_background();
    let programs = Programs::of_running(&plan.pids);
    observe("attach", &plan, &args.watch, None, programs, global, terminal)
}

/// What was typed: a number is an id, the rest are names. Each must be there now, or nobody would know of a slip.
fn targets(args: &AttachArgs) -> Result<Targets, Failure> {
    let running = ortscope_sources::processes().map_err(|error| Failure::internal(error.to_string()))?;
    let mut targets = Targets::default();
    for text in &args.targets {
        if let Ok(pid) = text.parse::<u32>() {
            if !running.iter().any(|process| process.pid == pid) {
                return Err(Failure::usage(format!("there is no process {pid}")).with_hint(
                    "'ortscope top' shows the processes; a process may also have ended just now",
                ));
            }
            targets.pids.push(pid);
            continue;
        }
        let glob = Glob::new(text).map_err(|error| Failure::usage(error.to_string()))?;
        // This program itself has the name on its command line, never as its own.
        let is_it = |process: &&ProcessFacts| glob.matches(&process.name);
        let found: Vec<u32> = running.iter().filter(is_it).map(|process| process.pid).collect();
        if found.is_empty() {
            return Err(Failure::usage(format!("no process is called '{text}'")).with_hint(
                "names are those of the program, at most 15 letters on Linux; * and ? match any letters",
            ));
        }
        targets.patterns.push(glob);
    }
    if args.children {
        targets.children_of.clone_from(&targets.pids);
    }
    Ok(targets)
}

//! `ortscope top`: the machine and its processes, live.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::live::{Limits, LiveMemory};
use ortscope_core::pipeline::{FlushError, Pipeline, Sink, SinkError};
use ortscope_core::schema::{ProcessRow, TableId, Text};
use ortscope_sources::sampler::{Exclude, OwnCostHandle, ProcessSampler, SamplerOptions};
use ortscope_tui::{Column, Filter, OwnCost, OwnFigures, ProcessFacts, TopOptions};

use crate::args::TopArgs;
use crate::exit::{Exit, Failure};
use crate::measure::interrupt::Interrupt;
use crate::terminal::{self, Terminal};

/// Rates need two samples of everything, memory and details included.
const ONCE_AFTER: Duration = Duration::from_millis(2200);
/// Processes that have ended are forgotten when there are so many.
const MOST_FACTS: usize = 50_000;

pub fn run(args: &TopArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut options = SamplerOptions::default();
    options.rates.cpu_hertz = args.rate;
    options.rates.memory_hertz = args.rate.min(options.rates.memory_hertz);
    if args.all {
        options.exclude = Exclude::nothing();
    }
    options.check().map_err(|error| Failure::usage(error.to_string()))?;
    let sort = match &args.sort {
        None => TopOptions::default().sort,
        Some(name) => Column::of_name(name).ok_or_else(|| {
            Failure::usage(format!("'{name}' is not a column"))
                .with_hint("cpu, rss, pid, name, threads, read, write, switches or faults")
        })?,
    };
    let sampler = ProcessSampler::with_options(options).map_err(|error| Failure::usage(error.to_string()))?;
    let figures = Figures(sampler.own_cost());
    // A desktop has several hundred processes with nine tracks each.
    let memory = LiveMemory::new(Limits { tracks: 20_000, ..Limits::default() });
    let (view, facts) = (memory.view(), Facts::default());
    let running = Pipeline::default().source(sampler).sink(memory).sink(facts.clone()).start()?;
    let shown = if args.once || terminal.json {
        let interrupt = Interrupt::install();
        let begin = Instant::now();
        while begin.elapsed() < ONCE_AFTER && !interrupt.requested() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let limit = usize::from(args.limit);
        if terminal.json {
            let document = ortscope_tui::once(&view, &facts, &figures, limit);
            let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
            terminal::print_data(&(text + "\n"));
        } else {
            terminal::print_data(&ortscope_tui::once_text(&view, &facts, &figures, limit));
        }
        Ok(())
    } else {
        let options = TopOptions {
            refresh_hertz: args.refresh,
            color: terminal.color,
            sort,
            filter: Filter::new(args.filter.as_deref().unwrap_or("")),
            tree: args.tree,
            figures: &figures,
            ..TopOptions::from_environment()
        };
        ortscope_tui::run(view, &facts, &options, || false)
    };
    running.control().stop();
    running.join();
    match shown {
        Ok(()) => Ok(Exit::Ok),
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
            Err(Failure::usage(error.to_string()).with_hint("--once prints it, --once --json for scripts"))
        }
        Err(error) => Err(error.into()),
    }
}

struct Figures(OwnCostHandle);

impl OwnFigures for Figures {
    fn own_cost(&self) -> Option<OwnCost> {
        let cost = self.0.get();
        Some(OwnCost {
            cpu_percent: cost.cpu_ratio.map(|ratio| ratio * 100.0),
            memory_bytes: cost.memory_bytes,
        })
    }
}

#[derive(Debug, Clone)]
struct Fact {
    name: Text,
    parent_pid: Option<u32>,
    command_line: Option<Text>,
}

/// Who the processes are, from the rows that tell it.
#[derive(Debug, Clone, Default)]
struct Facts(Arc<RwLock<HashMap<ProcessIdentity, Fact>>>);

impl Facts {
    fn get<T>(&self, process: ProcessIdentity, of: impl Fn(&Fact) -> Option<T>) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&process).and_then(of)
    }
}

impl ProcessFacts for Facts {
    fn name(&self, process: ProcessIdentity) -> Option<Text> {
        self.get(process, |fact| Some(Text::clone(&fact.name)))
    }

    fn parent_pid(&self, process: ProcessIdentity) -> Option<u32> {
        self.get(process, |fact| fact.parent_pid)
    }

    fn command_line(&self, process: ProcessIdentity) -> Option<Text> {
        self.get(process, |fact| fact.command_line.clone())
    }
}

impl Sink for Facts {
    fn name(&self) -> &str {
        "facts"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        if batch.table() != TableId::Processes {
            return Ok(());
        }
        let mut facts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for row in batch.rows::<ProcessRow>() {
            let Ok(pid) = u32::try_from(row.pid) else { continue };
            let process = ProcessIdentity { pid, start: row.process_start };
            if &*row.event == "exited" {
                facts.remove(&process);
            } else if facts.len() < MOST_FACTS || facts.contains_key(&process) {
                let parent_pid = row.parent_pid.and_then(|parent| u32::try_from(parent).ok());
                let fact = Fact { name: row.name, parent_pid, command_line: row.command_line };
                facts.insert(process, fact);
            }
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

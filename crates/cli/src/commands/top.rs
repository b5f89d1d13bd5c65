//! `ortscope top`: live view of this machine, or with `--connect` of a server's machine.

use std::time::{Duration, Instant};

use ortscope_core::live::{Limits, LiveMemory, LiveView};
use ortscope_observe::plan::{Inferences, Plan};
use ortscope_sources::sampler::{Exclude, OwnCostHandle, ProcessSampler, SamplerOptions};
use ortscope_tui::{
    Column, Filter, KnownProcesses, OwnCost, OwnFigures, Remote, RemoteOptions, TerminalWatch, TopOptions,
};

use crate::args::TopArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::{self, Terminal};
use ortscope_observe::interrupt::Interrupt;

/// Rates need two samples of every metric, including the slow ones.
const ONCE_AFTER: Duration = Duration::from_millis(2200);
const THREADS_HERTZ: f64 = 1.0;

pub fn run(args: &TopArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    // A desktop has several hundred processes with nine tracks each.
    let memory = LiveMemory::new(Limits { tracks: 20_000, ..Limits::default() });
    let (view, facts) = (memory.view(), KnownProcesses::default());
    match &args.connect {
        Some(url) => {
            let options = RemoteOptions {
                url: url.clone(),
                rate_hertz: args.rate,
                token_file: args.token_file.clone(),
                ca: args.ca.clone(),
                fingerprint: args.fingerprint.clone(),
            };
            let remote = Remote::start(&options, memory, facts.clone())?;
            let shown = show(args, terminal, view, &facts, &remote, || remote.has_failed());
            remote.stop()?;
            shown
        }
        None => {
            let sampler = sampler(args)?;
            let plan = Plan { inferences: Inferences::Machine, ..Plan::new(sampler) };
            let observation = plan.start(None, vec![Box::new(memory), Box::new(facts.clone())])?;
            let figures = Figures { own_cost: observation.own_cost(), facts: facts.clone() };
            let shown = show(args, terminal, view, &facts, &figures, || false);
            observation.finish();
            shown
        }
    }
}

fn sampler(args: &TopArgs) -> Result<ProcessSampler, Failure> {
    let mut options = SamplerOptions::default();
    options.rates.cpu_hertz = args.rate;
    options.rates.memory_hertz = args.rate.min(options.rates.memory_hertz);
    // For the detail pane, where one update per second is enough.
    options.threads = true;
    options.rates.threads_hertz = THREADS_HERTZ;
    if args.all {
        options.exclude = Exclude::nothing();
    }
    options.check().map_err(|error| Failure::usage(error.to_string()))?;
    ProcessSampler::with_options(options).map_err(|error| Failure::usage(error.to_string()))
}

/// Shows the memory once, or until the user quits or `stop` returns true.
fn show(
    args: &TopArgs,
    terminal: &Terminal,
    view: LiveView,
    facts: &KnownProcesses,
    figures: &dyn OwnFigures,
    stop: impl Fn() -> bool,
) -> Result<Exit, Failure> {
    let sort = match &args.sort {
        None => TopOptions::default().sort,
        Some(name) => Column::of_name(name).ok_or_else(|| {
            Failure::usage(format!("'{name}' is not a column"))
                .with_hint("cpu, rss, pid, name, threads, read, write, switches or faults")
        })?,
    };
    if args.once || terminal.json {
        let interrupt = Interrupt::install();
        let begin = Instant::now();
        while begin.elapsed() < ONCE_AFTER && !interrupt.requested() && !stop() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let limit = usize::from(args.limit);
        if terminal.json {
            let document = ortscope_tui::once(&view, facts, figures, limit);
            let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
            terminal::print_data(&(text + "\n"));
        } else {
            terminal::print_data(&ortscope_tui::once_text(&view, facts, figures, limit));
        }
        return Ok(Exit::Ok);
    }
    let options = TopOptions {
        refresh_hertz: args.refresh,
        color: terminal.color,
        sort,
        filter: Filter::new(args.filter.as_deref().unwrap_or("")),
        tree: args.tree,
        figures,
        terminal: &Watch,
        ..TopOptions::from_environment()
    };
    match ortscope_tui::run(view, facts, &options, stop) {
        Ok(()) => Ok(Exit::Ok),
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
            Err(Failure::usage(error.to_string()).with_hint("--once prints it, --once --json for scripts"))
        }
        Err(error) => Err(error.into()),
    }
}

struct Watch;

impl TerminalWatch for Watch {
    fn gone_within(&self, wait: Duration) -> bool {
        ortscope_sources::terminal_closed_within(wait)
    }
}

struct Figures {
    own_cost: OwnCostHandle,
    facts: KnownProcesses,
}

impl OwnFigures for Figures {
    fn own_cost(&self) -> Option<OwnCost> {
        let cost = self.own_cost.get();
        Some(OwnCost {
            cpu_percent: cost.cpu_ratio.map(|ratio| ratio * 100.0),
            memory_bytes: cost.memory_bytes,
        })
    }

    fn lost_records(&self) -> u64 {
        self.facts.lost()
    }
}

//! The `ortscope` program: arguments become a typed plan, the plan is run, the exit code says how it went.

mod args;
mod commands;
mod exit;
mod input_files;
mod logging;
mod measure;
mod model_file;
mod ort_library;
mod report;
mod settings;
mod terminal;
mod units;
mod values;
mod worker;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use exit::{Exit, Failure};
use terminal::Terminal;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data on stdout and succeed; mistakes go to stderr with code 2. A closed pipe is fine.
            error.print().ok();
            return ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Ok.code() });
        }
    };
    let terminal = Terminal::new(cli.global.color, cli.global.quiet, cli.global.json);
    let exit = match run(&cli, &terminal) {
        Ok(exit) => exit,
        Err(failure) => {
            terminal::print_failure(&terminal, &failure);
            failure.exit
        }
    };
    ExitCode::from(exit.code())
}

fn run(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    let global = &cli.global;
    if matches!(cli.command, Command::Worker) {
        return Ok(worker::main());
    }
    logging::start(global.verbose, global.quiet, global.log_file.as_deref())?;
    match &cli.command {
        Command::Run(args) => commands::run::run(args, global, terminal),
        Command::Inspect(args) => commands::inspect::run(args, terminal),
        Command::Doctor(_) => commands::doctor::run(global, terminal),
        Command::Config(args) => commands::config::run(args, global, terminal),
        Command::Completions(args) => commands::completions::run(args),
        Command::BenchOverhead(args) => commands::bench_overhead::run(args, global, terminal),
        Command::Worker => Ok(worker::main()),
    }
}

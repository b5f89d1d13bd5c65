//! The `ortscope` program: arguments become a typed plan, the plan is run, the exit code says how it went.

mod args;
mod commands;
mod exit;
mod live_trace;
mod logging;
mod observe;
mod operators;
mod ort_library;
mod progress;
mod push;
mod recording;
mod report;
mod settings;
mod terminal;
mod values;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use exit::{Exit, Failure};
use ortscope_observe::{TELEMETRY_VARIABLE, worker};
use report::document::ErrorDocument;
use terminal::Terminal;

/// What overwriting can do, said whenever it is asked for.
const OVERWRITING: &str = "note: what is removed is overwritten once; SSDs and copy-on-write file systems may keep old copies, \
                           so to be sure encrypt (--encrypt) and destroy the key";

fn main() -> ExitCode {
    if worker::is_requested() {
        let exit = worker::main().map_or_else(
            |failure| {
                terminal::print_error(&failure.message);
                failure.kind.into()
            },
            |()| Exit::Ok,
        );
        return ExitCode::from(exit.code());
    }
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
            if terminal.json {
                let document = ErrorDocument { schema: "ortscope.error/1", failure: &failure };
                // A document of two fields cannot fail to serialise.
                terminal::print_data(&(serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"));
            }
            failure.kind.into()
        }
    };
    ExitCode::from(exit.code())
}

/// ONNX Runtime's telemetry (1.29+) starts with the library, before its API can switch it off, and only the environment
/// of a new process can: commands that load the library in their own process start themselves again with it.
fn without_telemetry(command: impl FnOnce() -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    if std::env::var_os(TELEMETRY_VARIABLE).is_some_and(|value| value == "1") {
        return command();
    }
    let status = std::process::Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(TELEMETRY_VARIABLE, "1")
        .status()?;
    Ok(status.code().and_then(Exit::from_code).unwrap_or(Exit::Internal))
}

/// Commands that may run for days.
fn is_long(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_) | Command::Attach(_) | Command::Record(_) | Command::Top(_) | Command::Serve(_)
    )
}

fn run(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    let global = &cli.global;
    if global.secure_delete && !global.quiet {
        terminal::print_error(OVERWRITING);
    }
    if is_long(&cli.command) {
        ortscope_sources::release_memory_automatically();
        ortscope_store::after_segments(ortscope_sources::release_memory_now);
    }
    logging::start(global.verbose, global.quiet, global.log_file.as_deref())?;
    recording::prepare(global);
    match &cli.command {
        Command::Run(args) => commands::run::run(args, global, terminal),
        Command::Bench(args) => commands::bench::run(args, global, terminal),
        Command::Compare(args) => commands::compare::run(args, global, terminal),
        Command::Gate(args) => commands::gate::run(args, global, terminal),
        Command::Attach(args) => commands::attach::run(args, global, terminal),
        Command::Record(args) => commands::record::run(args, global, terminal),
        Command::Top(args) => commands::top::run(args, terminal),
        Command::Serve(args) => commands::serve::run(args, global, terminal),
        Command::Token(args) => commands::token::run(args, global, terminal),
        Command::Audit(args) => commands::audit::run(args, global, terminal),
        Command::Report(args) => commands::report::run(args, global, terminal),
        Command::Runs(args) => commands::runs::run(args, global, terminal),
        Command::Export(args) => commands::export::run(args, global, terminal),
        Command::Import(args) => commands::import::run(args, global, terminal),
        Command::Etl(args) => commands::etl::run(args, terminal),
        Command::Inspect(args) => commands::inspect::run(args, terminal),
        Command::Doctor(_) => without_telemetry(|| commands::doctor::run(global, terminal)),
        Command::Key(args) => commands::key::run(args, global, terminal),
        Command::Config(args) => commands::config::run(args, global, terminal),
        Command::Completions(args) => commands::completions::run(args),
    }
}

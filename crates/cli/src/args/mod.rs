//! What may be typed. Meaning is given to it elsewhere: here are only names, types and help.

mod bench;
mod compare;
mod etl;
mod gate;
mod keys;
mod observe;
mod push;
mod recordings;
mod run;
mod serve;
mod top;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::terminal::ColorChoice;

pub use bench::{BenchArgs, FailOn, JudgeArgs};
pub use compare::CompareArgs;
pub use etl::{
    EtlAction, EtlArgs, EtlConvertArgs, EtlCutArgs, EtlDumpArgs, EtlFormat, EtlProvider, EtlSelection,
    EtlStartArgs,
};
pub use gate::GateArgs;
pub use keys::{EncryptArgs, KeyAction, KeyArgs};
pub use observe::{AttachArgs, RecordArgs, WatchArgs};
pub use push::{LivePushArgs, PushArgs};
pub use recordings::{ExportArgs, ImportArgs, ReportArgs, ReportFormat, RunsAction, RunsArgs};
pub use run::RunArgs;
pub use serve::{AuditAction, AuditArgs, RoleArg, ServeArgs, StateArgs, TokenAction, TokenArgs};
pub use top::TopArgs;

#[derive(Debug, Parser)]
#[command(
    name = "ortscope",
    version,
    about = "Shows what happens inside an ONNX Runtime inference",
    long_about = "Shows what happens inside an ONNX Runtime inference: latency you can trust, cold start, memory, \
                  providers, on one clock.",
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: GlobalArgs,
}

const EXAMPLES: &str = "Examples:
  ortscope run model.onnx                      measure a model, no settings needed
  ortscope run model.onnx --sweep threads=1,2,4  find the best settings
  ortscope bench old.onnx new.onnx             which is slower, and how sure that is
  ortscope record -- python serve.py             watch a program and its children
  ortscope report last --format html -o r.html   the last run, to look at and to share
  ortscope export last --to chrome -o trace.json open it in ui.perfetto.dev
  ortscope inspect model.onnx                  what is in the file, without running it
  ortscope doctor                              what works here, what does not, and why

Exit codes: 0 ok, 1 internal error, 2 usage, 3 model cannot load or run, 4 inputs do not fit,
5 permission missing, 6 provider not used, 10 regression, 11 inconclusive, 12 not comparable, 20 data lost,
130 interrupted with nothing measured.

ONNX Runtime is looked for in --ort-library, ORTSCOPE_ORT_LIBRARY, the configuration, the active Python
environment and the system's library paths; 'ortscope doctor' shows every step.";

#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Only the result; no progress, no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// More on stderr (-v: what happens, -vv: everything)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Colours: auto follows NO_COLOR, CLICOLOR_FORCE and whether stdout is a terminal
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Configuration file to use instead of ./ortscope.toml
    #[arg(long, global = true, env = "ORTSCOPE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write a log as JSON lines; rotated at 10 MB, five files are kept
    #[arg(long, global = true, env = "ORTSCOPE_LOG_FILE", value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Where recordings are kept [default: the user's data directory]
    #[arg(long, global = true, env = "ORTSCOPE_STORE", value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// The key of encrypted recordings, in a file that only you can read; else ORTSCOPE_KEY, else the system's key store
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Overwrite temporary files and removed recordings once before they go; SSDs and copy-on-write file systems may keep
    /// what was there before: --encrypt is the sure way
    #[arg(long, global = true)]
    pub secure_delete: bool,
    /// ONNX Runtime's shared library (libonnxruntime.so, onnxruntime.dll), or a directory that has it
    #[arg(long, global = true, value_name = "PATH")]
    pub ort_library: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Benchmark a model: cold start, latency with intervals, throughput, memory
    Run(Box<RunArgs>),
    /// Compare two models, settings or commands on this machine, in turns, and say which is slower
    Bench(Box<BenchArgs>),
    /// A verdict between stored recordings
    Compare(CompareArgs),
    /// In CI: the models of [gate] against their baseline
    Gate(GateArgs),
    /// Watch running processes: CPU, memory, threads, I/O, faults, context switches
    Attach(AttachArgs),
    /// Run a program and watch it and its children
    Record(RecordArgs),
    /// The machine and its processes, live
    Top(TopArgs),
    /// The dashboard and the API: live, or of recordings
    Serve(Box<ServeArgs>),
    /// Who may use the server: create, list, revoke
    Token(TokenArgs),
    /// Who did what with the server: show, verify
    Audit(AuditArgs),
    /// Show what a recording says: text, HTML, Markdown, JSON, JUnit, CSV
    Report(ReportArgs),
    /// Recordings: list, show, tag, remove, prune, repair, pack
    Runs(RunsArgs),
    /// Convert a recording for other tools
    Export(ExportArgs),
    /// Make a recording from another tool's file
    Import(ImportArgs),
    /// Read, cut and convert traces of Event Tracing for Windows (.etl), on any system
    Etl(EtlArgs),
    /// Show what is in a model file, without running it
    Inspect(InspectArgs),
    /// Show what works on this machine, what does not, and why
    Doctor(DoctorArgs),
    /// Keys of encrypted recordings: make, identify, forget
    Key(KeyArgs),
    /// Show or make the configuration
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope inspect model.onnx
  ortscope inspect model.onnx --json | jq .inputs
  ortscope inspect model.onnx --template > inputs.json")]
pub struct InspectArgs {
    /// The model file
    pub model: PathBuf,
    /// Print a JSON file of inputs to fill in for --input
    #[arg(long)]
    pub template: bool,
    /// Accept external data that lies outside the model's directory or is linked
    #[arg(long)]
    pub allow_external_data: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope doctor
  ortscope doctor --ort-library ./libonnxruntime.so.1.20.1
  ortscope doctor --json")]
pub struct DoctorArgs {}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope config init                      write ./ortscope.toml with every default and its meaning
  ortscope config init --template production
  ortscope config show                      the settings in force, after all files
  ortscope config path                      which files are read")]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Write a configuration file with comments
    Init {
        /// Use case: default, development, testing, staging, production, critical or ci
        #[arg(long, default_value = "default")]
        template: String,
        /// Where to write
        #[arg(short, long, default_value = "ortscope.toml")]
        output: PathBuf,
        /// Replace a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Print the settings in force
    Show,
    /// Print the files that are read, strongest first
    Path,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope completions bash > ~/.local/share/bash-completion/completions/ortscope
  ortscope completions powershell >> $PROFILE")]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands and flags for tests and benchmarks do not belong in the program: what exists is in its help.
    #[test]
    fn no_command_is_hidden() {
        fn check(command: &clap::Command) {
            assert!(!command.is_hide_set(), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&<Cli as clap::CommandFactory>::command());
    }
}

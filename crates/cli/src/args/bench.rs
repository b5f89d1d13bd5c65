//! `ortscope bench`, and how verdicts are asked for everywhere.

use clap::{Args, ValueEnum};

use super::RunArgs;

const EXAMPLES: &str = "Examples:
  ortscope bench old.onnx new.onnx
  ortscope bench model.onnx --a provider=cpu --b provider=cuda+cpu
  ortscope bench model.onnx --a ort-library=./ort-1.20 --b ort-library=./ort-1.24
  ortscope bench model.onnx --b threads=1 --b session.intra_op.allow_spinning=0
  ortscope bench old.onnx new.onnx --check-outputs 1e-3 --metric p50,memory --margin p50=1%
  ortscope bench --ab \"./old --once\" \"./new --once\"

Blocks of both sides take turns (A B, B A, ...), each in a fresh process, so that heat and luck do not decide. After 6,
10 and 20 rounds it is judged: pass, regression, improvement or inconclusive. Flags that are not --a or --b hold for both.
Exit codes: 0 pass or improvement, 10 regression, 11 inconclusive (with --fail-on inconclusive), 3 a side failed,
4 the sides take different inputs.";

/// Everything `ortscope run` takes, for both sides, and what is different.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("models", |arg| arg.required(false).num_args(0..=2).value_names(["A"]).help(
        "The model of side A and that of side B; one model for both needs --a or --b"
    )),
    mut_arg("duration", |arg| arg.help("Length of a block [default: by the model, 0.8 to 10 s]")),
    mut_arg("runs", |arg| arg.help("Runs of a block, instead of a length")),
    mut_arg("profile", |arg| arg.help("'off': do not profile operators to show where a difference comes from")),
    mut_arg("check_outputs", |arg| {
        arg.value_parser(clap::value_parser!(String)).num_args(0..=1).default_missing_value("types")
            .value_name("TOLERANCE")
            .help("Compare the answers of the sides too; a relative tolerance [default: by element type]")
    }),
    mut_arg("soak", |arg| arg.hide(true)),
    mut_arg("together", |arg| arg.hide(true)),
    mut_arg("sweep", |arg| arg.hide(true)),
    mut_arg("precision", |arg| arg.hide(true)),
    mut_arg("generate", |arg| arg.hide(true)),
    mut_arg("prompt", |arg| arg.hide(true)),
    mut_arg("profile_every", |arg| arg.hide(true)),
    mut_arg("save", |arg| arg.hide(true)),
    mut_arg("no_save", |arg| arg.hide(true)),
    mut_arg("kernel", |arg| arg.hide(true)),
    mut_arg("idle", |arg| arg.hide(true)),
    mut_arg("carbon_intensity", |arg| arg.hide(true)),
    mut_arg("country", |arg| arg.hide(true)),
    mut_arg("estimate_energy", |arg| arg.hide(true)),
)]
pub struct BenchArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// A setting of side A: threads=1, provider=cuda+cpu, opt=basic, arena=off, ort-library=PATH, or a session
    /// configuration entry
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Sides")]
    pub a: Vec<String>,
    /// A setting of side B
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Sides")]
    pub b: Vec<String>,
    /// Compare two commands by their wall time instead of two models
    #[arg(long, num_args = 2, value_names = ["COMMAND_A", "COMMAND_B"], conflicts_with_all = ["models", "a", "b"], help_heading = "Sides")]
    pub ab: Vec<String>,
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// What is judged, and how strictly.
#[derive(Debug, Clone, Args)]
pub struct JudgeArgs {
    /// What to judge: p50, p90, p99, throughput, memory, energy [default: p50,p90,p99,throughput,memory]
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',', help_heading = "Verdict")]
    pub metric: Vec<String>,
    /// The change that matters, for all metrics (2%) or one (p99=15%) [default: p50 2%, p90 5%, p99 10%, throughput 5%,
    /// memory 1%, energy 5%, time 2%]
    #[arg(long, value_name = "[METRIC=]PERCENT", help_heading = "Verdict")]
    pub margin: Vec<String>,
    /// What makes the exit code other than 0
    #[arg(long, value_enum, default_value_t = FailOn::Regression, value_name = "WHAT", help_heading = "Verdict")]
    pub fail_on: FailOn,
    /// Rounds at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(6..=20), value_name = "N", help_heading = "Verdict")]
    pub max_rounds: u16,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A regression: exit code 10
    #[default]
    Regression,
    /// Also when the noise does not let it be told: exit code 11
    Inconclusive,
    /// Never: only show
    Never,
}

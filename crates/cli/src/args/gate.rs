//! `ortscope gate`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope gate                                  what [gate] in ./ortscope.toml says
  ortscope gate --config ci/ortscope.toml --junit gate.xml --summary gate.md
  ortscope gate --aa                             this machine's smallest change that can be seen

[gate] names models, metrics, margins and the baseline: a file, the same file at a git ref (baseline_ref, built by
baseline_build if needed), or stored recordings. Baseline and model are measured in turns, on this machine, now.
In GitHub Actions and Azure Pipelines it annotates, and in GitHub it adds to the summary of the step.
Exit codes: 0, 3 a model failed, 4 inputs differ, 6 provider not used, 10 regression, 11 inconclusive (fail_on),
12 no baseline.")]
pub struct GateArgs {
    /// Compare every model with itself: must find nothing, and prints what could be found
    #[arg(long)]
    pub aa: bool,
    /// Baseline: branch, tag or commit, instead of gate.baseline_ref
    #[arg(long, value_name = "REF")]
    pub baseline_ref: Option<String>,
    /// Only models whose path has this text
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Write a summary as Markdown
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

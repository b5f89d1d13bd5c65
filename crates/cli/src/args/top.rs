//! `ortscope top`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope top
  ortscope top --filter python --sort rss
  ortscope top --once --json --limit 5         for scripts

Keys: arrows, s sort, / filter, t tree, p pause, Enter detail, u what is missing and why, ? help, q quit.")]
pub struct TopArgs {
    /// Print once and end
    #[arg(long)]
    pub once: bool,
    /// Processes printed with --once
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    /// Samples of CPU time per second, 0.1 to 1000
    #[arg(long, value_name = "HZ", default_value_t = 10.0)]
    pub rate: f64,
    /// Screens per second, 1 to 20
    #[arg(long, value_name = "HZ", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub refresh: u32,
    /// Column to sort by: cpu, rss, pid, name, threads, read, write
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
    /// Only processes whose name contains this; !word leaves them out
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Children below their parents
    #[arg(long)]
    pub tree: bool,
    /// Threads of the processes in the detail pane, and processes of the system too
    #[arg(short, long)]
    pub all: bool,
}

//! `ortscope top`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope top
  ortscope top --filter python --sort rss
  ortscope top --once --json --limit 5         for scripts
  ORTSCOPE_TOKEN=... ortscope top --connect https://box.lan:9464 --ca box.pem

The token of --connect comes from ORTSCOPE_TOKEN or --token-file, never from a flag.

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
    /// Watch the machine of an `ortscope serve` instead: its 50 busiest processes, devices and sessions
    #[arg(long, value_name = "URL")]
    pub connect: Option<String>,
    /// A file with the token for --connect [default: ORTSCOPE_TOKEN]
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub token_file: Option<PathBuf>,
    /// Certificate that --connect trusts: the server's own, or of who signed it (PEM)
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub ca: Option<PathBuf>,
    /// SHA-256 of the server's certificate, as `ortscope serve` prints it
    #[arg(long, value_name = "HEX", requires = "connect", conflicts_with = "ca")]
    pub fingerprint: Option<String>,
    /// Threads of the processes in the detail pane, and processes of the system too
    #[arg(short, long)]
    pub all: bool,
}

//! `ortscope etl`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope etl info trace.etl
  ortscope etl stats trace.etl
  ortscope etl dump trace.etl --event Process/ --limit 20
  ortscope etl dump trace.etl --from 1.5 --to 1.6 --pid 4242 --json
  ortscope etl cut trace.etl -o small.etl --from 10 --to 12
  ortscope etl convert trace.etl -o events.csv
  ortscope etl convert trace.etl -o trace.trace.json       for Perfetto and chrome://tracing
  ortscope etl convert trace.etl -o tables --format parquet
  ortscope import trace.etl                    as a recording, for report and export

On Windows, as administrator:
  ortscope etl start -o trace.etl --provider ort --stacks
  ortscope etl stop
  ortscope etl list                            every session of the machine
  ortscope etl counters                        what its processors can count
  ortscope etl start --wpr CPU,GPU,Memory      by Windows Performance Recorder
  ortscope etl stop --wpr -o trace.etl")]
pub struct EtlArgs {
    #[command(subcommand)]
    pub action: EtlAction,
}

#[derive(Debug, Subcommand)]
pub enum EtlAction {
    /// What a trace is: machine, session, time, size, what was lost
    Info(EtlFileArgs),
    /// How many events of which kind, and how well they are understood
    Stats(EtlFileArgs),
    /// Print events with all their fields, in the order of time
    Dump(EtlDumpArgs),
    /// Write a part of a trace as a new trace
    Cut(EtlCutArgs),
    /// Write events as CSV or JSON, or what they mean as Parquet, a Chrome trace or a recording
    Convert(EtlConvertArgs),
    /// Start a session that writes a trace until it is stopped (Windows)
    Start(EtlStartArgs),
    /// Stop a session and say what it wrote and lost (Windows)
    Stop(EtlStopArgs),
    /// The sessions that run now (Windows)
    List,
    /// What the processors of this machine can count, for --counters (Windows)
    Counters,
}

/// The defaults suit a machine with a few dozen processors; a session that loses events gets more or larger buffers.
#[derive(Debug, Args)]
pub struct EtlStartArgs {
    /// The trace to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "wpr")]
    pub output: Option<PathBuf>,
    /// Record profiles of Windows Performance Recorder instead, where it is: CPU, GPU, Memory, Disk, Files, Power or any
    /// that `wpr -profiles` lists
    #[arg(long, value_name = "PROFILES", value_delimiter = ',',
        conflicts_with_all = ["output", "name", "flags", "provider", "sample_hz", "stacks", "counters", "buffer_kb", "min_buffers", "max_buffers", "flush_seconds"])]
    pub wpr: Vec<String>,
    /// Name of the session
    #[arg(long, value_name = "NAME", default_value = "OnnxInferenceMonitor")]
    pub name: String,
    /// Kernel events, by the names of Windows: EVENT_TRACE_FLAG_CSWITCH or just cswitch; `none` for none
    #[arg(
        long,
        value_name = "FLAGS",
        value_delimiter = ',',
        default_value = "process,thread,image_load,cswitch,profile"
    )]
    pub flags: Vec<String>,
    /// Other providers; may be repeated
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROVIDER")]
    pub provider: Vec<EtlProvider>,
    /// Samples of each processor per second, 1 to 8192
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub sample_hz: u32,
    /// With the stacks of samples, switches and wake-ups
    #[arg(long)]
    pub stacks: bool,
    /// Counters of the processor at every context switch, by the names that `etl counters` lists
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub counters: Vec<String>,
    /// Size of a buffer; an event that is longer is not written
    #[arg(long, value_name = "KB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(4..=16384))]
    pub buffer_kb: u32,
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub min_buffers: u32,
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_buffers: u32,
    /// A buffer that is not full is written after this
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub flush_seconds: u32,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct EtlStopArgs {
    /// Name of the session
    #[arg(default_value = "OnnxInferenceMonitor")]
    pub name: String,
    /// The recording of Windows Performance Recorder that `start --wpr` began
    #[arg(long, requires = "output", conflicts_with = "name")]
    pub wpr: bool,
    /// Where it is written to
    #[arg(short, long, value_name = "FILE", requires = "wpr")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "wpr")]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EtlProvider {
    /// ONNX Runtime: sessions, runs, providers
    Ort,
    /// GPUs and NPUs: engines, packets, clocks, temperatures
    Gpu,
    /// Clocks and limits of processors
    Power,
    /// Windows' estimates of energy
    Energy,
}

#[derive(Debug, Args)]
pub struct EtlFileArgs {
    /// The trace
    pub file: PathBuf,
}

/// Which events.
#[derive(Debug, Args, Default)]
pub struct EtlSelection {
    /// From this many seconds after the start of the trace
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<f64>,
    /// Before this many seconds after the start of the trace
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<f64>,
    /// Only events of this process; may be repeated
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Only events of this provider: its GUID or, where the trace knows names, a part of its name; may be repeated
    #[arg(long, value_name = "GUID|NAME")]
    pub provider: Vec<String>,
}

#[derive(Debug, Args)]
pub struct EtlDumpArgs {
    pub file: PathBuf,
    #[command(flatten)]
    pub selection: EtlSelection,
    /// Only events whose name contains this, such as Process/Start
    #[arg(long, value_name = "TEXT")]
    pub event: Option<String>,
    /// Stop after so many events
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

#[derive(Debug, Args)]
pub struct EtlCutArgs {
    pub file: PathBuf,
    /// The new trace
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub selection: EtlSelection,
    /// Leave out the events that describe processes, threads and schemas outside of the selection
    #[arg(long)]
    pub strict: bool,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct EtlConvertArgs {
    pub file: PathBuf,
    /// The new file, or the directory of a recording or of Parquet files; its ending names the format unless --format does
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[arg(long, value_enum)]
    pub format: Option<EtlFormat>,
    #[command(flatten)]
    pub selection: EtlSelection,
    /// Only events whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub event: Option<String>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EtlFormat {
    /// One line per event, its fields as JSON in the last column
    Csv,
    /// One JSON document
    Json,
    /// One JSON object per line
    Jsonl,
    /// What the events mean, as tables: one file for each in a directory
    Parquet,
    /// What the events mean, as a time line for Perfetto and chrome://tracing
    Chrome,
    /// The same as Perfetto's own packets
    Perfetto,
    /// What the events mean, as a recording in a directory of its own
    Recording,
}

//! `ortscope run`.

use std::path::PathBuf;

use clap::Args;

use super::EncryptArgs;

const EXAMPLES: &str = "Examples:
  ortscope run model.onnx
  ortscope run model.onnx --input inputs.npz --provider cuda,cpu --duration 30s
  ortscope run model.onnx --shape seq=64 --batch 1,2,4,8,16
  ortscope run model.onnx --scenario server:50
  ortscope run model.onnx --sweep threads=1,2,4 --sweep opt=basic,all
  ortscope run model.onnx --profile full
  ortscope run model.onnx --duration 10m --profile-every 30s
  ortscope run model.onnx --provider qnn,cpu --require-provider qnn:90
  ortscope run llm.onnx --generate 64
  ortscope run model.onnx --soak 10m

Inputs are made from the model's signature unless --input gives them; every guess is printed.
Values: durations like 10s, 500ms or 2m; sizes like 1x3x224x224; percentages like 0.5%.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// The model, or several: measured one after another
    #[arg(required = true, value_name = "MODEL")]
    pub models: Vec<PathBuf>,
    /// Measure all models at the same time (up to 10), so that they compete
    #[arg(long)]
    pub together: bool,

    /// Values for the inputs: .npz, .npy, .pb or .json file, or a directory of them
    #[arg(long, value_name = "FILE", help_heading = "Inputs")]
    pub input: Vec<PathBuf>,
    /// Size of an input or of a symbolic dimension: image=1x3x224x224, seq=64
    #[arg(long, value_name = "NAME=SIZES", help_heading = "Inputs")]
    pub shape: Vec<String>,
    /// Batch size; several, like 1,2,4,8, make a sweep
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', help_heading = "Inputs")]
    pub batch: Vec<u64>,
    /// Seed of generated inputs [default: 42]
    #[arg(long, value_name = "N", help_heading = "Inputs")]
    pub seed: Option<u64>,
    /// Accept external data that lies outside the model's directory or is linked
    #[arg(long, help_heading = "Inputs")]
    pub allow_external_data: bool,

    /// Execution providers in order: cpu, cuda, trt, dml, openvino, qnn, webgpu, ... End with ",cpu" to allow a fallback
    #[arg(short, long, value_name = "NAME[,NAME...]", value_delimiter = ',', help_heading = "Session")]
    pub provider: Vec<String>,
    /// Option of a provider: openvino.device_type=NPU
    #[arg(long, value_name = "NAME.KEY=VALUE", help_heading = "Session")]
    pub provider_option: Vec<String>,
    /// Plug-in library of a provider (ONNX Runtime 1.22+): qnn=/path/libonnxruntime_providers_qnn.so
    #[arg(long, value_name = "NAME=PATH", help_heading = "Session")]
    pub provider_library: Vec<String>,
    /// Threads inside an operator [default: ONNX Runtime's choice, one per physical core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Session")]
    pub threads: Option<u32>,
    /// Threads between operators; only with --parallel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Session")]
    pub inter_threads: Option<u32>,
    /// Graph optimisation: none, basic, extended, layout or all [default: all]
    #[arg(long, value_name = "LEVEL", help_heading = "Session")]
    pub opt: Option<String>,
    /// Run independent operators at the same time
    #[arg(long, help_heading = "Session")]
    pub parallel: bool,
    /// Without the CPU memory arena
    #[arg(long, help_heading = "Session")]
    pub no_arena: bool,
    /// Without memory planning
    #[arg(long, help_heading = "Session")]
    pub no_memory_pattern: bool,
    /// Session configuration entry: session.intra_op.allow_spinning=0
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Session")]
    pub config_entry: Vec<String>,
    /// Sessions of the same model in one process, 1 to 10
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10), help_heading = "Session")]
    pub sessions: u16,

    /// How requests come: single, multi:N, server:QPS[:THREADS], offline[:STREAMS] [default: single]
    #[arg(short, long, value_name = "SCENARIO", help_heading = "Measurement")]
    pub scenario: Option<String>,
    /// Exactly this many runs
    #[arg(short = 'n', long, value_name = "N", help_heading = "Measurement")]
    pub runs: Option<u64>,
    /// Exactly this long, e.g. 10s
    #[arg(short, long, value_name = "TIME", help_heading = "Measurement")]
    pub duration: Option<String>,
    /// Run this long, e.g. 10m, and judge whether memory is lost with every inference: exit code 10 for a leak. With
    /// --runs at most that many
    #[arg(long, value_name = "TIME", conflicts_with_all = ["duration", "precision", "sweep", "together", "generate"], help_heading = "Measurement")]
    pub soak: Option<String>,
    /// Until the median is known this well [default: 1%, at most 60 s]
    #[arg(long, value_name = "PERCENT", help_heading = "Measurement")]
    pub precision: Option<String>,
    /// Runs to leave out at the start; without it the warm-up is detected
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    pub warm_up: Option<u64>,
    /// Decoder with a KV cache: make this many tokens per sequence, and measure first and following tokens
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    pub generate: Option<u32>,
    /// Length of the prompt for --generate
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Measurement")]
    pub prompt: u32,
    /// Try settings and recommend the best: threads=1,2,4 opt=basic,all provider=cpu,cuda+cpu arena=on,off
    /// memory-pattern=on,off parallel=on,off inter-threads=1,2 sessions=1,2 scenario=multi:2,multi:4, or any session
    /// configuration entry: session.intra_op.allow_spinning=0,1
    #[arg(long, value_name = "KEY=VALUES", help_heading = "Measurement")]
    pub sweep: Vec<String>,
    /// Operators: 'operators' profiles them in a short pass after the measurement, 'full' also measures the levels of
    /// graph optimisation, 'off' leaves them out [default: operators; off in sweeps and with --together]
    #[arg(long, value_name = "WHAT", value_parser = ["off", "operators", "full"], help_heading = "Measurement")]
    pub profile: Option<String>,
    /// Runs to profile [default: up to 100 in 1.5 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Measurement")]
    pub profile_runs: Option<u64>,
    /// During the measurement, profile five runs again and again, e.g. every 30s; they count in no latency
    #[arg(long, value_name = "TIME", help_heading = "Measurement")]
    pub profile_every: Option<String>,
    /// Fail with exit code 6 unless this provider runs nodes; with :PERCENT, at least so many of all: qnn:90
    #[arg(long, value_name = "NAME[:PERCENT]", help_heading = "Measurement")]
    pub require_provider: Vec<String>,
    /// Record what the kernel does to the worker, so that slow inferences can be explained: context switches, migrations,
    /// page faults, disk (Linux: CAP_BPF and CAP_PERFMON)
    #[arg(long, help_heading = "Measurement")]
    pub kernel: bool,
    /// Compare the answers with the CPU's
    #[arg(long, value_name = "REFERENCE", value_parser = ["cpu"], help_heading = "Measurement")]
    pub check_outputs: Option<String>,

    /// Also measure the machine at rest for so long, before and after, e.g. 3s: joules above idle
    #[arg(long, value_name = "TIME", help_heading = "Energy")]
    pub idle: Option<String>,
    /// Grams of carbon dioxide per kilowatt hour where you are
    #[arg(long, value_name = "GRAMS", conflicts_with = "country", help_heading = "Energy")]
    pub carbon_intensity: Option<f64>,
    /// The same by a table: three letters of a country (DEU, USA) or its name; the result says source and year
    #[arg(long, value_name = "COUNTRY", help_heading = "Energy")]
    pub country: Option<String>,
    /// Where nothing measures energy, estimate it from the processor's thermal design power: a model that is wrong by 37 %
    /// in the mean, and is never added to what is measured
    #[arg(long, value_name = "WATTS", help_heading = "Energy")]
    pub estimate_energy: Option<f64>,

    /// Name of the recording
    #[arg(long, value_name = "NAME", help_heading = "Recording")]
    pub save: Option<String>,
    #[command(flatten)]
    pub encryption: EncryptArgs,
    /// Keep no recording
    #[arg(long, conflicts_with = "save", help_heading = "Recording")]
    pub no_save: bool,
    /// Show the recording in the browser afterwards, until Ctrl-C
    #[arg(long, conflicts_with = "no_save", help_heading = "Recording")]
    pub open: bool,
}

//! `ortscope attach` and `ortscope record`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ortscope_observe::device_events::DeviceProvider;

use super::{EncryptArgs, LivePushArgs};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope attach 4242 --duration 30s          a process by its id
  ortscope attach python --threads             every process of that name, with its threads
  ortscope attach 'onnx*' --spike 80           every stretch above 80 % of a core
  ortscope attach 4242 --kernel=wakeups,disk   context switches as well: exact times, waiting, who was in the way
  ortscope attach 4242 --flame out.svg -d 10s  where its time goes, as a flame graph")]
pub struct AttachArgs {
    /// Id or name of a process, or a pattern with * and ?
    #[arg(required = true, value_name = "PID|NAME")]
    pub targets: Vec<String>,
    /// Their children too, also those that start later
    #[arg(long)]
    pub children: bool,
    #[command(flatten)]
    pub watch: WatchArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope record -- python serve.py                   its inferences too, and those of what it starts
  ortscope record --profile-every 10 -- ./serve        a native program that loads ONNX Runtime (Linux)
  ortscope record --threads --rate 200 -- ./benchmark --runs 100
  ortscope record --save before -- make test
  ortscope record --push http://127.0.0.1:9090/api/v1/write -- python serve.py
  ortscope record --flame out.svg -- python serve.py   a flame graph with the functions of Python 3.12 and newer

The exit code is the program's own; ortscope's messages go to stderr.")]
pub struct RecordArgs {
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Profile the operators of one inference in N, where ONNX Runtime can (1.25 and newer); 0: of none
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub profile_every: u32,
    /// Only from outside: nothing is loaded into the program, and its inferences are not recorded
    #[arg(long)]
    pub no_inject: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LiveProvider {
    /// GPUs and NPUs: how busy their engines are
    Gpu,
    /// Clocks and limits of processors
    Power,
    /// Windows' estimates of energy
    Energy,
}

impl From<LiveProvider> for DeviceProvider {
    fn from(provider: LiveProvider) -> Self {
        match provider {
            LiveProvider::Gpu => Self::Gpu,
            LiveProvider::Power => Self::Power,
            LiveProvider::Energy => Self::Energy,
        }
    }
}

/// How to observe.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Stop after this time, e.g. 30s; otherwise when the processes end or on Ctrl-C
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Samples of CPU time per second, 0.1 to 1000 [default: 50]; other metrics follow at their own rates
    #[arg(long, value_name = "HZ")]
    pub rate: Option<f64>,
    /// Rows for every thread
    #[arg(long)]
    pub threads: bool,
    /// Cycles of the processes from the processor's counters, where the machine shows them (Linux); costs them about a
    /// microsecond per context switch
    #[arg(long)]
    pub cycles: bool,
    /// Context switches, starts and exits from the kernel, and of these classes: wakeups, migrations, faults, disk, memory,
    /// files, images, or EVENT_TRACE_FLAG_* by the names of Windows [default: wakeups,faults,disk] (Linux: CAP_BPF and
    /// CAP_PERFMON)
    #[arg(long, value_name = "CLASSES", value_delimiter = ',', num_args = 0.., require_equals = true,
        default_missing_value = "wakeups,faults,disk")]
    pub kernel: Option<Vec<String>>,
    /// Kernel events of this session of event tracing, which runs already and is neither changed nor stopped (Windows)
    #[arg(long, value_name = "NAME", requires = "kernel")]
    pub session: Option<String>,
    /// Counters of the processor at every context switch, by the names of Windows: InstructionRetired,CacheMisses; `ortscope
    /// etl counters` lists them (Windows)
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "kernel",
        conflicts_with = "session"
    )]
    pub counters: Vec<String>,
    /// Other providers of events in a session of their own (Windows, "Performance Log Users"); may be repeated
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROVIDER")]
    pub provider: Vec<LiveProvider>,
    /// Flame graph of the watched processes: OUT.svg, OUT.html or OUT.folded; on Windows of places in programs and libraries,
    /// and for administrators
    #[arg(long, value_name = "OUT")]
    pub flame: Option<PathBuf>,
    /// Flame graph of the functions of Python programs alone, of any version, also of one that runs already: OUT.svg,
    /// OUT.html or OUT.folded
    #[arg(long, value_name = "OUT")]
    pub flame_python: Option<PathBuf>,
    /// Look so many times a second at what each processor executes, 1 to 20000 [default: 99 with a flame graph]
    #[arg(long, value_name = "HZ")]
    pub sample_hz: Option<u32>,
    /// List every stretch in which a process used more than this percentage of a core
    #[arg(long, value_name = "PERCENT")]
    pub spike: Option<f64>,
    /// How much watching may cost: development 50 %, testing 20, staging 10, production 5, critical 2 of a core
    #[arg(long, value_name = "CASE", value_parser = ["development", "testing", "staging", "production", "critical"])]
    pub use_case: Option<String>,
    /// Whole command lines in the recording; by default the values of options are left out
    #[arg(long)]
    pub full_command_lines: bool,
    /// Name of the recording
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    #[command(flatten)]
    pub encryption: EncryptArgs,
    /// Keep no recording
    #[arg(long, conflicts_with = "save")]
    pub no_save: bool,
    /// Also draw a trace for Perfetto that grows meanwhile and opens at any moment: FILE.pftrace
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    #[command(flatten)]
    pub push: LivePushArgs,
}

//! Commands about recordings: `runs`, `report`, `export`, `import`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{EncryptArgs, PushArgs};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope runs list
  ortscope runs show last
  ortscope runs tag 7f3a baseline nightly
  ortscope runs trend detector --metric p99
  ortscope runs prune --older-than 30d --max-size 5GB --dry-run
  ortscope runs pack last -o bug.ortscope

RUN is an id, the beginning of one, a name, 'last', or the path of a recording or of a packed file.")]
pub struct RunsArgs {
    #[command(subcommand)]
    pub action: RunsAction,
}

#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// List recordings, the newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only those with this text in id, name, subject or tags
        #[arg(value_name = "TEXT")]
        matching: Option<String>,
        /// At most this many
        #[arg(short = 'n', long, default_value_t = 50, value_name = "N")]
        most: usize,
    },
    /// What a recording holds: tables, rows, times, size, condition
    Show {
        /// A recording: an id or its beginning, a name, 'last', or a path
        #[arg(default_value = "last", value_name = "RUN")]
        run: String,
    },
    /// Add or remove tags; tagged recordings are never pruned
    Tag {
        /// A recording: an id or its beginning, a name, 'last', or a path
        #[arg(value_name = "RUN")]
        run: String,
        /// Tags to add
        #[arg(value_name = "TAG")]
        add: Vec<String>,
        /// Tag to remove
        #[arg(long, value_name = "TAG")]
        remove: Vec<String>,
        /// Give the recording a name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// How the runs of a model went over time, and where they changed; for information, never a verdict
    Trend {
        /// Only those with this text in id, name, subject or tags
        #[arg(value_name = "TEXT")]
        matching: Option<String>,
        /// p50, p90, p99, throughput or memory
        #[arg(long, default_value = "p50", value_name = "NAME")]
        metric: String,
    },
    /// Delete one recording
    #[command(visible_alias = "rm")]
    Remove {
        /// A recording: an id or its beginning, a name, 'last', or a path
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Delete old recordings, or the oldest beyond a total size; named and tagged ones stay
    Prune {
        /// Older than this, e.g. 30d, 12h
        #[arg(long, value_name = "TIME")]
        older_than: Option<String>,
        /// Until all together are at most this large, e.g. 5GB
        #[arg(long, value_name = "SIZE")]
        max_size: Option<String>,
        /// Named and tagged ones too
        #[arg(long)]
        all: bool,
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
    },
    /// Save what is readable of a damaged or cut-off recording, and say what was lost
    Repair {
        /// A recording: an id or its beginning, a name, 'last', or a path
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Make one redacted file of a recording, to attach to a bug report
    Pack {
        /// A recording: an id or its beginning, a name, 'last', or a path
        #[arg(default_value = "last", value_name = "RUN")]
        run: String,
        /// The file to write [default: ./<id>.ortscope]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Keep command lines, user and directory names
        #[arg(long)]
        no_redact: bool,
        /// Pack an encrypted recording so that it can be read without its key
        #[arg(long)]
        decrypt: bool,
    },
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Text,
    Html,
    Md,
    Json,
    Junit,
    Csv,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope report                              the last recording, as text
  ortscope report 7f3a --format html -o report.html
  ortscope report last --timeline
  ortscope report last --format junit --limit latency.inference.p50=5 -o junit.xml

RUN is an id, the beginning of one, a name, 'last', or the path of a recording or of a packed file.")]
pub struct ReportArgs {
    /// A recording: an id or its beginning, a name, 'last', or a path
    #[arg(default_value = "last", value_name = "RUN")]
    pub run: String,
    /// Form of the report [default: by the ending of --output, else text]
    #[arg(short, long, value_enum, value_name = "FORM")]
    pub format: Option<ReportFormat>,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
    /// Draw the operators of one run as lanes (text)
    #[arg(long)]
    pub timeline: bool,
    /// A limit to check in JUnit reports, by a metric name of the CSV report, e.g. latency.inference.p99=20
    #[arg(long, value_name = "METRIC=MOST")]
    pub limit: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope export last --to chrome -o trace.json        open in ui.perfetto.dev
  ortscope export 7f3a --to parquet -o out/              one file per table
  ortscope export last --to csv --filter 'table:inferences dur>5ms' -o slow.csv
  ortscope export last --to jsonl --gzip -o run.jsonl.gz
  ortscope export last --to tensorboard -o logs/         tensorboard --logdir logs
  ortscope export last --to remote-write --url http://127.0.0.1:9090/api/v1/write
  ortscope export last --to otlp --url https://otel.example:4318

A token to push with stands in ORTSCOPE_PUSH_TOKEN, or user:password in ORTSCOPE_PUSH_BASIC.

Filters: op:Conv prov:CPU !Relu dur>1ms pid:123 session:ID phase:steady table:operators from:2s to:10s
RUN is an id, the beginning of one, a name, 'last', or the path of a recording or of a packed file.")]
pub struct ExportArgs {
    /// A recording: an id or its beginning, a name, 'last', or a path
    #[arg(value_name = "RUN")]
    pub run: String,
    /// json, jsonl, csv, parquet, sqlite, chrome, perfetto, prometheus, tensorboard, etl or fleet; or remote-write or otlp, which
    /// push to --url [default: by the ending of --output]
    #[arg(long = "to", value_name = "FORMAT")]
    pub format: Option<String>,
    /// File to write; a directory for tensorboard and fleet, and for csv and parquet with several tables
    #[arg(short, long, value_name = "PATH", conflicts_with = "url")]
    pub output: Option<PathBuf>,
    /// Address to push to
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Only rows that match
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Only these tables
    #[arg(long, value_name = "TABLE[,TABLE...]", value_delimiter = ',')]
    pub table: Vec<String>,
    /// Samples at every tick, also where nothing changed
    #[arg(long)]
    pub every_tick: bool,
    /// Wire records instead of table rows (jsonl)
    #[arg(long)]
    pub records: bool,
    /// Compress
    #[arg(long)]
    pub gzip: bool,
    /// Replace what is there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub push: PushArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope import onnxruntime_profile__2026-11-15_10-22-33.json
  ortscope import profile.json --name before-fusion && ortscope report last
  ortscope import pytorch_trace.json.gz
  ortscope import qnn_profile.csv
  ortscope import qhas.json
  ortscope import perf.data

Reads ONNX Runtime's profile JSON of every version from 1.15 on, QNN's profile (CSV) and its
analysis (QHAS, JSON), traces of chrome://tracing as JSON, traces of Windows (.etl) and files of
Linux's perf record; what is damaged is skipped and counted.")]
pub struct ImportArgs {
    /// The file
    pub file: PathBuf,
    /// A name for the recording
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

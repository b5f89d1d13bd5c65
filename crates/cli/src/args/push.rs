//! Where metrics are pushed to.

use std::path::PathBuf;

use clap::Args;

/// How to push, beside the address.
#[derive(Debug, Clone, Default, Args)]
pub struct PushArgs {
    /// Whom to trust, in PEM [default: whom the system trusts]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Where requests wait until they are taken [default: below the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub queue: Option<PathBuf>,
    /// How much may wait; more is dropped and counted [default: 256MB]
    #[arg(long, value_name = "SIZE")]
    pub queue_size: Option<String>,
    /// Time between two values of a series [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub step: Option<String>,
    /// Name of this machine among the others [default: its own]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
}

/// Pushing while watching.
#[derive(Debug, Clone, Default, Args)]
pub struct LivePushArgs {
    /// Push metrics to this address while watching: Prometheus's remote write if it ends in /write, else OTLP
    #[arg(long = "push", value_name = "URL")]
    pub url: Option<String>,
    #[command(flatten)]
    pub push: PushArgs,
}

//! `ortscope serve`, `token` and `audit`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{EncryptArgs, LivePushArgs};

#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  ortscope serve                                the machine, live, and all recordings
  ortscope serve last --open                    a recording in the browser
  ortscope serve before after                   two, to compare
  ortscope serve --listen 0.0.0.0:9464 --tls auto --allow-host box.lan
  ortscope serve --allow-origin https://eval.example
  ortscope serve --push https://metrics.example/api/v1/write

The link that is printed works once. Further people and programs need a token: 'ortscope token create'.
[server] of ortscope.toml has the same settings. docs/API.md describes the API.")]
pub struct ServeArgs {
    /// Recordings to show: ids, names, 'last' or paths. None: the machine, live
    pub runs: Vec<String>,
    /// Address and port; others than this machine's own need --tls and a token [default: 127.0.0.1:9464 and [::1]:9464]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<SocketAddr>,
    /// auto makes a certificate of our own; CERT.pem,KEY.pem uses yours
    #[arg(long, value_name = "auto|CERT,KEY")]
    pub tls: Option<String>,
    /// Refuse to start without TLS, also on this machine
    #[arg(long, env = "ORTSCOPE_HTTPS_ONLY")]
    pub https_only: bool,
    /// A name that this server is reached by
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// An origin whose pages may use the API with a token
    #[arg(long, value_name = "URL")]
    pub allow_origin: Vec<String>,
    /// Open the dashboard in the browser
    #[arg(long)]
    pub open: bool,
    /// Watch the machine beside recordings
    #[arg(long)]
    pub live: bool,
    /// Samples per second of the live view, 0.1 to 1000
    #[arg(long, value_name = "HZ", default_value_t = 10.0)]
    pub rate: f64,
    /// Grams of carbon dioxide per kilowatt hour where you are, for the energy panel
    #[arg(long, value_name = "GRAMS")]
    pub carbon: Option<f64>,
    /// Draw what is watched into a trace for Perfetto that grows meanwhile and opens at any moment: FILE.pftrace
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    #[command(flatten)]
    pub encryption: EncryptArgs,
    #[command(flatten)]
    pub push: LivePushArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

#[derive(Debug, Default, Args)]
pub struct StateArgs {
    /// Where tokens, certificates and the audit log are kept [default: the user's data directory]
    #[arg(long, env = "ORTSCOPE_STATE", value_name = "DIR", global = true)]
    pub state: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope token create ci --role viewer --expires 90d
  ortscope token list
  ortscope token revoke ci

A token is shown once. Send it as 'Authorization: Bearer TOKEN'.")]
pub struct TokenArgs {
    #[command(subcommand)]
    pub action: TokenAction,
    #[command(flatten)]
    pub state: StateArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RoleArg {
    /// Looks
    Viewer,
    /// Also pauses, changes rates, starts and stops recordings
    Operator,
    /// Also removes recordings and reads the audit log
    Admin,
}

#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Make a token and print it, for the only time
    Create {
        /// Whose it is
        name: String,
        #[arg(long, value_enum, default_value = "viewer")]
        role: RoleArg,
        /// After this it is worthless, e.g. 12h, 90d [default: never]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// Show the tokens there are
    List,
    /// Make a token worthless, at once
    Revoke {
        /// Its name or id
        token: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope audit show --limit 20
  ortscope audit verify                         exit code 20 when something was changed")]
pub struct AuditArgs {
    #[command(subcommand)]
    pub action: AuditAction,
    #[command(flatten)]
    pub state: StateArgs,
}

#[derive(Debug, Subcommand)]
pub enum AuditAction {
    /// Print the newest entries
    Show {
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Check that no entry was changed, removed or put in between
    Verify,
}

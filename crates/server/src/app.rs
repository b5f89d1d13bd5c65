//! The server's state and a validated request.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::clients::Groups;
use crate::data::{Reports, Sources};
use crate::own::OwnProcess;
use crate::params::Params;
use crate::security::Identity;
use crate::security::audit::Audit;
use crate::security::hosts::Hosts;
use crate::security::login::Logins;
use crate::security::tokens::Tokens;
use crate::timeline::Overviews;

/// Maximum number of simultaneous computations; further requests wait and are rejected after [`WAIT_FOR_TURN`].
pub const MAX_COMPUTING: usize = 8;
pub const WAIT_FOR_TURN: Duration = Duration::from_secs(20);
/// Maximum number of simultaneous downloads.
pub const MAX_DOWNLOADS: usize = 4;

/// The server's state.
#[derive(Debug)]
pub struct App {
    pub sources: Sources,
    pub reports: Reports,
    pub overviews: Overviews,
    pub tokens: Tokens,
    pub logins: Logins,
    pub audit: Audit,
    pub hosts: Hosts,
    pub state_directory: PathBuf,
    pub secure: bool,
    pub groups: Arc<Groups>,
    pub computing: Arc<Semaphore>,
    pub downloads: Arc<Semaphore>,
    pub own: OwnProcess,
    /// Configured by the user, for the energy panel.
    pub carbon_grams_per_kwh: Option<f64>,
}

/// A validated request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub identity: Option<Identity>,
    pub ip: IpAddr,
    pub params: Params,
    /// The value of `{id}` in the path.
    pub id: Option<String>,
    /// The JSON body of a POST.
    pub body: Value,
    /// The secret of the cookie, needed to log out.
    pub cookie: Option<String>,
}

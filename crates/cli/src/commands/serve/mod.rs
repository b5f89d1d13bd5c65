//! `ortscope serve`: the dashboard and the API, over the live machine and recordings.

mod live;
mod plan;
mod recorder;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ortscope_server::ServerConfig;
use serde_json::json;

use crate::args::{GlobalArgs, ServeArgs, StateArgs};
use crate::exit::{Exit, Failure};
use crate::recording::{open_store, open_store_to_record};
use crate::settings;
use crate::terminal::{self, DIM, Terminal, WARN};
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::programs::sweep_in_background;
use ortscope_observe::recording::keep_secrets_from;

use plan::Plan;
pub use plan::state_directory;

const PERIOD: Duration = Duration::from_millis(100);

/// What this process uses, for the dashboard: nanoseconds of processor time, bytes.
fn own_usage() -> (Option<u64>, Option<u64>) {
    match ortscope_sources::own_usage() {
        Ok(usage) => (Some(usage.cpu_time_ns), Some(usage.working_set_bytes)),
        Err(_) => (None, None),
    }
}

pub fn run(args: &ServeArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let store = open_store(global)?;
    let recordings = args.runs.iter().map(|run| store.resolve(run)).collect::<Result<Vec<_>, _>>()?;
    serve(args, recordings, None, global, terminal)
}

/// Serves until Ctrl-C, which may be somebody's already.
fn serve(
    args: &ServeArgs,
    recordings: Vec<PathBuf>,
    interrupt: Option<&Interrupt>,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let plan = Plan::new(args, global)?;
    let store = open_store_to_record(global, args.encryption.encrypt)?;
    // A browser may need more than we do.
    let mut places = vec![store.root().to_owned(), plan.state_directory.clone()];
    places.extend(
        args.perfetto
            .as_deref()
            .map(|file| Path::new(".").join(file).parent().map(Path::to_owned))
            .into_iter()
            .flatten(),
    );
    match ortscope_sources::drop_unneeded_privileges(&places, !args.open) {
        Ok(dropped) => tracing::info!(dropped, "capabilities that a server does not need were given up"),
        Err(problem) => tracing::warn!("rights that are not needed could not be given up: {problem}"),
    }
    sweep_in_background();
    let watching = if recordings.is_empty() || args.live {
        let push = crate::push::live(&args.push, global)?;
        let trace = args.perfetto.as_deref().map(crate::live_trace::place).transpose()?;
        Some(live::Watching::start(args.rate, &store, push, trace.as_deref())?)
    } else if args.perfetto.is_some() || args.push.url.is_some() {
        let message = "--perfetto and --push are of what is watched live, and only recordings are shown";
        return Err(Failure::usage(message).with_hint("add --live"));
    } else {
        None
    };
    let config = ServerConfig {
        listen: plan.listen,
        listen_if_possible: plan.listen_if_possible,
        tls: plan.tls,
        https_only: plan.https_only,
        allow_hosts: plan.allow_hosts,
        allow_origins: plan.allow_origins,
        state_directory: plan.state_directory,
        store,
        recordings,
        live: watching.as_ref().map(live::Watching::live),
        own_usage,
        carbon_grams_per_kwh: plan.carbon_grams_per_kwh,
    };
    let server = ortscope_server::start(config)?;
    let interrupt = interrupt.cloned().unwrap_or_else(Interrupt::install);
    tell(&server, terminal);
    if args.open && !open_browser(&server.link) {
        terminal::print_error(&format!(
            "{} no browser could be started; open the link yourself",
            terminal.paint(WARN, "warning:")
        ));
    }
    while !interrupt.requested() {
        std::thread::sleep(PERIOD);
    }
    server.stop();
    if let Some(watching) = watching {
        watching.stop();
    }
    Ok(Exit::Ok)
}

fn tell(server: &ortscope_server::Running, terminal: &Terminal) {
    if terminal.json {
        let document = json!({
            "schema": "ortscope.serve/1",
            "addresses": server.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "link": server.link,
            "fingerprint": server.fingerprint,
        });
        terminal::print_data(&(document.to_string() + "\n"));
        return;
    }
    terminal::print_data(&format!("{}\n", server.link));
    if terminal.quiet {
        return;
    }
    if let Some(fingerprint) = &server.fingerprint {
        terminal::print_error(&format!("certificate  SHA-256 {fingerprint}"));
    }
    if !ortscope_server::has_dashboard() {
        let note = "note: this build has no dashboard, only the API; web/README.md says how to build it";
        terminal::print_error(&terminal.paint(DIM, note));
    }
    let note = "the link works once, for five minutes; Ctrl-C ends the server";
    terminal::print_error(&terminal.paint(DIM, note));
}

/// Opens a link with the program that the system has for it.
fn open_browser(link: &str) -> bool {
    // Whichever is there: each system has one of them.
    let programs: [(&str, &[&str]); 3] =
        [("xdg-open", &[]), ("open", &[]), ("rundll32", &["url.dll,FileProtocolHandler"])];
    programs.iter().any(|(program, arguments)| {
        let mut browser = Command::new(program);
        keep_secrets_from(&mut browser);
        browser.args(*arguments).arg(link);
        let started = browser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        started.is_ok_and(|status| status.success())
    })
}

/// Shows a recording that was just made, until Ctrl-C.
pub fn show(
    recording: &Path,
    interrupt: &Interrupt,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let settings = settings::load(global.config.as_deref())?.server;
    // A run must not end with an error because nobody chose a certificate.
    let needs_one = settings.https_only && plan::configured_tls(&settings).is_none();
    let args = ServeArgs {
        // Another server may run: any port will do.
        listen: vec![([127, 0, 0, 1], 0).into()],
        tls: needs_one.then(|| "auto".to_owned()),
        open: true,
        rate: 10.0,
        state: StateArgs { state: std::env::var_os("ORTSCOPE_STATE").map(PathBuf::from) },
        ..ServeArgs::default()
    };
    serve(&args, vec![recording.to_owned()], Some(interrupt), global, terminal)
}

//! From flags and the environment to where and how metrics are pushed.

use std::time::Duration;

use ortscope_export::push::{Authorization, Destination, Protocol, PushError, PushOptions, PushState, Queue};
use ortscope_observe::recording::{PUSH_BASIC_VARIABLE, PUSH_TOKEN_VARIABLE};
use ortscope_store::Recording;

use crate::args::{GlobalArgs, LivePushArgs, PushArgs, StateArgs};
use crate::commands::serve::state_directory;
use crate::exit::Failure;
use crate::values;
use ortscope_core::units;

fn authorization() -> Result<Option<Authorization>, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    Ok(match (variable(PUSH_TOKEN_VARIABLE), variable(PUSH_BASIC_VARIABLE)) {
        (Some(token), _) => Some(Authorization::bearer(&token)?),
        (None, Some(pair)) => Some(Authorization::basic(&pair)?),
        (None, None) => None,
    })
}

/// The machine among the others: as the user says, as the recording says, or else this one.
pub fn host(args: &PushArgs, recording: Option<&Recording>) -> String {
    let recorded = recording.and_then(|recording| recording.manifest().host.clone());
    let named = args.host.clone().or(recorded).or_else(ortscope_sources::host_name);
    named.unwrap_or_else(|| "unknown".to_owned())
}

pub fn options(
    url: &str,
    protocol: Protocol,
    args: &PushArgs,
    global: &GlobalArgs,
) -> Result<PushOptions, Failure> {
    let destination = Destination::new(url, args.ca.as_deref(), authorization()?)?;
    let step = match &args.step {
        None => PushOptions::USUAL_STEP,
        Some(text) => match values::duration_seconds(text) {
            Ok(seconds) if seconds >= 0.1 => Duration::from_secs_f64(seconds),
            Ok(_) => return Err(Failure::usage("--step is shorter than 0.1 s")),
            Err(why) => return Err(Failure::usage(format!("--step: {why}"))),
        },
    };
    let queue_bytes = match &args.queue_size {
        None => PushOptions::USUAL_QUEUE_BYTES,
        Some(text) => {
            values::size_bytes(text).map_err(|why| Failure::usage(format!("--queue-size: {why}")))?
        }
    };
    let queue = match &args.queue {
        Some(directory) => directory.clone(),
        None => {
            let state = StateArgs { state: std::env::var_os("ORTSCOPE_STATE").map(Into::into) };
            state_directory(&state, global)?.join("push").join(destination.file_name())
        }
    };
    Ok(PushOptions {
        protocol,
        destination,
        host: host(args, None),
        step,
        queue,
        queue_bytes,
        give_up_after: PushOptions::USUAL_GIVE_UP,
    })
}

/// The push of a live command, if one was asked for.
pub fn live(args: &LivePushArgs, global: &GlobalArgs) -> Result<Option<PushOptions>, Failure> {
    let Some(url) = &args.url else { return Ok(None) };
    let is_write = url.trim_end_matches('/').ends_with("write");
    let protocol = if is_write { Protocol::RemoteWrite } else { Protocol::Otlp };
    let options = options(url, protocol, &args.push, global)?;
    // What is wrong with it is said now, before a program is started.
    drop(Queue::open(&options.queue, options.queue_bytes).map_err(PushError::from)?);
    Ok(Some(options))
}

/// What the user should know of a push that has ended.
pub fn sentences(state: &PushState, url: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    if state.waiting > 0 {
        let why = state.trouble.as_deref().unwrap_or("there was no time to send them");
        let count = units::counted(state.waiting, "value");
        sentences.push(format!("{count} wait to be pushed to {url}: {why}"));
    }
    if state.refused > 0 {
        let why = state.trouble.as_deref().unwrap_or("it did not say why");
        sentences.push(format!("{url} refused {}: {why}", units::counted(state.refused, "value")));
    }
    if state.dropped > 0 {
        let count = units::counted(state.dropped, "value");
        sentences.push(format!("{count} found no room in the queue and are lost"));
    }
    sentences
}

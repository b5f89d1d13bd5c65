//! `ortscope etl start`, `stop` and `list`: sessions that Windows runs by itself.

use std::path::absolute;
use std::sync::Arc;

use ortscope_sources::etw::{
    self, EtwApi, EtwError, KernelFlags, Provider, SessionStatus, Settings, providers,
};
use serde_json::{Value, json};

use super::wpr;
use crate::args::{EtlProvider, EtlStartArgs};
use crate::exit::{Exit, Failure, FailureKind};
use crate::terminal::{self, Terminal, WARN, print_json};
use ortscope_core::units;

fn functions() -> Result<Arc<dyn EtwApi>, Failure> {
    ortscope_sources::etw_functions().ok_or_else(|| {
        Failure::usage("sessions of event tracing run on Windows only").with_hint(
            "here `ortscope record --kernel` and `ortscope attach --kernel` read this system's own kernel events",
        )
    })
}

fn failure(error: &EtwError) -> Failure {
    let kind = match error {
        EtwError::AccessDenied { .. } => FailureKind::Permission,
        EtwError::NameTaken { .. } | EtwError::NoSuchSession { .. } | EtwError::NotSupported { .. } => {
            FailureKind::Usage
        }
        _ => FailureKind::Internal,
    };
    let text = error.to_string();
    match text.split_once("\n  hint: ") {
        Some((message, hint)) => Failure::new(kind, message).with_hint(hint),
        None => Failure::new(kind, text),
    }
}

fn kernel_flags(names: &[String]) -> Result<KernelFlags, Failure> {
    let mut flags = KernelFlags::default();
    for name in names.iter().filter(|name| !name.eq_ignore_ascii_case("none")) {
        let flag: KernelFlags = name.parse().map_err(|error: etw::UnknownFlag| {
            let text = error.to_string();
            let (message, hint) = text.split_once("\n  hint: ").unwrap_or((&text, ""));
            Failure::usage(message).with_hint(hint)
        })?;
        flags = flags | flag;
    }
    Ok(flags)
}

fn provider(which: EtlProvider) -> Provider {
    match which {
        EtlProvider::Ort => providers::ONNX_RUNTIME,
        EtlProvider::Gpu => providers::DXGKRNL,
        EtlProvider::Power => providers::PROCESSOR_POWER,
        EtlProvider::Energy => providers::ENERGY_ESTIMATION,
    }
}

pub fn start(args: &EtlStartArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(output) = &args.output else { return wpr::start(&args.wpr, terminal) };
    let kernel = kernel_flags(&args.flags)?;
    if args.min_buffers > args.max_buffers {
        return Err(Failure::usage(format!(
            "--min-buffers {} is more than --max-buffers {}",
            args.min_buffers, args.max_buffers
        )));
    }
    if kernel == KernelFlags::default() && args.provider.is_empty() {
        return Err(Failure::usage("nothing to record: no kernel flags and no provider")
            .with_hint("add --provider ort"));
    }
    let api = functions()?;
    if output.exists() && !args.force {
        return Err(
            Failure::usage(format!("'{}' exists already", output.display())).with_hint("--force replaces it")
        );
    }
    // The session is run by Windows, which has a directory of its own.
    let file = absolute(output)?;
    let settings = Settings {
        name: args.name.clone(),
        buffer_kilobytes: args.buffer_kb,
        minimum_buffers: args.min_buffers,
        maximum_buffers: args.max_buffers,
        flush_seconds: args.flush_seconds,
        kernel,
        providers: args.provider.iter().copied().map(provider).collect(),
        samples_per_second: args.sample_hz,
        stacks: args.stacks,
        counters: args.counters.clone(),
        log_file: Some(file.clone()),
        ..Settings::default()
    };
    let notes = etw::start_to_file(&api, &settings).map_err(|error| failure(&error))?;
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    terminal.warn(&notes);
    if terminal.json {
        print_json(&json!({
            "schema": "ortscope.etl.start/1", "session": args.name, "file": file, "kernel_flags": kernel.names(),
            "providers": settings.providers.iter().map(|provider| provider.name).collect::<Vec<_>>(), "refused": notes,
        }))?;
    } else {
        terminal::print_data(&format!(
            "session {} writes {}\nstop it with: ortscope etl stop {}\n",
            args.name,
            file.display(),
            args.name
        ));
    }
    Ok(Exit::Ok)
}

pub fn stop(name: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let api = functions()?;
    let status = etw::stop(&*api, name).map_err(|error| failure(&error))?;
    if terminal.json {
        print_json(&json!({"schema": "ortscope.etl.stop/1", "session": status_json(&status)}))?;
    } else {
        let file = if status.log_file.is_empty() { String::new() } else { format!("  {}", status.log_file) };
        let written = u64::from(status.buffers_written) * u64::from(status.buffer_kilobytes) * 1024;
        terminal::print_data(&format!(
            "session {name} stopped  {} written{file}\n",
            units::bytes(written as f64)
        ));
    }
    let lost = u64::from(status.events_lost) + u64::from(status.log_buffers_lost);
    if lost > 0 {
        terminal::print_error(&format!(
            "{} {} events and {} buffers were lost\n  hint: start it with a larger --buffer-kb or --max-buffers, or fewer --flags",
            terminal.paint(WARN, "warning:"),
            units::count(u64::from(status.events_lost)),
            units::count(u64::from(status.log_buffers_lost)),
        ));
        return Ok(Exit::DataLost);
    }
    Ok(Exit::Ok)
}

pub fn list(terminal: &Terminal) -> Result<Exit, Failure> {
    let api = functions()?;
    let sessions =
        api.sessions().map_err(|code| Failure::internal(format!("the sessions cannot be listed: {code}")))?;
    if terminal.json {
        let sessions: Vec<Value> = sessions.iter().map(status_json).collect();
        print_json(&json!({"schema": "ortscope.etl.list/1", "sessions": sessions}))?;
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        terminal::print_data("no sessions\n");
    }
    for status in &sessions {
        let lost = u64::from(status.events_lost) + u64::from(status.real_time_buffers_lost);
        let lost = if lost > 0 { format!("  {} lost", units::count(lost)) } else { String::new() };
        let to = if status.log_file.is_empty() { "real time" } else { &status.log_file };
        terminal::print_data(&format!(
            "{:40}  {} buffers of {} kB{lost}  {to}\n",
            status.name, status.buffers, status.buffer_kilobytes
        ));
    }
    Ok(Exit::Ok)
}

pub fn counters(terminal: &Terminal) -> Result<Exit, Failure> {
    let api = functions()?;
    let found = etw::counters(&*api).map_err(|code| match code {
        etw::codes::ACCESS_DENIED => {
            Failure::new(FailureKind::Permission, "listing counters needs an administrator")
        }
        etw::codes::PROC_NOT_FOUND => Failure::usage("this system lists no counters of its processors"),
        code => Failure::internal(format!("the counters cannot be listed: {code}")),
    })?;
    if terminal.json {
        let counters: Vec<Value> = found
            .iter()
            .map(|one| json!({"id": one.id, "name": one.name, "shortest_interval": one.shortest_interval, "longest_interval": one.longest_interval}))
            .collect();
        print_json(&json!({"schema": "ortscope.etl.counters/1", "counters": counters}))?;
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        terminal::print_data("no counters; virtual machines seldom show them\n");
    }
    for counter in &found {
        terminal::print_data(&format!("{}\n", counter.name));
    }
    Ok(Exit::Ok)
}

fn status_json(status: &SessionStatus) -> Value {
    json!({
        "name": status.name, "file": status.log_file, "buffer_kb": status.buffer_kilobytes, "buffers": status.buffers,
        "free_buffers": status.free_buffers, "maximum_buffers": status.maximum_buffers,
        "buffers_written": status.buffers_written, "events_lost": status.events_lost,
        "real_time_buffers_lost": status.real_time_buffers_lost, "log_buffers_lost": status.log_buffers_lost,
        "kernel_flags": KernelFlags(status.kernel_flags).names(),
    })
}

//! `ortscope record -- CMD`: runs a program under observation.

use std::process::Command;

use ortscope_sources::sampler::{CommandLines, Targets, command_shown};
use ortscope_sources::{PausedProcess, Stacks};

use crate::args::{GlobalArgs, RecordArgs, WatchArgs};
use crate::exit::{Exit, Failure};
use crate::live_trace;
use crate::observe::{Collector, FlameRequest, ObservePlan, Observed, document, finish_stacks, plan, show};
use crate::progress::ProgressLine;
use crate::recording::{self, SaveRequest};
use crate::terminal::{self, Terminal, WARN};
use ortscope_core::clock::now_ns;
use ortscope_core::pipeline::Sink;
use ortscope_core::schema::UnavailabilityRow;
use ortscope_core::units;
use ortscope_export::LiveTrace;
use ortscope_export::push::PushSink;
use ortscope_observe::instrument::instrument;
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::programs::{Programs, sweep_in_background};
use ortscope_observe::recording::{append, keep_secrets_from};
use ortscope_observe::watch::{Started, Watch};

/// Makes Python 3.12 and newer leave its functions in native stacks, and their names in a file. Others ignore it.
const PYTHON_SUPPORT: &str = "PYTHONPERFSUPPORT";

/// The document kept in the recording.
const OBSERVE_DOCUMENT: &str = "observe.json";

pub fn run(args: &RecordArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("there is no program to run"));
    };
    // Checked before the program starts; its id is known only then.
    let early = plan(Targets::default(), String::new(), &args.watch, global)?;
    let mut command = Command::new(program);
    command.args(arguments);
    keep_secrets_from(&mut command);
    if early.stacks.is_some() && std::env::var_os(PYTHON_SUPPORT).is_none() {
        command.env(PYTHON_SUPPORT, "1");
    }
    sweep_in_background();
    let programs = if args.no_inject {
        Programs::default()
    } else {
        instrument(&mut command, &args.command, args.profile_every)
    };
    let child = command.spawn().map_err(|error| {
        let failure = Failure::usage(format!("'{program}' cannot be started: {error}"));
        match error.kind() {
            std::io::ErrorKind::NotFound => failure.with_hint("give the path of the program, or check PATH"),
            _ => failure,
        }
    })?;
    // What the kernel is asked takes a moment to begin; a short program would be over by then.
    let held = (early.kernel.is_some() || early.stacks.is_some()).then(|| PausedProcess::new(child.id()));
    let targets = Targets { pids: vec![child.id()], children_of: vec![child.id()], ..Targets::default() };
    let kept = if args.watch.full_command_lines { CommandLines::Full } else { CommandLines::Redacted };
    let subject = units::clean(&command_shown(&args.command, kept), 80);
    let plan = plan(targets, subject, &args.watch, global)?;
    observe(
        "record",
        &plan,
        &args.watch,
        Some(Started { child, held, words: args.command.len() }),
        programs,
        global,
        terminal,
    )
}

/// The way both commands go.
pub fn observe(
    origin: &str,
    plan: &ObservePlan,
    args: &WatchArgs,
    program: Option<Started>,
    mut programs: Programs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let request = SaveRequest {
        origin,
        name: args.save.as_deref(),
        never: args.no_save,
        encrypt: args.encryption.encrypt,
        subject: plan.subject.clone(),
        observed_words: program.as_ref().map_or(0, |program| program.words),
    };
    let recording = match recording::begin(request, global)? {
        Ok(recording) => Some(recording),
        Err(why) => {
            if let Some(why) = why {
                let sentence = format!("{} this is not recorded: {why}", terminal.paint(WARN, "warning:"));
                terminal::print_error(&sentence);
            }
            None
        }
    };
    if let Some(recording) = &recording
        && let Err(error) = programs.set_recording(recording.writer.directory())
    {
        tracing::warn!(%error, "after a crash the rings would not be found");
    }
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    let push = plan.push.clone().map(PushSink::start).transpose()?;
    let push_handle = push.as_ref().map(PushSink::handle);
    sinks.extend(push.map(|sink| Box::new(sink) as Box<dyn Sink>));
    let trace = plan.trace.as_ref().map(|path| live_trace::start(path, &plan.subject)).transpose()?;
    let trace_handle = trace.as_ref().map(LiveTrace::handle);
    sinks.extend(trace.map(|sink| Box::new(sink) as Box<dyn Sink>));
    let collector = Collector::new(plan.spike_percent);
    sinks.push(Box::new(collector.clone()));

    let interrupt = Interrupt::install();
    let mut progress = ProgressLine::start(terminal, &plan.subject);
    let watch = Watch {
        plan: plan.sources(&collector)?,
        program,
        programs: &mut programs,
        duration: plan.duration,
        recording: recording.as_ref().map(|recording| &recording.writer),
        sinks,
        status: &|| collector.lock().status(),
    };
    let watched = watch.run(&interrupt, &mut progress);
    progress.finish();
    let watched = watched?;
    let lost = !watched.ended.losses.is_empty();
    let finished = |stacks: &Option<Stacks>, wanted: &Option<FlameRequest>| match (stacks, wanted) {
        (Some(stacks), Some(wanted)) => {
            finish_stacks(stacks, wanted, &plan.subject, watched.seconds).map(Some)
        }
        _ => Ok(None),
    };
    let sampling = finished(&watched.ended.stacks, &plan.stacks)?;
    let python_sampling = finished(&watched.ended.python_stacks, &plan.python_stacks)?;
    if let (Some(handle), Some(options)) = (&push_handle, &plan.push) {
        for sentence in crate::push::sentences(&handle.state(), &options.destination.shown()) {
            terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
        }
    }
    let trace = trace_handle.map(|handle| handle.state());
    let mut document = document(plan, Observed { watched, collected: collector.take(), trace });
    (document.sampling, document.python_sampling) = (sampling, python_sampling);
    let missing: Vec<UnavailabilityRow> = programs.unavailable.iter().map(|why| why.row(now_ns())).collect();
    document.unavailable.append(&mut programs.unavailable);
    if let Some(recording) = recording {
        // The report of the recording says too why a program has no inferences.
        append(&recording.writer, missing)?;
        let bytes = serde_json::to_vec_pretty(&document).map_err(Failure::internal)?;
        document.recording = Some(recording.finish_with(OBSERVE_DOCUMENT, &bytes, document.ending)?);
    }
    if terminal.json {
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        let mut lines = show(&document, terminal);
        lines.extend(document.recording.as_ref().map(|saved| {
            let name = saved.name.as_deref().unwrap_or(&saved.id);
            ortscope_render::brief::saved(name, saved.bytes, terminal.painter())
        }));
        // The program's own output is on stdout; its summary must not get into it.
        let text = lines.join("\n") + "\n";
        if origin == "record" { terminal::print_error(text.trim_end()) } else { terminal::print_data(&text) }
    }
    Ok(match document.exit_code {
        Some(code @ 1..) => Exit::Program(u8::try_from(code).unwrap_or(1)),
        _ if lost => Exit::DataLost,
        _ => Exit::Ok,
    })
}

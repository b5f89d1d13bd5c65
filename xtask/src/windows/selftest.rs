//! `cargo xtask windows-selftest`: what only a real Windows can show. Whoever has one runs it and sends the report back.
//!
//! Each check runs the program as a user does. Nothing is sent anywhere: the report is printed and kept in a file.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::environment::{Environment, TO_GENERATE, Workspace};
use crate::{models, run};

const REPORT: &str = "windows-selftest.md";
const SESSION: &str = "ortscope-selftest";
/// Lines of an answer that the report keeps.
const MAX_LINES: usize = 40;

struct Check {
    what: &'static str,
    arguments: Vec<String>,
    /// Words of which one must be in what it prints; none: the exit code decides.
    expected: &'static [&'static str],
    needs_administrator: bool,
}

pub(crate) fn main(arguments: Arguments) -> Result<ExitCode> {
    arguments.finish()?;
    if !cfg!(windows) {
        eprintln!(
            "this checks what only Windows can show; here `cargo xtask windows --test` runs the tests under Wine"
        );
        return Ok(ExitCode::from(2));
    }
    let environment = Environment::open(Workspace::find()?, TO_GENERATE, false)?;
    let program = run::build_program(&environment.workspace)?;
    let identity =
        models::all().iter().find(|model| model.name == "identity").context("no model identity")?;
    let model = models::fetch(&environment, identity)?;
    let trace = environment.workspace.target.join("selftest.etl");
    let mut report = String::from("# ortscope on this Windows\n\n");
    let mut failed = 0;
    for check in checks(&model, &trace) {
        let begin = Instant::now();
        let output =
            Command::new(&program).args(&check.arguments).output().context("cannot start ortscope")?;
        let verdict = verdict(&check, &output);
        failed += usize::from(verdict.starts_with("FAILED"));
        println!("{:60} {verdict}", check.what);
        report += &section(&check, &output, verdict, begin.elapsed());
    }
    let path = environment.workspace.root.join(REPORT);
    fs::write(&path, &report).context("cannot write the report")?;
    println!(
        "\nthe report is in {REPORT}: it holds names of processes and of the machine, look through it before you send it"
    );
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn checks(model: &Path, trace: &Path) -> Vec<Check> {
    let pid = std::process::id().to_string();
    let flame = trace.with_extension("svg").display().to_string();
    let (model, trace) = (model.display().to_string(), trace.display().to_string());
    let check = |what, arguments: &[&str], expected, needs_administrator| Check {
        what,
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        expected,
        needs_administrator,
    };
    vec![
        check("doctor", &["doctor"], &["etw events"], false),
        check("run on a model", &["run", &model, "--duration", "3s", "--no-save"], &["latency"], false),
        check("every process once", &["top", "--once", "--json"], &["\"processes\""], false),
        check(
            "processes sampled, with threads",
            &["attach", &pid, "--threads", "-d", "3s", "--no-save"],
            &["CPU"],
            false,
        ),
        check("sessions listed", &["etl", "list"], &["EventLog", "real time"], true),
        check(
            "kernel events live",
            &["attach", &pid, "--kernel", "-d", "5s", "--no-save"],
            &["context switches"],
            true,
        ),
        check(
            "kernel events by the names of Windows",
            &[
                "attach",
                &pid,
                "--kernel=EVENT_TRACE_FLAG_MEMORY_PAGE,EVENT_TRACE_FLAG_DISK_IO",
                "-d",
                "5s",
                "--no-save",
            ],
            &["context switches"],
            true,
        ),
        check(
            "run with kernel events",
            &["run", &model, "--kernel", "--duration", "3s", "--no-save"],
            &["latency"],
            true,
        ),
        check(
            "samples with stacks",
            &["attach", &pid, "--flame", &flame, "-d", "3s", "--no-save"],
            &[],
            true,
        ),
        check("counters of the processor", &["etl", "counters"], &[], true),
        check(
            "GPUs, power and energy beside them",
            &["attach", &pid, "--provider", "gpu,power,energy", "-d", "5s", "--no-save"],
            &["CPU"],
            true,
        ),
        check(
            "a session that writes a file",
            &["etl", "start", "-o", &trace, "--name", SESSION, "--provider", "ort,gpu,power", "--force"],
            &[SESSION],
            true,
        ),
        check("something to record", &["run", &model, "--duration", "3s", "--no-save"], &["latency"], false),
        check("the session stopped", &["etl", "stop", SESSION], &["stopped"], true),
        check("its trace described", &["etl", "info", &trace], &["performance counter"], true),
        check(
            "its trace counted: switches, samples, ONNX Runtime",
            &["etl", "stats", &trace],
            &["Thread/CSwitch"],
            true,
        ),
    ]
}

fn verdict(check: &Check, output: &Output) -> &'static str {
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let told = check.expected.is_empty() || check.expected.iter().any(|word| text.contains(word));
    match output.status.code() {
        Some(0) if told => "ok",
        // The exit code for a missing right.
        Some(5) if check.needs_administrator => "needs an administrator: run this again as one",
        _ => "FAILED",
    }
}

fn section(check: &Check, output: &Output, verdict: &str, took: Duration) -> String {
    let shorten = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
        lines.join("\n")
    };
    format!(
        "## {}: {verdict}\n\n`ortscope {}`, {:.1} s, exit code {:?}\n\n```text\n{}\n{}\n```\n\n",
        check.what,
        check.arguments.join(" "),
        took.as_secs_f64(),
        output.status.code(),
        shorten(&output.stdout),
        shorten(&output.stderr),
    )
}

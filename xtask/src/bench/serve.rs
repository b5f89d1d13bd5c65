//! How old the newest sample is when clients of the server have the frame, alone and beside one that never reads.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Figure, Goal, Report, Setting};
use crate::process::{capture, seconds};
use crate::run;

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let program = run::build_program(&setting.environment.workspace)?;
    let length = if setting.quick { "5" } else { "30" };
    let phase = |name: &str, stuck: &str| -> Result<Value> {
        let started = std::time::Instant::now();
        let mut command = Command::new(&program);
        command.args(["bench-serve", "--seconds", length, "--stuck", stuck]);
        let answer = capture(&mut command)?;
        eprintln!("  {name} … {}", seconds(started.elapsed()));
        serde_json::from_str(&answer).with_context(|| format!("no JSON: {answer}"))
    };
    let (alone, beside) = (phase("all read", "0")?, phase("one never reads", "1")?);
    let number =
        |value: &Value, key: &str| value[key].as_f64().with_context(|| format!("no {key} in {value}"));
    let figure = |key, value, goal, meaning| Figure { key, value, goal, meaning };
    Ok(Report {
        figures: vec![
            figure(
                "clients",
                number(&alone, "clients")?,
                Goal::AtLeast(100.0),
                "WebSocket clients at 10 Hz, each with system, sessions, processes and losses",
            ),
            figure(
                "p99_ms",
                number(&alone, "p99_ms")?,
                Goal::AtMost(20.0),
                "99th percentile of the age of the newest sample when a client has the frame, over all frames",
            ),
            figure(
                "server_core_percent",
                number(&alone, "server_core_percent")?,
                Goal::Shown,
                "processor time of the server process, sampling included / time; 100 is one core",
            ),
            figure(
                "p99_ms_with_stuck_client",
                number(&beside, "p99_ms")?,
                Goal::AtMost(20.0),
                "the same with one more client that subscribes and never reads",
            ),
        ],
        peers: json!({}),
        notes: vec![
            "source at 100 Hz, at least 104 processes; server, clients and idle processes on this machine"
                .into(),
            format!("all read: {alone}"),
            format!("one never reads: {beside}"),
        ],
    })
}

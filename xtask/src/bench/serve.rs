//! Age of the newest sample when clients of the server receive a frame, without and with a client that never reads.

use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::answer::{answer_of, number};
use super::{Figure, Goal, Report, Setting};
use crate::process::seconds;
use crate::run;

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let programs = run::build_both(&setting.environment.workspace)?;
    let length = if setting.quick { "5" } else { "30" };
    let phase = |name: &str, stuck: &str| -> Result<Value> {
        let started = std::time::Instant::now();
        let mut command = Command::new(&programs.benchmarks);
        command.args(["serve", "--seconds", length, "--stuck", stuck, "--program"]).arg(&programs.ortscope);
        let answer = answer_of(&mut command)?;
        eprintln!("  {name} … {}", seconds(started.elapsed()));
        Ok(answer)
    };
    let (alone, beside) = (phase("all read", "0")?, phase("one never reads", "1")?);
    Ok(Report {
        figures: vec![
            Figure::new(
                "clients",
                number(&alone, "clients")?,
                Goal::AtLeast(100.0),
                "WebSocket clients at 10 Hz, each with system, sessions, processes and losses",
            ),
            Figure::new(
                "p99_ms",
                number(&alone, "p99_ms")?,
                Goal::AtMost(20.0),
                "99th percentile of the age of the newest sample when a client has the frame, over all frames",
            ),
            Figure::new(
                "server_core_percent",
                number(&alone, "server_core_percent")?,
                Goal::Shown,
                "processor time of the server process, sampling included / time; 100 is one core",
            ),
            Figure::new(
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

//! What the measured programs answer: one JSON document on standard output, and the numbers in it.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::capture;

/// Runs a program to its end and reads what it printed.
pub(super) fn answer_of(command: &mut Command) -> Result<Value> {
    parse(&capture(command)?)
}

pub(super) fn parse(answer: &str) -> Result<Value> {
    serde_json::from_str(answer).with_context(|| format!("no JSON: {}", answer.trim()))
}

/// A number by its name, or, where it lies deeper, by its JSON pointer (`/results/0/p50`).
pub(super) fn number(document: &Value, name: &str) -> Result<f64> {
    let found = if name.starts_with('/') { document.pointer(name) } else { document.get(name) };
    found.and_then(Value::as_f64).with_context(|| format!("no number {name} in {document}"))
}

//! `ortscope etl start --wpr` and `etl stop --wpr`: recordings of Windows Performance Recorder, which comes with Windows and
//! knows providers that no single session of ours has.

use std::io::ErrorKind;
use std::path::{Path, absolute};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::exit::{Exit, Failure, FailureKind};
use crate::terminal::{self, Terminal, print_json};
use ortscope_core::units;

const PROGRAM: &str = "wpr";
/// `E_ACCESSDENIED`, which is what it ends with when it is not an administrator's.
const ACCESS_DENIED: i32 = 0x8007_0005_u32.cast_signed();

/// Profiles of Windows Performance Recorder behind the words that people use; others are handed on as they are.
fn profiles(word: &str) -> &str {
    match word.to_ascii_lowercase().as_str() {
        "cpu" => "CPU",
        "gpu" => "GPU",
        "memory" => "VirtualAllocation",
        "disk" => "DiskIO",
        "files" => "FileIO",
        "power" => "Power",
        _ => word,
    }
}

pub fn start(words: &[String], terminal: &Terminal) -> Result<Exit, Failure> {
    let profiles: Vec<&str> = words.iter().map(|word| profiles(word.trim())).collect();
    if let Some(odd) = profiles.iter().find(|name| name.is_empty() || name.starts_with('-')) {
        return Err(Failure::usage(format!("'{odd}' is not a profile of Windows Performance Recorder"))
            .with_hint("--wpr CPU,GPU,Memory; `wpr -profiles` lists them all"));
    }
    let mut arguments: Vec<&str> = profiles.iter().flat_map(|profile| ["-start", profile]).collect();
    // Not in memory, where the oldest part would be overwritten.
    arguments.push("-filemode");
    call(&arguments)?;
    if terminal.json {
        print_json(&json!({"schema": "ortscope.etl.start/1", "session": "wpr", "profiles": profiles}))?;
    } else {
        terminal::print_data(&format!(
            "Windows Performance Recorder records {}\nstop it with: ortscope etl stop --wpr -o trace.etl\n",
            profiles.join(", ")
        ));
    }
    Ok(Exit::Ok)
}

pub fn stop(output: &Path, force: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    if output.exists() && !force {
        return Err(
            Failure::usage(format!("'{}' exists already", output.display())).with_hint("--force replaces it")
        );
    }
    let file = absolute(output)?;
    call(&["-stop", &file.display().to_string()])?;
    let bytes = std::fs::metadata(&file).map_err(|error| {
        Failure::internal(format!("wpr ended without an error, but wrote no '{}': {error}", file.display()))
    })?;
    if terminal.json {
        print_json(&json!({"schema": "ortscope.etl.stop/1", "session": {"name": "wpr", "file": file}}))?;
    } else {
        terminal::print_data(&format!("{} written  {}\n", units::bytes(bytes.len() as f64), file.display()));
    }
    Ok(Exit::Ok)
}

/// Runs it to its end, and says what it said if it failed.
fn call(arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().map_err(|error| {
        let failure = match error.kind() {
            ErrorKind::NotFound => {
                Failure::usage("there is no Windows Performance Recorder (wpr) on this system")
            }
            _ => Failure::internal(format!("wpr cannot be started: {error}")),
        };
        failure.with_hint(
            "it is part of Windows 10 and 11; without --wpr `ortscope etl start` needs no other program",
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap_or(-1);
    if code == ACCESS_DENIED {
        return Err(Failure::new(
            FailureKind::Permission,
            "Windows Performance Recorder needs an administrator",
        )
        .with_hint("start the terminal by \"Run as administrator\""));
    }
    let said = units::clean(said.trim(), 300);
    Err(Failure::internal(format!("wpr {} ended with {code:#x}: {said}", arguments.join(" "))).with_hint(
        "`wpr -status` tells what it records now, `wpr -cancel` ends that without a file, `wpr -profiles` lists what it knows",
    ))
}

//! `ortscope-bench`: the measured parts of `cargo xtask bench` and `cargo xtask trust`.
//!
//! Each command runs one phase of one benchmark in this process, so that the CPU time and memory that it reports belong to
//! that phase alone, and prints one JSON document. Tables, peers and goals are in `xtask/src/bench`.

mod etl;
mod load;
mod ort;
mod overhead;
mod profile_json;
mod sampler;
mod serve;
#[path = "../../store/tests/simulation/mod.rs"]
mod simulation;
mod store;
mod trust;
mod verdicts;

use std::io::Write as _;

use clap::{Parser, Subcommand};
use serde_json::Value;

#[derive(Debug, Parser)]
#[command(name = "ortscope-bench", about = "Runs one phase of a benchmark and prints its figures as JSON")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read ETL traces
    Etl(etl::EtlArgs),
    /// Run a model in several sessions at a fixed rate
    Load(load::LoadArgs),
    /// Run a model with and without observation
    Overhead(overhead::OverheadArgs),
    /// Read an operator profile of ONNX Runtime
    ProfileJson(profile_json::ProfileJsonArgs),
    /// Watch processes in different ways
    Sampler(sampler::SamplerArgs),
    /// Measure the age of the frames that clients of the server receive
    Serve(serve::ServeArgs),
    /// Store simulated data
    Store(store::StoreArgs),
    /// Audit a recording, or estimate the slope of a series
    Trust(trust::TrustArgs),
    /// Judge simulated latencies
    Verdicts(verdicts::VerdictsArgs),
}

fn main() -> anyhow::Result<()> {
    let document = match Cli::parse().command {
        Command::Etl(args) => etl::run(&args)?,
        Command::Load(args) => load::run(&args)?,
        Command::Overhead(args) => overhead::run(&args)?,
        Command::ProfileJson(args) => profile_json::run(&args)?,
        Command::Sampler(args) => sampler::run(&args)?,
        Command::Serve(args) => serve::run(&args)?,
        Command::Store(args) => store::run(&args)?,
        Command::Trust(args) => trust::run(&args)?,
        Command::Verdicts(args) => verdicts::run(&args)?,
    };
    // Helper processes of a benchmark have no figures.
    if document != Value::Null {
        writeln!(std::io::stdout(), "{document}")?;
    }
    Ok(())
}

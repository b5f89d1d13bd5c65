//! `ortscope completions`.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::{Exit, Failure};
use crate::terminal;

pub fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ortscope", &mut script);
    terminal::print_data(&String::from_utf8_lossy(&script));
    Ok(Exit::Ok)
}

//! `cargo xtask gen`: files that are written by a program and checked in.
//!
//! Each is owned by a test that compares it with what the program would write, and writes it instead when
//! `ORTSCOPE_BLESS=1` is set: so an outdated file fails the ordinary tests, and the way to mend it is one command.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::environment::Workspace;
use crate::process;

struct Generated {
    about: &'static str,
    package: &'static str,
    /// The integration test that owns the file.
    test: &'static str,
}

/// Everything that is generated. A new file is a new line here and a test that understands `ORTSCOPE_BLESS`.
const GENERATED: &[Generated] = &[Generated {
    about: "since which version each function of the C API exists",
    package: "ortscope-ort",
    test: "gates_are_current",
}];

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let check = arguments.flag("--check");
    arguments.finish()?;
    let workspace = Workspace::find()?;
    for generated in GENERATED {
        eprintln!("== {}", generated.about);
        let mut cargo = workspace.cargo();
        cargo.args(["test", "--quiet", "--package", generated.package, "--test", generated.test]);
        if check {
            // Someone else's setting must not turn a check into a change.
            cargo.env_remove("ORTSCOPE_BLESS");
        } else {
            cargo.env("ORTSCOPE_BLESS", "1");
        }
        let problem = if check {
            format!("{} is not current\nhint: `cargo xtask gen` writes it", generated.about)
        } else {
            format!("cannot generate: {}", generated.about)
        };
        process::succeed(&mut cargo).context(problem)?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `cargo xtask gen`: generated files that are checked in.
//!
//! Each is owned by a test that compares it with the generated content, and writes it instead if `ORTSCOPE_BLESS=1` is
//! set. An outdated file therefore fails the ordinary tests, and one command updates it.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::environment::Workspace;
use crate::process;

struct Generated {
    about: &'static str,
    package: &'static str,
    /// The integration test that owns the file, and a filter for the test function in it.
    test: [&'static str; 2],
}

/// All generated files. A new one needs an entry here and a test that honors `ORTSCOPE_BLESS`.
const GENERATED: &[Generated] = &[
    Generated {
        about: "the ONNX Runtime version that introduced each C API function",
        package: "ortscope-ort",
        test: ["gates_are_current", ""],
    },
    Generated {
        about: "the dashboard's types of API answers (web/src/api/types.ts)",
        package: "ortscope-server",
        test: ["it", "typescript_types_are_current"],
    },
];

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let check = arguments.flag("--check");
    arguments.finish()?;
    let workspace = Workspace::find()?;
    for generated in GENERATED {
        eprintln!("== {}", generated.about);
        let mut cargo = workspace.cargo();
        cargo.args(["test", "--quiet", "--package", generated.package, "--test"]).args(generated.test);
        if check {
            // An inherited setting must not turn a check into a change.
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

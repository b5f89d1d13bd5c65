//! Project tasks, run as `cargo xtask <command>`: one place that knows how to set up, test, measure and check ortscope.
//!
//! Everything a task needs beyond Rust and Python 3 goes into `<target>/ortscope-env`, so that a clean-up is one
//! `cargo clean` and nothing on the machine changes behind the user's back.
#![expect(clippy::print_stdout, reason = "a task's result is its standard output")]
#![expect(clippy::print_stderr, reason = "progress and problems go to standard error")]

mod api;
mod arguments;
mod bench;
mod cargo_tools;
mod coverage;
mod debian;
mod deps;
mod dist;
mod environment;
mod fuzz;
mod generate;
mod licences;
mod models;
mod modules;
mod process;
mod python;
mod run;
mod runtimes;
mod source_scan;
mod summary;
mod supply_chain;
mod test;
mod threads;
mod trust;
mod unsafe_inventory;
mod web;
mod windows;

use std::process::ExitCode;

use arguments::{Arguments, UsageError};

struct Task {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(Arguments) -> anyhow::Result<ExitCode>,
}

const TASKS: &[Task] = &[
    Task {
        name: "run",
        usage: "run [MODEL] [--refresh] [-- ORTSCOPE ARGS]",
        about: "build ortscope and run it on a model, with a private ONNX Runtime",
        run: run::main,
    },
    Task {
        name: "test",
        usage: "test [--full] [--prepare | --python | NEXTEST ARGS]",
        about: "everything a change must pass: format, lints, arrows, tests, Windows check",
        run: test::main,
    },
    Task {
        name: "trust",
        usage: "trust [--full] [--soak DURATION] [--seed N] [--only PART] [--json]",
        about: "break it on purpose: power loss, flipped bits, disks that refuse, kill -9, much load, a day of virtual time; a long run with --soak 20m",
        run: trust::main,
    },
    Task {
        name: "windows",
        usage: "windows [--check [--build] | --arm | --test [FILTER] | --program | --python]",
        about: "compile for Windows from here, run the tests and the Python package under Wine; all of it without an option",
        run: windows::main,
    },
    Task {
        name: "windows-selftest",
        usage: "windows-selftest",
        about: "on a real Windows: check what only that can show, and write a report",
        run: windows::selftest::main,
    },
    Task {
        name: "dist",
        usage: "dist [--quick] [--no-sdist] [--no-windows]",
        about: "build, check and install what a release has: wheels and an sdist",
        run: dist::main,
    },
    Task {
        name: "deps",
        usage: "deps [--write]",
        about: "check dependencies between crates and modules, licenses, OS-dependent code and unsafe; --write writes docs/UNSAFE.md",
        run: deps::main,
    },
    Task {
        name: "fuzz",
        usage: "fuzz [TARGET…] [--executions N] | --list | --fold FILE…",
        about: "hostile input for every reader; fuzz/LOG.md adds up what was tried, --fold takes the output of other runs in",
        run: fuzz::main,
    },
    Task {
        name: "coverage",
        usage: "coverage [--write] [NEXTEST ARGS]",
        about: "the lines that the tests reach, crate by crate; --write writes the table into docs/VERIFIED.md",
        run: coverage::main,
    },
    Task {
        name: "gen",
        usage: "gen [--check]",
        about: "regenerate the generated files, or check that they are current",
        run: generate::main,
    },
    Task {
        name: "screenshots",
        usage: "screenshots",
        about: "make the pictures of the dashboard in docs/images",
        run: web::screenshots,
    },
    Task {
        name: "bench",
        usage: "bench NAME|--all [--quick] [--json] [--write]",
        about: "measure ortscope and its peer in the same run",
        run: bench::main,
    },
];

/// The exit code of a command line that makes no sense, as in the `ortscope` program itself.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        print_help();
        return ExitCode::from(EXIT_USAGE);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print_help();
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprintln!("error: there is no task `{name}`");
        match closest(&name) {
            Some(task) => eprintln!("hint: did you mean `cargo xtask {task}`?"),
            None => eprintln!("hint: `cargo xtask help` lists the tasks"),
        }
        return ExitCode::from(EXIT_USAGE);
    };
    let words: Vec<String> = words.collect();
    if words.iter().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h") {
        println!("{}\n\nusage: cargo xtask {}", task.about, task.usage);
        return ExitCode::SUCCESS;
    }
    match (task.run)(Arguments::new(words)) {
        Ok(code) => code,
        Err(error) if error.is::<UsageError>() => {
            eprintln!("error: {error}\nusage: cargo xtask {}", task.usage);
            ExitCode::from(EXIT_USAGE)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_help() {
    println!("usage: cargo xtask TASK [ARGS]\n");
    let width = TASKS.iter().map(|task| task.usage.len()).max().unwrap_or(0);
    for task in TASKS {
        println!("  {:width$}  {}", task.usage, task.about);
    }
    println!("  {:width$}  this list", "help");
}

/// The task whose name shares the beginning with what was typed, or contains it.
fn closest(typed: &str) -> Option<&'static str> {
    let related = |name: &str| name.starts_with(typed) || typed.starts_with(name);
    TASKS.iter().map(|task| task.name).find(|name| !typed.is_empty() && related(name))
}

//! `cargo xtask windows`: compiles ortscope for Windows from another system, and runs its tests, the program, and the
//! Python package in a Python for Windows, under Wine.
//!
//! The target's standard library is used if it is installed, else built from its source when that lies beside the
//! compiler, else `tools/windows-setup.sh` gets one of the two. The products stay in a directory of their own, so that
//! switching between systems rebuilds nothing.

mod arm;
mod imports;
mod program;
pub(crate) mod selftest;
mod wine;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow};

use crate::arguments::{Arguments, UsageError};
use crate::environment::{Environment, TO_GENERATE, TO_TEST, Workspace};
use crate::process::{Unavailable, capture, find_program, succeed};
use crate::python;
use crate::runtimes::{self, Platform};
use crate::summary::{Outcome, Summary};
use crate::test::{self, Skips};

pub(crate) use wine::Wine;

const TARGET: &str = "x86_64-pc-windows-gnu";
pub(crate) const C_COMPILER: &str = "x86_64-w64-mingw32-gcc";
const WHAT_TO_DO: &str =
    "install mingw-w64 and run `rustup target add x86_64-pc-windows-gnu`, or run on Debian as root";

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let (check, build, test) =
        (arguments.flag("--check"), arguments.flag("--build"), arguments.flag("--test"));
    let (program, python, arm) =
        (arguments.flag("--program"), arguments.flag("--python"), arguments.flag("--arm"));
    let mut summary = Summary::default();
    match (check || build, test, program, python, arm) {
        (true, false, false, false, false) => {
            arguments.finish()?;
            let workspace = Workspace::find()?;
            summary.step("windows check", || self::check(&workspace, build));
        }
        (false, true, false, false, false) => {
            let filter = arguments.rest();
            let mut environment = Environment::open(Workspace::find()?, TO_GENERATE, false)?;
            summary.step("models", || test::fetch_models(&environment));
            summary.step("windows tests", || self::test(&mut environment, &filter));
        }
        (false, false, true, false, false) => {
            arguments.finish()?;
            let mut environment = Environment::open(Workspace::find()?, TO_GENERATE, false)?;
            summary.step("models", || test::fetch_models(&environment));
            summary.step("program under wine", || self::program(&mut environment));
        }
        (false, false, false, true, false) => {
            arguments.finish()?;
            let environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
            summary.step("python under wine", || python::wine::test(&environment));
        }
        (false, false, false, false, true) => {
            arguments.finish()?;
            let workspace = Workspace::find()?;
            summary.step("windows on arm check", || arm::check(&workspace));
        }
        // Everything.
        (false, false, false, false, false) => {
            arguments.finish()?;
            let workspace = Workspace::find()?;
            summary.step("windows check", || self::check(&workspace, true));
            summary.step("windows on arm check", || arm::check(&workspace));
            let mut environment = Environment::open(workspace, TO_TEST, false)?;
            summary.step("models", || test::fetch_models(&environment));
            summary.step("windows tests", || self::test(&mut environment, &[]));
            summary.step("program under wine", || self::program(&mut environment));
            let environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
            summary.step("python under wine", || python::wine::test(&environment));
        }
        _ => {
            return Err(
                UsageError("only one of --check, --arm, --test, --program and --python".to_owned()).into()
            );
        }
    }
    summary.print_table();
    summary.print_totals();
    Ok(if summary.counts().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compiles everything for Windows without warnings; with `build` also links it.
pub(crate) fn check(workspace: &Workspace, build: bool) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped("this is Windows: the ordinary steps compile for it".to_owned()));
    }
    let standard_library = prepare(workspace, false)?;
    let mut clippy = cargo(workspace, standard_library, &["clippy"]);
    succeed(clippy.args(["--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"]))
        .context("it does not compile for Windows without warnings")?;
    if build {
        succeed(cargo(workspace, standard_library, &["build"]).arg("--workspace"))
            .context("it does not link for Windows")?;
        println!(
            "  ortscope.exe imports {} functions, all of Windows 10 version 1909",
            imports::check(&executable(workspace))?
        );
    }
    Ok(Outcome::Passed)
}

/// Variables with which the package's build backend, and so cargo and maturin, build for Windows.
pub(crate) fn wheel_environment(workspace: &Workspace) -> Result<Vec<(&'static str, String)>> {
    let standard_library = prepare(workspace, false)?;
    let mut variables = vec![
        ("CARGO_BUILD_TARGET", TARGET.to_owned()),
        ("CARGO_TARGET_DIR", products(workspace).display().to_string()),
        ("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", C_COMPILER.to_owned()),
        // The stable interface of Python needs no interpreter, and no import library, of the target.
        ("PYO3_NO_PYTHON", "1".to_owned()),
    ];
    if matches!(standard_library, StandardLibrary::BuiltFromSource) {
        variables.push(("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort,panic_unwind".to_owned()));
        variables.push(("RUSTC_BOOTSTRAP", "1".to_owned()));
    }
    Ok(variables)
}

/// Builds the tests for Windows and runs them under Wine, with ONNX Runtime's libraries for Windows.
pub(crate) fn test(environment: &mut Environment, filter: &[String]) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped("this is Windows: the ordinary tests run on it".to_owned()));
    }
    let [newest, _] = libraries(environment)?;
    environment.release();

    let workspace = &environment.workspace;
    let standard_library = prepare(workspace, true)?;
    let wine = Wine::start(workspace)?;
    let runner: &[&str] =
        if test::has_nextest(workspace) { &["nextest", "run"] } else { &["test", "--no-fail-fast"] };
    let skips = Skips::new(workspace)?;
    let command = || {
        let mut tests = cargo(workspace, standard_library, runner);
        tests.arg("--workspace").env("NEXTEST_STATUS_LEVEL", "slow").env("NEXTEST_PROFILE", "wine");
        wine.tell(&mut tests);
        // Snapshots are found without asking cargo, which does not run under Wine, and are never written there.
        tests.env("INSTA_WORKSPACE_ROOT", windows_path(&workspace.root)).env("INSTA_UPDATE", "no");
        tests.env("ORTSCOPE_TEST_ORT", windows_path(&newest));
        tests.env("ORTSCOPE_TEST_ORT_MATRIX", windows_path(&environment.windows_runtimes_dir()));
        tests.env("ORTSCOPE_TEST_MODELS", windows_path(&environment.models_dir()));
        tests.env("ORTSCOPE_TEST_SKIPS", windows_path(skips.path()));
        tests
    };
    let outcome = test::run_tests(command().args(filter), &skips);
    wine.tell_not_started();
    let outcome = outcome?;
    if filter.is_empty() && test::has_nextest(workspace) {
        print_storm(&mut command())?;
    }
    Ok(outcome)
}

/// What a storm of events costs, in the words of its test: one that passes is not heard otherwise.
fn print_storm(tests: &mut Command) -> Result<()> {
    let said = capture(tests.args(["--no-capture", "-E", "test(a_million_events_a_second)"]))?;
    for line in said.lines().filter(|line| line.contains("events/s")) {
        println!("  {}", line.trim());
    }
    Ok(())
}

/// Builds the program and uses it under Wine as a user does.
pub(crate) fn program(environment: &mut Environment) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped(
            "this is Windows: `cargo xtask windows-selftest` does it there".to_owned(),
        ));
    }
    let libraries = libraries(environment)?;
    environment.release();
    let workspace = &environment.workspace;
    let standard_library = prepare(workspace, true)?;
    let wine = Wine::start(workspace)?;
    // The whole workspace, as for the tests: with other features it would be built once more.
    succeed(cargo(workspace, standard_library, &["build"]).args(["--workspace", "--bin", "ortscope"]))
        .context("it does not link for Windows")?;
    program::test(environment, &wine, &executable(workspace), &libraries)
}

/// ONNX Runtime for Windows: the newest version, and the oldest that is supported.
fn libraries(environment: &Environment) -> Result<[PathBuf; 2]> {
    let dir = environment.windows_runtimes_dir();
    Ok([
        runtimes::fetch_same_as_installed(environment, Platform::WINDOWS, &dir)?,
        runtimes::fetch(environment, runtimes::OLDEST, Platform::WINDOWS, &dir)?,
    ])
}

fn executable(workspace: &Workspace) -> PathBuf {
    products(workspace).join(TARGET).join("debug").join("ortscope.exe")
}

/// Where the target's standard library comes from.
#[derive(Clone, Copy, Debug)]
enum StandardLibrary {
    Installed,
    BuiltFromSource,
}

fn standard_library(workspace: &Workspace) -> Result<Option<StandardLibrary>> {
    standard_library_of(workspace, TARGET)
}

fn standard_library_of(workspace: &Workspace, target: &str) -> Result<Option<StandardLibrary>> {
    let mut rustc = Command::new("rustc");
    let sysroot = capture(rustc.args(["--print", "sysroot"]).current_dir(&workspace.root))?;
    let rustlib = Path::new(sysroot.trim()).join("lib").join("rustlib");
    Ok(if rustlib.join(target).join("lib").is_dir() {
        Some(StandardLibrary::Installed)
    } else if rustlib.join("src/rust/library/std/Cargo.toml").is_file() {
        Some(StandardLibrary::BuiltFromSource)
    } else {
        None
    })
}

/// Makes sure that everything needed is there, installing it where this machine allows that.
fn prepare(workspace: &Workspace, wine: bool) -> Result<StandardLibrary> {
    let complete = find_program(C_COMPILER).is_some()
        && (!wine || (find_program("wine").is_some() && shim(workspace).is_file()));
    if let (true, Some(found)) = (complete, standard_library(workspace)?) {
        return Ok(found);
    }
    let unavailable = || Unavailable(format!("Windows programs cannot be built here: {WHAT_TO_DO}"));
    let bash = find_program("bash").with_context(unavailable)?;
    let mut setup = Command::new(bash);
    setup.arg(workspace.tool("windows-setup.sh")).current_dir(&workspace.root);
    if wine {
        setup.arg("--wine").arg(shim(workspace));
    }
    succeed(&mut setup).with_context(unavailable)?;
    standard_library(workspace)?.ok_or_else(|| anyhow!(unavailable()))
}

fn cargo(workspace: &Workspace, standard_library: StandardLibrary, subcommand: &[&str]) -> Command {
    let mut command = workspace.cargo();
    command.args(subcommand).args(["--target", TARGET, "--target-dir"]).arg(products(workspace));
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", C_COMPILER);
    if matches!(standard_library, StandardLibrary::BuiltFromSource) {
        command.arg("-Zbuild-std=std,panic_abort,panic_unwind").env("RUSTC_BOOTSTRAP", "1");
    }
    command
}

fn products(workspace: &Workspace) -> PathBuf {
    workspace.target.join("windows")
}

/// The stand-in for a system library that Wine 8 lacks and every Rust program needs.
fn shim(workspace: &Workspace) -> PathBuf {
    products(workspace).join("wine").join("bcryptprimitives.dll")
}

/// A path as a program under Wine sees it: the root of this system is its drive Z.
pub(crate) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.to_string_lossy().replace('/', "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_translated_for_wine() {
        assert_eq!(windows_path(Path::new("/a/b c/d.dll")), r"Z:\a\b c\d.dll");
    }
}

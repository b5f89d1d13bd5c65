//! Windows on ARM (laptops with Qualcomm's NPU), as far as a compiler can show it: every crate, test and C source is compiled
//! for aarch64. Nothing is linked or run: the libraries of that system cannot be had here, and Wine 8 runs no such program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{StandardLibrary, products, standard_library_of};
use crate::environment::Workspace;
use crate::process::{Unavailable, find_program, succeed};
use crate::summary::Outcome;

const TARGET: &str = "aarch64-pc-windows-gnullvm";
/// They are the same for every processor.
const HEADERS: &str = "/usr/share/mingw-w64/include";
const WHAT_TO_DO: &str = "install clang, llvm and mingw-w64 and run `rustup target add aarch64-pc-windows-gnullvm`, or run on \
                          Debian as root";

pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped("this is Windows: `cargo check --target` does it there".to_owned()));
    }
    let standard_library = prepare(workspace)?;
    let mut check = workspace.cargo();
    check.args(["check", "--workspace", "--all-targets", "--keep-going", "--target", TARGET, "--target-dir"]);
    check.arg(products(workspace));
    check.env("CC_aarch64_pc_windows_gnullvm", "clang").env("AR_aarch64_pc_windows_gnullvm", "llvm-ar");
    check.env("CFLAGS_aarch64_pc_windows_gnullvm", format!("-isystem {HEADERS}"));
    check.env("PYO3_NO_PYTHON", "1");
    if matches!(standard_library, StandardLibrary::BuiltFromSource) {
        check.arg("-Zbuild-std=std,panic_abort,panic_unwind").env("RUSTC_BOOTSTRAP", "1");
    }
    succeed(&mut check).context("it does not compile for Windows on ARM")?;
    Ok(Outcome::Passed)
}

fn prepare(workspace: &Workspace) -> Result<StandardLibrary> {
    let is_complete = find_program("clang").is_some()
        && find_program("llvm-ar").is_some()
        && Path::new(HEADERS).join("windows.h").is_file();
    if let (true, Some(found)) = (is_complete, standard_library_of(workspace, TARGET)?) {
        return Ok(found);
    }
    let unavailable =
        || Unavailable(format!("programs for Windows on ARM cannot be compiled here: {WHAT_TO_DO}"));
    let bash = find_program("bash").with_context(unavailable)?;
    let mut setup = Command::new(bash);
    setup.arg(workspace.tool("windows-setup.sh")).arg("--arm").current_dir(&workspace.root);
    succeed(&mut setup).with_context(unavailable)?;
    standard_library_of(workspace, TARGET)?.with_context(unavailable)
}

//! Tests that cannot run here say so, and `cargo xtask test` counts them as skipped.

use std::io::Write as _;

/// Notes that the running test needs something that is not here.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {name}: {why}");
    if let Some(path) = std::env::var_os("ORTSCOPE_TEST_SKIPS") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // One write per line, so that tests that end at once do not mix.
        if let Ok(mut file) = file {
            file.write_all(format!("{name}: {why}\n").as_bytes()).ok();
        }
    }
}

/// The variable that `cargo xtask test` sets, or `None` after noting the skip.
pub fn variable(name: &str) -> Option<std::path::PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    if value.is_none() {
        skipped(&format!("{name} is not set (cargo xtask test sets it, for some tests only with --full)"));
    }
    value
}

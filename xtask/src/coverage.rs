//! `cargo xtask coverage`: which lines the tests reach, crate by crate. All Rust tests of the workspace run with the compiler's
//! own counters (`cargo llvm-cov`), programs that they start among them; tests in Python and in the browser are not counted.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::environment::Workspace;
use crate::process::{capture, find_program};
use crate::summary::{Outcome, Summary};
use crate::test;

/// Of all lines, in percent.
const WANTED_PERCENT: f64 = 80.0;
/// Versions of LLVM whose tools Debian has and the pinned compiler's counters can be read with, newest first.
const LLVM_VERSIONS: [u32; 4] = [22, 21, 20, 19];
/// The table stands in this file between these lines.
const DOCUMENT: &str = "docs/VERIFIED.md";
const BEGIN: &str = "<!-- coverage: written by `cargo xtask coverage --write` -->";
const END: &str = "<!-- coverage: end -->";

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Lines {
    all: u64,
    reached: u64,
}

impl Lines {
    fn percent(self) -> f64 {
        if self.all == 0 { 0.0 } else { 100.0 * self.reached as f64 / self.all as f64 }
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.reached += other.reached;
    }
}

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let write = arguments.flag("--write");
    let filter = arguments.rest();
    let workspace = Workspace::find()?;
    if find_program("cargo-llvm-cov").is_none() {
        bail!(
            "there is no cargo-llvm-cov\nhint: `cargo install cargo-llvm-cov`, and LLVM's tools: `rustup component add llvm-tools`, or Debian's package llvm-19"
        );
    }
    let mut summary = Summary::default();
    let variables = test::prepare(&mut summary);
    let mut tests_passed = false;
    summary.step("tests", || {
        let skips = test::Skips::new(&workspace)?;
        let mut tests = test::test_command(&workspace, &["llvm-cov", "nextest", "--no-report"], &filter);
        use_llvm(&mut tests);
        skips.tell(&mut tests);
        tests.envs(variables);
        let outcome = test::run_tests(&mut tests, &skips);
        tests_passed = matches!(&outcome, Ok(Outcome::Listed(counts, _)) if counts.failed == 0);
        outcome
    });
    summary.print_table();
    let mut report = workspace.cargo();
    use_llvm(report.args(["llvm-cov", "report", "--json", "--summary-only"]));
    let report = serde_json::from_str(&capture(&mut report)?).context("the report is no JSON")?;
    let by_crate = lines_by_crate(&report, &workspace.root)?;
    let table = table(&by_crate);
    println!("{table}");
    if write {
        let file = workspace.root.join(DOCUMENT);
        std::fs::write(&file, with_table(&std::fs::read_to_string(&file)?, &table)?)?;
        eprintln!("written to {DOCUMENT}");
    }
    let percent = total(&by_crate).percent();
    if percent < WANTED_PERCENT {
        eprintln!("{percent:.1} % of the lines are less than {WANTED_PERCENT} %");
    }
    Ok(if tests_passed && percent >= WANTED_PERCENT { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Names tools of another LLVM where the toolchain was installed without its own.
fn use_llvm(command: &mut Command) {
    if std::env::var_os("LLVM_COV").is_some() || std::env::var_os("LLVM_PROFDATA").is_some() {
        return;
    }
    let with_version = |tool: &str, version| find_program(&format!("{tool}-{version}"));
    for version in LLVM_VERSIONS {
        if let (Some(cov), Some(profdata)) =
            (with_version("llvm-cov", version), with_version("llvm-profdata", version))
        {
            command.env("LLVM_COV", cov).env("LLVM_PROFDATA", profdata);
            return;
        }
    }
}

/// Lines of each directory that is a crate.
fn lines_by_crate(report: &Value, root: &Path) -> Result<BTreeMap<String, Lines>> {
    let files = report["data"][0]["files"].as_array().context("the report has no files")?;
    let mut found: BTreeMap<String, Lines> = BTreeMap::new();
    for file in files {
        let name = file["filename"].as_str().context("a file has no name")?;
        let Ok(inside) = Path::new(name).strip_prefix(root) else { continue };
        let mut parts = inside.iter().map(|part| part.to_string_lossy());
        let of_crate = match (parts.next(), parts.next()) {
            (Some(first), Some(second)) if first == "crates" => format!("crates/{second}"),
            (Some(first), Some(_)) => first.into_owned(),
            _ => continue,
        };
        let number = |key: &str| {
            file["summary"]["lines"][key].as_u64().with_context(|| format!("{name} has no number of lines"))
        };
        let lines = Lines { all: number("count")?, reached: number("covered")? };
        found.entry(of_crate).or_default().add(lines);
    }
    if found.is_empty() {
        bail!("the report has no file of this workspace");
    }
    Ok(found)
}

fn total(by_crate: &BTreeMap<String, Lines>) -> Lines {
    let mut sum = Lines::default();
    by_crate.values().for_each(|lines| sum.add(*lines));
    sum
}

fn table(by_crate: &BTreeMap<String, Lines>) -> String {
    let all = ("all".to_owned(), total(by_crate));
    let rows = by_crate.iter().chain([(&all.0, &all.1)]).map(|(name, lines)| {
        format!("| `{name}` | {} | {} | {:.1} % |\n", lines.all, lines.reached, lines.percent())
    });
    std::iter::once("| crate | lines | reached by tests | |\n|---|---|---|---|\n".to_owned())
        .chain(rows)
        .collect()
}

/// The document with the table where the last one stood.
fn with_table(text: &str, table: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("{DOCUMENT} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{DOCUMENT} has no line {END}"))?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(name: &str, count: u64, covered: u64) -> Value {
        json!({"filename": name, "summary": {"lines": {"count": count, "covered": covered}}})
    }

    #[test]
    fn lines_are_added_up_by_crate_and_foreign_files_do_not_count() {
        let files = [
            file("/w/crates/core/src/a.rs", 10, 9),
            file("/w/crates/core/src/b/c.rs", 30, 21),
            file("/w/xtask/src/main.rs", 10, 0),
            file("/elsewhere/lib.rs", 1000, 1000),
        ];
        let report = json!({"data": [{"files": files}]});
        let by_crate = lines_by_crate(&report, Path::new("/w")).expect("it is a report");
        assert_eq!(by_crate["crates/core"], Lines { all: 40, reached: 30 });
        assert_eq!(total(&by_crate), Lines { all: 50, reached: 30 });
        assert!(table(&by_crate).ends_with("| `all` | 50 | 30 | 60.0 % |\n"), "{}", table(&by_crate));
        assert!(lines_by_crate(&json!({"data": [{"files": []}]}), Path::new("/w")).is_err());
        assert!(lines_by_crate(&json!({}), Path::new("/w")).is_err());
    }

    #[test]
    fn the_table_takes_the_place_of_the_last_one() {
        let before = format!("before\n{BEGIN}\nold\n{END}\nbehind\n");
        let after = with_table(&before, "new\n").expect("it has the lines");
        assert_eq!(after, format!("before\n{BEGIN}\n\nnew\n\n{END}\nbehind\n"));
        assert_eq!(with_table(&after, "new\n").expect("it has the lines"), after);
        assert!(with_table("nothing", "new\n").is_err());
    }
}

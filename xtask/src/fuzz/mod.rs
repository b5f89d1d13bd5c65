//! `cargo xtask fuzz`: hostile input for every reader, by libFuzzer. Builds the targets of `fuzz/` with the compiler's own
//! coverage counters (no sanitizer: where they look there is no `unsafe` of ours), runs them and writes what each run did
//! into `fuzz/LOG.md`, where executions add up over commits.
//!
//! Without a sanitizer the pinned compiler is enough; libFuzzer itself needs a C++ compiler.

mod log;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::arguments::{Arguments, UsageError};
use crate::environment::Workspace;
use crate::process::{Tee, capture, succeed, tee};
use log::{Log, Run};

/// A target, the longest input that is tried, and the feature of `fuzz/Cargo.toml` it needs.
struct Target {
    name: &'static str,
    max_bytes: u32,
    feature: Option<&'static str>,
}

const fn target(name: &'static str, max_bytes: u32) -> Target {
    Target { name, max_bytes, feature: None }
}

/// Inputs are short, because short ones are tried often and say as much.
const TARGETS: &[Target] = &[
    target("filter", 256),
    target("perf_records", 512),
    target("qnn_csv", 1024),
    target("openvino_counters", 512),
    target("npy", 1024),
    target("perf_data", 1024),
    target("qhas", 768),
    target("onnx", 2048),
    target("chrome_trace", 1024),
    target("config", 768),
    target("ort_json", 768),
    target("etl_payloads", 1024),
    target("etl_schemas", 2048),
    target("etl_container", 8192),
    target("etw_rows", 3072),
    target("code_images", 2048),
    target("name_lists", 512),
    target("btf", 768),
    Target { name: "recordings", max_bytes: 3072, feature: Some("recordings") },
    Target { name: "ws_frames", max_bytes: 512, feature: Some("ws_frames") },
];

/// A short look at every target; what a change to a reader should at least do.
const DEFAULT_EXECUTIONS: u64 = 200_000;
/// What all runs of a target together should come to.
const WANTED_EXECUTIONS: u64 = 10_000_000;

/// Edges are counted inline and compared values are told to libFuzzer. One unit of code per crate, so that no counter is
/// lost between units.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// What one input may take: libFuzzer reports more as a finding.
const LIMITS: [&str; 3] = ["-timeout=60", "-rss_limit_mb=1024", "-malloc_limit_mb=512"];

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let executions = match arguments.value("--executions")? {
        Some(text) => text
            .replace('_', "")
            .parse()
            .map_err(|_| UsageError(format!("`{text}` is not a number of executions")))?,
        None => DEFAULT_EXECUTIONS,
    };
    let fold = arguments.flag("--fold");
    let list = arguments.flag("--list");
    let mut words = Vec::new();
    while let Some(word) = arguments.word() {
        words.push(word);
    }
    arguments.finish()?;
    let workspace = Workspace::find()?;
    let path = workspace.root.join("fuzz/LOG.md");
    let mut log = Log::read(&path)?;
    if list {
        print!("{}", log.totals(&names(), WANTED_EXECUTIONS));
        return Ok(ExitCode::SUCCESS);
    }
    if fold {
        for file in &words {
            log.add(outside_run(&workspace.root, Path::new(file))?);
        }
        log.write(&path, &names(), WANTED_EXECUTIONS)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut crashed = Vec::new();
    for target in chosen(&words)? {
        let run = fuzz(&workspace, target, executions)?;
        if run.crashes > 0 {
            crashed.push(target.name);
        }
        log.add(run);
        log.write(&path, &names(), WANTED_EXECUTIONS)?;
    }
    print!("{}", log.totals(&names(), WANTED_EXECUTIONS));
    if crashed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: {} crashed; the inputs are in fuzz/artifacts", crashed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|target| target.name).collect()
}

fn chosen(words: &[String]) -> Result<Vec<&'static Target>> {
    if words.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let find = |word: &String| {
        TARGETS.iter().find(|target| target.name == word).ok_or_else(|| {
            UsageError(format!("there is no target `{word}`; there are {}", names().join(", "))).into()
        })
    };
    words.iter().map(find).collect()
}

fn build(workspace: &Workspace, target: &Target) -> Result<PathBuf> {
    let host = capture(Command::new("rustc").arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let directory = workspace.root.join("fuzz");
    // Naming the host keeps the flags away from macros and build scripts. The directory is left out of the command's
    // environment, so that the build goes into `fuzz/target` and not between ours.
    let mut cargo = workspace.cargo();
    cargo.current_dir(&directory).env_remove("CARGO_TARGET_DIR").env("RUSTFLAGS", FLAGS);
    cargo.args(["build", "--release", "--target", host, "--bin", target.name]);
    if let Some(feature) = target.feature {
        cargo.args(["--features", feature]);
    }
    succeed(&mut cargo)?;
    Ok(directory.join("target").join(host).join("release").join(target.name))
}

fn fuzz(workspace: &Workspace, target: &Target, executions: u64) -> Result<Run> {
    let program = build(workspace, target)?;
    let directory = workspace.root.join("fuzz");
    let corpus = directory.join("corpus").join(target.name);
    let artifacts = directory.join("artifacts").join(target.name);
    for made in [&corpus, &artifacts] {
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    let mut command = Command::new(&program);
    command.arg(&corpus).arg(directory.join("seeds").join(target.name)).args(LIMITS);
    command.arg(format!(
        "-dict={}",
        directory.join("dictionaries").join(format!("{}.dict", target.name)).display()
    ));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.arg(format!("-runs={executions}")).arg(format!("-max_len={}", target.max_bytes));
    command.args(["-print_final_stats=1", "-reload=0"]);
    // Files of recordings belong into memory: a disk would be most of the time.
    if Path::new("/dev/shm").is_dir() {
        command.env("TMPDIR", "/dev/shm");
    }
    let (status, lines) = tee(&mut command, Tee::Stderr)?;
    let mut run = Run::parse(target.name, &commit(workspace)?, &lines)
        .with_context(|| format!("{} ended ({status}) without saying what it did", target.name))?;
    if !status.success() {
        run.crashes = run.crashes.max(1);
    }
    Ok(run)
}

/// The commit that is tried; with a mark when there is more in the tree.
fn commit(workspace: &Workspace) -> Result<String> {
    let described = capture(Command::new("git").current_dir(&workspace.root).args([
        "describe",
        "--always",
        "--exclude=*",
        "--dirty=+",
    ]))?;
    let described = described.trim();
    check_commit(&workspace.root, described)?;
    Ok(described.to_owned())
}

/// Refuses a commit that this repository does not know: what was run could not be built again.
fn check_commit(root: &Path, commit: &str) -> Result<()> {
    let name = commit.trim_end_matches('+');
    let mut git = Command::new("git");
    git.current_dir(root).args(["cat-file", "-e", &format!("{name}^{{commit}}")]);
    if name.is_empty() || capture(&mut git).is_err() {
        bail!(
            "there is no commit '{name}' in this repository, and the log would name nothing that can be built"
        );
    }
    Ok(())
}

/// What libFuzzer printed in a run that was started by hand; the file is called `TARGET@COMMIT…`.
fn outside_run(root: &Path, file: &Path) -> Result<Run> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((target, rest)) = name.split_once('@') else {
        bail!("'{name}' is not called TARGET@COMMIT.log");
    };
    let commit: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    check_commit(root, &commit).with_context(|| format!("cannot take '{name}' into the log"))?;
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines: Vec<String> = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
    if log::is_without_seeds(&lines) {
        bail!(
            "'{name}' is a run without seeds, which gets nowhere; hint: name fuzz/seeds/{target} behind the corpus"
        );
    }
    Run::parse(target, &commit, &lines).with_context(|| format!("'{name}' is not the output of a whole run"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that is built but never run, or the other way round, would go unnoticed.
    #[test]
    fn every_target_has_its_source_dictionary_and_seeds() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("the manifest of the targets");
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        for target in TARGETS {
            assert!(
                fuzz.join("fuzz_targets").join(format!("{}.rs", target.name)).is_file(),
                "{}",
                target.name
            );
            assert!(
                fuzz.join("dictionaries").join(format!("{}.dict", target.name)).is_file(),
                "{}",
                target.name
            );
            let seeds = fs::read_dir(fuzz.join("seeds").join(target.name)).expect("a directory of seeds");
            assert!(seeds.count() > 0, "{} has no seeds", target.name);
        }
    }

    /// The log had runs of a commit that nobody has.
    #[test]
    fn a_commit_that_is_not_in_the_repository_is_refused() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for unknown in ["", "+", "0000000", "0000000+", "no-commit"] {
            assert!(check_commit(&root, unknown).is_err(), "{unknown:?}");
        }
        let error =
            outside_run(&root, Path::new("filter@0000000.log")).expect_err("refused before it is read");
        assert!(format!("{error:#}").contains("no commit '0000000'"), "{error:#}");
        // Sources without a repository know no commit at all.
        let hash = |name: &str| {
            capture(Command::new("git").current_dir(&root).args(["rev-parse", "--short", name])).ok()
        };
        if let Some((commit, tree)) = hash("HEAD").zip(hash("HEAD^{tree}")) {
            check_commit(&root, commit.trim()).expect("the commit that is checked out");
            check_commit(&root, &format!("{}+", commit.trim())).expect("the same with more in the tree");
            assert!(check_commit(&root, tree.trim()).is_err(), "a tree is no commit");
        }
    }

    #[test]
    fn an_unknown_target_is_told_the_known_ones() {
        let Err(error) = chosen(&["nothing".to_owned()]) else { panic!("there is no such target") };
        assert!(error.to_string().contains("ort_json"), "{error}");
        assert_eq!(chosen(&[]).expect("all").len(), TARGETS.len());
    }
}

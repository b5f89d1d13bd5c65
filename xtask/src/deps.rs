//! `cargo xtask deps`: the architecture as a test. Who may use whom, what the core may never pull in, under
//! which licence, and where OS-dependent code and `unsafe` may stand. The tables below are the rules; `DESIGN` decisions change here first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::environment::Workspace;
use crate::process::capture;
use crate::source_scan::Code;
use crate::{licences, modules, unsafe_inventory};

/// Our crates and the crates of ours each may use, without the `ortscope-` in front. A crate that is not here may not
/// exist. `xtask` uses none, so that tasks start fast.
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("etl", &[]),
    ("channel", &["core"]),
    ("decode", &["core", "etl"]),
    ("sources", &["core", "decode", "channel"]),
    ("ort", &["core", "decode"]),
    ("analyze", &["core"]),
    ("import", &["core", "etl", "decode", "analyze"]),
    ("store", &["core", "channel"]),
    ("observe", &["core", "channel", "decode", "sources", "import", "ort", "analyze", "store"]),
    ("result", &["core", "analyze"]),
    ("render", &["core", "result"]),
    ("export", &["core", "etl", "analyze", "store", "result"]),
    ("server", &["core", "analyze", "store", "export", "result", "render"]),
    ("tui", &["core", "analyze"]),
    (
        "cli",
        &[
            "core", "etl", "channel", "decode", "sources", "import", "ort", "analyze", "store", "observe",
            "result", "render", "export", "server", "tui", "unify",
        ],
    ),
    (
        "bench",
        &[
            "core", "etl", "channel", "decode", "sources", "import", "ort", "analyze", "store", "result",
            "render", "export", "server", "observe", "unify",
        ],
    ),
    ("preload", &["core", "channel", "unify"]),
    ("python", &["core", "channel", "decode", "sources", "ort", "analyze", "store", "observe", "unify"]),
    ("unify", &[]),
    ("xtask", &[]),
];

/// Dev-dependencies are arrows too for the crates that promise to stand alone; elsewhere a test may use what it needs.
const DEV_ARROWS_COUNT: &[&str] = &["core", "etl"];

/// What a crate may never pull in, not even through others.
const NEVER: &[(&str, &[&str])] =
    &[("core", &["tokio", "arrow", "axum"]), ("python", &["tokio", "arrow", "axum"])];

/// Words that make conditional compilation depend on the operating system.
const OS_PREDICATES: &[&str] = &["target_os", "target_family", "windows", "unix"];

/// Where OS-dependent `cfg` may stand: a file, or a directory with a slash at its end, and why.
#[rustfmt::skip]
const OS_CFG_ALLOWED: &[(&str, &str)] = &[
    ("crates/core/src/clock/os.rs", "the monotonic clock is the OS's"),
    ("crates/sources/src/lib.rs", "the one seam of live capture"),
    ("crates/channel/src/private_files.rs", "files are private to their user and allocated, each OS in its way"),
    ("crates/channel/src/shared_memory.rs", "memory that a child of fork finds wiped is the OS's"),
    ("crates/preload/src/lib.rs", "there is something to preload on one OS only"),
    ("crates/ort/src/os.rs", "path encoding and library names at the C boundary"),
    ("python/src/symbols.rs", "how a symbol of the interpreter is found is the OS's"),
    ("python/src/custom_op_hook.rs", "path encoding at the C boundary"),
    ("xtask/", "finds programs, replaces itself by the program it runs"),
];

/// Where `unsafe` may stand, and why.
#[rustfmt::skip]
const UNSAFE_ALLOWED: &[(&str, &str)] = &[
    ("crates/core/src/clock/os.rs", "reads the OS clock"),
    ("crates/channel/src/last_ring.rs", "a ring that belongs to a thread is reached by an address"),
    ("crates/channel/src/shared_memory.rs", "atomics in a memory-mapped file"),
    ("crates/channel/src/shared_memory_model.rs", "the same in a model of loom, which checks every access; in no build but that"),
    ("crates/sources/src/peak.rs", "calls code for instructions that were detected"),
    ("crates/sources/src/etw/raw.rs", "reads what the pointers of an EVENT_RECORD show"),
    ("crates/sources/src/etw/consumer.rs", "hands on the promise about these pointers"),
    ("crates/sources/src/windows/", "system calls have no safe wrapper"),
    ("crates/sources/src/linux/proc/clock.rs", "CPU clocks of other processes have no safe wrapper"),
    ("crates/sources/src/linux/proc/exits.rs", "the ioctl for exit codes has no safe wrapper"),
    ("crates/sources/src/linux/heap.rs", "settings of the allocator have no safe wrapper"),
    ("crates/sources/src/linux/shared.rs", "memory shared with the kernel: maps and rings"),
    ("crates/sources/src/linux/thread_priority.rs", "sched_setattr has no safe wrapper"),
    ("crates/sources/src/linux/bpf/call.rs", "bpf(2) has no safe wrapper"),
    ("crates/sources/src/linux/amd_smi.rs", "functions of a C library that is loaded at run time"),
    ("crates/sources/src/linux/key_store.rs", "add_key and keyctl have no safe wrapper"),
    ("crates/sources/src/linux/accel.rs", "the ioctl of an NPU's driver has no safe wrapper"),
    ("crates/sources/src/linux/perf_open.rs", "perf_event_open has no safe wrapper"),
    ("crates/ort/src/api.rs", "reads functions out of the C API's table"),
    ("crates/ort/src/runtime.rs", "loads the library, asks it for the table"),
    ("crates/ort/src/handle.rs", "owns what the C API creates, releases it once"),
    ("crates/ort/src/text.rs", "strings that the C API owns"),
    ("crates/ort/src/plain.rs", "tensor elements seen as bytes"),
    ("crates/ort/src/value.rs", "tensors over our memory"),
    ("crates/ort/src/logging.rs", "is called back by the library"),
    ("crates/ort/src/environment.rs", "C API calls"),
    ("crates/ort/src/session.rs", "C API calls"),
    ("crates/ort/src/session_info.rs", "C API calls"),
    ("crates/ort/src/session_setup.rs", "C API calls"),
    ("crates/ort/src/signature.rs", "C API calls"),
    ("crates/ort/src/binding.rs", "C API calls"),
    ("crates/ort/src/device.rs", "C API calls"),
    ("crates/ort/src/ep/append.rs", "C API calls"),
    ("crates/preload/src/calls.rs", "stands in for functions of the C API and calls them"),
    ("crates/preload/src/symbols.rs", "stands in for functions of the dynamic linker"),
    ("crates/preload/src/table.rs", "copies the C API's table"),
    ("python/src/arrow.rs", "structures that readers of Arrow take over and release"),
    ("python/src/call/", "speaks the interpreter's calling convention"),
    ("python/src/custom_op_hook.rs", "is called by ONNX Runtime inside of its Python package, and calls it"),
    ("python/src/ndarray.rs", "reads the head of numpy's array object"),
    ("python/src/symbols.rs", "asks the dynamic linker for one function, and pthread_atfork to be told of forks"),
];

/// Where files, devices and keys of an operating system are named: live capture, and the readers of their texts.
const OS_PATHS_ALLOWED: &[(&str, &str)] = &[
    ("crates/sources/", "live capture"),
    ("crates/decode/", "reads the texts that live capture has collected"),
    ("crates/bench/", "measures the operating system's side, and is not shipped"),
    ("xtask/", "is not shipped"),
];

/// Files outside of these that still name one, and why. An entry that is not needed is an error.
#[rustfmt::skip]
const KNOWN_OS_PATHS: &[(&str, &str)] = &[
    ("crates/preload/src/output.rs", "a preloaded library identifies its process and cannot carry live capture into it"),
    ("crates/store/src/pack/redact.rs", "the name of the machine, which must not be in a package"),
];

/// How a path of Linux or a key of the Windows registry begins, in a literal. Memory and the null device are no devices.
const OS_PATHS: &[&str] = &["/proc/", "/sys/", "/dev/", "HKEY_", "SOFTWARE\\", "SYSTEM\\"];
const NO_OS_PATHS: &[&str] = &["/dev/shm", "/dev/null"];

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let write = arguments.flag("--write");
    arguments.finish()?;
    let workspace = Workspace::find()?;
    if write {
        let page = unsafe_inventory::page(&sources(&workspace.root)?, UNSAFE_ALLOWED);
        unsafe_inventory::write(&workspace.root, &page)?;
    }
    let problems = check(&workspace)?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the arrows and every violation; returns the violations.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let answer = capture(workspace.cargo().args(["metadata", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&answer).context("cargo metadata is not JSON")?;
    let crates = our_crates(&metadata)?;

    let mut problems = Vec::new();
    let width = crates.iter().map(|krate| krate.name.len()).max().unwrap_or(0);
    for krate in &crates {
        let mut shown: Vec<String> = krate.uses.iter().cloned().collect();
        shown.extend(krate.dev_uses.difference(&krate.uses).map(|name| format!("({name})")));
        println!(
            "  {:width$} → {}",
            krate.name,
            if shown.is_empty() { "–".into() } else { shown.join(", ") }
        );
        problems.extend(wrong_arrows(krate));
    }
    println!("  (in brackets: only in tests; these count for {})", DEV_ARROWS_COUNT.join(", "));
    for (name, banned) in NEVER {
        if let Some(krate) = crates.iter().find(|krate| krate.name == *name) {
            problems.extend(banned_dependencies(&metadata, krate, banned));
        }
    }
    let sources = sources(&workspace.root)?;
    problems.extend(wrong_sources(&sources));
    problems.extend(wrong_os_paths(&sources, KNOWN_OS_PATHS));
    problems.extend(modules::problems(&sources));
    let inventory = unsafe_inventory::page(&sources, UNSAFE_ALLOWED);
    problems.extend(unsafe_inventory::problem(&workspace.root, &inventory));
    problems.extend(licences::check(&workspace.root, &metadata)?);
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    if problems.is_empty() {
        println!("  arrows, modules, OS-dependent code, unsafe and licences are as they must be");
    }
    Ok(problems)
}

#[derive(Debug)]
struct Crate {
    /// The name without `ortscope-`.
    name: String,
    id: String,
    uses: BTreeSet<String>,
    dev_uses: BTreeSet<String>,
}

fn our_crates(metadata: &Value) -> Result<Vec<Crate>> {
    let list = |value: &Value| value.as_array().cloned().context("cargo metadata has another layout");
    let members: BTreeSet<String> =
        list(&metadata["workspace_members"])?.iter().map(|id| text(id).to_owned()).collect();
    let packages = list(&metadata["packages"])?;
    let ours: Vec<&Value> =
        packages.iter().filter(|package| members.contains(text(&package["id"]))).collect();
    let our_names: BTreeSet<&str> = ours.iter().map(|package| text(&package["name"])).collect();
    let mut crates = ours
        .iter()
        .map(|package| {
            let dependencies = list(&package["dependencies"])?;
            let uses = |dev: bool| {
                let of_kind = |dependency: &&Value| (dependency["kind"] == "dev") == dev;
                let names = dependencies.iter().filter(of_kind).map(|dependency| text(&dependency["name"]));
                names.filter(|name| our_names.contains(name)).map(short).collect()
            };
            Ok(Crate {
                name: short(text(&package["name"])),
                id: text(&package["id"]).to_owned(),
                uses: uses(false),
                dev_uses: uses(true),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn short(name: &str) -> String {
    name.strip_prefix("ortscope-").unwrap_or(name).to_owned()
}

fn wrong_arrows(krate: &Crate) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == krate.name) else {
        return vec![format!("crate {} is not in the table of crates in xtask/src/deps.rs", krate.name)];
    };
    let mut counted = krate.uses.clone();
    if DEV_ARROWS_COUNT.contains(&krate.name.as_str()) {
        // A crate may test itself through its own published interface.
        counted.extend(krate.dev_uses.iter().filter(|name| **name != krate.name).cloned());
    }
    let wrong = counted.iter().filter(|name| !allowed.contains(&name.as_str()));
    wrong.map(|name| format!("{} may not use {name}", krate.name)).collect()
}

/// Walks the normal dependencies of a crate, on every platform, and names the way to each banned one.
fn banned_dependencies(metadata: &Value, krate: &Crate, banned: &[&str]) -> Vec<String> {
    let empty = Vec::new();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap_or(&empty)
        .iter()
        .map(|node| (text(&node["id"]), node))
        .collect();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap_or(&empty)
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::from([krate.id.as_str()]);
    let mut open = vec![(krate.id.as_str(), krate.name.clone())];
    while let Some((id, way)) = open.pop() {
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array()).unwrap_or(&empty);
        for dependency in dependencies {
            let kinds = dependency["dep_kinds"].as_array().unwrap_or(&empty);
            let package = text(&dependency["pkg"]);
            if kinds.iter().all(|kind| !kind["kind"].is_null()) || !seen.insert(package) {
                continue;
            }
            let name = names.get(package).copied().unwrap_or(package);
            let way = format!("{way} → {name}");
            if banned.contains(&name) {
                problems.push(format!("{} may never pull in {name}: {way}", krate.name));
            }
            open.push((package, way));
        }
    }
    problems
}

/// Every source of ours by its name from the root, in order.
pub(crate) fn sources(root: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for dir in ["crates", "python", "xtask"] {
        rust_sources(&root.join(dir), &mut files)?;
    }
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let source = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        Ok((name, source))
    };
    files.iter().map(read).collect()
}

fn wrong_sources(sources: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, source) in sources {
        let code = Code::new(source);
        if !is_allowed(name, OS_CFG_ALLOWED) {
            let lines = code.lines_with_cfg(OS_PREDICATES);
            problems.extend(lines.iter().map(|line| {
                format!("{name}:{line}: OS-dependent cfg outside its seams (xtask/src/deps.rs lists them)")
            }));
        }
        if !is_allowed(name, UNSAFE_ALLOWED) {
            let lines = code.lines_with_word("unsafe");
            problems.extend(lines.iter().map(|line| {
                format!("{name}:{line}: unsafe outside the modules that may have it (xtask/src/deps.rs lists them)")
            }));
        }
    }
    problems
}

/// Paths of an operating system outside of the crates that read them.
fn wrong_os_paths(sources: &[(String, String)], known: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut needed = BTreeSet::new();
    for (name, source) in sources.iter().filter(|(name, _)| !is_allowed(name, OS_PATHS_ALLOWED)) {
        for (line, literal) in Code::new(source).literals() {
            let text = literal.trim_start_matches(['b', 'c', 'r', '#']).trim_start_matches('"');
            let begins = |list: &[&str]| list.iter().any(|path| text.starts_with(path));
            if !begins(OS_PATHS) || begins(NO_OS_PATHS) {
                continue;
            }
            match known.iter().find(|(file, _)| file == name) {
                Some((file, _)) => drop(needed.insert(*file)),
                None => problems.push(format!("{name}:{line}: {literal} belongs into crates/sources")),
            }
        }
    }
    let gone = known.iter().filter(|(file, _)| !needed.contains(file));
    problems.extend(gone.map(|(file, _)| {
        format!(
            "{file} names no path of the system any more; remove it from KNOWN_OS_PATHS in xtask/src/deps.rs"
        )
    }));
    problems
}

fn is_allowed(file: &str, list: &[(&str, &str)]) -> bool {
    list.iter().any(|(place, _)| if place.ends_with('/') { file.starts_with(place) } else { file == *place })
}

/// Collects the sources under a directory, without tests, benchmarks, examples and build products.
fn rust_sources(dir: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", dir.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "tests" | "benches" | "examples" | "target") {
                rust_sources(&path, into)?;
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn krate(name: &str, uses: &[&str], dev_uses: &[&str]) -> Crate {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Crate { name: name.to_owned(), id: name.to_owned(), uses: set(uses), dev_uses: set(dev_uses) }
    }

    #[test]
    fn an_arrow_the_wrong_way_is_named() {
        assert_eq!(wrong_arrows(&krate("core", &["analyze"], &[])), ["core may not use analyze"]);
        assert_eq!(wrong_arrows(&krate("core", &[], &["channel"])), ["core may not use channel"]);
        assert!(wrong_arrows(&krate("channel", &["core"], &["store"])).is_empty());
        assert_eq!(wrong_arrows(&krate("utils", &[], &[])).len(), 1);
    }

    #[test]
    fn a_banned_dependency_is_found_through_others_but_not_in_tests() {
        let metadata = serde_json::json!({
            "packages": [{"id": "a", "name": "core"}, {"id": "b", "name": "b"}, {"id": "c", "name": "tokio"}],
            "resolve": {"nodes": [
                {"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": null}]}]},
                {"id": "b", "deps": [{"pkg": "c", "dep_kinds": [{"kind": null}]}]},
            ]},
        });
        let mut a = krate("core", &[], &[]);
        a.id = "a".to_owned();
        assert_eq!(
            banned_dependencies(&metadata, &a, &["tokio"]),
            ["core may never pull in tokio: core → b → tokio"]
        );
        let mut dev = metadata;
        dev["resolve"]["nodes"][1]["deps"][0]["dep_kinds"][0]["kind"] = "dev".into();
        assert!(banned_dependencies(&dev, &a, &["tokio"]).is_empty());
    }

    /// Every directory called `fuzz` was left out, and so was a module of this task.
    #[test]
    fn modules_of_any_name_are_looked_at() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let sources = sources(&root).expect("the sources");
        assert!(sources.iter().any(|(name, _)| name == "xtask/src/fuzz/log.rs"));
        assert!(!sources.iter().any(|(name, _)| name.contains("/tests/")));
    }

    #[test]
    fn paths_of_the_system_are_found_outside_of_sources() {
        let source = "const A: &str = \"/proc/self/stat\";\nconst B: &str = \"/dev/shm\";\nconst C: &str = \"see /proc\";\n\
                      const D: &str = r\"SOFTWARE\\x\";\n#[cfg(test)]\nmod tests { const T: &str = \"/sys/x\"; }\n";
        let at = |name: &str| [(name.to_owned(), source.to_owned())];
        let found = wrong_os_paths(&at("crates/store/src/a.rs"), &[]);
        let expected = [
            "crates/store/src/a.rs:1: \"/proc/self/stat\" belongs into crates/sources",
            "crates/store/src/a.rs:4: r\"SOFTWARE\\x\" belongs into crates/sources",
        ];
        assert_eq!(found, expected);
        assert!(wrong_os_paths(&at("crates/sources/src/a.rs"), &[]).is_empty());
        let known = [("crates/store/src/a.rs", "a reason")];
        assert!(wrong_os_paths(&at("crates/store/src/a.rs"), &known).is_empty());
        assert_eq!(
            wrong_os_paths(&at("crates/store/src/b.rs"), &known).len(),
            3,
            "two paths, one stale entry"
        );
    }

    #[test]
    fn every_arrow_points_to_a_crate_of_the_table() {
        for (name, uses) in ARROWS {
            for used in *uses {
                assert!(ARROWS.iter().any(|(known, _)| known == used), "{name} → {used}");
            }
        }
    }
}

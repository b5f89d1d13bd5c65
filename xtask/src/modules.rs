//! Import cycles between the top-level modules of a crate: modules that use each other can only be read together.

use std::collections::{BTreeMap, BTreeSet};

use crate::source_scan::Code;

/// Cycles that still exist: the crate's source directory, the modules, and why. A cycle within the modules of an entry is
/// accepted; an entry without a cycle is an error, so the table can only shrink.
#[rustfmt::skip]
const KNOWN_CYCLES: &[(&str, &[&str], &str)] = &[
    ("crates/cli/src", &["commands", "measure", "observe", "operator_profile", "operators", "push", "recording", "report", "worker"],
        "libraries inside the program, which are moving to crates of their own"),
    ("crates/observe/src", &["measure", "worker"], "the supervisor and its worker process share the protocol and its plan"),
    ("crates/sources/src", &["etw", "kernel", "kernel_source"],
        "the facade of kernel capture and its implementation for ETW share errors and options"),
    ("crates/store/src", &["encryption", "error", "files", "segment"], "errors name the variable of the key, and keys are found in segments"),
    ("crates/etl/src", &["cursor", "etl", "index", "merge", "parallel", "read_ahead", "storage"], "the parts of the reader share a type that the reader defines"),
    ("crates/ort/src", &["api", "logging", "runtime", "text"], "the table of functions names the oldest version, which the runtime defines"),
    ("crates/ort/src", &["binding", "ep", "plain", "session"], "a session makes bindings, and a binding runs its session"),
    ("crates/store/src", &["pack", "recording"], "a packed recording is opened as a recording"),
    ("crates/channel/src", &["disk", "private_files"], "private files are allocated, and allocation creates private files"),
    ("crates/channel/src", &["channel_writer", "last_ring"], "the ring of a thread is kept for its writer"),
    ("crates/preload/src", &["calls", "table"], "the table points to the calls, which forward to the table"),
    ("python/src", &["arrow", "table"], "a table exports itself, and the export keeps the table alive"),
    ("python/src", &["call", "custom_op_hook", "ndarray", "output", "probe"], "the hooks of `session.run` and what they record"),
];

/// For each module, the modules that it uses, and a file that does.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Every import cycle that is not known, and every known one that is gone.
pub(crate) fn problems(sources: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut found: BTreeSet<usize> = BTreeSet::new();
    // The tasks of xtask are not shipped, and run each other.
    let shipped = sources.iter().filter(|(name, _)| !name.starts_with("xtask/"));
    let crates: BTreeSet<&str> = shipped.filter_map(|(name, _)| source_directory(name)).collect();
    for directory in crates {
        let uses = uses(directory, sources);
        for cycle in cycles(&uses) {
            let is_known = |(place, modules, _): &(&str, &[&str], &str)| {
                *place == directory && cycle.iter().all(|module| modules.contains(&module.as_str()))
            };
            match KNOWN_CYCLES.iter().position(is_known) {
                Some(known) => drop(found.insert(known)),
                None => problems.push(describe(directory, &cycle, &uses)),
            }
        }
    }
    let gone = KNOWN_CYCLES.iter().enumerate().filter(|(at, _)| !found.contains(at));
    problems.extend(gone.map(|(_, (place, modules, _))| {
        format!(
            "{place}: the cycle of {} is gone; remove it from KNOWN_CYCLES in xtask/src/modules.rs",
            modules.join(", ")
        )
    }));
    problems
}

/// `crates/core/src` of `crates/core/src/clock/os.rs`.
fn source_directory(file: &str) -> Option<&str> {
    file.find("/src/").map(|at| &file[..at + "/src".len()])
}

/// Who uses whom among the top-level modules of one crate.
fn uses(directory: &str, sources: &[(String, String)]) -> Uses {
    let inside = |name: &str| -> Option<Vec<String>> {
        let path = name.strip_prefix(directory)?.strip_prefix('/')?.strip_suffix(".rs")?;
        Some(path.split('/').map(str::to_owned).collect())
    };
    let files: Vec<(Vec<String>, &String, Code)> =
        sources.iter().filter_map(|(name, source)| Some((inside(name)?, name, Code::new(source)))).collect();
    let is_root = |path: &[String]| matches!(path, [only] if only == "lib" || only == "main");
    let modules: BTreeSet<&String> =
        files.iter().filter(|(path, ..)| !is_root(path)).filter_map(|(path, ..)| path.first()).collect();
    // `use crate::Name` goes through the root to the module that the root takes the name from.
    let mut re_exported: BTreeMap<String, String> = BTreeMap::new();
    for (_, _, code) in files.iter().filter(|(path, ..)| is_root(path)) {
        for path in code.use_paths() {
            if let (Some(first), Some(last)) = (path.first(), path.last())
                && modules.contains(first)
            {
                re_exported.insert(last.clone(), first.clone());
            }
        }
    }
    let mut uses = Uses::new();
    for (path, name, code) in files.iter().filter(|(path, ..)| !is_root(path)) {
        let mut module = path.clone();
        module.pop_if(|last| last == "mod");
        for used in code.crate_paths(&module) {
            let target = if modules.contains(&used) { Some(&used) } else { re_exported.get(&used) };
            if let Some(target) = target.filter(|target| **target != module[0]) {
                uses.entry(module[0].clone())
                    .or_default()
                    .entry(target.clone())
                    .or_insert_with(|| (*name).clone());
            }
        }
    }
    uses
}

/// The groups of modules that reach each other.
fn cycles(uses: &Uses) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            for next in uses.get(module).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|module| (module, reach(module))).collect();
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for (module, seen) in &reached {
        if seen.contains(*module) && !groups.iter().any(|group| group.contains(*module)) {
            let back = |other: &&String| reached.get(other).is_some_and(|theirs| theirs.contains(*module));
            groups.push(seen.iter().filter(back).cloned().collect());
        }
    }
    groups
}

/// The shortest way from the first module of a group back to itself.
fn shortest(uses: &Uses, group: &BTreeSet<String>) -> Vec<String> {
    let Some(first) = group.first() else { return Vec::new() };
    let mut ways = vec![vec![first.clone()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in &ways {
            let next = way.last().and_then(|module| uses.get(module)).into_iter().flat_map(BTreeMap::keys);
            for module in next {
                let mut longer_way = way.clone();
                longer_way.push(module.clone());
                if module == first {
                    return longer_way;
                }
                if seen.insert(module.clone()) {
                    longer.push(longer_way);
                }
            }
        }
        ways = longer;
    }
    group.iter().cloned().collect()
}

fn describe(directory: &str, group: &BTreeSet<String>, uses: &Uses) -> String {
    let way = shortest(uses, group);
    let files: Vec<&str> =
        way.windows(2).filter_map(|pair| Some(uses.get(&pair[0])?.get(&pair[1])?.as_str())).collect();
    let mut problem = format!("{directory}: import cycle {} ({})", way.join(" → "), files.join(", "));
    if group.len() >= way.len() {
        let all: Vec<&str> = group.iter().map(String::as_str).collect();
        problem += &format!("; in cycles with each other: {}", all.join(", "));
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| (format!("crates/x/src/{name}"), (*text).to_owned())).collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        problems(&sources(files)).into_iter().filter(|problem| problem.contains("import cycle")).collect()
    }

    #[test]
    fn a_cycle_is_reported_with_the_way_and_its_files() {
        let cycle = found(&[
            ("lib.rs", "mod a; mod b; mod c; use a::A; use b::B;"),
            ("a/mod.rs", "mod inner;"),
            ("a/inner.rs", "use crate::{c::C, b};\nfn f() {}"),
            ("b.rs", "fn f() -> super::a::A { super::c::f() }"),
            ("c.rs", "use std::fmt;"),
        ]);
        let expected =
            "crates/x/src: import cycle a → b → a (crates/x/src/a/inner.rs, crates/x/src/b.rs)".to_owned();
        assert_eq!(cycle, [expected]);
    }

    #[test]
    fn a_name_that_the_root_re_exports_leads_to_its_module() {
        let files = [("lib.rs", "mod a; mod b; pub use b::{inner::Name, Other as Renamed};")];
        let with = |a: &'static str| [files[0], ("a.rs", a), ("b.rs", "use crate::a::A;")];
        assert_eq!(found(&with("use crate::Name;")).len(), 1);
        assert_eq!(found(&with("use crate::Renamed;")).len(), 1);
        assert!(found(&with("use crate::Unrelated;")).is_empty());
    }

    #[test]
    fn children_of_one_module_tests_and_comments_are_no_cycle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod one; use crate::b::B; // crate::a"),
            ("a/one.rs", "use super::two; use super::super::a::one;"),
            ("b.rs", "pub(crate) fn f() {}\n#[cfg(test)]\nmod tests { use crate::a::A; }"),
        ];
        assert!(found(&files).is_empty(), "{:?}", found(&files));
    }

    #[test]
    fn a_known_cycle_that_is_gone_must_leave_the_table() {
        let gone = problems(&[]).len();
        assert_eq!(gone, KNOWN_CYCLES.len());
    }
}

//! `src/gates.rs` is generated from the `OrtApi` of ort-sys; this test regenerates it and compares.
//!
//! After a new ort-sys: `ORTSCOPE_BLESS=1 cargo nextest run -p ortscope-ort gates`.
//!
//! Not on Windows: Wine cannot start cargo, and the table is the same for every system.
#![cfg(not(windows))]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// ort-sys marks slots with `api-NN` only above 17: older ones are distinguished by ONNX Runtime's own static_asserts
/// ("Size of version N API cannot change" in onnxruntime_c_api.cc).
const UNMARKED: [(usize, u32); 3] = [(255, 15), (266, 16), (276, 17)];

/// The static_asserts of onnxruntime_c_api.cc (1.30): since this version, this many slots.
const STATIC_ASSERTS: [(u32, usize); 12] = [
    (15, 255),
    (16, 266),
    (17, 276),
    (18, 280),
    (20, 285),
    (22, 318),
    (23, 390),
    (24, 415),
    (25, 419),
    (27, 422),
    (28, 424),
    (29, 425),
];

struct Slot {
    name: String,
    since: u32,
}

/// Reads the fields of `struct OrtApi` in order.
fn slots(source: &str) -> Vec<Slot> {
    let (_, body) = source.split_once("pub struct OrtApi {").expect("ort-sys has OrtApi");
    let (body, _) = body.split_once("\n}\n").expect("OrtApi ends");
    let mut slots = Vec::new();
    let mut marked = None;
    let mut for_wasm = false;
    for line in body.lines() {
        let line = line.trim();
        if let Some(feature) = line.strip_prefix("#[cfg(feature = \"api-") {
            marked = feature.strip_suffix("\")]").and_then(|minor| minor.parse().ok());
        } else if line.starts_with("#[cfg(all(target_family = \"wasm\"") {
            for_wasm = true;
        } else if let Some(field) = line.strip_prefix("pub ") {
            let (name, _) = field.split_once(':').expect("a field has a type");
            if !std::mem::take(&mut for_wasm) {
                let unmarked = UNMARKED.iter().find(|(end, _)| slots.len() < *end).map(|(_, minor)| *minor);
                let since =
                    marked.take().or(unmarked).expect("a slot beyond the unmarked ones has an api-NN");
                slots.push(Slot { name: name.to_owned(), since });
            }
        }
    }
    slots
}

fn count_at(slots: &[Slot], minor: u32) -> usize {
    slots.iter().filter(|slot| slot.since <= minor).count()
}

fn render(slots: &[Slot]) -> String {
    let mut text = String::from(
        "//! Since which minor version each slot of `OrtApi` exists. Generated from ort-sys by\n\
         //! `ORTSCOPE_BLESS=1 cargo nextest run -p ortscope-ort gates`; do not edit.\n\n\
         /// One slot of the table.\n#[derive(Debug, Clone, Copy, PartialEq, Eq)]\npub struct Slot {\n    \
         pub name: &'static str,\n    /// The first minor version that has it; 15 includes older ones.\n    \
         pub since: u32,\n}\n\nconst fn slot(name: &'static str, since: u32) -> Slot {\n    Slot { name, since }\n}\n\n\
         /// The version that introduced a slot; fails to compile for a name that does not exist.\n\
         pub(crate) const fn since(name: &str) -> u32 {\n    let mut index = 0;\n    while index < SLOTS.len() {\n        \
         if equal(SLOTS[index].name.as_bytes(), name.as_bytes()) {\n            return SLOTS[index].since;\n        }\n        \
         index += 1;\n    }\n    panic!(\"OrtApi has no slot of this name\");\n}\n\n\
         const fn equal(a: &[u8], b: &[u8]) -> bool {\n    if a.len() != b.len() {\n        return false;\n    }\n    \
         let mut index = 0;\n    while index < a.len() {\n        if a[index] != b[index] {\n            return false;\n        \
         }\n        index += 1;\n    }\n    true\n}\n\n\
         /// How many slots the table of each minor version has.\npub const SLOTS_AT: &[(u32, usize)] = &[\n",
    );
    let newest = slots.iter().map(|slot| slot.since).max().unwrap_or(15);
    for minor in 15..=newest {
        writeln!(text, "    ({minor}, {}),", count_at(slots, minor)).expect("writing to a string");
    }
    write!(
        text,
        "];\n\n/// Every slot, in the order of the table.\npub const SLOTS: [Slot; {}] = [\n",
        slots.len()
    )
    .expect("writing to a string");
    for slot in slots {
        writeln!(text, "    slot(\"{}\", {}),", slot.name, slot.since).expect("writing to a string");
    }
    text.push_str("];\n");
    text
}

/// Where cargo unpacked ort-sys.
fn ort_sys_source() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let manifest = metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == "ort-sys"))
        .and_then(|package| package["manifest_path"].as_str())
        .expect("ort-sys is a dependency");
    Path::new(manifest).with_file_name("src").join("lib.rs")
}

#[test]
fn gates_are_current() {
    let source = std::fs::read_to_string(ort_sys_source()).expect("ort-sys is readable");
    let slots = slots(&source);
    for (minor, count) in STATIC_ASSERTS {
        assert_eq!(count_at(&slots, minor), count, "slots of 1.{minor}");
    }
    assert!(slots.is_sorted_by_key(|slot| slot.since), "the table is append-only");

    let rendered = render(&slots);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gates.rs");
    if std::env::var_os("ORTSCOPE_BLESS").is_some() {
        std::fs::write(&path, &rendered).expect("src/gates.rs is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == rendered, "src/gates.rs is out of date: run with ORTSCOPE_BLESS=1");
}

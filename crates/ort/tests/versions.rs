//! The same models on every version of ONNX Runtime, and the gates against the real tables.
//!
//! `ORTSCOPE_TEST_ORT_MATRIX` is a directory with a directory per version, each with a `libonnxruntime.so*`. Two
//! versions in one process would share symbols and one environment, so every version gets its own process: this test
//! binary again, with the hidden test below.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, reason = "reads /proc/self/maps"))]
#![allow(clippy::allow_attributes, reason = "`expect` cannot be conditional here")]

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ortscope_ort::gates::{SLOTS, SLOTS_AT};
use ortscope_ort::{Environment, LogLevel, Runtime};
use support::{floats, integers, models, named, session};

const CHILD: &str = "ORTSCOPE_TEST_ORT_CHILD";

#[cfg(target_os = "linux")]
#[test]
fn all_versions_agree() {
    let Some(matrix) = support::skips::variable("ORTSCOPE_TEST_ORT_MATRIX") else { return };
    let mut libraries: Vec<PathBuf> = std::fs::read_dir(&matrix)
        .expect("the matrix is readable")
        .filter_map(|entry| library_in(&entry.expect("an entry").path()))
        .collect();
    libraries.sort();
    assert!(!libraries.is_empty(), "{} has no versions", matrix.display());
    let mut answers = Vec::new();
    for library in libraries {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "one_version", "--nocapture", "--test-threads", "1"])
            .env(CHILD, &library)
            .output()
            .expect("this program starts again");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {}\n{text}\n{stderr}", library.display(), output.status);
        let answer: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("answer: ")).collect();
        assert!(!answer.is_empty(), "{} gave no answer: {stderr}", library.display());
        answers.push((library, answer.join("\n")));
    }
    let (first, expected) = &answers[0];
    for (library, answer) in &answers {
        assert_eq!(answer, expected, "{} against {}", library.display(), first.display());
    }
}

fn library_in(directory: &Path) -> Option<PathBuf> {
    let starts = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("libonnxruntime.so");
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.file_name().is_some_and(starts))
        .collect();
    found.sort();
    found.pop()
}

/// One version, in the process that `all_versions_agree` starts. By itself it does nothing.
#[cfg(target_os = "linux")]
#[test]
fn one_version() {
    let Some(library) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    let runtime = Runtime::load(&library).expect("loads");
    check_gates(&library, runtime.minor());
    let environment = Environment::new(&runtime, LogLevel::Warning).expect("an environment");

    let mut answer = String::new();
    let runs = [
        (models::add(), vec![named("x", floats(&[2, 3], &[1.; 6])), named("y", floats(&[2, 3], &[0.5; 6]))]),
        (models::matmul(), vec![named("x", floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]))]),
        (models::non_zero(), vec![named("x", floats(&[3], &[0., 1., 1.]))]),
        (models::zip_map(), vec![named("x", floats(&[1, 3], &[0.5, 0.25, 0.25]))]),
        (models::string_identity(), vec![named("x", support::strings(&[2], &["a", "Ω"]))]),
        (
            models::sequence_at(),
            vec![
                named(
                    "s",
                    ortscope_core::tensor::Value::Sequence(vec![floats(&[1], &[1.]), floats(&[1], &[2.])]),
                ),
                named("i", integers(&[], &[1])),
            ],
        ),
    ];
    for (model, inputs) in runs {
        let session = session(&environment, &model);
        let mut binding = session.bind(&inputs).expect("binds");
        for _ in 0..3 {
            binding.copy_inputs().expect("copies");
            binding.run().expect("runs");
            binding.copy_outputs().expect("copies");
        }
        write!(answer, "{:?} ", binding.outputs().expect("outputs")).expect("writing to a string");
    }
    eprintln!("answer: {answer}");
}

/// Every slot the gates allow must point into the library's code, and the library must refuse the next version.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "reads the table of the library behind the crate's back")]
fn check_gates(library: &Path, minor: u32) {
    let code = executable_ranges(library);
    assert!(!code.is_empty(), "{} has no code", library.display());
    // SAFETY: the library is loaded and stays so; OrtApiBase is two function pointers in every version.
    let (table, next) = unsafe {
        let library = libloading::Library::new(library).expect("loads");
        let base = library
            .get::<unsafe extern "system" fn() -> *const ort_sys::OrtApiBase>(b"OrtGetApiBase\0")
            .expect("the entry point")();
        std::mem::forget(library);
        (((*base).GetApi)(minor).cast::<usize>(), ((*base).GetApi)(minor + 1))
    };
    assert!(next.is_null(), "1.{minor} answers to version {}", minor + 1);
    let (_, count) = SLOTS_AT.iter().find(|(at, _)| *at == minor).expect("a known version");
    let allowed: Vec<_> = SLOTS.iter().filter(|slot| slot.since <= minor).collect();
    assert_eq!(allowed.len(), *count);
    for (index, slot) in allowed.iter().enumerate() {
        // SAFETY: the table of this version has `count` pointers, which is what this test is about; reading one too
        // many would still read static data of the library.
        let address = unsafe { table.add(index).read() };
        assert!(
            code.iter().any(|range| range.contains(&address)),
            "slot {index} ({}) of 1.{minor} is {address:#x}, which is not code of the library",
            slot.name
        );
    }
}

/// The executable mappings of a library.
#[cfg(target_os = "linux")]
fn executable_ranges(library: &Path) -> Vec<std::ops::Range<usize>> {
    let library = library.canonicalize().expect("exists");
    std::fs::read_to_string("/proc/self/maps")
        .expect("maps")
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (range, permissions) = (fields.next()?, fields.next()?);
            let path = fields.nth(3)?;
            (permissions.contains('x') && Path::new(path) == library).then_some(())?;
            let (from, to) = range.split_once('-')?;
            Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
        })
        .collect()
}

//! Native programs, as they are: every run is recorded, and the answers stay the same.
#![cfg(target_os = "linux")]

#[path = "../../ort/tests/support/models.rs"]
#[allow(dead_code, reason = "shared with the tests of ortscope-ort, which use the rest")]
#[allow(clippy::allow_attributes, reason = "`expect` would fail there")]
mod models;
#[path = "../../ort/tests/support/onnx.rs"]
#[allow(dead_code, reason = "shared with the tests of ortscope-ort, which use the rest")]
#[allow(clippy::allow_attributes, reason = "`expect` would fail there")]
mod onnx;
#[path = "../../ort/tests/support/skips.rs"]
mod skips;

use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ort_sys::OrtApi;
use ortscope_channel::message::ProgramMessage;
use ortscope_channel::{CHANNEL_VARIABLE, ChannelReader, FrameKind, InferenceRecord, Phase, pid_of};

const RUNS: usize = 250;

/// The library under test: next to this test, or one directory above.
fn preload() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let places = test.ancestors().skip(1).take(2).map(|place| place.join("libortscope_preload.so"));
    places.into_iter().find(|path| path.is_file()).expect("cargo builds the library with its tests")
}

/// Places of functions in the table, as the compiler's options.
fn places() -> Vec<String> {
    macro_rules! places {
        ($($name:literal = $function:ident),* $(,)?) => {
            vec![$(format!("-D{}={}", $name, offset_of!(OrtApi, $function) / size_of::<usize>())),*]
        };
    }
    places![
        "GET_ERROR_MESSAGE" = GetErrorMessage,
        "CREATE_ENV" = CreateEnv,
        "CREATE_SESSION" = CreateSession,
        "CREATE_SESSION_OPTIONS" = CreateSessionOptions,
        "CREATE_CPU_MEMORY_INFO" = CreateCpuMemoryInfo,
        "CREATE_TENSOR" = CreateTensorWithDataAsOrtValue,
        "GET_TENSOR_DATA" = GetTensorMutableData,
        "RUN" = Run,
        "RUN_ASYNC" = RunAsync,
        "RELEASE_VALUE" = ReleaseValue,
        "RELEASE_STATUS" = ReleaseStatus,
        "RELEASE_SESSION" = ReleaseSession,
    ]
}

struct Program {
    directory: tempfile::TempDir,
    library: PathBuf,
}

/// The channel content of one process.
#[derive(Default)]
struct Seen {
    records: Vec<InferenceRecord>,
    messages: Vec<ProgramMessage>,
}

impl Program {
    /// `None` after saying why there is none.
    fn new(library: &Path, is_linked: bool) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("small.onnx"), models::matmul()).expect("written");
        // As the library is called at run time; old ones are called by their whole version.
        let link = directory.path().join("libonnxruntime.so.1");
        std::os::unix::fs::symlink(library, &link).expect("a link");
        let name = library.file_name().expect("a file");
        std::os::unix::fs::symlink(library, directory.path().join(name)).expect("a link");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-o"]).arg(directory.path().join("program")).arg(source).args(places());
        if is_linked {
            cc.arg("-DLINKED").arg(&link).arg(format!("-Wl,-rpath,{}", directory.path().display()));
        }
        cc.args(["-ldl", "-lpthread"]);
        match cc.output() {
            Ok(done) if done.status.success() => Some(Self { directory, library: library.to_owned() }),
            Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
            Err(_) => {
                skips::skipped("there is no C compiler");
                None
            }
        }
    }

    fn run(&self, version: u32, mode: &str, set: impl FnOnce(&mut Command)) -> Output {
        let mut command = Command::new(self.directory.path().join("program"));
        command.arg(self.directory.path().join("small.onnx")).arg(RUNS.to_string()).arg(version.to_string());
        command.arg(&self.library).arg(mode).env("ORT_DISABLE_TELEMETRY", "1");
        command.env_remove(CHANNEL_VARIABLE).env_remove("ORTSCOPE_PROFILE_EVERY");
        set(&mut command);
        let done = command.output().expect("the program starts");
        assert!(done.status.success(), "{:?}: {}", done.status, String::from_utf8_lossy(&done.stderr));
        done
    }

    /// Runs it recorded; its answers must be those of a run that is not.
    fn recorded(&self, version: u32, mode: &str, set: impl FnOnce(&mut Command)) -> Vec<Seen> {
        let plain = self.run(version, mode, |_| {});
        let channel = self.directory.path().join("channel");
        std::fs::create_dir(&channel).expect("a directory");
        let done = self.run(version, mode, |command| {
            command.env("LD_PRELOAD", preload()).env(CHANNEL_VARIABLE, &channel);
            set(command);
        });
        assert_eq!(done.stdout, plain.stdout, "the answers are others");
        assert_eq!(String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&plain.stderr));
        let mut directories: Vec<PathBuf> = std::fs::read_dir(&channel)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        directories.sort();
        let seen = directories.iter().map(|directory| {
            assert!(pid_of(directory).is_some());
            let mut seen = Seen::default();
            let drained = ChannelReader::new(directory).drain(|kind, payload| match kind {
                FrameKind::INFERENCE => seen.records.extend(InferenceRecord::from_bytes(payload)),
                _ => seen.messages.push(serde_json::from_slice(payload).expect("a message")),
            });
            let drained = drained.expect("it can be read");
            assert!(drained.lost.is_empty() && drained.damaged == 0);
            seen
        });
        seen.collect()
    }
}

/// Runs, one that failed, and one that was asynchronous.
fn check(seen: &Seen, version: u32) {
    let asynchronous = usize::from(version >= 16);
    assert_eq!(seen.records.len(), RUNS + 1 + asynchronous);
    assert_eq!(seen.records.iter().filter(|record| !record.ok).count(), 1);
    let mut sequences: Vec<u64> = seen.records.iter().map(|record| record.sequence).collect();
    sequences.sort_unstable();
    assert!(sequences.iter().copied().eq(0..sequences.len() as u64), "each once");
    assert!(seen.records.iter().all(|record| record.run_ns > 0 && record.session == 0));
    let sessions: Vec<&str> = seen
        .messages
        .iter()
        .filter_map(|message| match message {
            ProgramMessage::Session(note) => Some(note.model_name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(sessions, ["small"]);
}

/// The version in a library's name, if this program knows it.
fn minor_of(library: &Path) -> u32 {
    let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let minor = name.split(".so.1.").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.unwrap_or(15).min(31)
}

#[test]
fn a_program_linked_to_onnx_runtime() {
    let Some(library) = skips::variable("ORTSCOPE_TEST_ORT") else { return };
    let Some(program) = Program::new(&library, true) else { return };
    let version = minor_of(&library);
    let seen = program.recorded(version, "", |_| {});
    assert_eq!(seen.len(), 1);
    check(&seen[0], version);
    assert_eq!(seen[0].records[0].phase, Phase::First);
}

#[test]
fn a_program_that_loads_onnx_runtime_itself() {
    let Some(library) = skips::variable("ORTSCOPE_TEST_ORT") else { return };
    let Some(program) = Program::new(&library, false) else { return };
    // Programs are often older than the library that they load.
    let seen = program.recorded(15, "", |_| {});
    check(&seen[0], 15);
}

#[test]
fn sampled_runs_are_profiled_if_the_library_supports_it() {
    let Some(library) = skips::variable("ORTSCOPE_TEST_ORT") else { return };
    let version = minor_of(&library);
    if version < 25 {
        skips::skipped("the library is older than 1.25");
        return;
    }
    let Some(program) = Program::new(&library, false) else { return };
    let seen = program.recorded(version, "", |command| {
        command.env("ORTSCOPE_PROFILE_EVERY", "100");
    });
    check(&seen[0], version);
    let profiled = seen[0].records.iter().filter(|record| record.phase == Phase::Profiled);
    assert_eq!(profiled.map(|record| record.sequence).collect::<Vec<_>>(), [99, 199]);
    for message in &seen[0].messages {
        if let ProgramMessage::Profile { prefix, .. } = message {
            let name = prefix.file_name().expect("a name").to_string_lossy().into_owned();
            let files = std::fs::read_dir(prefix.parent().expect("a directory")).expect("it is there");
            let files: Vec<String> =
                files.flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
            assert_eq!(files.iter().filter(|file| file.starts_with(&name)).count(), 1, "{name}: {files:?}");
        }
    }
}

#[test]
fn a_forked_child_has_its_own_directory() {
    let Some(library) = skips::variable("ORTSCOPE_TEST_ORT") else { return };
    let Some(program) = Program::new(&library, true) else { return };
    let seen = program.recorded(15, "fork", |_| {});
    assert_eq!(seen.len(), 2);
    seen.iter().for_each(|seen| check(seen, 15));
}

#[test]
fn every_version_from_the_oldest_on() {
    let Some(matrix) = skips::variable("ORTSCOPE_TEST_ORT_MATRIX") else { return };
    let mut tested = 0;
    for version in std::fs::read_dir(&matrix).expect("a directory").flatten() {
        let files = std::fs::read_dir(version.path()).into_iter().flatten().flatten().map(|file| file.path());
        let is_library = |path: &PathBuf| path.to_string_lossy().contains("libonnxruntime.so.1.");
        for library in files.filter(is_library) {
            let Some(program) = Program::new(&library, true) else { return };
            let version = minor_of(&library);
            check(&program.recorded(version, "", |_| {})[0], version);
            tested += 1;
        }
    }
    if tested == 0 {
        skips::not_set_up("there is no version of ONNX Runtime in ORTSCOPE_TEST_ORT_MATRIX");
    }
}

#[test]
fn programs_without_onnx_runtime_are_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let done = Command::new("sh")
        .args(["-c", "ls / > /dev/null && echo fine"])
        .env("LD_PRELOAD", preload())
        .env(CHANNEL_VARIABLE, directory.path())
        .output()
        .expect("a shell");
    assert_eq!((&*done.stdout, &*done.stderr), (&b"fine\n"[..], &b""[..]));
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
}

//! Starting the program, and models to start it with.

#[path = "../../../ort/tests/support/models.rs"]
#[allow(dead_code, reason = "shared with the tests of ortscope-ort, which use the rest")]
#[allow(clippy::allow_attributes, reason = "`expect` would fail there")]
pub mod models;
#[path = "../../../ort/tests/support/onnx.rs"]
#[allow(dead_code, reason = "shared with the tests of ortscope-ort, which use the rest")]
#[allow(clippy::allow_attributes, reason = "`expect` would fail there")]
pub mod onnx;
#[path = "../../../ort/tests/support/skips.rs"]
pub mod skips;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The library to test with, or `None` after saying that the test is skipped.
pub fn library() -> Option<PathBuf> {
    skips::variable("ORTSCOPE_TEST_ORT")
}

/// A directory to work in, with no configuration but its own.
pub struct Place {
    pub directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).expect("the file can be written");
        path
    }

    /// Runs the program here, without a library unless `--ort-library` or the environment names one.
    pub fn ortscope(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().expect("ortscope starts");
        Run { output, arguments: arguments.join(" ") }
    }

    /// The same with the library of the tests.
    pub fn with_library(&self, library: &Path, arguments: &[&str]) -> Run {
        let output =
            self.command(arguments).env("ORTSCOPE_ORT_LIBRARY", library).output().expect("ortscope starts");
        Run { output, arguments: arguments.join(" ") }
    }

    /// Waits until the newest recording has at least so many rows in a table: what is recorded has come that far.
    #[track_caller]
    pub fn wait_for_rows(&self, table: &str, rows: u64) {
        let begin = std::time::Instant::now();
        loop {
            let shown = self.ortscope(&["runs", "show", "last", "--json"]);
            let document = if shown.code() == 0 { shown.json() } else { Value::Null };
            let tables = document["tables"].as_array().into_iter().flatten();
            let of_table = tables.filter(|entry| entry["table"] == table);
            let found: u64 = of_table.filter_map(|entry| entry["rows"].as_u64()).sum();
            if found >= rows {
                return;
            }
            assert!(begin.elapsed().as_secs() < 120, "{found} of {rows} rows of {table}\n{}", shown.stderr());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ortscope"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("ORTSCOPE_STORE", self.directory.path().join("runs"))
            .env("XDG_CONFIG_HOME", self.directory.path().join("user-config"))
            .env("APPDATA", self.directory.path().join("user-config"));
        for variable in [
            "ORTSCOPE_ORT_LIBRARY",
            "ORT_DYLIB_PATH",
            "ORTSCOPE_CONFIG",
            "ORTSCOPE_LOG",
            "NO_COLOR",
            "CLICOLOR_FORCE",
        ] {
            command.env_remove(variable);
        }
        command
    }
}

/// What a process left.
pub struct Run {
    pub output: Output,
    arguments: String,
}

impl Run {
    pub fn code(&self) -> i32 {
        self.output.status.code().unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code(),
            code,
            "ortscope {}\n--- stdout\n{}\n--- stderr\n{}",
            self.arguments,
            self.stdout(),
            self.stderr()
        );
        self
    }

    /// One error line, and a hint.
    #[track_caller]
    pub fn expect_error(self, code: i32, words: &[&str]) -> Self {
        let run = self.expect_code(code);
        let stderr = run.stderr();
        let errors = stderr.lines().filter(|line| line.starts_with("error:")).count();
        assert_eq!(errors, 1, "one clear sentence expected, got:\n{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word:?} expected in:\n{stderr}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
        run
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout)
            .unwrap_or_else(|error| panic!("{error} in:\n{}\n{}", self.stdout(), self.stderr()))
    }
}

/// `y[batch,2] = x[batch,3] * W`.
pub fn small_model(place: &Place) -> String {
    place.file("small.onnx", models::matmul());
    "small.onnx".to_owned()
}

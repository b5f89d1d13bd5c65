//! Samples with stacks in the summary: how many, how good, the hottest functions, and the file they were drawn to.

use ortscope_core::kernel::FrameKind;
use ortscope_sources::Stacks;
use serde::Serialize;

use super::plan::FlameRequest;
use crate::exit::Failure;
use crate::terminal::{BOLD, Terminal};
use ortscope_core::units;
use ortscope_render::flame::Heading;

/// Functions that the document lists, and the text.
const MAX_FUNCTIONS: usize = 50;
const MAX_LINES: usize = 10;

#[derive(Debug, Serialize)]
pub struct Sampling {
    /// Samples of each processor per second.
    pub hertz: u32,
    pub samples: u64,
    pub lost: u64,
    /// Times that the kernel held sampling back.
    pub throttled: u64,
    /// How the callers were found.
    pub stacks: Walks,
    /// By samples of their own.
    pub functions: Vec<Function>,
    /// What was not seen, and why.
    pub missing: Vec<String>,
    /// The flame graph.
    pub flame: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Walks {
    pub by_frame_pointers: u64,
    pub by_unwind_tables: u64,
    /// Not to the outermost function.
    pub cut: u64,
}

#[derive(Debug, Serialize)]
pub struct Function {
    pub name: String,
    pub module: Option<String>,
    /// native, python, jit, kernel or missing.
    pub kind: &'static str,
    pub own_samples: u64,
    pub total_samples: u64,
}

/// Writes the flame graph and makes the section.
pub fn finish(
    stacks: &Stacks,
    request: &FlameRequest,
    subject: &str,
    seconds: f64,
) -> Result<Sampling, Failure> {
    let counts = stacks.counts;
    let functions = stacks.profile.hottest(MAX_FUNCTIONS).into_iter().map(|hot| Function {
        name: hot.frame.name.to_string(),
        module: Some(hot.frame.module.to_string()).filter(|module| !module.is_empty()),
        kind: match hot.frame.kind {
            FrameKind::Python => "python",
            FrameKind::Jit => "jit",
            FrameKind::Kernel => "kernel",
            FrameKind::Native | FrameKind::Process => "native",
            FrameKind::Note => "missing",
        },
        own_samples: hot.own,
        total_samples: hot.total,
    });
    let sampling = Sampling {
        hertz: stacks.hertz,
        samples: counts.samples,
        lost: counts.lost,
        throttled: counts.throttled,
        stacks: Walks {
            by_frame_pointers: counts.by_frame_pointers,
            by_unwind_tables: counts.by_tables,
            cut: counts.cut,
        },
        functions: functions.collect(),
        missing: stacks.missing.clone(),
        flame: request.file.as_ref().map(|file| file.path.display().to_string()),
    };
    if let Some(file) = &request.file {
        let heading = Heading { title: subject.to_owned(), subtitle: subtitle(&sampling, seconds) };
        file.write(&stacks.profile, &heading)?;
    }
    Ok(sampling)
}

fn subtitle(sampling: &Sampling, seconds: f64) -> String {
    let mut text = format!(
        "{} at {} Hz in {}",
        units::counted(sampling.samples, "sample"),
        sampling.hertz,
        units::duration(seconds)
    );
    for (count, what) in [(sampling.lost, "lost"), (sampling.stacks.cut, "with callers unknown")] {
        if count > 0 {
            text += &format!(", {} {what}", units::count(count));
        }
    }
    text
}

/// The lines of the summary.
pub fn lines(sampling: &Sampling, terminal: &Terminal) -> Vec<String> {
    let percent = |part: u64| part as f64 * 100.0 / sampling.samples.max(1) as f64;
    let mut head = format!("{} at {} Hz", units::counted(sampling.samples, "CPU sample"), sampling.hertz);
    if sampling.stacks.cut > 0 {
        head += &format!(", callers unknown in {:.1} %", percent(sampling.stacks.cut));
    }
    if sampling.throttled > 0 {
        head += &format!(", held back by the kernel {} times", units::count(sampling.throttled));
    }
    let mut lines = vec![head];
    if !sampling.functions.is_empty() {
        lines.push(terminal.paint(BOLD, &format!("{:>7} {:>7}  {}", "self", "total", "function")));
    }
    for function in sampling.functions.iter().take(MAX_LINES) {
        let module = function
            .module
            .as_ref()
            .map_or(String::new(), |module| format!("  ({})", units::clean(module, 40)));
        lines.push(format!(
            "{:>6.1}% {:>6.1}%  {}{}",
            percent(function.own_samples),
            percent(function.total_samples),
            units::clean(&function.name, 90),
            module
        ));
    }
    lines.extend(sampling.missing.iter().map(|missing| format!("not seen: {missing}")));
    lines.extend(sampling.flame.as_ref().map(|path| format!("flame graph in {path}")));
    lines
}

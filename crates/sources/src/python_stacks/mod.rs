//! Stacks of Python programs of any version, however they were started. py-spy's library reads the frames from the
//! memory of the process without stopping it, so a reading may fail because the program continues; failed readings are
//! counted.
//!
//! Native functions are not included; [`crate::StackSource`] samples them.

std::cfg_select! {
    feature = "python-stacks" => {
        mod spy;
        use spy::Spy;
    }
    _ => {
        mod absent;
        use absent::Spy;
    }
}

use std::collections::BTreeMap;

use ortscope_core::kernel::{Frame, FrameId, FrameKind, StackProfile};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{Control, CostClass, Emitter, Source, SourceError, SourceInfo, WhenFull};

use crate::kernel::SampleCounts;
use crate::kernel_stacks::{Stacks, StacksHandle};

const TRACK: &str = "python_stacks";
/// Interval for retrying processes without an interpreter and for finding new children.
const RETRY_NS: u64 = 250_000_000;
/// Attempts after which a process is considered not to be Python.
const MAX_ATTEMPTS: u32 = 20;
/// Limit for processes, including children.
const MAX_PROCESSES: usize = 64;

/// One function of a stack, as returned by the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PythonFrame {
    function: String,
    file: String,
}

/// Why a process cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    why: String,
    hint: &'static str,
    /// Waiting will not help.
    is_final: bool,
}

#[derive(Debug)]
enum Watched {
    Trying { attempts: u32, last: Option<Refusal> },
    Reading { spy: Spy, root: FrameId },
    Over(Option<Refusal>),
}

/// Reads the Python stacks of some processes and their children at a fixed rate.
#[derive(Debug)]
pub struct PythonStackSource {
    info: SourceInfo,
    pids: Vec<u32>,
    hertz: u32,
    handle: StacksHandle,
}

impl PythonStackSource {
    pub fn new(pids: Vec<u32>, hertz: u32) -> Self {
        let info = SourceInfo {
            name: "python-stacks",
            tracks: vec![TRACK.to_owned()],
            cost: CostClass::Medium,
            when_full: WhenFull::DropAndCount,
        };
        Self { info, pids, hertz: hertz.max(1), handle: StacksHandle::default() }
    }

    pub fn handle(&self) -> StacksHandle {
        self.handle.clone()
    }
}

impl Source for PythonStackSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        match self.pids.first().map(|pid| Spy::open(*pid)) {
            Some(Err(refusal)) if refusal.is_final => {
                Availability::Unavailable { why: refusal.why, hint: refusal.hint.to_owned() }
            }
            _ => Availability::Ready,
        }
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let mut reader = Reader::new(&self.pids);
        self.handle.set_ready();
        let period_ns = 1_000_000_000 / u64::from(self.hertz);
        let mut next_ns = control.clock().now_ns();
        loop {
            next_ns += period_ns;
            if !control.sleep_until(next_ns) {
                break;
            }
            let now_ns = control.clock().now_ns();
            reader.discover(now_ns);
            reader.read();
            // Late readings are skipped: each one belongs to the moment it was taken.
            let late = now_ns.saturating_sub(next_ns) / period_ns;
            reader.counts.lost += late;
            next_ns += late * period_ns;
        }
        let missing = reader.missing();
        for why in &missing {
            out.unavailable(control.clock().now_ns(), TRACK, why, None);
        }
        out.lost("Python stack readings", reader.counts.lost);
        out.flush();
        let Reader { profile, counts, .. } = reader;
        self.handle.set(Stacks { profile, counts, hertz: self.hertz, missing });
        Ok(())
    }
}

#[derive(Debug)]
struct Reader {
    watched: BTreeMap<u32, Watched>,
    profile: StackProfile,
    counts: SampleCounts,
    looked_ns: Option<u64>,
}

impl Reader {
    fn new(pids: &[u32]) -> Self {
        let watched = pids.iter().map(|pid| (*pid, Watched::Trying { attempts: 0, last: None })).collect();
        Self { watched, profile: StackProfile::default(), counts: SampleCounts::default(), looked_ns: None }
    }

    /// Finds new children and new interpreters.
    fn discover(&mut self, now_ns: u64) {
        if self.looked_ns.is_some_and(|looked_ns| now_ns.saturating_sub(looked_ns) < RETRY_NS) {
            return;
        }
        self.looked_ns = Some(now_ns);
        let running = crate::processes().unwrap_or_default();
        for process in &running {
            let is_child = process.parent_pid.is_some_and(|parent| self.watched.contains_key(&parent));
            if is_child && self.watched.len() < MAX_PROCESSES {
                self.watched.entry(process.pid).or_insert(Watched::Trying { attempts: 0, last: None });
            }
        }
        for (pid, watched) in &mut self.watched {
            let Watched::Trying { attempts, .. } = watched else { continue };
            let Some(facts) = running.iter().find(|facts| facts.pid == *pid) else {
                *watched = Watched::Over(None);
                continue;
            };
            let attempts = *attempts + 1;
            *watched = match Spy::open(*pid) {
                Ok(spy) => {
                    let name = String::from_utf8_lossy(&facts.name).into();
                    let root =
                        self.profile.frame(Frame { name, module: "".into(), kind: FrameKind::Process });
                    Watched::Reading { spy, root }
                }
                Err(refusal) if refusal.is_final || attempts >= MAX_ATTEMPTS => Watched::Over(Some(refusal)),
                Err(refusal) => Watched::Trying { attempts, last: Some(refusal) },
            };
        }
    }

    fn read(&mut self) {
        for (pid, watched) in &mut self.watched {
            let Watched::Reading { spy, root } = watched else { continue };
            let (profile, counts) = (&mut self.profile, &mut self.counts);
            let mut stack = Vec::new();
            let read = spy.running_threads(&mut |frames| {
                stack.clear();
                stack.push(*root);
                stack.extend(frames.iter().map(|frame| {
                    let (name, module) = (frame.function.as_str().into(), frame.file.as_str().into());
                    profile.frame(Frame { name, module, kind: FrameKind::Python })
                }));
                profile.add(&stack);
                counts.samples += 1;
            });
            if read.is_err() {
                self.counts.lost += 1;
                if crate::process_usage(*pid).is_err() {
                    *watched = Watched::Over(None);
                }
            }
        }
    }

    /// One sentence per reason.
    fn missing(&self) -> Vec<String> {
        let mut reasons: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (pid, watched) in &self.watched {
            let (Watched::Over(Some(refusal)) | Watched::Trying { last: Some(refusal), .. }) = watched else {
                continue;
            };
            reasons.entry(format!("{} ({})", refusal.why, refusal.hint)).or_default().push(*pid);
        }
        let sentence = |(why, pids): (String, Vec<u32>)| {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("Python functions of process {}: {why}", pids.join(", "))
        };
        reasons.into_iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    /// Searches and reads until there are samples, a hundred times a second.
    fn read_for_a_while(reader: &mut Reader, max_seconds: u64) {
        for step in 0..max_seconds * 100 {
            reader.discover(step * 300_000_000);
            reader.read();
            if reader.counts.samples >= 20 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn functions_of_a_running_python_are_read_or_the_reason_is_given() {
        let script = "def ortscope_inner(n):\n    return sum(i * i for i in range(n))\nwhile True:\n    ortscope_inner(40000)\n";
        let child = Command::new("python3").args(["-c", script]).stdin(Stdio::null()).spawn();
        let Ok(child) = child else {
            println!("skipped: python3 is not installed");
            return;
        };
        let child = Ended(child);
        let mut reader = Reader::new(&[child.0.id()]);
        // An interpreter takes long to start on a busy machine; without the feature nothing is ever read.
        read_for_a_while(&mut reader, if cfg!(feature = "python-stacks") { 60 } else { 1 });
        if cfg!(feature = "python-stacks") {
            let named = |frame: &Frame| &*frame.name == "ortscope_inner" && frame.kind == FrameKind::Python;
            let found =
                reader.profile.stacks().into_iter().any(|(stack, _)| stack.iter().any(|frame| named(frame)));
            assert!(found && reader.counts.samples > 0, "{reader:?} {:?}", reader.missing());
        } else {
            let missing = reader.missing().join(" ");
            assert!(missing.contains("--features python-stacks"), "{missing}");
            assert_eq!(reader.counts.samples, 0);
        }
    }

    #[test]
    fn a_process_that_exits_is_not_an_error() {
        // This test binary, listing its tests: available on every system.
        let program = std::env::current_exe().expect("a path");
        let mut command = Command::new(program);
        command.arg("--list").stdout(Stdio::null());
        let mut child = Ended(command.spawn().expect("a program that ends"));
        child.0.wait().ok();
        let mut reader = Reader::new(&[child.0.id()]);
        read_for_a_while(&mut reader, 2);
        assert_eq!((reader.counts.samples, reader.counts.lost), (0, 0));
    }
}

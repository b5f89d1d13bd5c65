//! NVIDIA's GPUs by their own library, which is loaded if it is there.
//!
//! Its calls have hung, and have taken programs with them, when a driver was reset. They are made by a thread of their
//! own, in this process and never in an observed one; who does not get an answer goes on without.

mod card;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use ortscope_core::clock::now_nanos;

use self::card::{Absent, Card, Told};
use super::{Found, Missing, Reader, Reading};

/// The library starts within this, or it is left alone.
const STARTS_WITHIN: Duration = Duration::from_secs(3);
/// An answer that takes longer is a call that hangs.
const ANSWERS_WITHIN_NANOS: u64 = 2_000_000_000;
const MOST_GPUS: u32 = 64;

/// Where the library is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NvmlLibrary {
    /// Where the system finds it.
    System,
    At(PathBuf),
    /// Not looked for.
    None,
}

/// Numbers of one round.
#[derive(Debug, Default)]
struct Round {
    at_ns: u64,
    readings: Vec<(usize, Told)>,
    lost: Vec<Missing>,
}

/// What the library shows when it has started.
struct Started {
    names: Vec<String>,
    /// Versions of the driver and of CUDA.
    versions: Vec<String>,
    missing: Vec<Missing>,
}

struct Nvidia {
    names: Vec<String>,
    versions: Vec<String>,
    devices: Vec<String>,
    ask: SyncSender<()>,
    answers: Receiver<Round>,
    /// When a question was asked that has no answer yet.
    asked_ns: Option<u64>,
    told_silence: bool,
}

fn missing(why: String, hint: &str) -> Missing {
    Missing { what: "gpu", why, hint: hint.to_owned() }
}

/// How many GPUs it shows. `None`: there is no library, so that others may say what there is.
pub(super) fn find(library: &NvmlLibrary, found: &mut Found) -> Option<usize> {
    if *library == NvmlLibrary::None {
        return None;
    }
    let mut gpus = 0;
    let (say, hear) = sync_channel(1);
    let (ask, asked) = sync_channel(1);
    let (answer, answers) = sync_channel(4);
    let library = library.clone();
    let work = move || serve(&library, &say, &asked, &answer);
    if let Err(error) = thread::Builder::new().name("nvml".to_owned()).spawn(work) {
        found
            .missing
            .push(missing(format!("no thread for NVML could be started: {error}"), "are there too many?"));
        return Some(0);
    }
    match hear.recv_timeout(STARTS_WITHIN) {
        Ok(Ok(started)) => {
            gpus = started.names.len();
            found.missing.extend(started.missing);
            if gpus == 0 {
                let why = "NVIDIA's driver shows no GPU".to_owned();
                found.missing.push(missing(why, "in a container: --gpus all"));
                return Some(0);
            }
            let devices = (0..gpus).map(|number| format!("gpu{number}")).collect();
            let Started { names, versions, .. } = started;
            found.readers.push(Box::new(Nvidia {
                names,
                versions,
                devices,
                ask,
                answers,
                asked_ns: None,
                told_silence: false,
            }));
        }
        Ok(Err(NvmlError::LibloadingError(_))) => return None,
        Ok(Err(error)) => {
            let why = format!("NVIDIA's library does not start: {error}");
            let hint = "`nvidia-smi` says more; library and kernel module must be of one version";
            found.missing.push(missing(why, hint));
        }
        Err(RecvTimeoutError::Timeout) => {
            let why = format!("NVIDIA's library did not start within {} s", STARTS_WITHIN.as_secs());
            found.missing.push(missing(why, "does `nvidia-smi` answer? The driver may need a restart"));
        }
        Err(RecvTimeoutError::Disconnected) => {
            let why = "NVIDIA's library failed while it started".to_owned();
            found.missing.push(missing(why, "`nvidia-smi` says more"));
        }
    }
    Some(gpus)
}

/// The thread that asks the library.
fn serve(
    library: &NvmlLibrary,
    say: &SyncSender<Result<Started, NvmlError>>,
    asked: &Receiver<()>,
    answer: &SyncSender<Round>,
) {
    let mut builder = Nvml::builder();
    if let NvmlLibrary::At(path) = library {
        builder.lib_path(path.as_os_str());
    }
    let nvml = match builder.init() {
        Ok(nvml) => nvml,
        Err(error) => {
            say.send(Err(error)).ok();
            return;
        }
    };
    let count = match nvml.device_count() {
        Ok(count) => count.min(MOST_GPUS),
        Err(error) => {
            say.send(Err(error)).ok();
            return;
        }
    };
    let mut started = Started { names: Vec::new(), versions: versions(&nvml), missing: Vec::new() };
    let mut cards: Vec<Option<Card<'_>>> = Vec::new();
    for number in 0..count as usize {
        match nvml.device_by_index(number as u32) {
            Ok(device) => {
                let mut card = Card::new(&nvml, device);
                started.names.push(card.name());
                let mut absent = Absent::new();
                // What the first round says is not kept: counters begin with it.
                if let Err(error) = card.read(now_nanos(), &mut absent, &mut |_| {}) {
                    started.missing.push(gone(number, &error));
                    cards.push(None);
                    continue;
                }
                started.missing.extend(untold(number, &absent));
                cards.push(Some(card));
            }
            Err(error) => {
                started.names.push("that does not open".to_owned());
                let hint = "`nvidia-smi` says more; in a container pass the device on, or ask for its rights";
                started.missing.push(missing(format!("gpu{number} does not open: {error}"), hint));
                cards.push(None);
            }
        }
    }
    if say.send(Ok(started)).is_err() {
        return;
    }
    while asked.recv().is_ok() {
        let mut round = Round { at_ns: now_nanos(), ..Round::default() };
        for (number, place) in cards.iter_mut().enumerate() {
            let Some(card) = place else { continue };
            let readings = &mut round.readings;
            let mut tell = |told: Told| readings.push((number, told));
            if let Err(error) = card.read(round.at_ns, &mut Absent::new(), &mut tell) {
                round.lost.push(gone(number, &error));
                *place = None;
            }
        }
        if answer.send(round).is_err() {
            return;
        }
    }
}

fn versions(nvml: &Nvml) -> Vec<String> {
    let driver = nvml.sys_driver_version().ok().map(|version| format!("driver {version}"));
    let cuda = nvml.sys_cuda_driver_version().ok().map(|version| {
        format!("CUDA {}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version))
    });
    driver.into_iter().chain(cuda).collect()
}

fn gone(number: usize, error: &NvmlError) -> Missing {
    let hint = "`nvidia-smi` and the kernel's log (Xid) say more; a reset or a restart brings it back";
    missing(format!("gpu{number} does not answer any more: {error}"), hint)
}

/// One line for everything that fails for the same reason.
fn untold(number: usize, absent: &Absent) -> Vec<Missing> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (what, why) in absent {
        reasons.entry(why).or_default().push(what);
    }
    let hint = "another card, a newer driver, or on Windows another driver model has it; the rest is read";
    let line = |(why, what): (&str, Vec<&str>)| {
        missing(format!("gpu{number} does not tell its {}: {why}", what.join(", ")), hint)
    };
    reasons.into_iter().map(line).collect()
}

impl Reader for Nvidia {
    fn describe(&self) -> String {
        let gpus = self.devices.iter().zip(&self.names).map(|(device, name)| format!("{device} {name}"));
        let by: Vec<&str> = ["NVML"].into_iter().chain(self.versions.iter().map(String::as_str)).collect();
        format!("{} ({})", gpus.collect::<Vec<_>>().join(", "), by.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let silent = |why: String| missing(why, "does `nvidia-smi` answer? The driver may need a restart");
        loop {
            match self.answers.try_recv() {
                Ok(round) => {
                    self.asked_ns = None;
                    self.told_silence = false;
                    for (number, Told { pid, metric, value }) in round.readings {
                        let Some(device) = self.devices.get(number) else { continue };
                        let whose = pid.map(|pid| format!("process-{pid}/{device}"));
                        let device = whose.as_ref().unwrap_or(device);
                        out(Reading { at_ns: round.at_ns, device, metric, value, source: "nvml" });
                    }
                    lost.extend(round.lost);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    if !std::mem::replace(&mut self.told_silence, true) {
                        lost.push(silent("NVIDIA's library failed while it was asked".to_owned()));
                    }
                    return;
                }
            }
        }
        if let Some(asked_ns) = self.asked_ns {
            let silence_ns = at_ns.saturating_sub(asked_ns);
            if silence_ns >= ANSWERS_WITHIN_NANOS && !std::mem::replace(&mut self.told_silence, true) {
                lost.push(silent(format!(
                    "NVIDIA's library has not answered for {:.1} s",
                    silence_ns as f64 / 1e9
                )));
            }
            return;
        }
        // The answer is there at the next round.
        match self.ask.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => self.asked_ns = Some(at_ns),
            Err(TrySendError::Disconnected(())) => {}
        }
    }
}

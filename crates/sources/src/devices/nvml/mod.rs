//! NVIDIA GPUs through their management library, which is loaded if installed and called on its own thread
//! ([`vendor_library`]).

mod card;

use std::collections::BTreeMap;
use std::path::PathBuf;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use ortscope_core::clock::now_ns;

use self::card::{Absent, Card, CardReading};
use super::vendor_library::{self, LibraryThread, StartError, VendorLibrary};
use super::{Found, Missing, Presence, Reader, Reading, Recovered};

const MAX_GPUS: u32 = 64;
/// Interval for retrying a lost card, which may return after a reset.
const RETRY_NS: u64 = 1_000_000_000;

/// Location of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NvmlLibrary {
    /// The system's search path.
    System,
    At(PathBuf),
    /// Do not load it.
    None,
}

/// Readings of one poll.
#[derive(Debug, Default)]
struct Round {
    at_ns: u64,
    readings: Vec<(usize, CardReading)>,
    lost: Vec<Missing>,
    back: Vec<Recovered>,
}

/// State of the library after startup.
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
    library: VendorLibrary<Round>,
    back: Vec<Recovered>,
}

fn missing(why: String, hint: &str) -> Missing {
    Missing::new("gpu", why, hint)
}

/// Returns the number of GPUs, or `None` without a library, so that other readers may explain what is there.
pub(super) fn find(library: &NvmlLibrary, found: &mut Found) -> Option<usize> {
    if *library == NvmlLibrary::None {
        return None;
    }
    let library = library.clone();
    let started = vendor_library::start("nvml", "NVIDIA's library", move |thread| serve(&library, &thread));
    let (started, library) = match started {
        Ok((Ok(started), library)) => (started, library),
        Ok((Err(NvmlError::LibloadingError(_)), _)) => return None,
        other => {
            found.missing.push(why_not(other.map(|(said, _)| said)));
            return Some(0);
        }
    };
    let gpus = started.names.len();
    found.missing.extend(started.missing);
    if gpus == 0 {
        let why = "NVIDIA's driver lists no GPU".to_owned();
        found.missing.push(missing(why, "in a container: --gpus all"));
        return Some(0);
    }
    let devices = (0..gpus).map(|number| format!("gpu{number}")).collect();
    let Started { names, versions, .. } = started;
    found.readers.push(Box::new(Nvidia { names, versions, devices, library, back: Vec::new() }));
    Some(gpus)
}

fn why_not(started: Result<Result<Started, NvmlError>, StartError>) -> Missing {
    match started {
        Err(StartError::NoThread(error)) => missing(
            format!("the thread for NVML could not be started: {error}"),
            "is the thread limit reached?",
        ),
        Err(StartError::TimedOut) => missing(
            format!("NVIDIA's library did not start within {} s", vendor_library::START_TIMEOUT.as_secs()),
            "does `nvidia-smi` answer? The driver may need a restart",
        ),
        Ok(Err(error)) => missing(
            format!("NVIDIA's library cannot be initialized: {error}"),
            "see `nvidia-smi`; the library and the kernel module must have the same version",
        ),
        Err(StartError::Failed) | Ok(Ok(_)) => {
            missing("NVIDIA's library failed during startup".to_owned(), "see `nvidia-smi`")
        }
    }
}

/// The thread that calls the library.
fn serve(library: &NvmlLibrary, thread: &LibraryThread<Result<Started, NvmlError>, Round>) {
    let LibraryThread { startup, requests, responses } = thread;
    let mut builder = Nvml::builder();
    if let NvmlLibrary::At(path) = library {
        builder.lib_path(path.as_os_str());
    }
    let nvml = match builder.init() {
        Ok(nvml) => nvml,
        Err(error) => {
            startup.send(Err(error)).ok();
            return;
        }
    };
    let count = match nvml.device_count() {
        Ok(count) => count.min(MAX_GPUS),
        Err(error) => {
            startup.send(Err(error)).ok();
            return;
        }
    };
    let mut started = Started { names: Vec::new(), versions: versions(&nvml), missing: Vec::new() };
    let mut slots: Vec<GpuSlot<'_>> = Vec::new();
    for number in 0..count as usize {
        match nvml.device_by_index(number as u32) {
            Ok(device) => {
                let mut card = Card::new(&nvml, device);
                started.names.push(card.name());
                let mut absent = Absent::new();
                // The first readings are dropped: they only initialize the counters.
                let read = card.read(now_ns(), &mut absent, &mut |_| {});
                match &read {
                    Ok(()) => started.missing.extend(unavailable(number, &absent)),
                    Err(error) => started.missing.push(gone(number, error)),
                }
                slots.push(GpuSlot { is_there: read.is_ok(), card: Some(card), ..GpuSlot::default() });
            }
            Err(error) => {
                started.names.push("(cannot be opened)".to_owned());
                let hint = "see `nvidia-smi`; in a container, pass the device and its permissions";
                started.missing.push(missing(format!("gpu{number} cannot be opened: {error}"), hint));
                slots.push(GpuSlot::default());
            }
        }
    }
    if startup.send(Ok(started)).is_err() {
        return;
    }
    while requests.recv().is_ok() {
        let mut round = Round { at_ns: now_ns(), ..Round::default() };
        for (number, slot) in slots.iter_mut().enumerate() {
            if !slot.is_there && round.at_ns.saturating_sub(slot.retried_ns) >= RETRY_NS {
                slot.retried_ns = round.at_ns;
                slot.is_there = slot.reopen(&nvml, number);
            }
            let Some(card) = slot.card.as_mut().filter(|_| slot.is_there) else { continue };
            let readings = &mut round.readings;
            let mut keep = |reading: CardReading| readings.push((number, reading));
            match card.read(round.at_ns, &mut Absent::new(), &mut keep) {
                Ok(()) => slot.presence.find(round.at_ns, &mut round.back),
                Err(error) => {
                    slot.presence.lose(round.at_ns, || gone(number, &error), &mut round.lost);
                    (slot.is_there, slot.retried_ns) = (false, round.at_ns);
                }
            }
        }
        if responses.send(round).is_err() {
            return;
        }
    }
}

/// One GPU index, whether or not its card is present.
#[derive(Default)]
struct GpuSlot<'a> {
    /// A lost card is kept for its counters.
    card: Option<Card<'a>>,
    is_there: bool,
    presence: Presence,
    /// Time of the last retry while it is lost.
    retried_ns: u64,
}

impl<'a> GpuSlot<'a> {
    /// Whether the card answers. Its first readings are dropped because it may have been off in between.
    fn reopen(&mut self, nvml: &'a Nvml, number: usize) -> bool {
        let Ok(device) = nvml.device_by_index(number as u32) else { return false };
        let card = match &mut self.card {
            Some(card) => {
                card.renew(device);
                card
            }
            none => none.insert(Card::new(nvml, device)),
        };
        card.read(now_ns(), &mut Absent::new(), &mut |_| {}).is_ok()
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
    let hint = "see `nvidia-smi` and the kernel log (Xid); a reset or a restart may restore it";
    missing(format!("gpu{number} no longer answers: {error}"), hint)
}

/// One entry for all figures with the same reason.
fn unavailable(number: usize, absent: &Absent) -> Vec<Missing> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (what, why) in absent {
        reasons.entry(why).or_default().push(what);
    }
    let hint =
        "another card, a newer driver, or another driver model on Windows has it; other readings continue";
    let line = |(why, what): (&str, Vec<&str>)| {
        missing(format!("gpu{number} does not report its {}: {why}", what.join(", ")), hint)
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
        let (devices, recovered_cards) = (&self.devices, &mut self.back);
        let silent = |why: String| missing(why, "does `nvidia-smi` answer? The driver may need a restart");
        self.library.poll(at_ns, silent, lost, |round, lost| {
            recovered_cards.extend(round.back);
            for (number, CardReading { pid, metric, value }) in round.readings {
                let Some(device) = devices.get(number) else { continue };
                let process_device = pid.map(|pid| format!("process-{pid}/{device}"));
                let device = process_device.as_ref().unwrap_or(device);
                out(Reading { at_ns: round.at_ns, device, metric, value, source: "nvml" });
            }
            lost.extend(round.lost);
        });
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        self.library.take_recovered(back);
        back.append(&mut self.back);
    }
}

//! NVIDIA's GPUs by their own library, which is loaded if it is there.
//!
//! Its calls are made by a thread of their own ([`asked`]).

mod card;

use std::collections::BTreeMap;
use std::path::PathBuf;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use ortscope_core::clock::now_ns;

use self::card::{Absent, Card, Told};
use super::asked::{self, Asked, NotStarted, Thread};
use super::presence::Presence;
use super::{Back, Found, Missing, Reader, Reading};

const MAX_GPUS: u32 = 64;
/// A card that was lost is asked again this often: after a reset it may be there.
const ASK_AGAIN_NS: u64 = 1_000_000_000;

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
    back: Vec<Back>,
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
    library: Asked<Round>,
    back: Vec<Back>,
}

fn missing(why: String, hint: &str) -> Missing {
    Missing { what: "gpu", why, hint: hint.to_owned() }
}

/// How many GPUs it shows. `None`: there is no library, so that others may say what there is.
pub(super) fn find(library: &NvmlLibrary, found: &mut Found) -> Option<usize> {
    if *library == NvmlLibrary::None {
        return None;
    }
    let library = library.clone();
    let started = asked::start("nvml", "NVIDIA's library", move |thread| serve(&library, &thread));
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
        let why = "NVIDIA's driver shows no GPU".to_owned();
        found.missing.push(missing(why, "in a container: --gpus all"));
        return Some(0);
    }
    let devices = (0..gpus).map(|number| format!("gpu{number}")).collect();
    let Started { names, versions, .. } = started;
    found.readers.push(Box::new(Nvidia { names, versions, devices, library, back: Vec::new() }));
    Some(gpus)
}

fn why_not(started: Result<Result<Started, NvmlError>, NotStarted>) -> Missing {
    match started {
        Err(NotStarted::NoThread(error)) => {
            missing(format!("no thread for NVML could be started: {error}"), "are there too many?")
        }
        Err(NotStarted::Hangs) => missing(
            format!("NVIDIA's library did not start within {} s", asked::STARTS_WITHIN.as_secs()),
            "does `nvidia-smi` answer? The driver may need a restart",
        ),
        Ok(Err(error)) => missing(
            format!("NVIDIA's library does not start: {error}"),
            "`nvidia-smi` says more; library and kernel module must be of one version",
        ),
        Err(NotStarted::Failed) | Ok(Ok(_)) => {
            missing("NVIDIA's library failed while it started".to_owned(), "`nvidia-smi` says more")
        }
    }
}

/// The thread that asks the library.
fn serve(library: &NvmlLibrary, thread: &Thread<Result<Started, NvmlError>, Round>) {
    let Thread { say, asked, answer } = thread;
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
        Ok(count) => count.min(MAX_GPUS),
        Err(error) => {
            say.send(Err(error)).ok();
            return;
        }
    };
    let mut started = Started { names: Vec::new(), versions: versions(&nvml), missing: Vec::new() };
    let mut places: Vec<Place<'_>> = Vec::new();
    for number in 0..count as usize {
        match nvml.device_by_index(number as u32) {
            Ok(device) => {
                let mut card = Card::new(&nvml, device);
                started.names.push(card.name());
                let mut absent = Absent::new();
                // What the first round says is not kept: counters begin with it.
                let read = card.read(now_ns(), &mut absent, &mut |_| {});
                match &read {
                    Ok(()) => started.missing.extend(untold(number, &absent)),
                    Err(error) => started.missing.push(gone(number, error)),
                }
                places.push(Place { is_there: read.is_ok(), card: Some(card), ..Place::default() });
            }
            Err(error) => {
                started.names.push("that does not open".to_owned());
                let hint = "`nvidia-smi` says more; in a container pass the device on, or ask for its rights";
                started.missing.push(missing(format!("gpu{number} does not open: {error}"), hint));
                places.push(Place::default());
            }
        }
    }
    if say.send(Ok(started)).is_err() {
        return;
    }
    while asked.recv().is_ok() {
        let mut round = Round { at_ns: now_ns(), ..Round::default() };
        for (number, place) in places.iter_mut().enumerate() {
            if !place.is_there && round.at_ns.saturating_sub(place.asked_ns) >= ASK_AGAIN_NS {
                place.asked_ns = round.at_ns;
                place.is_there = place.opens_again(&nvml, number);
            }
            let Some(card) = place.card.as_mut().filter(|_| place.is_there) else { continue };
            let readings = &mut round.readings;
            let mut tell = |told: Told| readings.push((number, told));
            match card.read(round.at_ns, &mut Absent::new(), &mut tell) {
                Ok(()) => place.presence.find(round.at_ns, &mut round.back),
                Err(error) => {
                    place.presence.lose(round.at_ns, || gone(number, &error), &mut round.lost);
                    (place.is_there, place.asked_ns) = (false, round.at_ns);
                }
            }
        }
        if answer.send(round).is_err() {
            return;
        }
    }
}

/// Where a card is, or was.
#[derive(Default)]
struct Place<'a> {
    /// One that is lost is kept for what it has counted.
    card: Option<Card<'a>>,
    is_there: bool,
    presence: Presence,
    /// When it was last asked for, while it is lost.
    asked_ns: u64,
}

impl<'a> Place<'a> {
    /// Whether it answers. What it says is not kept: it may have been switched off in between.
    fn opens_again(&mut self, nvml: &'a Nvml, number: usize) -> bool {
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
        let (devices, cards_back) = (&self.devices, &mut self.back);
        let silent = |why: String| missing(why, "does `nvidia-smi` answer? The driver may need a restart");
        self.library.round(at_ns, silent, lost, |round, lost| {
            cards_back.extend(round.back);
            for (number, Told { pid, metric, value }) in round.readings {
                let Some(device) = devices.get(number) else { continue };
                let whose = pid.map(|pid| format!("process-{pid}/{device}"));
                let device = whose.as_ref().unwrap_or(device);
                out(Reading { at_ns: round.at_ns, device, metric, value, source: "nvml" });
            }
            lost.extend(round.lost);
        });
    }

    fn came_back(&mut self, back: &mut Vec<Back>) {
        self.library.came_back(back);
        back.append(&mut self.back);
    }
}

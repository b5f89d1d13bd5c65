//! NVIDIA's GPUs by their own library, which is loaded if it is there.
//!
//! Its calls have hung, and have taken programs with them, when a driver was reset. They are made by a thread of their
//! own, in this process and never in an observed one; who does not get an answer goes on without.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use nvml_wrapper::Device;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use ortscope_core::clock::now_nanos;
use ortscope_decode::energy_counter::{EnergyCounter, Step};

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
    readings: Vec<(usize, &'static str, f64)>,
    lost: Vec<Missing>,
}

struct Nvidia {
    names: Vec<String>,
    devices: Vec<String>,
    ask: SyncSender<()>,
    answers: Receiver<Round>,
    /// When a question was asked that has no answer yet.
    asked_ns: Option<u64>,
    told_silence: bool,
}

/// How many GPUs it shows. `None`: there is no library, so that others may say what there is.
pub(super) fn find(library: &NvmlLibrary, found: &mut Found) -> Option<usize> {
    if *library == NvmlLibrary::None {
        return None;
    }
    let mut gpus = 0;
    let missing = |why: String, hint: &str| Missing { what: "gpu", why, hint: hint.to_owned() };
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
        Ok(Ok(names)) if names.is_empty() => {
            found
                .missing
                .push(missing("NVIDIA's driver shows no GPU".to_owned(), "in a container: --gpus all"));
        }
        Ok(Ok(names)) => {
            gpus = names.len();
            let devices = (0..gpus).map(|number| format!("gpu{number}")).collect();
            let reader = Nvidia { names, devices, ask, answers, asked_ns: None, told_silence: false };
            found.readers.push(Box::new(reader));
        }
        Ok(Err(NvmlError::LibloadingError(_))) => return None,
        Ok(Err(error)) => {
            let why = format!("NVIDIA's library does not start: {error}");
            found.missing.push(missing(
                why,
                "`nvidia-smi` says more; library and kernel module must be of one version",
            ));
        }
        Err(RecvTimeoutError::Timeout) => {
            let why = format!("NVIDIA's library did not start within {} s", STARTS_WITHIN.as_secs());
            found.missing.push(missing(why, "does `nvidia-smi` answer? The driver may need a restart"));
        }
        Err(RecvTimeoutError::Disconnected) => {
            found.missing.push(missing(
                "NVIDIA's library failed while it started".to_owned(),
                "`nvidia-smi` says more",
            ));
        }
    }
    Some(gpus)
}

/// The thread that asks the library.
fn serve(
    library: &NvmlLibrary,
    say: &SyncSender<Result<Vec<String>, NvmlError>>,
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
    let count = nvml.device_count().unwrap_or(0).min(MOST_GPUS);
    let mut gpus: Vec<Option<Gpu<'_>>> =
        (0..count).map(|index| nvml.device_by_index(index).ok().map(Gpu::new)).collect();
    let names = gpus.iter().map(|gpu| gpu.as_ref().map_or_else(|| "?".to_owned(), Gpu::name)).collect();
    if say.send(Ok(names)).is_err() {
        return;
    }
    while asked.recv().is_ok() {
        let mut round = Round { at_ns: now_nanos(), ..Round::default() };
        for (number, place) in gpus.iter_mut().enumerate() {
            let Some(gpu) = place else { continue };
            if let Err(error) = gpu.read(number, &mut round) {
                round.lost.push(Missing {
                    what: "gpu",
                    why: format!("gpu{number} does not answer any more: {error}"),
                    hint: "`nvidia-smi` and the kernel's log (Xid) say more; a reset or a restart brings it back".to_owned(),
                });
                *place = None;
            }
        }
        if answer.send(round).is_err() {
            return;
        }
    }
}

struct Gpu<'a> {
    device: Device<'a>,
    energy: EnergyCounter,
}

impl<'a> Gpu<'a> {
    fn new(device: Device<'a>) -> Self {
        Self { device, energy: EnergyCounter::new(None) }
    }

    fn name(&self) -> String {
        self.device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned())
    }

    /// What a card does not support is left out; the error is that the card is gone.
    fn read(&mut self, number: usize, round: &mut Round) -> Result<(), NvmlError> {
        let device = &self.device;
        let mut tell = |metric, value: f64| round.readings.push((number, metric, value));
        if let Some(use_) = there(device.utilization_rates())? {
            tell("utilization_ratio", f64::from(use_.gpu) / 100.0);
            tell("memory_busy_ratio", f64::from(use_.memory) / 100.0);
        }
        if let Some(memory) = there(device.memory_info())? {
            tell("memory_used_bytes", memory.used as f64);
            tell("memory_total_bytes", memory.total as f64);
        }
        if let Some(milliwatts) = there(device.power_usage())? {
            tell("power_watts", f64::from(milliwatts) / 1e3);
        }
        if let Some(millijoules) = there(device.total_energy_consumption())?
            && let Step::Used(_) = self.energy.advance(millijoules)
        {
            tell("energy_joules", self.energy.total() as f64 / 1e3);
        }
        if let Some(celsius) = there(device.temperature(TemperatureSensor::Gpu))? {
            tell("temperature_celsius", f64::from(celsius));
        }
        if let Some(megahertz) = there(device.clock_info(Clock::SM))? {
            tell("frequency_hertz", f64::from(megahertz) * 1e6);
        }
        if let Some(reasons) = there(device.current_throttle_reasons())? {
            tell("throttle_reasons", reasons.bits() as f64);
        }
        Ok(())
    }
}

/// A value, nothing where this card or this driver does not have it, or that the card is gone.
fn there<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::Uninitialized | NvmlError::ResetRequired)) => Err(error),
        Err(_) => Ok(None),
    }
}

impl Reader for Nvidia {
    fn describe(&self) -> String {
        let gpus = self.devices.iter().zip(&self.names).map(|(device, name)| format!("{device} {name}"));
        format!("{} (NVML)", gpus.collect::<Vec<_>>().join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let silent = |why: String| Missing {
            what: "gpu",
            why,
            hint: "does `nvidia-smi` answer? The driver may need a restart".to_owned(),
        };
        loop {
            match self.answers.try_recv() {
                Ok(round) => {
                    self.asked_ns = None;
                    self.told_silence = false;
                    for (number, metric, value) in round.readings {
                        let Some(device) = self.devices.get(number) else { continue };
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

//! AMD GPU data that the driver's files lack, from AMD's management libraries (amdsmi, or else rocm-smi): energy, power
//! cap and compute processes. The libraries are loaded if installed and are called on their own thread
//! ([`vendor_library`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use ortscope_core::clock::now_ns;

use super::clients::Names;
use super::energy_meter::{EnergyDomain, EnergyMeter};
use super::vendor_library::{self, LibraryThread, StartError, VendorLibrary};
use super::{Found, Missing, Presence, Reader, Reading, Recovered};

/// Power caps and processes change slowly and are expensive to query. Failed queries are repeated at this interval too.
const SLOW_NS: u64 = 1_000_000_000;
/// Limit for reported processes per card.
const MAX_PROCESSES: usize = 64;
/// Values outside this range are not microwatts: the library has an unknown version.
const PLAUSIBLE_MICROWATTS: std::ops::RangeInclusive<u64> = 1_000_000..=10_000_000_000;

/// Location of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AmdLibrary {
    /// The locations used by the system and by ROCm packages.
    System,
    At(PathBuf),
    /// Do not load it.
    None,
}

/// A loaded library; each query returns a value or the reason for its absence.
pub trait AmdSmi {
    /// `amdsmi` or `rocm-smi`.
    fn name(&self) -> &'static str;
    /// PCI addresses of its cards, in the library's order.
    fn cards(&self) -> &[PciAddress];
    /// Energy since the driver was loaded.
    fn energy_microjoules(&mut self, card: usize) -> Result<f64, String>;
    fn power_cap_microwatts(&mut self, card: usize) -> Result<u64, String>;
    /// Processes with at least one known figure.
    fn processes(&mut self, card: usize) -> Result<Vec<SmiProcess>, String>;
}

/// Why no library is available.
#[derive(Debug, PartialEq, Eq)]
pub enum NoLibrary {
    NotInstalled,
    Because(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciAddress(pub u64);

impl PciAddress {
    /// Formats the address like the kernel. Both libraries have the function in bits 0 to 2, the device in 3 to 7
    /// and the bus in 8 to 15.
    fn text(self, domain: u64) -> String {
        format!("{domain:04x}:{:02x}:{:02x}.{}", (self.0 >> 8) & 0xFF, (self.0 >> 3) & 0x1F, self.0 & 7)
    }

    /// The domain begins at bit 16 in amdsmi and at bit 32 in rocm-smi, which stores the partition below it.
    fn texts(self) -> [String; 2] {
        [self.text(self.0 >> 16), self.text(self.0 >> 32)]
    }
}

/// A process that computes on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmiProcess {
    pub pid: u32,
    pub memory_bytes: Option<u64>,
    /// `None` if the driver does not count it.
    pub compute_unit_percent: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct CardReading {
    card: usize,
    pid: Option<u32>,
    metric: &'static str,
    value: f64,
}

#[derive(Debug, Default)]
struct Round {
    at_ns: u64,
    readings: Vec<CardReading>,
    lost: Vec<Missing>,
    back: Vec<Recovered>,
}

struct Started {
    library: &'static str,
    missing: Vec<Missing>,
}

const ENERGY: usize = 0;
const CAP: usize = 1;
const PROCESSES: usize = 2;
/// Indexed by the constants above.
const FIGURES: [&str; 3] = ["energy", "power cap", "processes"];

/// One of the library's cards, with its device name.
struct Card {
    index: usize,
    device: String,
    energy: EnergyMeter,
    answers: Presence,
    /// Availability of each figure while the card answers other queries.
    figures: [Presence; 3],
}

struct Amd {
    library: VendorLibrary<Round>,
    name: &'static str,
    devices: Vec<String>,
    back: Vec<Recovered>,
}

fn missing(why: String, hint: &str) -> Missing {
    Missing::new("gpu", why, hint)
}

/// Loads a library if there is an AMD card. Cards are matched by PCI address.
pub(super) fn find(library: &AmdLibrary, names: &Names, amd: &[String], found: &mut Found) {
    if *library == AmdLibrary::None || amd.is_empty() {
        return;
    }
    let named: BTreeMap<String, String> = amd
        .iter()
        .filter_map(|address| Some((address.clone(), names.get(address)?.device.clone())))
        .collect();
    let devices: Vec<String> = named.values().cloned().collect();
    let (library, told_names) = (library.clone(), devices.clone());
    let started = vendor_library::start("amd-smi", "AMD's library", move |thread| {
        serve(&library, &named, &told_names, thread);
    });
    let hint = "`amd-smi` or `rocm-smi` shows details; the driver's files are still read";
    match started {
        Ok((Ok(started), asked)) => {
            found.missing.extend(started.missing);
            found.readers.push(Box::new(Amd { library: asked, name: started.library, devices, back: Vec::new() }));
        }
        Ok((Err(NoLibrary::NotInstalled), _)) => found.missing.push(Missing::new(
            "gpu_energy",
            "AMD's library (libamd_smi.so or librocm_smi64.so) is not installed, so GPU energy is not counted",
            "install ROCm's package amd-smi-lib; until then power is integrated over time",
        )),
        Ok((Err(NoLibrary::Because(why)), _)) => found.missing.push(missing(why, hint)),
        Err(StartError::NoThread(error)) => {
            found.missing.push(missing(format!("the thread for AMD's library could not be started: {error}"), hint));
        }
        Err(StartError::TimedOut) => {
            let seconds = vendor_library::START_TIMEOUT.as_secs();
            found.missing.push(missing(format!("AMD's library did not start within {seconds} s"), hint));
        }
        Err(StartError::Failed) => {
            found.missing.push(missing("AMD's library failed during startup".to_owned(), hint));
        }
    }
}

/// The thread that calls the library.
fn serve(
    library: &AmdLibrary,
    named: &BTreeMap<String, String>,
    devices: &[String],
    thread: LibraryThread<Result<Started, NoLibrary>, Round>,
) {
    let LibraryThread { startup, requests, responses } = thread;
    let mut smi = match crate::sys::amd_smi(library) {
        Ok(smi) => smi,
        Err(why) => {
            startup.send(Err(why)).ok();
            return;
        }
    };
    let device_of = |address: &PciAddress| address.texts().iter().find_map(|text| named.get(text)).cloned();
    let known: Vec<(usize, String)> = smi
        .cards()
        .iter()
        .enumerate()
        .filter_map(|(index, address)| Some((index, device_of(address)?)))
        .collect();
    if known.is_empty() {
        let why = format!("{} lists no card with an address known to the kernel", smi.name());
        startup.send(Err(NoLibrary::Because(why))).ok();
        return;
    }
    let mut started = Started { library: smi.name(), missing: Vec::new() };
    let mut cards: Vec<Card> = Vec::new();
    for (index, device) in known {
        let (card, unavailable) = Card::open(&mut *smi, index, device);
        started.missing.extend(unavailable);
        cards.push(card);
    }
    if startup.send(Ok(started)).is_err() {
        return;
    }
    let mut slow_ns = None;
    while requests.recv().is_ok() {
        let mut round = Round { at_ns: now_ns(), ..Round::default() };
        let is_slow = slow_ns.is_none_or(|last_ns: u64| round.at_ns.saturating_sub(last_ns) >= SLOW_NS);
        slow_ns = if is_slow { Some(round.at_ns) } else { slow_ns };
        for card in &mut cards {
            let place = devices.iter().position(|device| *device == card.device).unwrap_or(usize::MAX);
            card.read(&mut *smi, place, is_slow, &mut round);
        }
        if responses.send(round).is_err() {
            return;
        }
    }
}

impl Card {
    /// Queries every figure once and returns the reasons for missing ones.
    fn open(smi: &mut dyn AmdSmi, index: usize, device: String) -> (Self, Vec<Missing>) {
        let mut card = Self {
            index,
            device,
            energy: EnergyMeter::new(EnergyDomain::Gpu, None, 1e-6),
            answers: Presence::default(),
            figures: Default::default(),
        };
        let (mut unavailable, mut first) = (Vec::new(), Round { at_ns: now_ns(), ..Round::default() });
        for figure in [ENERGY, CAP, PROCESSES] {
            if let Err(why) = card.query(smi, 0, figure, &mut first) {
                let why =
                    format!("{} does not report {}'s {}: {why}", smi.name(), card.device, FIGURES[figure]);
                let hint = "another card or a newer driver has it; other readings continue";
                card.figures[figure].lose(first.at_ns, || missing(why, hint), &mut unavailable);
            }
        }
        (card, unavailable)
    }

    /// A call may fail temporarily (the card is busy), and a card may return after a reset, so missing figures are
    /// queried again together with the slow ones.
    fn read(&mut self, smi: &mut dyn AmdSmi, card: usize, is_slow: bool, round: &mut Round) {
        if self.answers.is_lost() && !is_slow {
            return;
        }
        let mut answers: [Option<Result<(), String>>; 3] = Default::default();
        if is_slow || !self.figures[ENERGY].is_lost() {
            answers[ENERGY] = Some(self.query(smi, card, ENERGY, round));
        }
        // The other figures show whether the card fails or only this figure.
        if is_slow || matches!(answers[ENERGY], Some(Err(_))) {
            for figure in [CAP, PROCESSES] {
                answers[figure] = Some(self.query(smi, card, figure, round));
            }
        }
        let hint = "see `dmesg | grep amdgpu`; a reset or a restart may restore it";
        let (at_ns, device) = (round.at_ns, &self.device);
        if !answers.iter().flatten().any(Result::is_ok) {
            // The reasons for a card that has never answered are already known.
            let was_reported = self.figures.iter().any(|figure| !figure.is_lost());
            if let Some(Err(why)) = answers.iter().flatten().next().filter(|_| was_reported) {
                let gone = || missing(format!("{device} no longer answers: {why}"), hint);
                self.answers.lose(at_ns, gone, &mut round.lost);
            }
            return;
        }
        self.answers.find(at_ns, &mut round.back);
        for ((answer, presence), figure) in answers.iter().zip(&mut self.figures).zip(FIGURES) {
            match answer {
                Some(Ok(())) => presence.find(at_ns, &mut round.back),
                Some(Err(why)) => {
                    let gone = || missing(format!("{device} no longer reports its {figure}: {why}"), hint);
                    presence.lose(at_ns, gone, &mut round.lost);
                }
                None => {}
            }
        }
    }

    /// Queries one figure and adds it to the round.
    fn query(
        &mut self,
        smi: &mut dyn AmdSmi,
        card: usize,
        figure: usize,
        round: &mut Round,
    ) -> Result<(), String> {
        let Round { at_ns, readings, lost, back } = round;
        let mut emit = |pid, metric, value| readings.push(CardReading { card, pid, metric, value });
        match figure {
            ENERGY => {
                let count = smi.energy_microjoules(self.index).and_then(checked_microjoules)?;
                if let Some(used) = self.energy.advance(*at_ns, count, &self.device, lost, back) {
                    emit(None, "energy_joules", used.joules);
                }
            }
            CAP => {
                let cap = smi.power_cap_microwatts(self.index).and_then(checked_cap)?;
                emit(None, "power_limit_watts", cap as f64 / 1e6);
            }
            _ => {
                for process in smi.processes(self.index)?.into_iter().take(MAX_PROCESSES) {
                    let pid = Some(process.pid);
                    if let Some(bytes) = process.memory_bytes {
                        emit(pid, "compute_memory_bytes", bytes as f64);
                    }
                    if let Some(percent) = process.compute_unit_percent {
                        emit(pid, "compute_unit_ratio", f64::from(percent) / 100.0);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Converts to a counter of whole microjoules.
fn checked_microjoules(microjoules: f64) -> Result<u64, String> {
    if microjoules.is_finite() && (0.0..1e18).contains(&microjoules) {
        Ok(microjoules as u64)
    } else {
        Err(format!("{microjoules} µJ is not an energy"))
    }
}

fn checked_cap(microwatts: u64) -> Result<u64, String> {
    if PLAUSIBLE_MICROWATTS.contains(&microwatts) {
        Ok(microwatts)
    } else {
        Err(format!("{microwatts} µW is not a power cap: is the library a different version?"))
    }
}

impl Reader for Amd {
    fn describe(&self) -> String {
        format!("energy and processes of {} ({})", self.devices.join(", "), self.name)
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let (devices, source, cards_back) = (&self.devices, self.name, &mut self.back);
        let silent = |why: String| missing(why, "does `amd-smi` answer? The driver may need a restart");
        self.library.poll(at_ns, silent, lost, |round, lost| {
            cards_back.extend(round.back);
            for CardReading { card, pid, metric, value } in round.readings {
                let Some(device) = devices.get(card) else { continue };
                let process_device = pid.map(|pid| format!("process-{pid}/{device}"));
                let device = process_device.as_ref().unwrap_or(device);
                out(Reading { at_ns: round.at_ns, device, metric, value, source });
            }
            lost.extend(round.lost);
        });
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        self.library.take_recovered(back);
        back.append(&mut self.back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_address_formats_match_the_kernel() {
        // Domain 0, bus 0x43, device 0, function 0; then domain 1 in each library's format.
        assert_eq!(PciAddress(0x4300).texts()[0], "0000:43:00.0");
        assert_eq!(PciAddress(0x1_43_0A).texts()[0], "0001:43:01.2");
        assert_eq!(PciAddress(0x1_0000_430A).texts()[1], "0001:43:01.2");
    }

    #[test]
    fn impossible_values_are_rejected() {
        assert_eq!(checked_cap(300_000_000), Ok(300_000_000));
        // Watts instead of microwatts, then garbage.
        assert!(checked_cap(300).is_err() && checked_cap(u64::MAX).is_err());
        assert_eq!(checked_microjoules(1.5e9), Ok(1_500_000_000));
        assert!(checked_microjoules(f64::NAN).is_err() && checked_microjoules(-1.0).is_err());
    }
}

//! What AMD's management libraries (amdsmi, else rocm-smi) tell of its GPUs beside the driver's files: energy, the cap of
//! power, and compute processes. They are loaded where they are installed, and asked by a thread of their own ([`asked`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use ortscope_core::clock::now_ns;

use super::asked::{self, Asked, NotStarted, Thread};
use super::clients::Names;
use super::counted::{CountedEnergy, Of};
use super::presence::Presence;
use super::{Back, Found, Missing, Reader, Reading};

/// Caps and processes change slowly, and asking for them reads many files. What does not answer is asked again as often.
const SLOW_NS: u64 = 1_000_000_000;
/// Processes of a card that are told.
const MAX_PROCESSES: usize = 64;
/// Caps outside of this are no caps in microwatts: the library speaks another version of its language.
const BELIEVED_MICROWATTS: std::ops::RangeInclusive<u64> = 1_000_000..=10_000_000_000;

/// Where the library is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AmdLibrary {
    /// Where the system and ROCm's packages have it.
    System,
    At(PathBuf),
    /// Not looked for.
    None,
}

/// A library that has started; each answer is a value or why there is none.
pub trait AmdSmi {
    /// `amdsmi` or `rocm-smi`.
    fn name(&self) -> &'static str;
    /// Addresses of its cards on the PCI bus, in the order in which they are asked for.
    fn cards(&self) -> &[PciAddress];
    /// Since the driver was loaded.
    fn energy_microjoules(&mut self, card: usize) -> Result<f64, String>;
    fn power_cap_microwatts(&mut self, card: usize) -> Result<u64, String>;
    /// Those of which something is known.
    fn processes(&mut self, card: usize) -> Result<Vec<SmiProcess>, String>;
}

/// Why there is no library to ask.
#[derive(Debug, PartialEq, Eq)]
pub enum NoLibrary {
    NotInstalled,
    Because(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciAddress(pub u64);

impl PciAddress {
    /// As the kernel writes it. Both libraries have the function in bits 0 to 2, the device in 3 to 7 and the bus in 8 to 15.
    fn text(self, domain: u64) -> String {
        format!("{domain:04x}:{:02x}:{:02x}.{}", (self.0 >> 8) & 0xFF, (self.0 >> 3) & 0x1F, self.0 & 7)
    }

    /// The domain begins at bit 16 in amdsmi, and at 32 in rocm-smi, which has the number of a partition below it.
    fn texts(self) -> [String; 2] {
        [self.text(self.0 >> 16), self.text(self.0 >> 32)]
    }
}

/// A process that computes on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmiProcess {
    pub pid: u32,
    pub memory_bytes: Option<u64>,
    /// `None`: this driver does not count them.
    pub compute_unit_percent: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    card: usize,
    pid: Option<u32>,
    metric: &'static str,
    value: f64,
}

#[derive(Debug, Default)]
struct Round {
    at_ns: u64,
    told: Vec<Told>,
    lost: Vec<Missing>,
    back: Vec<Back>,
}

struct Started {
    library: &'static str,
    missing: Vec<Missing>,
}

const ENERGY: usize = 0;
const CAP: usize = 1;
const PROCESSES: usize = 2;
/// In the order of the numbers above.
const FIGURES: [&str; 3] = ["energy", "power cap", "processes"];

/// One card of the library, and the name that it has here.
struct Card {
    index: usize,
    device: String,
    energy: CountedEnergy,
    answers: Presence,
    /// Of each figure, while the card answers to others.
    told: [Presence; 3],
}

struct Amd {
    library: Asked<Round>,
    name: &'static str,
    devices: Vec<String>,
    back: Vec<Back>,
}

fn missing(why: String, hint: &str) -> Missing {
    Missing { what: "gpu", why, hint: hint.to_owned() }
}

/// Asks a library if there is an AMD card to ask it about. Cards are known by their address on the bus.
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
    let started = asked::start("amd-smi", "AMD's library", move |thread| {
        serve(&library, &named, &told_names, thread);
    });
    let hint = "`amd-smi` or `rocm-smi` says more; what the driver's files tell is read all the same";
    match started {
        Ok((Ok(started), asked)) => {
            found.missing.extend(started.missing);
            found.readers.push(Box::new(Amd { library: asked, name: started.library, devices, back: Vec::new() }));
        }
        Ok((Err(NoLibrary::NotInstalled), _)) => found.missing.push(Missing {
            what: "gpu_energy",
            why: "AMD's library is not installed (libamd_smi.so or librocm_smi64.so): energy of its GPUs is not counted"
                .to_owned(),
            hint: "install ROCm's package amd-smi-lib; power of the driver's files is integrated instead".to_owned(),
        }),
        Ok((Err(NoLibrary::Because(why)), _)) => found.missing.push(missing(why, hint)),
        Err(NotStarted::NoThread(error)) => {
            found.missing.push(missing(format!("no thread for AMD's library could be started: {error}"), hint));
        }
        Err(NotStarted::Hangs) => {
            let seconds = asked::STARTS_WITHIN.as_secs();
            found.missing.push(missing(format!("AMD's library did not start within {seconds} s"), hint));
        }
        Err(NotStarted::Failed) => {
            found.missing.push(missing("AMD's library failed while it started".to_owned(), hint));
        }
    }
}

/// The thread that asks the library.
fn serve(
    library: &AmdLibrary,
    named: &BTreeMap<String, String>,
    devices: &[String],
    thread: Thread<Result<Started, NoLibrary>, Round>,
) {
    let Thread { say, asked, answer } = thread;
    let mut smi = match crate::sys::amd_smi(library) {
        Ok(smi) => smi,
        Err(why) => {
            say.send(Err(why)).ok();
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
        let why = format!("{} shows no card that the kernel has at the same address", smi.name());
        say.send(Err(NoLibrary::Because(why))).ok();
        return;
    }
    let mut started = Started { library: smi.name(), missing: Vec::new() };
    let mut cards: Vec<Card> = Vec::new();
    for (index, device) in known {
        let (card, untold) = Card::open(&mut *smi, index, device);
        started.missing.extend(untold);
        cards.push(card);
    }
    if say.send(Ok(started)).is_err() {
        return;
    }
    let mut slow_ns = None;
    while asked.recv().is_ok() {
        let mut round = Round { at_ns: now_ns(), ..Round::default() };
        let is_slow = slow_ns.is_none_or(|last_ns: u64| round.at_ns.saturating_sub(last_ns) >= SLOW_NS);
        slow_ns = if is_slow { Some(round.at_ns) } else { slow_ns };
        for card in &mut cards {
            let place = devices.iter().position(|device| *device == card.device).unwrap_or(usize::MAX);
            card.read(&mut *smi, place, is_slow, &mut round);
        }
        if answer.send(round).is_err() {
            return;
        }
    }
}

impl Card {
    /// Asks everything once: what a card does not tell has a reason.
    fn open(smi: &mut dyn AmdSmi, index: usize, device: String) -> (Self, Vec<Missing>) {
        let mut card = Self {
            index,
            device,
            energy: CountedEnergy::new(Of::Gpu, None, 1e-6),
            answers: Presence::default(),
            told: Default::default(),
        };
        let (mut untold, mut first) = (Vec::new(), Round { at_ns: now_ns(), ..Round::default() });
        for figure in [ENERGY, CAP, PROCESSES] {
            if let Err(why) = card.ask(smi, 0, figure, &mut first) {
                let why =
                    format!("{} does not tell {}'s {}: {why}", smi.name(), card.device, FIGURES[figure]);
                let hint = "another card or a newer driver has it; the rest is read";
                card.told[figure].lose(first.at_ns, || missing(why, hint), &mut untold);
            }
        }
        (card, untold)
    }

    /// One call may fail for a moment (the card is busy), and a card may come back after a reset: what is lost is asked for
    /// again with the slow figures.
    fn read(&mut self, smi: &mut dyn AmdSmi, card: usize, is_slow: bool, round: &mut Round) {
        if self.answers.is_lost() && !is_slow {
            return;
        }
        let mut answers: [Option<Result<(), String>>; 3] = Default::default();
        if is_slow || !self.told[ENERGY].is_lost() {
            answers[ENERGY] = Some(self.ask(smi, card, ENERGY, round));
        }
        // Whether it is the card that does not answer, or this figure, the others say.
        if is_slow || matches!(answers[ENERGY], Some(Err(_))) {
            for figure in [CAP, PROCESSES] {
                answers[figure] = Some(self.ask(smi, card, figure, round));
            }
        }
        let hint = "`dmesg | grep amdgpu` says more; a reset or a restart brings it back";
        let (at_ns, device) = (round.at_ns, &self.device);
        if !answers.iter().flatten().any(Result::is_ok) {
            // One that has never told anything has its reasons already.
            let was_told = self.told.iter().any(|told| !told.is_lost());
            if let Some(Err(why)) = answers.iter().flatten().next().filter(|_| was_told) {
                let gone = || missing(format!("{device} does not answer any more: {why}"), hint);
                self.answers.lose(at_ns, gone, &mut round.lost);
            }
            return;
        }
        self.answers.find(at_ns, &mut round.back);
        for ((answer, told), figure) in answers.iter().zip(&mut self.told).zip(FIGURES) {
            match answer {
                Some(Ok(())) => told.find(at_ns, &mut round.back),
                Some(Err(why)) => {
                    let gone =
                        || missing(format!("{device} does not tell its {figure} any more: {why}"), hint);
                    told.lose(at_ns, gone, &mut round.lost);
                }
                None => {}
            }
        }
    }

    /// One figure, into the round.
    fn ask(
        &mut self,
        smi: &mut dyn AmdSmi,
        card: usize,
        figure: usize,
        round: &mut Round,
    ) -> Result<(), String> {
        let Round { at_ns, told, lost, back } = round;
        let mut tell = |pid, metric, value| told.push(Told { card, pid, metric, value });
        match figure {
            ENERGY => {
                let count = smi.energy_microjoules(self.index).and_then(believed_joules)?;
                if let Some(used) = self.energy.take(*at_ns, count, &self.device, lost, back) {
                    tell(None, "energy_joules", used.joules);
                }
            }
            CAP => {
                let cap = smi.power_cap_microwatts(self.index).and_then(believed_cap)?;
                tell(None, "power_limit_watts", cap as f64 / 1e6);
            }
            _ => {
                for process in smi.processes(self.index)?.into_iter().take(MAX_PROCESSES) {
                    let pid = Some(process.pid);
                    if let Some(bytes) = process.memory_bytes {
                        tell(pid, "compute_memory_bytes", bytes as f64);
                    }
                    if let Some(percent) = process.compute_unit_percent {
                        tell(pid, "compute_unit_ratio", f64::from(percent) / 100.0);
                    }
                }
            }
        }
        Ok(())
    }
}

/// As a counter of whole microjoules.
fn believed_joules(microjoules: f64) -> Result<u64, String> {
    if microjoules.is_finite() && (0.0..1e18).contains(&microjoules) {
        Ok(microjoules as u64)
    } else {
        Err(format!("{microjoules} µJ is no energy"))
    }
}

fn believed_cap(microwatts: u64) -> Result<u64, String> {
    if BELIEVED_MICROWATTS.contains(&microwatts) {
        Ok(microwatts)
    } else {
        Err(format!("{microwatts} µW is no cap of power: is it a library of another version?"))
    }
}

impl Reader for Amd {
    fn describe(&self) -> String {
        format!("energy and processes of {} ({})", self.devices.join(", "), self.name)
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let (devices, source, cards_back) = (&self.devices, self.name, &mut self.back);
        let silent = |why: String| missing(why, "does `amd-smi` answer? The driver may need a restart");
        self.library.round(at_ns, silent, lost, |round, lost| {
            cards_back.extend(round.back);
            for Told { card, pid, metric, value } in round.told {
                let Some(device) = devices.get(card) else { continue };
                let whose = pid.map(|pid| format!("process-{pid}/{device}"));
                let device = whose.as_ref().unwrap_or(device);
                out(Reading { at_ns: round.at_ns, device, metric, value, source });
            }
            lost.extend(round.lost);
        });
    }

    fn came_back(&mut self, back: &mut Vec<Back>) {
        self.library.came_back(back);
        back.append(&mut self.back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_kernels_whichever_library_tells_them() {
        // Domain 0, bus 0x43, device 0, function 0; and domain 1 of either library.
        assert_eq!(PciAddress(0x4300).texts()[0], "0000:43:00.0");
        assert_eq!(PciAddress(0x1_43_0A).texts()[0], "0001:43:01.2");
        assert_eq!(PciAddress(0x1_0000_430A).texts()[1], "0001:43:01.2");
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        assert_eq!(believed_cap(300_000_000), Ok(300_000_000));
        // Watts instead of microwatts, and rubbish.
        assert!(believed_cap(300).is_err() && believed_cap(u64::MAX).is_err());
        assert_eq!(believed_joules(1.5e9), Ok(1_500_000_000));
        assert!(believed_joules(f64::NAN).is_err() && believed_joules(-1.0).is_err());
    }
}

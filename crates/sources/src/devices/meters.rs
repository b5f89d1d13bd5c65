//! Energy from the Windows Energy Meter Interface (EMI). The system functions are behind [`MeterApi`], so that
//! everything else is testable on every system.

use ortscope_decode::emi::{self, JOULES_PER_PICOWATT_HOUR, Meter};

use super::energy_meter::{EnergyDomain, EnergyMeter};
use super::{Found, Missing, Presence, Reader, Reading, Recovered};

const SOURCE: &str = "emi";
/// Maximum length of a device description.
pub const MAX_BYTES: usize = 1 << 16;
/// Limit for open devices: large AMD processors have one per core.
const MAX_METERS: usize = 1024;

/// System functions.
pub trait MeterApi {
    /// Opens every meter, or explains why there is none.
    fn meters(&mut self) -> Result<Vec<Box<dyn MeterDevice>>, String>;
}

/// An open meter. Errors are messages for people.
pub trait MeterDevice: Send {
    fn version(&mut self) -> Result<u16, String>;
    fn description(&mut self) -> Result<Vec<u8>, String>;
    fn measurement(&mut self, channels: usize) -> Result<Vec<u8>, String>;
}

struct Channel {
    device: String,
    energy: EnergyMeter,
    /// Included in a package, or a mirror of another counter: not reported.
    is_ignored: bool,
}

struct Opened {
    device: Box<dyn MeterDevice>,
    channels: Vec<Channel>,
    presence: Presence,
}

struct Meters {
    opened: Vec<Opened>,
    checked_mirrors: bool,
    back: Vec<Recovered>,
}

pub fn find(api: &mut dyn MeterApi, found: &mut Found) {
    let missing = |why: String| {
        let hint = "Windows 11 on bare metal has processor energy counters; virtual machines and most Windows 10 \
                    machines have none";
        Missing::new("energy", why, hint)
    };
    let devices = match api.meters() {
        Ok(devices) => devices,
        Err(why) => {
            found.missing.push(missing(why));
            return;
        }
    };
    let (mut opened, mut why) = (Vec::new(), None);
    for mut device in devices.into_iter().take(MAX_METERS) {
        match describe(device.as_mut()) {
            Ok(names) => {
                let channels = names.iter().map(channel).collect();
                opened.push(Opened { device, channels, presence: Presence::default() });
            }
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    keep_packages(&mut opened);
    if opened.iter().any(|meter| meter.channels.iter().any(|channel| !channel.is_ignored)) {
        found.readers.push(Box::new(Meters { opened, checked_mirrors: false, back: Vec::new() }));
    } else {
        found
            .missing
            .push(missing(why.unwrap_or_else(|| "this machine exposes no energy meter (EMI)".to_owned())));
    }
}

fn describe(device: &mut dyn MeterDevice) -> Result<Vec<Meter>, String> {
    let version = device.version()?;
    let description = emi::describe(version, &device.description()?).map_err(|error| error.to_string())?;
    Ok(description.channels.iter().map(|name| emi::meter(name)).collect())
}

fn channel(meter: &Meter) -> Channel {
    Channel {
        device: meter.device(),
        energy: EnergyMeter::new(EnergyDomain::Machine, None, JOULES_PER_PICOWATT_HOUR),
        is_ignored: false,
    }
}

/// Cores with their own devices are already included in their package.
fn keep_packages(opened: &mut [Opened]) {
    let all = || opened.iter().flat_map(|meter| &meter.channels);
    let has_package = all().any(|channel| channel.device.starts_with("package-"));
    if has_package {
        let is_core = |device: &str| device.starts_with("cores-") && device.matches('-').count() > 1;
        for channel in opened.iter_mut().flat_map(|meter| &mut meter.channels) {
            channel.is_ignored = is_core(&channel.device);
        }
    }
}

impl Reader for Meters {
    fn describe(&self) -> String {
        let channels = self.opened.iter().flat_map(|meter| &meter.channels);
        let names: Vec<&str> =
            channels.filter(|channel| !channel.is_ignored).map(|channel| channel.device.as_str()).collect();
        format!("{} (EMI)", names.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        for meter in &mut self.opened {
            if meter.channels.iter().all(|channel| channel.is_ignored) {
                continue;
            }
            let measured = match meter.device.measurement(meter.channels.len()) {
                Ok(bytes) => emi::measurements(&bytes),
                Err(why) => {
                    let names: Vec<&str> =
                        meter.channels.iter().map(|channel| channel.device.as_str()).collect();
                    let missing = || {
                        Missing::new(
                            "energy",
                            format!("{} can no longer be read: {why}", names.join(", ")),
                            "it was available at the start",
                        )
                    };
                    meter.presence.lose(at_ns, missing, lost);
                    continue;
                }
            };
            meter.presence.find(at_ns, &mut self.back);
            for (channel, measured) in meter.channels.iter_mut().zip(measured) {
                channel.read(at_ns, measured.picowatt_hours, out, lost, &mut self.back);
            }
        }
        let is_ready = || {
            self.opened
                .iter()
                .flat_map(|meter| &meter.channels)
                .all(|c| c.is_ignored || c.energy.has_counted())
        };
        if !self.checked_mirrors && is_ready() {
            self.checked_mirrors = true;
            self.drop_mirrors(lost);
        }
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        back.append(&mut self.back);
    }
}

impl Meters {
    /// On some processors every die shows the same counter, which must not be counted twice.
    fn drop_mirrors(&mut self, lost: &mut Vec<Missing>) {
        let mut seen: Vec<(u64, u64)> = Vec::new();
        for channel in self.opened.iter_mut().flat_map(|meter| &mut meter.channels) {
            if !channel.device.starts_with("package-") || channel.is_ignored {
                continue;
            }
            let state = channel.energy.state();
            if seen.contains(&state) {
                channel.is_ignored = true;
                lost.push(Missing::new(
                    "energy",
                    format!("{} mirrors the counter of another package and is ignored", channel.device),
                    "no action needed: the other counter covers both",
                ));
            } else {
                seen.push(state);
            }
        }
    }
}

impl Channel {
    fn read(
        &mut self,
        at_ns: u64,
        counts: u64,
        out: &mut dyn FnMut(Reading<'_>),
        lost: &mut Vec<Missing>,
        back: &mut Vec<Recovered>,
    ) {
        if self.is_ignored {
            return;
        }
        let Some(used) = self.energy.advance(at_ns, counts, &self.device, lost, back) else { return };
        let mut emit =
            |metric, value| out(Reading { at_ns, device: &self.device, metric, value, source: SOURCE });
        emit("energy_joules", used.joules);
        if let Some(watts) = used.watts {
            emit("power_watts", watts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn wide(text: &str, bytes: usize) -> Vec<u8> {
        let mut wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        wide.resize(bytes, 0);
        wide
    }

    #[derive(Clone)]
    struct Fake {
        version: Result<u16, String>,
        channels: Vec<&'static str>,
        counts: Arc<Mutex<Result<Vec<u64>, String>>>,
    }

    impl Fake {
        fn new(channels: &[&'static str]) -> Self {
            let counts = Arc::new(Mutex::new(Ok(vec![0; channels.len()])));
            Self { version: Ok(2), channels: channels.to_vec(), counts }
        }

        fn set(&self, counts: &[u64]) {
            *self.counts.lock().unwrap() = Ok(counts.to_vec());
        }
    }

    impl MeterDevice for Fake {
        fn version(&mut self) -> Result<u16, String> {
            self.version.clone()
        }

        fn description(&mut self) -> Result<Vec<u8>, String> {
            let mut bytes = wide("maker", 32);
            bytes.extend(wide("model", 32));
            bytes.extend([1, 0]);
            bytes.extend((self.channels.len() as u16).to_le_bytes());
            for name in &self.channels {
                bytes.extend([0; 4]);
                bytes.extend((name.len() as u16 * 2).to_le_bytes());
                bytes.extend(wide(name, name.len() * 2));
            }
            Ok(bytes)
        }

        fn measurement(&mut self, channels: usize) -> Result<Vec<u8>, String> {
            let counts = self.counts.lock().unwrap().clone()?;
            assert_eq!(channels, self.channels.len());
            Ok(counts.iter().flat_map(|count| [count.to_le_bytes(), 7u64.to_le_bytes()].concat()).collect())
        }
    }

    struct Api(Result<Vec<Fake>, String>);

    impl MeterApi for Api {
        fn meters(&mut self) -> Result<Vec<Box<dyn MeterDevice>>, String> {
            let fakes = self.0.clone()?;
            Ok(fakes.into_iter().map(|fake| Box::new(fake) as Box<dyn MeterDevice>).collect())
        }
    }

    fn open(api: Result<Vec<Fake>, String>) -> Found {
        let mut found = Found::default();
        find(&mut Api(api), &mut found);
        found
    }

    fn read(found: &mut Found, at_ns: u64) -> (Vec<String>, Vec<String>) {
        let (mut readings, mut lost) = (Vec::new(), Vec::new());
        let mut out = |reading: Reading<'_>| {
            readings.push(format!("{} {} {:.3}", reading.device, reading.metric, reading.value));
        };
        found.readers[0].read(at_ns, &mut out, &mut lost);
        (readings, lost.into_iter().map(|missing| missing.why).collect())
    }

    const SECOND: u64 = 1_000_000_000;
    /// One joule in picowatt hours.
    const JOULE: u64 = 277_777_778;

    #[test]
    fn a_package_is_reported_without_its_cores() {
        let (package, core) = (
            Fake::new(&["RAPL_Package0_PKG", "RAPL_Package0_DRAM"]),
            Fake::new(&["RAPL_Package0_Core0_CORE"]),
        );
        let mut found = open(Ok(vec![package.clone(), core]));
        assert_eq!(found.readers[0].describe(), "package-0, dram-0 (EMI)");
        package.set(&[5 * JOULE, JOULE]);
        assert_eq!(read(&mut found, SECOND), (vec![], vec![]));
        package.set(&[45 * JOULE, 2 * JOULE]);
        let (readings, lost) = read(&mut found, 3 * SECOND);
        let expected = [
            "package-0 energy_joules 40.000",
            "package-0 power_watts 20.000",
            "dram-0 energy_joules 1.000",
            "dram-0 power_watts 0.500",
        ];
        assert_eq!((readings.as_slice(), lost.len()), (expected.map(str::to_owned).as_slice(), 0));
        // A reset adds nothing, and the total is kept.
        package.set(&[0, 2 * JOULE]);
        assert_eq!(read(&mut found, 4 * SECOND).0, Vec::<String>::new());
        package.set(&[JOULE, 2 * JOULE]);
        assert_eq!(read(&mut found, 5 * SECOND).0[0], "package-0 energy_joules 41.000");
        *package.counts.lock().unwrap() = Err("error 1167".to_owned());
        let (_, lost) = read(&mut found, 6 * SECOND);
        assert_eq!(lost, ["package-0, dram-0 can no longer be read: error 1167"]);
    }

    #[test]
    fn mirrored_and_stuck_counters_are_reported() {
        let (one, two) = (Fake::new(&["RAPL_Package0_PKG"]), Fake::new(&["RAPL_Package1_PKG"]));
        let mut found = open(Ok(vec![one.clone(), two.clone()]));
        read(&mut found, SECOND);
        one.set(&[JOULE]);
        two.set(&[JOULE]);
        let (_, lost) = read(&mut found, 2 * SECOND);
        assert_eq!(lost, ["package-1 mirrors the counter of another package and is ignored"]);
        let still = Fake::new(&["SYS"]);
        let mut found = open(Ok(vec![still]));
        let reasons: Vec<String> = (1..9).flat_map(|second| read(&mut found, second * SECOND).1).collect();
        assert_eq!(reasons, ["psys has an energy counter that does not advance"]);
    }

    #[test]
    fn a_missing_meter_has_a_reason() {
        let refused =
            Fake { version: Err("GET_VERSION failed with error 50".to_owned()), ..Fake::new(&["x"]) };
        let newer = Fake { version: Ok(9), ..Fake::new(&["x"]) };
        for (api, why) in [
            (Ok(vec![]), "no energy meter"),
            (Ok(vec![refused]), "error 50"),
            (Ok(vec![newer]), "version 9"),
            (Err("cfgmgr32.dll has no such function".to_owned()), "no such function"),
        ] {
            let found = open(api);
            assert!(found.readers.is_empty() && found.missing[0].why.contains(why), "{found:?}");
            assert!(found.missing[0].hint.contains("Windows 11"));
        }
    }
}

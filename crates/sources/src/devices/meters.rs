//! Energy by Windows' Energy Meter Interface. The functions of the system stand behind [`MeterApi`], so that everything
//! else is tested on every system.

use ortscope_decode::emi::{self, JOULES_PER_PICOWATT_HOUR, Meter};

use super::counted::{CountedEnergy, Of};
use super::presence::Presence;
use super::{Back, Found, Missing, Reader, Reading};

const SOURCE: &str = "emi";
/// A description that is longer is none.
pub const MAX_BYTES: usize = 1 << 16;
/// Devices that are opened: a large processor of AMD has one per core.
const MAX_METERS: usize = 1024;

/// Functions of the system.
pub trait MeterApi {
    /// Opens every meter that there is; the text says why there is none.
    fn meters(&mut self) -> Result<Vec<Box<dyn MeterDevice>>, String>;
}

/// An open meter. Errors are words for people.
pub trait MeterDevice: Send {
    fn version(&mut self) -> Result<u16, String>;
    fn description(&mut self) -> Result<Vec<u8>, String>;
    fn measurement(&mut self, channels: usize) -> Result<Vec<u8>, String>;
}

struct Channel {
    device: String,
    energy: CountedEnergy,
    /// In a package already, or a mirror of another: not told.
    is_left_out: bool,
}

struct Opened {
    device: Box<dyn MeterDevice>,
    channels: Vec<Channel>,
    presence: Presence,
}

struct Meters {
    opened: Vec<Opened>,
    checked_mirrors: bool,
    back: Vec<Back>,
}

pub fn find(api: &mut dyn MeterApi, found: &mut Found) {
    let missing = |why: String| {
        Missing {
        what: "energy",
        why,
        hint: "Windows 11 on the machine itself shows the processor's energy counters; virtual machines and most machines with \
               Windows 10 have none"
            .to_owned(),
    }
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
    if opened.iter().any(|meter| meter.channels.iter().any(|channel| !channel.is_left_out)) {
        found.readers.push(Box::new(Meters { opened, checked_mirrors: false, back: Vec::new() }));
    } else {
        found
            .missing
            .push(missing(why.unwrap_or_else(|| "this machine shows no energy meter (EMI)".to_owned())));
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
        energy: CountedEnergy::new(Of::Machine, None, JOULES_PER_PICOWATT_HOUR),
        is_left_out: false,
    }
}

/// Cores that have devices of their own are in their package: a hundred of them would be a hundred rows for nothing.
fn keep_packages(opened: &mut [Opened]) {
    let all = || opened.iter().flat_map(|meter| &meter.channels);
    let has_package = all().any(|channel| channel.device.starts_with("package-"));
    if has_package {
        let is_core = |device: &str| device.starts_with("cores-") && device.matches('-').count() > 1;
        for channel in opened.iter_mut().flat_map(|meter| &mut meter.channels) {
            channel.is_left_out = is_core(&channel.device);
        }
    }
}

impl Reader for Meters {
    fn describe(&self) -> String {
        let channels = self.opened.iter().flat_map(|meter| &meter.channels);
        let names: Vec<&str> =
            channels.filter(|channel| !channel.is_left_out).map(|channel| channel.device.as_str()).collect();
        format!("{} (EMI)", names.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        for meter in &mut self.opened {
            if meter.channels.iter().all(|channel| channel.is_left_out) {
                continue;
            }
            let measured = match meter.device.measurement(meter.channels.len()) {
                Ok(bytes) => emi::measurements(&bytes),
                Err(why) => {
                    let names: Vec<&str> =
                        meter.channels.iter().map(|channel| channel.device.as_str()).collect();
                    let missing = || Missing {
                        what: "energy",
                        why: format!("{} cannot be read any more: {why}", names.join(", ")),
                        hint: "it was there at the start".to_owned(),
                    };
                    meter.presence.lose(at_ns, missing, lost);
                    continue;
                }
            };
            meter.presence.find(at_ns, &mut self.back);
            for (channel, measured) in meter.channels.iter_mut().zip(measured) {
                channel.take(at_ns, measured.picowatt_hours, out, lost, &mut self.back);
            }
        }
        let is_ready = || {
            self.opened
                .iter()
                .flat_map(|meter| &meter.channels)
                .all(|c| c.is_left_out || c.energy.has_counted())
        };
        if !self.checked_mirrors && is_ready() {
            self.checked_mirrors = true;
            self.drop_mirrors(lost);
        }
    }

    fn came_back(&mut self, back: &mut Vec<Back>) {
        back.append(&mut self.back);
    }
}

impl Meters {
    /// Dies of some processors all show one counter: added up they would be too much.
    fn drop_mirrors(&mut self, lost: &mut Vec<Missing>) {
        let mut seen: Vec<(u64, u64)> = Vec::new();
        for channel in self.opened.iter_mut().flat_map(|meter| &mut meter.channels) {
            if !channel.device.starts_with("package-") || channel.is_left_out {
                continue;
            }
            let shows = channel.energy.shows();
            if seen.contains(&shows) {
                channel.is_left_out = true;
                lost.push(Missing {
                    what: "energy",
                    why: format!("{} shows the counter of another package and is left out", channel.device),
                    hint: "nothing to do: the other one counts for both".to_owned(),
                });
            } else {
                seen.push(shows);
            }
        }
    }
}

impl Channel {
    fn take(
        &mut self,
        at_ns: u64,
        counts: u64,
        out: &mut dyn FnMut(Reading<'_>),
        lost: &mut Vec<Missing>,
        back: &mut Vec<Back>,
    ) {
        if self.is_left_out {
            return;
        }
        let Some(used) = self.energy.take(at_ns, counts, &self.device, lost, back) else { return };
        let mut tell =
            |metric, value| out(Reading { at_ns, device: &self.device, metric, value, source: SOURCE });
        tell("energy_joules", used.joules);
        if let Some(watts) = used.watts {
            tell("power_watts", watts);
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
        let (mut told, mut lost) = (Vec::new(), Vec::new());
        let mut out = |reading: Reading<'_>| {
            told.push(format!("{} {} {:.3}", reading.device, reading.metric, reading.value));
        };
        found.readers[0].read(at_ns, &mut out, &mut lost);
        (told, lost.into_iter().map(|missing| missing.why).collect())
    }

    const SECOND: u64 = 1_000_000_000;
    /// A joule in picowatt hours.
    const JOULE: u64 = 277_777_778;

    #[test]
    fn a_package_and_its_cores_by_device() {
        let (package, core) = (
            Fake::new(&["RAPL_Package0_PKG", "RAPL_Package0_DRAM"]),
            Fake::new(&["RAPL_Package0_Core0_CORE"]),
        );
        let mut found = open(Ok(vec![package.clone(), core]));
        assert_eq!(found.readers[0].describe(), "package-0, dram-0 (EMI)");
        package.set(&[5 * JOULE, JOULE]);
        assert_eq!(read(&mut found, SECOND), (vec![], vec![]));
        package.set(&[45 * JOULE, 2 * JOULE]);
        let (told, lost) = read(&mut found, 3 * SECOND);
        let expected = [
            "package-0 energy_joules 40.000",
            "package-0 power_watts 20.000",
            "dram-0 energy_joules 1.000",
            "dram-0 power_watts 0.500",
        ];
        assert_eq!((told.as_slice(), lost.len()), (expected.map(str::to_owned).as_slice(), 0));
        // A reset is not guessed, and the total stays.
        package.set(&[0, 2 * JOULE]);
        assert_eq!(read(&mut found, 4 * SECOND).0, Vec::<String>::new());
        package.set(&[JOULE, 2 * JOULE]);
        assert_eq!(read(&mut found, 5 * SECOND).0[0], "package-0 energy_joules 41.000");
        *package.counts.lock().unwrap() = Err("error 1167".to_owned());
        let (_, lost) = read(&mut found, 6 * SECOND);
        assert_eq!(lost, ["package-0, dram-0 cannot be read any more: error 1167"]);
    }

    #[test]
    fn two_dies_with_one_counter_and_one_that_does_not_count() {
        let (one, two) = (Fake::new(&["RAPL_Package0_PKG"]), Fake::new(&["RAPL_Package1_PKG"]));
        let mut found = open(Ok(vec![one.clone(), two.clone()]));
        read(&mut found, SECOND);
        one.set(&[JOULE]);
        two.set(&[JOULE]);
        let (_, lost) = read(&mut found, 2 * SECOND);
        assert_eq!(lost, ["package-1 shows the counter of another package and is left out"]);
        let still = Fake::new(&["SYS"]);
        let mut found = open(Ok(vec![still]));
        let reasons: Vec<String> = (1..9).flat_map(|second| read(&mut found, second * SECOND).1).collect();
        assert_eq!(reasons, ["psys has a counter that does not count"]);
    }

    #[test]
    fn without_a_meter_the_reason_is_told() {
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

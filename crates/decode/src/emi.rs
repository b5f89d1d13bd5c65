//! Windows' Energy Meter Interface: names, channels and measurements of energy meters.
//!
//! A device answers four queries: the version of its layout (1 or 2), the length of its description, the description,
//! and a measurement, which has for every channel the energy since an arbitrary moment in picowatt hours and the time in
//! units of 100 ns. The names of the channels determine which of them may be added ([`meters`]).

/// A picowatt hour in joules.
pub const JOULES_PER_PICOWATT_HOUR: f64 = 3.6e-9;
/// Limit for channels per device; real ones have fewer than ten.
const MAX_CHANNELS: usize = 256;
const NAME_BYTES: usize = 32;

/// Description of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    pub maker: String,
    pub model: String,
    /// Channel names, in the order of the measurements.
    pub channels: Vec<String>,
}

/// Why a description cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmiError {
    #[error("the energy meter uses version {0} of its interface; only 1 and 2 are supported")]
    Version(u16),
    #[error("the energy meter's description is truncated")]
    Short,
    #[error("a channel of the energy meter uses unit {0} instead of picowatt hours")]
    Unit(i32),
}

/// State of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement {
    pub picowatt_hours: u64,
    /// On the meter's own clock, in units of 100 ns.
    pub time_100ns: u64,
}

fn word(bytes: &[u8], at: usize) -> Result<u16, EmiError> {
    let two = bytes.get(at..at + 2).ok_or(EmiError::Short)?;
    Ok(u16::from_le_bytes([two[0], two[1]]))
}

fn unit(bytes: &[u8], at: usize) -> Result<(), EmiError> {
    let four = bytes.get(at..at + 4).ok_or(EmiError::Short)?;
    match i32::from_le_bytes([four[0], four[1], four[2], four[3]]) {
        0 => Ok(()),
        other => Err(EmiError::Unit(other)),
    }
}

/// UTF-16 up to NUL.
fn text(bytes: &[u8], at: usize, length: usize) -> Result<String, EmiError> {
    let field = bytes.get(at..at.checked_add(length).ok_or(EmiError::Short)?).ok_or(EmiError::Short)?;
    let units = field.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let name: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    Ok(String::from_utf16_lossy(&name).trim().to_owned())
}

/// Reads `EMI_METADATA_V1` or `EMI_METADATA_V2`.
pub fn describe(version: u16, bytes: &[u8]) -> Result<Description, EmiError> {
    match version {
        // Unit, vendor, model, revision, length of the name, name: one channel.
        1 => {
            unit(bytes, 0)?;
            let name = text(bytes, 72, usize::from(word(bytes, 70)?))?;
            Ok(Description {
                maker: text(bytes, 4, NAME_BYTES)?,
                model: text(bytes, 36, NAME_BYTES)?,
                channels: vec![name],
            })
        }
        // Vendor, model, revision, number of channels; then for each channel: unit, length of the name, name.
        2 => {
            let count = usize::from(word(bytes, 66)?).min(MAX_CHANNELS);
            let mut channels = Vec::with_capacity(count);
            let mut at = 68;
            for _ in 0..count {
                unit(bytes, at)?;
                let length = usize::from(word(bytes, at + 4)?);
                channels.push(text(bytes, at + 6, length)?);
                at += 6 + length;
            }
            Ok(Description {
                maker: text(bytes, 0, NAME_BYTES)?,
                model: text(bytes, NAME_BYTES, NAME_BYTES)?,
                channels,
            })
        }
        other => Err(EmiError::Version(other)),
    }
}

/// Parses a measurement: sixteen bytes per channel.
pub fn measurements(bytes: &[u8]) -> Vec<Measurement> {
    let long = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| (value << 8) | u64::from(*byte));
    let channels = bytes.chunks_exact(16).take(MAX_CHANNELS);
    channels.map(|one| Measurement { picowatt_hours: long(&one[..8]), time_100ns: long(&one[8..]) }).collect()
}

/// What a channel measures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meter {
    /// A processor package with everything in it.
    Package(String),
    Memory(String),
    /// Cores, already included in their package.
    Cores(String),
    /// Integrated graphics, already included in its package.
    Graphics(String),
    /// The whole machine.
    System,
    /// A separate rail with the vendor's name.
    Rail(String),
}

impl Meter {
    /// The device name in our tables.
    pub fn device(&self) -> String {
        match self {
            Self::Package(number) => format!("package-{number}"),
            Self::Memory(number) => format!("dram-{number}"),
            Self::Cores(number) => format!("cores-{number}"),
            Self::Graphics(number) => format!("uncore-{number}"),
            Self::System => "psys".to_owned(),
            Self::Rail(name) => format!("rail/{name}"),
        }
    }
}

/// The meaning of a channel name. AMD has a device per core; Qualcomm names rails.
pub fn meter(name: &str) -> Meter {
    let words: Vec<&str> = name.split(['_', ' ', '-']).filter(|word| !word.is_empty()).collect();
    let has = |wanted: &str| words.iter().any(|word| word.eq_ignore_ascii_case(wanted));
    let number = || {
        let package = words.iter().find_map(|word| {
            let lower = word.to_ascii_lowercase();
            lower.strip_prefix("package").filter(|rest| !rest.is_empty()).map(str::to_owned)
        });
        package.unwrap_or_else(|| "0".to_owned())
    };
    let core = words.iter().find_map(|word| {
        let lower = word.to_ascii_lowercase();
        let number = lower.strip_prefix("core")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| number.to_owned())
    });
    if let Some(core) = core {
        return Meter::Cores(format!("{}-{core}", number()));
    }
    if has("DRAM") {
        return Meter::Memory(number());
    }
    if has("PP0") {
        return Meter::Cores(number());
    }
    if has("PP1") {
        return Meter::Graphics(number());
    }
    if has("PKG") || has("SOCKET") || has("PACKAGE") {
        return Meter::Package(number());
    }
    if name.eq_ignore_ascii_case("SYS") || name.eq_ignore_ascii_case("SYSTEM") {
        return Meter::System;
    }
    Meter::Rail(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wide(text: &str, bytes: usize) -> Vec<u8> {
        let mut wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        wide.resize(bytes, 0);
        wide
    }

    fn second_version(channels: &[&str]) -> Vec<u8> {
        let mut bytes = wide("Microsoft", 32);
        bytes.extend(wide("RAPL", 32));
        bytes.extend(1u16.to_le_bytes());
        bytes.extend((channels.len() as u16).to_le_bytes());
        for name in channels {
            bytes.extend(0i32.to_le_bytes());
            let name = wide(name, (name.len() + 1) * 2);
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name);
        }
        bytes
    }

    #[test]
    fn both_layouts_are_parsed() {
        let names = ["RAPL_Package0_PKG", "RAPL_Package0_PP0", "RAPL_Package0_PP1", "RAPL_Package0_DRAM"];
        let description = describe(2, &second_version(&names)).unwrap();
        assert_eq!((description.maker.as_str(), description.model.as_str()), ("Microsoft", "RAPL"));
        assert_eq!(description.channels, names);
        let mut first = 0i32.to_le_bytes().to_vec();
        first.extend(wide("Surface", 32));
        first.extend(wide("Book", 32));
        first.extend(3u16.to_le_bytes());
        first.extend(10u16.to_le_bytes());
        first.extend(wide("CPU0", 10));
        let description = describe(1, &first).unwrap();
        assert_eq!((description.model.as_str(), description.channels), ("Book", vec!["CPU0".to_owned()]));
    }

    #[test]
    fn unknown_versions_units_and_short_answers_are_errors() {
        assert_eq!(describe(3, &[]), Err(EmiError::Version(3)));
        let whole = second_version(&["RAPL_Package0_PKG"]);
        for cut in 0..whole.len() {
            assert_eq!(describe(2, &whole[..cut]), Err(EmiError::Short), "{cut}");
        }
        let mut joules = whole;
        joules[68] = 1;
        assert_eq!(describe(2, &joules), Err(EmiError::Unit(1)));
    }

    #[test]
    fn measurements_are_parsed() {
        let mut bytes = 1_000_000_000_000u64.to_le_bytes().to_vec();
        bytes.extend(123u64.to_le_bytes());
        bytes.extend([9; 15]);
        let read = measurements(&bytes);
        assert_eq!(read, [Measurement { picowatt_hours: 1_000_000_000_000, time_100ns: 123 }]);
        assert!(
            (read[0].picowatt_hours as f64 * JOULES_PER_PICOWATT_HOUR - 3600.0).abs() < 1e-9,
            "1 Wh is 3600 J"
        );
    }

    // Regression: AMD cores have their own devices, and adding them to the package gave 265 W instead of 154 W.
    #[test]
    fn included_channels_are_not_packages() {
        let devices = |names: &[&str]| names.iter().map(|name| meter(name).device()).collect::<Vec<_>>();
        assert_eq!(
            devices(&["RAPL_Package0_PKG", "RAPL_Package1_PP0", "RAPL_Package0_PP1", "RAPL_Package0_DRAM"]),
            ["package-0", "cores-1", "uncore-0", "dram-0"]
        );
        assert_eq!(
            devices(&["RAPL_Package0_Core11_CORE", "Current Socket Power"]),
            ["cores-0-11", "package-0"]
        );
        assert_eq!(devices(&["SYS", "CPU_CLUSTER_0", "GPU"]), ["psys", "rail/CPU_CLUSTER_0", "rail/GPU"]);
    }

    proptest! {
        #[test]
        fn nothing_panics(version in 0u16..4, bytes in prop::collection::vec(any::<u8>(), 0..300), name in ".{0,40}") {
            describe(version, &bytes).ok();
            measurements(&bytes);
            prop_assert!(!meter(&name).device().is_empty());
        }
    }
}

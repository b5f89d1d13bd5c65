//! Processor events that count accesses and misses of the L2 cache.
//!
//! The kernel has generic names only for the first and the last level. For L2 there are vendor- and model-specific
//! numbers, as published by the vendors and named by `perf list`; models that are not in the table are unsupported.

use crate::procfs::cpuinfo_value;

/// Two event numbers for `config` of a raw event (`PERF_TYPE_RAW`), and how they give a hit ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct L2Events {
    pub first: u64,
    pub misses: u64,
    pub first_is: FirstIs,
}

/// What the first event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstIs {
    Accesses,
    /// Accesses are these plus the misses.
    Hits,
}

impl L2Events {
    /// For counts of the same time.
    pub fn accesses(self, first: f64, misses: f64) -> f64 {
        match self.first_is {
            FirstIs::Accesses => first,
            FirstIs::Hits => first + misses,
        }
    }

    /// `None` if the cache was not accessed.
    pub fn hit_ratio(self, first: f64, misses: f64) -> Option<f64> {
        let accesses = self.accesses(first, misses);
        (accesses > 0.0).then(|| (1.0 - misses / accesses).clamp(0.0, 1.0))
    }
}

/// x86 event and unit mask.
const fn x86(event: u64, mask: u64) -> u64 {
    event | mask << 8
}

/// `L2_RQSTS`: demand requests (loads, stores and code) without prefetches.
const INTEL: L2Events =
    L2Events { first: x86(0x24, 0xE7), misses: x86(0x24, 0x27), first_is: FirstIs::Accesses };
/// `L2CacheReqStat`: requests of both first-level caches without prefetches.
const ZEN: L2Events = L2Events { first: x86(0x64, 0xF6), misses: x86(0x64, 0x09), first_is: FirstIs::Hits };
/// The architecture's `L2D_CACHE` and `L2D_CACHE_REFILL`.
const ARM: L2Events = L2Events { first: 0x16, misses: 0x17, first_is: FirstIs::Accesses };

/// Apple's `CPU implementer`.
const APPLE: &str = "0x61";

/// Models of family 6 with P-cores of this kind, from Haswell to Granite Rapids and Meteor Lake. On hybrid processors
/// the kernel counts the P-cores. Newer P-cores (Lion Cove) and E-cores have other numbers.
const INTEL_MODELS: [u32; 34] = [
    0x3C, 0x3F, 0x45, 0x46, // Haswell
    0x3D, 0x47, 0x4F, 0x56, // Broadwell
    0x4E, 0x55, 0x5E, 0x66, 0x8E, 0x9E, 0xA5, 0xA6, // Skylake and its sequels
    0x6A, 0x6C, 0x7D, 0x7E, 0x8C, 0x8D, 0xA7, // Ice, Tiger and Rocket Lake
    0x8F, 0xCF, 0xAD, 0xAE, // Sapphire, Emerald and Granite Rapids
    0x97, 0x9A, 0xB7, 0xBA, 0xBF, 0xAA, 0xAC, // Alder, Raptor and Meteor Lake
];

/// For the text of `/proc/cpuinfo`; the error names the unsupported processor.
pub fn l2_events(cpuinfo: &str) -> Result<L2Events, String> {
    let number = |key: &str| cpuinfo_value(cpuinfo, key)?.parse::<u32>().ok();
    // ARM has no vendor name.
    if let Some(maker) = cpuinfo_value(cpuinfo, "CPU implementer") {
        // Apple's cores use their own numbers: those of the architecture would count something else.
        return if maker == APPLE { Err("Apple processors do not count it".to_owned()) } else { Ok(ARM) };
    }
    let vendor = cpuinfo_value(cpuinfo, "vendor_id").unwrap_or_default();
    let (family, model) = (number("cpu family").unwrap_or(0), number("model").unwrap_or(0));
    match (vendor.as_str(), family) {
        ("GenuineIntel", 6) if INTEL_MODELS.contains(&model) => Ok(INTEL),
        ("AuthenticAMD", 0x17 | 0x19 | 0x1A) | ("HygonGenuine", 0x18) => Ok(ZEN),
        ("", _) => Err("the kernel does not identify the processor".to_owned()),
        _ => Err(format!(
            "no event for it is known for this processor ({vendor}, family {family}, model {model})"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x86_cpu(vendor: &str, family: u32, model: u32) -> String {
        format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: A 6000\n"
        )
    }

    #[test]
    fn processors_have_the_events_of_their_vendors() {
        // Skylake, Sapphire Rapids, Zen 3, Zen 5, and an ARM core.
        assert_eq!(l2_events(&x86_cpu("GenuineIntel", 6, 0x5E)), Ok(INTEL));
        assert_eq!(l2_events(&x86_cpu("GenuineIntel", 6, 0x8F)).map(|events| events.first), Ok(0xE724));
        assert_eq!(l2_events(&x86_cpu("AuthenticAMD", 25, 1)).map(|events| events.misses), Ok(0x0964));
        assert_eq!(l2_events(&x86_cpu("AuthenticAMD", 26, 2)), Ok(ZEN));
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(l2_events(arm).map(|events| (events.first, events.misses)), Ok((0x16, 0x17)));
    }

    #[test]
    fn an_unknown_processor_is_named() {
        // An Atom, Grand Ridge (which has only E-cores and used to be in the table), a processor before Zen, Lion
        // Cove, and none at all.
        for (vendor, family, model) in [
            ("GenuineIntel", 6, 0x5C),
            ("GenuineIntel", 6, 0xB6),
            ("AuthenticAMD", 21, 2),
            ("GenuineIntel", 6, 0xBD),
        ] {
            let why = l2_events(&x86_cpu(vendor, family, model)).expect_err("not in the table");
            assert!(why.contains(vendor) && why.contains(&format!("model {model}")), "{why}");
        }
        // Regression: Apple's cores were counted with the architecture's numbers.
        let apple = "processor\t: 0\nCPU implementer\t: 0x61\nCPU part\t: 0x022\n";
        assert!(l2_events(apple).is_err_and(|why| why.contains("Apple")));
        assert!(l2_events("").is_err_and(|why| why.contains("does not identify")));
    }

    #[test]
    fn every_model_is_listed_once() {
        let unique: std::collections::BTreeSet<u32> = INTEL_MODELS.into_iter().collect();
        assert_eq!(unique.len(), INTEL_MODELS.len());
    }

    #[test]
    fn ratios_are_relative_to_accesses() {
        assert_eq!(INTEL.hit_ratio(200.0, 50.0), Some(0.75));
        assert_eq!(ZEN.hit_ratio(150.0, 50.0), Some(0.75));
        assert_eq!((ZEN.accesses(150.0, 50.0), ARM.accesses(150.0, 50.0)), (200.0, 150.0));
        assert_eq!((INTEL.hit_ratio(0.0, 0.0), ZEN.hit_ratio(0.0, 0.0)), (None, None));
        // Scaled counts are inexact: more misses than accesses do not give a negative ratio.
        assert_eq!(ARM.hit_ratio(10.0, 12.0), Some(0.0));
    }
}

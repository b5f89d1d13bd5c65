//! Windows performance counters of GPUs and NPUs: instance names and their aggregation.
//!
//! GPUs and NPUs are in the same counter sets. An instance is one engine of one adapter for one process, encoded in its
//! name: `pid_12220_luid_0x00000000_0x0000C85A_phys_0_eng_5_engtype_Copy`. An engine is as busy as all processes
//! together make it, and an adapter is as busy as its busiest engine; the sum of engines would exceed 100%.

use std::collections::BTreeMap;

/// Windows' number of an adapter until the next boot, the same for all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterId(pub u64);

impl AdapterId {
    /// ONNX Runtime writes it as a decimal number.
    pub fn from_decimal(text: &str) -> Option<Self> {
        text.trim().parse().ok().map(Self)
    }
}

impl std::fmt::Display for AdapterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0x{:08X}_0x{:08X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// An engine of an adapter for a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Absent in the names of adapter memory.
    pub pid: Option<u32>,
    pub adapter: AdapterId,
    /// For several chips that work as one adapter.
    pub physical: u32,
    pub engine: Option<u32>,
    /// `3D`, `Copy`, `Compute_0`, `Neural`; empty if the driver provides none.
    pub engine_type: String,
}

/// `None` for other names.
pub fn instance(name: &str) -> Option<Instance> {
    let (pid, rest) = match name.strip_prefix("pid_") {
        Some(rest) => {
            let (pid, rest) = rest.split_once('_')?;
            (Some(pid.parse().ok()?), rest)
        }
        None => (None, name),
    };
    let rest = rest.strip_prefix("luid_")?;
    let (high, rest) = rest.split_once('_')?;
    let (low, rest) = rest.split_once('_')?;
    let half = |text: &str| {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let adapter = AdapterId((u64::from(half(high)?) << 32) | u64::from(half(low)?));
    let rest = rest.strip_prefix("phys_")?;
    let (physical, rest) = rest.split_once('_').unwrap_or((rest, ""));
    let physical = physical.parse().ok()?;
    // Memory may be divided into parts: `part_0`.
    let Some(rest) = rest.strip_prefix("eng_") else {
        let is_memory = rest.is_empty() || rest.starts_with("part_");
        return is_memory.then(|| Instance {
            pid,
            adapter,
            physical,
            engine: None,
            engine_type: String::new(),
        });
    };
    let (engine, rest) = rest.split_once('_').unwrap_or((rest, ""));
    let engine = Some(engine.parse().ok()?);
    // A type may contain underscores, and may be missing.
    let engine_type = rest.strip_prefix("engtype_").unwrap_or_default().to_owned();
    Some(Instance { pid, adapter, physical, engine, engine_type })
}

/// Utilization of adapters, from counters of one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Busy {
    /// Percentage of each engine for all processes together, by adapter, chip and engine.
    engines: BTreeMap<(AdapterId, u32, u32), f64>,
    types: BTreeMap<(AdapterId, u32, u32), String>,
    /// The same by process.
    processes: BTreeMap<(u32, AdapterId), BTreeMap<(u32, u32), f64>>,
    /// Instances with unusable names or values.
    pub unusable: u64,
}

impl Busy {
    /// Adds one instance with its percentage; invalid numbers are only counted.
    pub fn add(&mut self, name: &str, percent: f64) {
        let Some((instance, engine)) =
            instance(name).and_then(|instance| instance.engine.map(|engine| (instance, engine)))
        else {
            self.unusable += 1;
            return;
        };
        if !percent.is_finite() || percent < 0.0 {
            self.unusable += 1;
            return;
        }
        let key = (instance.adapter, instance.physical, engine);
        *self.engines.entry(key).or_default() += percent;
        self.types.entry(key).or_insert(instance.engine_type);
        if let Some(pid) = instance.pid {
            let engines = self.processes.entry((pid, instance.adapter)).or_default();
            *engines.entry((instance.physical, engine)).or_default() += percent;
        }
    }

    /// Busy ratio of each adapter: that of its busiest engine, 0 to 1.
    pub fn adapters(&self) -> BTreeMap<AdapterId, f64> {
        let mut busiest: BTreeMap<AdapterId, f64> = BTreeMap::new();
        for ((adapter, ..), percent) in &self.engines {
            let ratio = (percent / 100.0).min(1.0);
            let place = busiest.entry(*adapter).or_default();
            *place = place.max(ratio);
        }
        busiest
    }

    /// Busy ratio of each process on each adapter, by its busiest engine.
    pub fn processes(&self) -> BTreeMap<(u32, AdapterId), f64> {
        let busiest = |engines: &BTreeMap<(u32, u32), f64>| {
            engines.values().fold(0.0_f64, |max, percent| max.max((percent / 100.0).min(1.0)))
        };
        self.processes.iter().map(|(key, engines)| (*key, busiest(engines))).collect()
    }

    /// Busy ratio by engine type of an adapter, the busiest of each type.
    pub fn engine_types(&self, adapter: AdapterId) -> BTreeMap<&str, f64> {
        let mut kinds: BTreeMap<&str, f64> = BTreeMap::new();
        for (key, percent) in self.engines.iter().filter(|((of, ..), _)| *of == adapter) {
            let kind = self.types.get(key).map_or("", String::as_str);
            let place = kinds.entry(kind).or_default();
            *place = place.max((percent / 100.0).min(1.0));
        }
        kinds
    }
}

/// Adds the bytes of memory instances by process (`None` for the adapter) and adapter.
pub fn add_memory(sums: &mut BTreeMap<(Option<u32>, AdapterId), f64>, name: &str, bytes: f64) -> bool {
    let Some(instance) = instance(name).filter(|_| bytes.is_finite() && bytes >= 0.0) else { return false };
    *sums.entry((instance.pid, instance.adapter)).or_default() += bytes;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GPU: AdapterId = AdapterId(0xC85A);

    #[test]
    fn instance_names_are_parsed() {
        let name = "pid_12220_luid_0x00000000_0x0000C85A_phys_0_eng_5_engtype_Copy";
        let read = instance(name).unwrap();
        assert_eq!((read.pid, read.adapter, read.physical, read.engine), (Some(12220), GPU, 0, Some(5)));
        assert_eq!(read.engine_type, "Copy");
        let kinds = [
            ("pid_4_luid_0x00000001_0x0000C85A_phys_1_eng_0_engtype_Compute_0", "Compute_0"),
            (
                "pid_4_luid_0x00000001_0x0000C85A_phys_1_eng_0_engtype_High Priority Compute",
                "High Priority Compute",
            ),
            ("pid_4_luid_0x00000001_0x0000C85A_phys_1_eng_0_engtype_", ""),
            ("pid_4_luid_0x00000001_0x0000C85A_phys_1_eng_0", ""),
        ];
        for (name, kind) in kinds {
            let read = instance(name).unwrap();
            assert_eq!((read.engine_type.as_str(), read.adapter), (kind, AdapterId(0x1_0000_C85A)), "{name}");
        }
        assert_eq!(instance("pid_7_luid_0x0_0xC85A_phys_0_part_1").unwrap().engine, None);
        assert_eq!(instance("luid_0x0_0xC85A_phys_0").unwrap().pid, None);
        for other in
            ["", "_Total", "pid_x_luid_0x0_0x1_phys_0", "pid_1", "luid_1_2_phys_0", "luid_0x0_0x1_phys_0_x"]
        {
            assert_eq!(instance(other), None, "{other}");
        }
    }

    #[test]
    fn onnx_runtime_adapters_match_those_of_the_counters() {
        assert_eq!(AdapterId::from_decimal("51290"), Some(GPU));
        assert_eq!(GPU.to_string(), "0x00000000_0x0000C85A");
    }

    #[test]
    fn an_adapter_is_as_busy_as_its_busiest_engine() {
        let mut busy = Busy::default();
        for (pid, engine, kind, percent) in
            [(1, 0, "3D", 30.0), (2, 0, "3D", 25.0), (1, 1, "Copy", 40.0), (2, 2, "Compute_0", 10.0)]
        {
            let name = format!("pid_{pid}_luid_0x00000000_0x0000C85A_phys_0_eng_{engine}_engtype_{kind}");
            busy.add(&name, percent);
        }
        busy.add("_Total", 105.0);
        busy.add("pid_1_luid_0x00000000_0x0000C85A_phys_0_eng_0_engtype_3D", f64::NAN);
        assert_eq!(busy.adapters(), BTreeMap::from([(GPU, 0.55)]), "not 1.05");
        assert_eq!(busy.processes()[&(1, GPU)], 0.4);
        assert_eq!(busy.engine_types(GPU), BTreeMap::from([("3D", 0.55), ("Compute_0", 0.1), ("Copy", 0.4)]));
        assert_eq!(busy.unusable, 2);
        // Rounding over many processes slightly exceeds 100.
        busy.add("pid_3_luid_0x00000000_0x0000C85A_phys_0_eng_0_engtype_3D", 50.0);
        assert_eq!(busy.adapters()[&GPU], 1.0);
    }

    #[test]
    fn memory_parts_are_added() {
        let mut sums = BTreeMap::new();
        assert!(add_memory(&mut sums, "pid_7_luid_0x0_0xC85A_phys_0_part_0", 5.0));
        assert!(add_memory(&mut sums, "pid_7_luid_0x0_0xC85A_phys_0_part_1", 6.0));
        assert!(add_memory(&mut sums, "luid_0x0_0xC85A_phys_0", 100.0));
        assert!(!add_memory(&mut sums, "_Total", 1.0));
        assert_eq!(sums, BTreeMap::from([((None, GPU), 100.0), ((Some(7), GPU), 11.0)]));
    }

    proptest! {
        #[test]
        fn shares_stay_between_0_and_1(
            rows in prop::collection::vec((0u32..5, 0u32..3, 0u32..4, -10.0..300.0f64), 0..60),
            junk in ".{0,40}",
        ) {
            let mut busy = Busy::default();
            busy.add(&junk, 5.0);
            for (pid, adapter, engine, percent) in rows {
                busy.add(&format!("pid_{pid}_luid_0x0_0x{adapter:X}_phys_0_eng_{engine}_engtype_3D"), percent);
            }
            for ratio in busy.adapters().values().chain(busy.processes().values()) {
                prop_assert!((0.0..=1.0).contains(ratio));
            }
            for ((_, adapter), ratio) in busy.processes() {
                prop_assert!(ratio <= busy.adapters()[&adapter]);
            }
        }
    }
}

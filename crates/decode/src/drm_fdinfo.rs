//! Client statistics of GPU and NPU drivers: `/proc/PID/fdinfo/FD`, keys that begin with `drm-`.
//!
//! Drivers differ: most count the nanoseconds that an engine worked for the client, Intel's xe counts ticks of the
//! client and total ticks of the engine. Files of other descriptors have no such keys.

/// Limit for engines and memory regions per client; drivers have fewer than a dozen.
const MAX_PARTS: usize = 64;

/// One client of a device: a process may have several, and several descriptors may show the same one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrmClient {
    /// `amdgpu`, `i915`, `xe`, `msm`, `amdxdna_accel_driver`.
    pub driver: String,
    /// PCI address, if the device has one.
    pub address: Option<String>,
    /// Descriptors with the same number (of one device) show the same client.
    pub client: Option<u64>,
    pub engines: Vec<DrmEngine>,
    pub memory: Vec<DrmMemory>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrmEngine {
    /// The driver's name, for example `gfx`, `compute`, `render`, `rcs`.
    pub name: String,
    /// Since the client opened the device.
    pub busy: EngineTime,
    /// Number of engines of this kind: their combined busy time can reach this multiple of the elapsed time.
    pub capacity: u64,
}

/// How a driver counts the work of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineTime {
    Nanoseconds(u64),
    /// Ticks of this client, and total ticks of the engine in the same time.
    Cycles {
        client: u64,
        total: u64,
    },
}

impl Default for EngineTime {
    fn default() -> Self {
        Self::Nanoseconds(0)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrmMemory {
    /// The driver's name, for example `vram`, `gtt`, `system0`, `local0`.
    pub region: String,
    /// Resident bytes; `None` if the driver reports only allocations.
    pub resident_bytes: Option<u64>,
    pub total_bytes: Option<u64>,
}

impl DrmMemory {
    /// Bytes in use: resident if known.
    pub fn used_bytes(&self) -> Option<u64> {
        self.resident_bytes.or(self.total_bytes)
    }

    /// Whether this is memory of the card instead of the machine.
    pub fn is_local(&self) -> bool {
        ["vram", "local", "lmem"].iter().any(|name| self.region.starts_with(name))
    }
}

/// `None` if the descriptor does not belong to a driver. Invalid values are ignored.
pub fn parse(text: &str) -> Option<DrmClient> {
    let mut client = DrmClient::default();
    let mut cycles: Vec<(String, u64)> = Vec::new();
    let mut totals: Vec<(String, u64)> = Vec::new();
    let mut capacities: Vec<(String, u64)> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (Some(key), value) = (key.strip_prefix("drm-"), value.trim()) else { continue };
        if let Some(name) = key.strip_prefix("engine-capacity-") {
            keep(&mut capacities, name, value.parse().ok());
        } else if let Some(name) = key.strip_prefix("engine-") {
            let Some(nanos) = value.strip_suffix("ns").unwrap_or(value).trim().parse().ok() else { continue };
            if client.engines.len() < MAX_PARTS {
                let busy = EngineTime::Nanoseconds(nanos);
                client.engines.push(DrmEngine { name: name.to_owned(), busy, capacity: 1 });
            }
        } else if let Some(name) = key.strip_prefix("total-cycles-") {
            keep(&mut totals, name, value.parse().ok());
        } else if let Some(name) = key.strip_prefix("cycles-") {
            keep(&mut cycles, name, value.parse().ok());
        } else if let Some(region) = key.strip_prefix("resident-") {
            if let (Some(memory), bytes) = (region_of(&mut client.memory, region), bytes(value)) {
                memory.resident_bytes = bytes.or(memory.resident_bytes);
            }
        } else if let Some(region) = key.strip_prefix("total-").or_else(|| key.strip_prefix("memory-")) {
            // `memory-` is amdgpu's older name for resident memory.
            let is_old = key.starts_with("memory-");
            if let (Some(memory), Some(bytes)) = (region_of(&mut client.memory, region), bytes(value)) {
                let place = if is_old { &mut memory.resident_bytes } else { &mut memory.total_bytes };
                place.get_or_insert(bytes);
            }
        } else {
            match key {
                "driver" => value.clone_into(&mut client.driver),
                "pdev" => client.address = Some(value.to_owned()).filter(|address| !address.is_empty()),
                "client-id" => client.client = value.parse().ok(),
                _ => {}
            }
        }
    }
    for (name, ticks) in cycles {
        let total = totals.iter().find(|(known, _)| *known == name).map(|(_, total)| *total);
        if let Some(total) = total.filter(|_| client.engines.len() < MAX_PARTS) {
            let busy = EngineTime::Cycles { client: ticks, total };
            client.engines.push(DrmEngine { name, busy, capacity: 1 });
        }
    }
    for (name, capacity) in capacities {
        if let Some(engine) = client.engines.iter_mut().find(|engine| engine.name == name) {
            engine.capacity = capacity.max(1);
        }
    }
    client.memory.retain(|memory| memory.used_bytes().is_some());
    (!client.driver.is_empty()).then_some(client)
}

fn keep(list: &mut Vec<(String, u64)>, name: &str, value: Option<u64>) {
    if let Some(value) = value.filter(|_| list.len() < MAX_PARTS) {
        list.push((name.to_owned(), value));
    }
}

fn region_of<'a>(memory: &'a mut Vec<DrmMemory>, region: &str) -> Option<&'a mut DrmMemory> {
    let index = match memory.iter().position(|known| known.region == region) {
        Some(index) => index,
        None if memory.len() >= MAX_PARTS => return None,
        None => {
            memory.push(DrmMemory { region: region.to_owned(), ..DrmMemory::default() });
            memory.len() - 1
        }
    };
    memory.get_mut(index)
}

/// `4096`, `16 KiB` or `2 MiB`.
fn bytes(value: &str) -> Option<u64> {
    let (number, unit) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
    let scale = match unit.trim() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn engines(client: &DrmClient) -> Vec<(&str, EngineTime, u64)> {
        client.engines.iter().map(|engine| (engine.name.as_str(), engine.busy, engine.capacity)).collect()
    }

    #[test]
    fn amdgpu_counts_nanoseconds_and_reports_memory_twice() {
        let text = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1099\ndrm-driver:\tamdgpu\ndrm-client-id:\t42\n\
            drm-pdev:\t0000:03:00.0\npasid:\t32781\ndrm-total-vram:\t2 MiB\ndrm-shared-vram:\t0\n\
            drm-resident-vram:\t1 MiB\ndrm-total-gtt:\t16 KiB\ndrm-memory-vram:\t1024 KiB\ndrm-memory-cpu:\t0 KiB\n\
            drm-engine-gfx:\t1234567890 ns\ndrm-engine-compute:\t99 ns\n";
        let client = parse(text).unwrap();
        assert_eq!((client.driver.as_str(), client.client), ("amdgpu", Some(42)));
        assert_eq!(client.address.as_deref(), Some("0000:03:00.0"));
        assert_eq!(
            engines(&client),
            [("gfx", EngineTime::Nanoseconds(1_234_567_890), 1), ("compute", EngineTime::Nanoseconds(99), 1)]
        );
        let memory: Vec<(&str, Option<u64>, bool)> = client
            .memory
            .iter()
            .map(|memory| (memory.region.as_str(), memory.used_bytes(), memory.is_local()))
            .collect();
        assert_eq!(
            memory,
            [("vram", Some(1 << 20), true), ("gtt", Some(16 << 10), false), ("cpu", Some(0), false)]
        );
    }

    #[test]
    fn i915_has_several_engines_per_kind_and_msm_has_no_address() {
        let text = "drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\ndrm-engine-render:\t5 ns\n\
            drm-engine-video:\t9 ns\ndrm-engine-capacity-video:\t2\n";
        assert_eq!(engines(&parse(text).unwrap())[1], ("video", EngineTime::Nanoseconds(9), 2));
        let text = "drm-driver:\tmsm\ndrm-client-id:\t3\ndrm-engine-gpu:\t77 ns\ndrm-cycles-gpu:\t4\n\
            drm-maxfreq-gpu:\t800000000 Hz\ndrm-resident-memory:\t9 KiB\n";
        let client = parse(text).unwrap();
        assert_eq!(
            (client.address.clone(), engines(&client).len()),
            (None, 1),
            "cycles without a total are not a ratio"
        );
        assert_eq!(client.memory[0].used_bytes(), Some(9216));
    }

    #[test]
    fn xe_counts_client_and_engine_ticks() {
        let text = "drm-driver:\txe\ndrm-client-id:\t70\ndrm-pdev:\t0000:00:02.0\ndrm-cycles-rcs:\t28257900\n\
            drm-total-cycles-rcs:\t7655183225\ndrm-cycles-ccs:\t0\ndrm-total-cycles-ccs:\t7655183225\n\
            drm-engine-capacity-ccs:\t4\ndrm-total-cycles-vcs:\t1\n";
        assert_eq!(
            engines(&parse(text).unwrap()),
            [
                ("rcs", EngineTime::Cycles { client: 28_257_900, total: 7_655_183_225 }, 1),
                ("ccs", EngineTime::Cycles { client: 0, total: 7_655_183_225 }, 4)
            ]
        );
    }

    #[test]
    fn other_files_are_rejected_and_garbage_is_ignored() {
        assert_eq!(parse("pos:\t0\nflags:\t02\n"), None);
        assert_eq!(parse(""), None);
        let client =
            parse("drm-driver: amdgpu\ndrm-engine-gfx: -5 ns\ndrm-total-vram: 3 PiB\ndrm-client-id: x\n")
                .unwrap();
        assert_eq!((client.engines.len(), client.memory.len(), client.client), (0, 0, None));
        let many: String = (0..500).map(|engine| format!("drm-engine-e{engine}: 1 ns\n")).collect();
        assert_eq!(parse(&format!("drm-driver: x\n{many}")).unwrap().engines.len(), MAX_PARTS);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(drm-[a-z-]{0,20}:[ \t]?[0-9a-zA-Z ]{0,24}\n){0,20}") {
            let _ = parse(&text);
        }
    }
}

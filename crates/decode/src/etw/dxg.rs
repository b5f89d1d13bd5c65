//! GPU and NPU engine times from the scheduler of Windows' graphics kernel (DxgKrnl).
//!
//! A packet is submitted to an engine (a node of an adapter), and an interrupt later reports its completion. An engine
//! processes packets one after the other: a packet runs from the later of its submission and the completion of the
//! previous packet. The layouts follow the documentation; no real trace with these events was available.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ortscope_etl::payload::{SchemaSource, SchemaStore};
use ortscope_etl::{EventDescriptor, EventRecord};

use super::coverage::Unused;
use super::fields::Wanted;
use super::lifetimes::UNKNOWN_ID;
use super::sink::EtwSink;

/// Limit for devices, contexts and hardware queues each, and for packets in the system's queues.
const MAX_OBJECTS: usize = 1 << 16;
/// Limit for incomplete packets per engine.
const MAX_PACKETS: usize = 1 << 12;
/// Limit for distinct sums of engine and process.
const MAX_SUMS: usize = 1 << 14;

/// An engine of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Engine {
    /// The adapter's kernel address, which identifies it within the trace.
    pub adapter: u64,
    pub node: u32,
}

/// Description of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    pub engine: Engine,
    /// `DXGK_ENGINE_TYPE`.
    pub engine_type: u32,
    /// The driver's name, such as `Compute_0`; it is the only way to distinguish compute engines.
    pub name: String,
}

impl EngineInfo {
    pub fn type_name(&self) -> &'static str {
        const NAMES: [&str; 9] = [
            "other",
            "3D",
            "video decode",
            "video encode",
            "video processing",
            "scene assembly",
            "copy",
            "overlay",
            "crypto",
        ];
        NAMES.get(self.engine_type as usize).copied().unwrap_or("unknown")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdapterInfo {
    pub adapter: u64,
    pub luid: Option<u64>,
    pub vendor_id: Option<u32>,
    pub device_id: Option<u32>,
}

/// An engine processed one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineBusy {
    pub engine: Engine,
    pub pid: u32,
    pub context: u64,
    /// When the packet was submitted to the engine, where it may have waited.
    pub submitted_ns: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketKind {
    Work,
    /// Work that presents a frame.
    Present,
    Signal,
    Wait,
}

/// A packet from the system's queue to its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuPacket {
    pub engine: Option<Engine>,
    pub pid: u32,
    pub context: u64,
    pub kind: PacketKind,
    pub begin_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DxgCounts {
    pub busy_intervals: u64,
    /// Submitted packets without a recorded completion.
    pub unmatched_starts: u64,
    pub unmatched_stops: u64,
    /// Packets of contexts whose creation was not recorded: their engine is unknown.
    pub unknown_contexts: u64,
    pub dropped: u64,
}

/// Busy time of an engine for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineTotal {
    pub engine: Engine,
    pub pid: u32,
    pub busy_ns: u64,
    pub packets: u64,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    /// The context or the hardware queue.
    owner: u64,
    context: u64,
    number: u64,
    submitted_ns: u64,
}

#[derive(Debug, Default)]
struct Node {
    packets: VecDeque<Packet>,
    /// When the first packet started.
    running_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Dxg {
    adapters: BTreeMap<u64, AdapterInfo>,
    engines: BTreeMap<Engine, EngineInfo>,
    /// By handle: process and adapter.
    devices: HashMap<u64, (u32, u64)>,
    /// By handle: device and node.
    contexts: HashMap<u64, (u64, u32)>,
    /// By handle: context.
    hardware_queues: HashMap<u64, u64>,
    nodes: BTreeMap<Engine, Node>,
    queued: HashMap<(u64, u64), (PacketKind, u64)>,
    totals: BTreeMap<(Engine, u32), (u64, u64)>,
    /// The trace has completion interrupts, so that the later events of the same packets are not needed.
    has_interrupts: bool,
    pub counts: DxgCounts,
}

impl Dxg {
    pub fn engines(&self) -> impl Iterator<Item = &EngineInfo> {
        self.engines.values()
    }

    pub fn adapters(&self) -> impl Iterator<Item = &AdapterInfo> {
        self.adapters.values()
    }

    pub fn totals(&self) -> impl Iterator<Item = EngineTotal> {
        self.totals.iter().map(|(&(engine, pid), &(busy_ns, packets))| EngineTotal {
            engine,
            pid,
            busy_ns,
            packets,
        })
    }

    pub fn push<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        descriptor: &EventDescriptor,
        schemas: &SchemaStore,
        at_ns: u64,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let read = |wanted| read(schemas, record, wanted);
        // One arm per event id of the provider's manifest: each reads only the fields it needs, since these events are
        // among the most frequent ones.
        match descriptor.id {
            24 | 26 => {
                let ([adapter, ..], _) = read(Wanted::new(["pDxgAdapter", "", ""]))?;
                self.adapter(adapter.ok_or(Unused::TooShort)?);
                Ok(())
            }
            110 => {
                let wanted = Wanted::new(["pDxgAdapter", "VendorID", "DeviceID", "AdapterLuid"]);
                let ([adapter, vendor, device, luid], _) = read_more(schemas, record, wanted)?;
                if let Some(info) = self.adapter(adapter.ok_or(Unused::TooShort)?) {
                    info.luid = luid.or(info.luid);
                    info.vendor_id = vendor.map(|id| id as u32);
                    info.device_id = device.map(|id| id as u32);
                }
                Ok(())
            }
            250 => {
                let wanted =
                    Wanted::new(["pDxgAdapter", "NodeOrdinal", "EngineType"]).with_text("FriendlyName");
                let (numbers, name) = read(wanted)?;
                let [adapter, node, engine_type] = all(numbers)?;
                let engine = Engine { adapter, node: node as u32 };
                if self.has_capacity(self.engines.len()) {
                    let name = name.unwrap_or_default();
                    self.engines.insert(engine, EngineInfo { engine, engine_type: engine_type as u32, name });
                }
                Ok(())
            }
            27 | 29 => {
                let [process, adapter, device] =
                    all(read(Wanted::new(["hProcessId", "pDxgAdapter", "hDevice"]))?.0)?;
                if self.has_capacity(self.devices.len()) {
                    self.devices.insert(device, (process as u32, adapter));
                }
                Ok(())
            }
            28 => {
                let ([device, ..], _) = read(Wanted::new(["hDevice", "", ""]))?;
                self.devices.remove(&device.ok_or(Unused::TooShort)?);
                Ok(())
            }
            30 | 32 => {
                let [device, node, context] =
                    all(read(Wanted::new(["hDevice", "NodeOrdinal", "hContext"]))?.0)?;
                if self.has_capacity(self.contexts.len()) {
                    self.contexts.insert(context, (device, node as u32));
                }
                Ok(())
            }
            31 => {
                let ([context, ..], _) = read(Wanted::new(["hContext", "", ""]))?;
                let context = context.ok_or(Unused::TooShort)?;
                self.drop_packets(|packet| packet.context == context);
                self.contexts.remove(&context);
                Ok(())
            }
            422 | 424 => {
                let ([context, queue, _], _) = read(Wanted::new(["hContext", "hHwQueue", ""]))?;
                if self.has_capacity(self.hardware_queues.len()) {
                    let (context, queue) = (context.ok_or(Unused::TooShort)?, queue.ok_or(Unused::TooShort)?);
                    self.hardware_queues.insert(queue, context);
                }
                Ok(())
            }
            423 => {
                let ([queue, ..], _) = read(Wanted::new(["hHwQueue", "", ""]))?;
                let queue = queue.ok_or(Unused::TooShort)?;
                self.drop_packets(|packet| packet.owner == queue);
                self.hardware_queues.remove(&queue);
                Ok(())
            }
            175..=177 => {
                let ([context, number, _], _) = read(Wanted::new(["hContext", "ulQueueSubmitSequence", ""]))?;
                let (context, number) = (context.ok_or(Unused::TooShort)?, number.ok_or(Unused::TooShort)?);
                if descriptor.id == 175 {
                    return self
                        .begin(Packet { owner: context, context, number, submitted_ns: at_ns }, at_ns);
                }
                self.has_interrupts |= descriptor.id == 177;
                let is_repeated = descriptor.id == 176 && self.has_interrupts;
                self.complete(context, context, number, at_ns, is_repeated, sink)
            }
            450 | 451 => {
                let ([queue, number, _], _) = read(Wanted::new(["hHwQueue", "ProgressFenceValue", ""]))?;
                let (owner, number) = (queue.ok_or(Unused::TooShort)?, number.ok_or(Unused::TooShort)?);
                let Some(&context) = self.hardware_queues.get(&owner) else {
                    self.counts.unknown_contexts += 1;
                    return Err(Unused::NoContext);
                };
                match descriptor.id {
                    450 => self.begin(Packet { owner, context, number, submitted_ns: at_ns }, at_ns),
                    _ => self.complete(owner, context, number, at_ns, false, sink),
                }
            }
            178 | 244 | 245 => {
                let ([context, number, present], _) =
                    read(Wanted::new(["hContext", "SubmitSequence", "bPresent"]))?;
                let (context, number) = (context.ok_or(Unused::TooShort)?, number.ok_or(Unused::TooShort)?);
                let kind = match (descriptor.id, present) {
                    (178, Some(1..)) => PacketKind::Present,
                    (178, _) => PacketKind::Work,
                    (244, _) => PacketKind::Signal,
                    _ => PacketKind::Wait,
                };
                if self.has_capacity(self.queued.len())
                    && self.queued.insert((context, number), (kind, at_ns)).is_some()
                {
                    self.counts.unmatched_starts += 1;
                }
                Ok(())
            }
            180 => {
                let ([context, number, _], _) = read(Wanted::new(["hContext", "SubmitSequence", ""]))?;
                let (context, number) = (context.ok_or(Unused::TooShort)?, number.ok_or(Unused::TooShort)?);
                let Some((kind, begin_ns)) = self.queued.remove(&(context, number)) else {
                    self.counts.unmatched_stops += 1;
                    return Err(Unused::NoContext);
                };
                let place = self.place(context);
                sink.gpu_packet(&GpuPacket {
                    engine: place.map(|(engine, _)| engine),
                    pid: place.map_or(UNKNOWN_ID, |(_, pid)| pid),
                    context,
                    kind,
                    begin_ns,
                    end_ns: at_ns,
                });
                Ok(())
            }
            _ => Err(Unused::NotNeeded),
        }
    }

    fn adapter(&mut self, adapter: u64) -> Option<&mut AdapterInfo> {
        if !self.adapters.contains_key(&adapter) && !self.has_capacity(self.adapters.len()) {
            return None;
        }
        Some(self.adapters.entry(adapter).or_insert(AdapterInfo { adapter, ..AdapterInfo::default() }))
    }

    fn has_capacity(&mut self, count: usize) -> bool {
        let has_capacity = count < MAX_OBJECTS;
        self.counts.dropped += u64::from(!has_capacity);
        has_capacity
    }

    /// The engine and the process of a context.
    fn place(&self, context: u64) -> Option<(Engine, u32)> {
        let (device, node) = *self.contexts.get(&context)?;
        let (pid, adapter) = *self.devices.get(&device)?;
        Some((Engine { adapter, node }, pid))
    }

    fn begin(&mut self, packet: Packet, at_ns: u64) -> Result<(), Unused> {
        let Some((engine, _)) = self.place(packet.context) else {
            self.counts.unknown_contexts += 1;
            return Err(Unused::NoContext);
        };
        if !self.nodes.contains_key(&engine) && !self.has_capacity(self.nodes.len()) {
            return Ok(());
        }
        let node = self.nodes.entry(engine).or_default();
        if node.packets.is_empty() {
            node.running_ns = at_ns;
        }
        if node.packets.len() >= MAX_PACKETS {
            node.packets.pop_front();
            node.running_ns = at_ns;
            self.counts.unmatched_starts += 1;
        }
        node.packets.push_back(packet);
        Ok(())
    }

    fn complete<S: EtwSink + ?Sized>(
        &mut self,
        owner: u64,
        context: u64,
        number: u64,
        at_ns: u64,
        is_repeated: bool,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let Some((engine, pid)) = self.place(context) else {
            self.counts.unknown_contexts += 1;
            return Err(Unused::NoContext);
        };
        let node = self.nodes.get_mut(&engine);
        let found = node.and_then(|node| {
            let place =
                node.packets.iter().position(|packet| packet.owner == owner && packet.number == number)?;
            Some((node, place))
        });
        let Some((node, place)) = found else {
            self.counts.unmatched_stops += u64::from(!is_repeated);
            return if is_repeated { Ok(()) } else { Err(Unused::NoContext) };
        };
        let Some(packet) = node.packets.remove(place) else { return Ok(()) };
        let busy = EngineBusy {
            engine,
            pid,
            context,
            submitted_ns: packet.submitted_ns,
            // Earlier packets are still pending if an engine serves several queues: the time is attributed in
            // order of completion.
            begin_ns: node.running_ns.max(packet.submitted_ns).min(at_ns),
            end_ns: at_ns,
        };
        node.running_ns = at_ns;
        // A queue completes in order: earlier packets in it have completed unrecorded.
        let before = node.packets.len();
        let mut index = 0;
        node.packets.retain(|other| {
            index += 1;
            other.owner != owner || index > place
        });
        self.counts.unmatched_starts += (before - node.packets.len()) as u64;
        self.counts.busy_intervals += 1;
        if self.totals.len() < MAX_SUMS || self.totals.contains_key(&(engine, pid)) {
            let total = self.totals.entry((engine, pid)).or_default();
            total.0 = total.0.saturating_add(busy.end_ns - busy.begin_ns);
            total.1 += 1;
        } else {
            self.counts.dropped += 1;
        }
        sink.engine_busy(&busy);
        Ok(())
    }

    fn drop_packets(&mut self, is_gone: impl Fn(&Packet) -> bool) {
        for node in self.nodes.values_mut() {
            let before = node.packets.len();
            node.packets.retain(|packet| !is_gone(packet));
            self.counts.unmatched_starts += (before - node.packets.len()) as u64;
        }
    }

    /// Counts packets that did not complete before the end of the trace.
    pub fn finish(&mut self) {
        self.drop_packets(|_| true);
        self.counts.unmatched_starts += self.queued.len() as u64;
        self.queued.clear();
    }
}

type Numbers<const N: usize> = ([Option<u64>; N], Option<String>);

fn read(schemas: &SchemaStore, record: &EventRecord<'_>, wanted: Wanted<3>) -> Result<Numbers<3>, Unused> {
    read_more(schemas, record, wanted)
}

fn read_more<const N: usize>(
    schemas: &SchemaStore,
    record: &EventRecord<'_>,
    mut wanted: Wanted<N>,
) -> Result<Numbers<N>, Unused> {
    match schemas.decode(record, &mut wanted).source {
        SchemaSource::Unknown => Err(Unused::NoLayout),
        _ => Ok((wanted.numbers, wanted.text)),
    }
}

fn all(numbers: [Option<u64>; 3]) -> Result<[u64; 3], Unused> {
    match numbers {
        [Some(first), Some(second), Some(third)] => Ok([first, second, third]),
        _ => Err(Unused::TooShort),
    }
}

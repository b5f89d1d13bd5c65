//! Generated traces with known contents, and real ones.

mod corpus;
mod dxg;
mod hostile;
mod inferences;
mod inputs;
mod scheduling;

use std::io::Cursor;
use std::ops::ControlFlow;

use ortscope_core::kernel::KernelEvent;
use ortscope_etl::writer::kernel::KernelPayload;
use ortscope_etl::writer::{FileSettings, Place, Writer};
use ortscope_etl::{Etl, FileTime, Guid, Storage, Walk};

use super::*;

/// Ticks of 100 ns.
const FREQUENCY: u64 = 10_000_000;
const TICK_NS: u64 = 100;

/// Keeps all results.
#[derive(Default)]
struct Kept {
    kernel: Vec<KernelEvent>,
    waits: Vec<WaitReason>,
    counters: Vec<Vec<u64>>,
    samples: Vec<Sample>,
    stacks: Vec<EventStack>,
    begun: Vec<u32>,
    processes: Vec<ProcessLife>,
    threads: Vec<ThreadLife>,
    images: Vec<Image>,
    disks: Vec<DiskTransfer>,
    files: Vec<FileOperation>,
    faults: Vec<HardFault>,
    network: Vec<NetworkTransfer>,
    interrupts: Vec<InterruptTime>,
    sessions: Vec<OrtSession>,
    inferences: Vec<Inference>,
    operators: Vec<OrtOperator>,
    activities: Vec<OrtActivity>,
    ort: Vec<OrtRow>,
    busy: Vec<EngineBusy>,
    packets: Vec<GpuPacket>,
    devices: Vec<DeviceRow>,
}

impl EtwSink for Kept {
    fn kernel(&mut self, event: &KernelEvent) {
        self.kernel.push(*event);
    }
    fn switch(&mut self, switch: &SwitchDetail<'_>) {
        self.waits.extend(switch.wait);
        self.counters.push(switch.counters.to_vec());
    }
    fn sample(&mut self, sample: &Sample) {
        self.samples.push(sample.clone());
    }
    fn stack(&mut self, stack: &EventStack) {
        self.stacks.push(stack.clone());
    }
    fn process_begins(&mut self, process: &ProcessLife) {
        self.begun.push(process.pid);
    }
    fn process_ends(&mut self, process: &ProcessLife) {
        self.processes.push(process.clone());
    }
    fn thread_ends(&mut self, thread: &ThreadLife) {
        self.threads.push(thread.clone());
    }
    fn image(&mut self, image: &Image) {
        self.images.push(image.clone());
    }
    fn disk(&mut self, disk: &DiskTransfer) {
        self.disks.push(disk.clone());
    }
    fn file(&mut self, operation: &FileOperation) {
        self.files.push(operation.clone());
    }
    fn hard_fault(&mut self, fault: &HardFault) {
        self.faults.push(fault.clone());
    }
    fn network(&mut self, transfer: &NetworkTransfer) {
        self.network.push(*transfer);
    }
    fn interrupt(&mut self, interrupt: &InterruptTime) {
        self.interrupts.push(*interrupt);
    }
    fn session(&mut self, session: &OrtSession) {
        self.sessions.push(session.clone());
    }
    fn inference(&mut self, inference: &Inference) {
        self.inferences.push(*inference);
    }
    fn operator(&mut self, operator: &OrtOperator) {
        self.operators.push(operator.clone());
    }
    fn ort_activity(&mut self, activity: &OrtActivity) {
        self.activities.push(activity.clone());
    }
    fn ort(&mut self, row: &OrtRow) {
        self.ort.push(row.clone());
    }
    fn engine_busy(&mut self, busy: &EngineBusy) {
        self.busy.push(*busy);
    }
    fn gpu_packet(&mut self, packet: &GpuPacket) {
        self.packets.push(*packet);
    }
    fn device(&mut self, row: &DeviceRow) {
        self.devices.push(row.clone());
    }
}

type Trace = Writer<Cursor<Vec<u8>>>;

fn trace() -> Trace {
    let start = FileTime::from_unix_ns(1_700_000_000_000_000_000);
    Writer::new(Cursor::default(), FileSettings::new(2, FREQUENCY, 1_000, start)).unwrap()
}

fn bytes(trace: Trace) -> Vec<u8> {
    trace.finish().unwrap().0.into_inner()
}

fn put(trace: &mut Trace, place: &Place, payload: &KernelPayload) {
    trace.kernel(place, payload.hook, payload.version, &payload.bytes).unwrap();
}

/// Writes an event like a manifest-based provider: a 64-bit EVENT_HEADER without extended items.
fn put_event(trace: &mut Trace, place: &Place, provider: Guid, id: u16, payload: &[u8]) {
    let (pid, tid) = place.thread().unwrap_or((0, 0));
    let mut record = Vec::new();
    record.extend(u16::try_from(0x50 + payload.len()).unwrap().to_le_bytes());
    record.extend([0x13, 0xc0, 0, 0, 0, 0]);
    record.extend(tid.to_le_bytes());
    record.extend(pid.to_le_bytes());
    record.extend(place.ticks.to_le_bytes());
    record.extend(provider.to_bytes());
    record.extend(id.to_le_bytes());
    record.extend([0; 0x50 - 0x2a]);
    record.extend_from_slice(payload);
    trace.raw(place.processor, place.ticks, &record).unwrap();
}

/// Reads a trace in one or two passes.
fn decode<S: Storage>(etl: &Etl<S>, passes: u8, sink: &mut impl EtwSink) -> (EtwDecoder, Walk) {
    let mut decoder = EtwDecoder::new(etl.header());
    if passes == 2 {
        etl.ordered(|record| {
            decoder.learn(record);
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    let walk = etl
        .ordered(|record| {
            decoder.push(record, sink);
            ControlFlow::Continue(())
        })
        .unwrap();
    decoder.finish(sink);
    (decoder, walk)
}

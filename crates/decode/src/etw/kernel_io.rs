//! Kernel events of interrupts, memory, files and networks; see [`super::kernel`].

use ortscope_core::kernel::{KernelEvent, MemoryCall, MemoryCallKind, Task};
use ortscope_etl::EventRecord;
use ortscope_etl::payload::kernel::{Network, VirtualMemory as VirtualMemoryBody};

use super::EtwDecoder;
use super::coverage::Unused;
use super::sink::*;

const MEM_RESERVE: u32 = 0x2000;
const MEM_RELEASE: u32 = 0x8000;

impl EtwDecoder {
    pub(super) fn interrupt<S: EtwSink + ?Sized>(
        &mut self,
        cpu: u32,
        end_ns: u64,
        begin_ticks: u64,
        routine: u64,
        kind: InterruptKind,
        sink: &mut S,
    ) -> Result<(), Unused> {
        // Both times use the performance counter only if the trace's clock does.
        let begin_ns = self.at_ns(begin_ticks);
        if !self.has_counter_clock() || begin_ns > end_ns {
            return Err(Unused::NoContext);
        }
        self.cores.interrupted(cpu, end_ns - begin_ns, kind == InterruptKind::Deferred);
        sink.interrupt(&InterruptTime { begin_ns, end_ns, cpu, kind, routine });
        Ok(())
    }

    pub(super) fn virtual_memory<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        hook: u16,
        at_ns: u64,
        body: &VirtualMemoryBody,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let is_free = match hook {
            0x0262 => false,
            0x0263 => true,
            _ => return Err(Unused::NotNeeded),
        };
        let cpu = u32::from(record.processor);
        // A process can allocate memory in another one: the memory belongs to the process named by the event.
        let thread = Task { tid: self.current(record).tid, pid: body.process_id };
        let (address, bytes, flags) = (body.base_address.0, body.region_size.0, body.flags.0);
        sink.virtual_memory(&VirtualMemory { at_ns, cpu, thread, address, bytes, is_free, flags });
        let kind = match (is_free, flags) {
            (false, flags) if flags & MEM_RESERVE != 0 => MemoryCallKind::Map,
            (true, flags) if flags & MEM_RELEASE != 0 => MemoryCallKind::Unmap,
            _ => return Ok(()),
        };
        self.emit(&KernelEvent::MemoryCall(MemoryCall { at_ns, cpu, thread, kind, address, bytes }), sink);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "common fields of five kinds of events")]
    pub(super) fn file<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        at_ns: u64,
        hook: u16,
        irp: u64,
        tid: Option<u32>,
        objects: (u64, u64),
        range: Option<(u64, u32)>,
        sink: &mut S,
    ) {
        let verb = match hook {
            0x0440 => FileVerb::Create,
            0x0441 => FileVerb::Cleanup,
            0x0442 => FileVerb::Close,
            0x0443 => FileVerb::Read,
            0x0444 => FileVerb::Write,
            0x0445 => FileVerb::SetInformation,
            0x0446 => FileVerb::Delete,
            0x0447 => FileVerb::Rename,
            0x0448 => FileVerb::ReadDirectory,
            0x0449 => FileVerb::Flush,
            0x044a => FileVerb::QueryInformation,
            0x044b => FileVerb::Control,
            _ => FileVerb::WatchDirectory,
        };
        let thread = match tid {
            Some(tid) => self.lifetimes.task(tid, None),
            None => self.current(record),
        };
        let operation = FileOperation {
            at_ns,
            cpu: u32::from(record.processor),
            thread,
            verb,
            file: self.io.file(objects.0, objects.1),
            bytes: range.map(|(_, bytes)| bytes),
            offset: range.map(|(offset, _)| offset),
            end: None,
        };
        self.io.begin_file(irp, operation, sink);
    }

    pub(super) fn network<S: EtwSink + ?Sized>(
        &mut self,
        hook: u16,
        at_ns: u64,
        network: &Network,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let protocol = if hook >> 8 == 8 { Protocol::Udp } else { Protocol::Tcp };
        // IPv6 events have the numbers of IPv4 plus 16.
        let kind = hook & 0xff;
        let verb = match if kind >= 0x1a { kind - 0x10 } else { kind } {
            0x0a => NetworkVerb::Send,
            0x0b => NetworkVerb::Receive,
            0x0c => NetworkVerb::Connect,
            0x0d => NetworkVerb::Disconnect,
            0x0e => NetworkVerb::Retransmit,
            0x0f => NetworkVerb::Accept,
            0x10 => NetworkVerb::Reconnect,
            0x12 => NetworkVerb::Copy,
            _ => return Err(Unused::NotNeeded),
        };
        let (pid, bytes) = (network.process_id(), network.size());
        if let Some(totals) = self.lifetimes.totals(pid) {
            match verb {
                NetworkVerb::Send => totals.network_sent_bytes += u64::from(bytes),
                NetworkVerb::Receive => totals.network_received_bytes += u64::from(bytes),
                _ => {}
            }
        }
        let endpoints = network.endpoints();
        sink.network(&NetworkTransfer { at_ns, pid, protocol, verb, bytes, endpoints });
        Ok(())
    }
}

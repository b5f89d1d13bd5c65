//! Decodes kernel events.

use ortscope_core::kernel::{
    BlockIo, BlockPhase, CpuSample, Exec, Exit, FaultKind, KernelEvent, PageFault, StackWalk, Start, Switch,
    SwitchReason, Task, ThreadName, Wakeup,
};
use ortscope_etl::EventRecord;
use ortscope_etl::payload::kernel::{
    ContextSwitch, KernelBody, KernelPayload, Process, ReadyThread, SampledProfile, Thread,
};

use super::coverage::Unused;
use super::fields::Fields;
use super::lifetimes::{Off, ProcessLife, ThreadLife, UNKNOWN_ID};
use super::sink::*;
use super::wait_reason::{WaitReason, switch_reason};
use super::{EtwDecoder, MAX_COUNTERS};

const SECTOR_BYTES: u64 = 512;
const STATE_WAITING: i8 = 5;
/// Exit code of a running process.
const STILL_ACTIVE: i32 = 259;
/// EVENT_TRACE_FLAG_MEMORY_HARD_FAULTS in the first group mask.
const HARD_FAULTS_ON: u32 = 0x2000;
const MAX_COUNTER_NAMES: usize = 64;

impl EtwDecoder {
    /// Returns the outcome, and the token for the event's stack.
    pub(super) fn kernel_record<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        at_ns: u64,
        sink: &mut S,
    ) -> (Result<(), Unused>, u64) {
        let payload = match KernelPayload::decode(record) {
            Ok(payload) => payload,
            Err(error) => return (Err(error.into()), 0),
        };
        let hook = payload.hook.map_or(0, |hook| hook.0);
        if let KernelBody::SampledProfile(sample) = payload.body {
            return (Ok(()), self.sample(record, at_ns, &sample, sink));
        }
        (self.kernel_body(record, at_ns, hook, &payload, sink), u64::from(hook))
    }

    fn kernel_body<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        at_ns: u64,
        hook: u16,
        payload: &KernelPayload<'_>,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let cpu = u32::from(record.processor);
        match payload.body {
            KernelBody::HeaderExtension(header) => {
                self.io.has_hard_faults |= header.group_masks()[0] & HARD_FAULTS_ON != 0;
            }
            KernelBody::Process(process) => self.process_event(hook, at_ns, &process, sink)?,
            KernelBody::Thread(thread) => self.thread_event(record, hook, at_ns, &thread, sink),
            KernelBody::ThreadV0(ids) => {
                let thread = Task { tid: ids.thread_id, pid: ids.process_id };
                self.thread_moment(record, hook, at_ns, ThreadLife { thread, ..ThreadLife::default() }, sink);
            }
            KernelBody::ThreadName(name) => {
                let thread = self.lifetimes.task(name.thread_id, Some(name.process_id));
                let text = name.name.to_string();
                self.rename(at_ns, cpu, thread, text.as_bytes(), sink);
                if let Some(life) = self.lifetimes.thread_mut(thread.tid) {
                    life.name = text;
                }
            }
            KernelBody::Image(image) => {
                let moment = match hook {
                    0x030a => ImageMoment::Load,
                    0x1402 => ImageMoment::Unload,
                    0x1403 => ImageMoment::Before,
                    _ => ImageMoment::After,
                };
                let pid = image.process_id.or(record.process_id).unwrap_or(UNKNOWN_ID);
                if matches!(moment, ImageMoment::Load | ImageMoment::Before)
                    && let Some(totals) = self.lifetimes.totals(pid)
                {
                    totals.images += 1;
                }
                sink.image(&Image {
                    at_ns,
                    moment,
                    pid,
                    base: image.image_base.0,
                    bytes: image.size(),
                    path: image.file_name.to_string(),
                    checksum: image.checksum,
                    time_date_stamp: image.time_date_stamp,
                });
            }
            KernelBody::ImageRsds(symbols) => sink.image_symbols(&ImageSymbols {
                pid: symbols.process_id,
                base: symbols.image_base.0,
                signature: symbols.guid,
                age: symbols.age,
                pdb: symbols.pdb_file_name.to_string(),
            }),
            KernelBody::ContextSwitch(switch) => self.context_switch(record, at_ns, &switch, sink),
            KernelBody::ReadyThread(ready) => self.ready_thread(record, at_ns, &ready, sink),
            KernelBody::CounterSample(sample) => {
                let thread = self.lifetimes.task(sample.thread_id, None);
                let (instruction_pointer, source) = (sample.instruction_pointer.0, sample.profile_source);
                sink.counter_sample(&CounterSample { at_ns, cpu, thread, instruction_pointer, source });
            }
            KernelBody::CounterConfig(config) => {
                self.counter_names =
                    config.names().take(MAX_COUNTER_NAMES).map(|name| name.to_string()).collect();
            }
            // Source 0 is the timer; the last two fields of the others belong to counters.
            KernelBody::ProfileInterval(interval) if interval.source == 0 => {
                self.sample_interval_ns = Some(u64::from(interval.new_interval) * 100);
            }
            KernelBody::Dpc(dpc) => {
                self.interrupt(cpu, at_ns, dpc.initial_ticks, dpc.routine.0, InterruptKind::Deferred, sink)?;
            }
            KernelBody::Interrupt(interrupt) => {
                let (begin, routine) = (interrupt.initial_ticks, interrupt.routine.0);
                self.interrupt(cpu, at_ns, begin, routine, InterruptKind::Interrupt, sink)?;
            }
            KernelBody::SoftFault(fault) => {
                let kind = match hook {
                    0x020a..=0x020d => FaultKind::Minor,
                    0x020e if self.io.has_hard_faults => {
                        self.io.counts.duplicate_faults += 1;
                        return Ok(());
                    }
                    0x020e => FaultKind::Major,
                    _ => FaultKind::Unknown,
                };
                let thread = self.current(record);
                let address = fault.virtual_address.0;
                self.emit(&KernelEvent::PageFault(PageFault { at_ns, cpu, thread, address, kind }), sink);
            }
            KernelBody::HardFault(fault) => {
                self.io.has_hard_faults = true;
                let thread = self.lifetimes.task(fault.thread_id, record.process_id);
                let address = fault.virtual_address.0;
                let kind = FaultKind::Major;
                if let Some(totals) = self.lifetimes.totals(thread.pid) {
                    totals.hard_faults += 1;
                }
                let ticks =
                    record.ticks.checked_sub(fault.initial_ticks).filter(|_| self.has_counter_clock());
                sink.hard_fault(&HardFault {
                    at_ns,
                    cpu,
                    thread,
                    address,
                    bytes: fault.byte_count,
                    duration_ns: ticks.map(|ticks| self.counter_ns(ticks)),
                    file: self.io.file(fault.file_object.0, 0),
                });
                self.emit(&KernelEvent::PageFault(PageFault { at_ns, cpu, thread, address, kind }), sink);
            }
            KernelBody::VirtualMemory(call) => return self.virtual_memory(record, hook, at_ns, &call, sink),
            KernelBody::DiskStart(start) => {
                let thread = match start.issuing_thread_id {
                    Some(tid) => self.lifetimes.task(tid, None),
                    None => self.current(record),
                };
                self.io.issued(start.irp.0, thread);
            }
            KernelBody::DiskTransfer(disk) => {
                let issuer = self.io.issuer(disk.irp.0);
                let thread = match (disk.issuing_thread_id, issuer) {
                    (Some(tid), _) => self.lifetimes.task(tid, None),
                    (None, Some(issuer)) => issuer,
                    (None, None) => self.current(record),
                };
                let is_write = hook == 0x010b;
                let bytes = disk.transfer_size;
                if let Some(totals) = self.lifetimes.totals(thread.pid) {
                    let sum =
                        if is_write { &mut totals.disk_write_bytes } else { &mut totals.disk_read_bytes };
                    *sum += u64::from(bytes);
                }
                self.io.counts.disk_transfers += 1;
                self.io.counts.disk_bytes += u64::from(bytes);
                let io = BlockIo {
                    at_ns,
                    cpu,
                    thread,
                    phase: BlockPhase::Completed,
                    device: disk.disk_number,
                    sector: disk.byte_offset / SECTOR_BYTES,
                    bytes,
                    is_write,
                    device_ns: Some(self.counter_ns(disk.response_ticks)),
                    failed: false,
                };
                let file = self.io.file(disk.file_object.0, 0);
                sink.disk(&DiskTransfer { io, byte_offset: disk.byte_offset, file });
                self.emit(&KernelEvent::BlockIo(io), sink);
            }
            KernelBody::DiskFlush(flush) => {
                let issuer = self.io.issuer(flush.irp.0);
                let thread = match flush.issuing_thread_id {
                    Some(tid) => self.lifetimes.task(tid, None),
                    None => issuer.unwrap_or_else(|| self.current(record)),
                };
                let device_ns = self.counter_ns(flush.response_ticks);
                sink.disk_flush(&DiskFlush { at_ns, thread, disk: flush.disk_number, device_ns });
            }
            KernelBody::FileName(name) => self.io.name_file(name.file_object.0, name.file_name.to_string()),
            KernelBody::FileCreate(create) => {
                self.io.name_file(create.file_object.0, create.open_path.to_string());
                self.file(
                    record,
                    at_ns,
                    hook,
                    create.irp.0,
                    create.thread(),
                    (create.file_object.0, 0),
                    None,
                    sink,
                );
            }
            KernelBody::FileSimple(file) => {
                let objects = (file.file_object.0, file.file_key.0);
                self.file(record, at_ns, hook, file.irp.0, file.thread(), objects, None, sink);
            }
            KernelBody::FileTransfer(file) => {
                let objects = (file.file_object.0, file.file_key.0);
                let range = Some((file.offset, file.size));
                self.file(record, at_ns, hook, file.irp.0, file.thread(), objects, range, sink);
            }
            KernelBody::FileInformation(file) => {
                let objects = (file.file_object.0, file.file_key.0);
                self.file(record, at_ns, hook, file.irp.0, file.thread(), objects, None, sink);
            }
            KernelBody::FileDirectory(file) => {
                let objects = (file.file_object.0, file.file_key.0);
                self.file(record, at_ns, hook, file.irp.0, file.thread(), objects, None, sink);
            }
            KernelBody::FileEnd(end) => {
                if !self.io.end_file(end.irp.0, at_ns, end.status.0, end.extra.0, sink) {
                    return Err(Unused::NoContext);
                }
            }
            KernelBody::Network(network) => return self.network(hook, at_ns, &network, sink),
            KernelBody::PerfStateChange(_)
            | KernelBody::IdleStateChange(_)
            | KernelBody::ThermalConstraint(_)
            | KernelBody::IdleExitLatency(_) => {
                let mut fields = Fields::default();
                payload.visit(&mut fields);
                let name = payload.name.to_owned();
                sink.device(&DeviceRow { at_ns, cpu, provider: "Windows Kernel", name, fields });
            }
            // Handled by the stack matcher.
            KernelBody::StackWalk(_) | KernelBody::StackKey(_) | KernelBody::StackDefinition(_) => {}
            _ => return Err(Unused::NotNeeded),
        }
        Ok(())
    }

    /// The thread that caused an event: from its header, or the one running on its processor.
    pub(super) fn current(&mut self, record: &EventRecord<'_>) -> Task {
        match record.thread_id.filter(|tid| *tid != UNKNOWN_ID) {
            Some(tid) => self.lifetimes.task(tid, record.process_id),
            None => {
                let unknown = Task { tid: UNKNOWN_ID, pid: UNKNOWN_ID };
                self.cores.running(u32::from(record.processor)).unwrap_or(unknown)
            }
        }
    }

    fn process_event<S: EtwSink + ?Sized>(
        &mut self,
        hook: u16,
        at_ns: u64,
        process: &Process<'_>,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let life = ProcessLife {
            pid: process.process_id.0,
            parent_pid: process.parent_id.0,
            session_id: process.session_id,
            image_name: process.image_file_name.to_string(),
            command_line: process.command_line.map(|text| text.to_string()).unwrap_or_default(),
            package: process.package_full_name.map(|text| text.to_string()).unwrap_or_default(),
            user_sid: process.owner.0.map(|sid| sid.to_string()),
            ..ProcessLife::default()
        };
        match hook {
            0x0301 => self.lifetimes.begin_process(ProcessLife { start_ns: Some(at_ns), ..life }, sink),
            0x0303 | 0x0304 => self.lifetimes.begin_process(life, sink),
            0x0302 => {
                let code = process.exit_status.filter(|code| *code != STILL_ACTIVE);
                self.lifetimes.end_process(life, at_ns, code, sink);
            }
            _ => return Err(Unused::NotNeeded),
        }
        Ok(())
    }

    fn thread_event<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        hook: u16,
        at_ns: u64,
        thread: &Thread<'_>,
        sink: &mut S,
    ) {
        let life = ThreadLife {
            thread: Task { tid: thread.thread_id, pid: thread.process_id },
            name: thread.name.flatten().map(|name| name.to_string()).unwrap_or_default(),
            start_address: thread.win32_start_address.map(|address| address.0),
            base_priority: thread.base_priority,
            ..ThreadLife::default()
        };
        self.thread_moment(record, hook, at_ns, life, sink);
    }

    fn thread_moment<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        hook: u16,
        at_ns: u64,
        mut life: ThreadLife,
        sink: &mut S,
    ) {
        let (cpu, thread) = (u32::from(record.processor), life.thread);
        if thread.is_idle() {
            // One idle thread per processor, all with id 0.
            return;
        }
        match hook & 0xff {
            1 => {
                let parent = self.current(record);
                life.start_ns = Some(at_ns);
                // Unnamed threads are named after their program, as on other systems.
                let image_name = self.lifetimes.process(thread.pid).map(|process| process.image_name.clone());
                let name =
                    if life.name.is_empty() { image_name.unwrap_or_default() } else { life.name.clone() };
                self.lifetimes.begin_thread(life, &self.threads, sink);
                let start_ns = Some(at_ns);
                self.emit(
                    &KernelEvent::Start(Start { at_ns, cpu, thread, parent, start_ns, stack_bytes: None }),
                    sink,
                );
                self.rename(at_ns, cpu, thread, name.as_bytes(), sink);
            }
            2 => {
                self.lifetimes.end_thread(thread.tid, thread.pid, at_ns);
                let start_ns = self.lifetimes.thread_mut(thread.tid).and_then(|life| life.start_ns);
                let exit = Exit { at_ns, cpu, thread, code: None, is_last: None, run_ns: None, start_ns };
                self.emit(&KernelEvent::Exit(exit), sink);
            }
            _ => {
                let name = life.name.clone();
                self.lifetimes.begin_thread(life, &self.threads, sink);
                if !name.is_empty() && hook & 0xff == 3 {
                    self.rename(at_ns, cpu, thread, name.as_bytes(), sink);
                }
            }
        }
        self.remember_account(thread.tid);
    }

    /// The account outlives the thread's id.
    fn remember_account(&mut self, tid: u32) {
        if let Some(life) = self.lifetimes.thread_mut(tid)
            && let Some(account) = self.threads.current(tid)
        {
            life.key = Some(account.key);
        }
    }

    fn rename<S: EtwSink + ?Sized>(&mut self, at_ns: u64, cpu: u32, thread: Task, name: &[u8], sink: &mut S) {
        let (old_tid, name) = (thread.tid, ThreadName::from_bytes(name));
        self.emit(&KernelEvent::Exec(Exec { at_ns, cpu, thread, old_tid, name, is_rename: true }), sink);
    }

    fn context_switch<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        at_ns: u64,
        body: &ContextSwitch,
        sink: &mut S,
    ) {
        let cpu = u32::from(record.processor);
        let prev = self.lifetimes.task(body.old_thread_id, None);
        let next = self.lifetimes.task(body.new_thread_id, None);
        let wait_reason = WaitReason(body.old_thread_wait_reason as u8);
        let is_waiting = body.old_thread_state == STATE_WAITING && !prev.is_idle();
        let reason = switch_reason(body.old_thread_state, wait_reason);
        let mut counters = [0; MAX_COUNTERS];
        let mut count = 0;
        for (to, from) in counters.iter_mut().zip(record.counters()) {
            *to = from;
            count += 1;
        }
        let counted = self.cores.switch(cpu, at_ns, prev, next, counters);
        let switch = Switch {
            at_ns,
            cpu,
            prev,
            next,
            reason,
            prev_run_ns: None,
            prev_wait_ns: None,
            prev_memory_mark: None,
        };
        sink.switch(&SwitchDetail {
            switch,
            wait: is_waiting.then_some(wait_reason),
            old_state: body.old_thread_state,
            old_priority: body.old_thread_priority,
            new_priority: body.new_thread_priority,
            counters: &counters[..count],
            counted: counted.as_ref().map(|counted| &counted[..count]).filter(|counted| !counted.is_empty()),
        });
        // The account of an exiting thread is closed by its last switch.
        self.remember_account(prev.tid);
        self.emit(&KernelEvent::Switch(switch), sink);
        if reason != SwitchReason::Ended {
            self.remember_account(prev.tid);
        }
        self.remember_account(next.tid);
        if let Some(life) = self.lifetimes.thread_mut(prev.tid) {
            for (sum, more) in life.account.counters.iter_mut().zip(counted.unwrap_or_default()) {
                *sum = sum.wrapping_add(more);
            }
            life.off = is_waiting.then_some(Off { since_ns: at_ns, reason: wait_reason });
        }
        if let Some(life) = self.lifetimes.thread_mut(next.tid) {
            life.waited(at_ns, true);
        }
    }

    fn ready_thread<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        at_ns: u64,
        body: &ReadyThread,
        sink: &mut S,
    ) {
        let cpu = u32::from(record.processor);
        let (thread, waker) = (self.lifetimes.task(body.thread_id, None), self.current(record));
        if let Some(life) = self.lifetimes.thread_mut(thread.tid) {
            life.waited(at_ns, false);
        }
        self.emit(&KernelEvent::Wakeup(Wakeup { at_ns, cpu, thread, waker }), sink);
        self.remember_account(thread.tid);
    }

    fn sample<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        at_ns: u64,
        body: &SampledProfile,
        sink: &mut S,
    ) -> u64 {
        let thread = self.lifetimes.task(body.thread_id, None);
        if let Some(totals) = self.lifetimes.totals(thread.pid) {
            totals.samples += u64::from(body.count.max(1));
        }
        let sample = Sample {
            cpu: CpuSample {
                at_ns,
                cpu: u32::from(record.processor),
                thread,
                kernel: Vec::new(),
                user: Vec::new(),
                walk: StackWalk::None,
            },
            instruction_pointer: body.instruction_pointer.0,
            count: body.count,
            priority: body.priority(),
            in_dpc: body.in_dpc(),
            in_interrupt: body.in_interrupt(),
            has_stack: false,
        };
        self.samples.push(sample, self.pointer_size, sink)
    }
}

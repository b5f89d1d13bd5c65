//! Writes a part of a file as a new file: a time range, some processes, some providers.
//!
//! Events that later ones depend on (names of processes and threads, loaded images, the machine, schemas, stack
//! definitions) are kept regardless of their time, unless this is disabled.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};
use std::ops::ControlFlow;

use crate::le::{u32_at, u64_at};
use crate::payload::event_source::MANIFEST_EVENT;
use crate::payload::kernel::{IMAGE_ID_CLASS, METADATA_CLASS, SYSTEM_CONFIG_EX_CLASS, class_of_hook};
use crate::writer::{FileSettings, WriteError, Writer, Written};
use crate::{Etl, EtlError, EventRecord, Guid, Hook, Identity, Losses, Storage};

/// Limit for records after the header's own in its buffer, so that they fit into the smallest buffer.
const MAX_HEADER_RECORDS_BYTES: usize = 2 << 10;
/// Limit for threads with a known process; ids are reused, so real files stay far below.
const MAX_THREADS: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum CutError {
    #[error(transparent)]
    Read(#[from] EtlError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Which events to keep; all by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// First tick of the file's clock; see `Clock::ticks_after_start`.
    pub from_ticks: u64,
    /// End tick, exclusive.
    pub until_ticks: u64,
    pub processes: Option<BTreeSet<u32>>,
    /// Providers and classes, including those of kernel events; see [`class_of_hook`].
    pub providers: Option<BTreeSet<Guid>>,
    /// Keep events that later ones depend on, whatever their time, process and provider.
    pub keep_context: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self { from_ticks: 0, until_ticks: u64::MAX, processes: None, providers: None, keep_context: true }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Records of the original, including its header's.
    pub read: u64,
    /// Records selected by the filter.
    pub kept: u64,
    /// Records kept because others depend on them.
    pub context: u64,
    pub dropped: u64,
    /// Dropped records without a known process, if processes were selected.
    pub without_process: u64,
    /// Losses of the original.
    pub losses: Losses,
    pub written: Written,
}

impl<S: Storage> Etl<S> {
    /// Writes the selected events as a new, uncompressed file.
    pub fn cut<W: Write + Seek>(&self, filter: &Filter, out: W) -> Result<(W, Cut), CutError> {
        let mut header_records = Vec::new();
        let (mut in_header, mut capacity, mut dropped) = (0_u64, MAX_HEADER_RECORDS_BYTES, 0);
        self.header_buffer(&mut |record| {
            in_header += 1;
            match capacity.checked_sub(record.bytes.len().next_multiple_of(8)) {
                // The writer creates the first one itself.
                _ if in_header == 1 => {}
                Some(left) => {
                    capacity = left;
                    header_records.push(record.bytes.to_vec());
                }
                None => dropped += 1,
            }
            ControlFlow::Continue(())
        })?;
        let settings =
            FileSettings::like(self.header(), self.largest_buffer()).logger_id(self.first_buffer().logger);
        let mut writer = Writer::with_header_records(out, settings, header_records)?;
        let mut threads = Threads::default();
        if filter.processes.is_some() {
            // Some files name their threads only at the end.
            self.ordered(|record| {
                threads.learn(record, false);
                ControlFlow::Continue(())
            })?;
        }
        let (mut kept, mut context, mut without_process) = (in_header - dropped, 0, 0);
        let mut seen = 0;
        let mut failed = None;
        let walk = self.ordered(|record| {
            seen += 1;
            if seen <= in_header {
                return ControlFlow::Continue(());
            }
            if filter.processes.is_some() {
                threads.learn(record, true);
            }
            match filter.judge(record, &threads) {
                Verdict::Keep => kept += 1,
                Verdict::Context => context += 1,
                Verdict::Drop => {
                    dropped += 1;
                    return ControlFlow::Continue(());
                }
                Verdict::DropUnknown => {
                    dropped += 1;
                    without_process += 1;
                    return ControlFlow::Continue(());
                }
            }
            match writer.raw(record.processor, record.ticks, record.bytes) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let (out, written) = writer.finish()?;
        let cut =
            Cut { read: walk.records, kept, context, dropped, without_process, losses: walk.losses, written };
        Ok((out, cut))
    }
}

enum Verdict {
    Keep,
    Context,
    Drop,
    DropUnknown,
}

impl Filter {
    fn judge(&self, record: &EventRecord<'_>, threads: &Threads) -> Verdict {
        let mut verdict = Verdict::Drop;
        if self.has_time(record) && self.has_provider(record) {
            match &self.processes {
                None => return Verdict::Keep,
                Some(wanted) => match threads.processes_of(record) {
                    [None, None] => verdict = Verdict::DropUnknown,
                    processes if processes.iter().flatten().any(|process| wanted.contains(process)) => {
                        return Verdict::Keep;
                    }
                    _ => {}
                },
            }
        }
        if self.keep_context && self.is_context(record) { Verdict::Context } else { verdict }
    }

    fn has_time(&self, record: &EventRecord<'_>) -> bool {
        let ticks = match record.identity {
            // A stack belongs to the event with the time that it names.
            Identity::Kernel { hook: Hook(0x1820 | 0x1825 | 0x1826), .. } => {
                u64_at(record.payload, 0).unwrap_or(record.ticks)
            }
            _ => record.ticks,
        };
        // Records without a time cannot be placed; they are few and kept.
        record.ticks == 0 || (self.from_ticks..self.until_ticks).contains(&ticks)
    }

    fn has_provider(&self, record: &EventRecord<'_>) -> bool {
        let Some(wanted) = &self.providers else { return true };
        match record.identity {
            Identity::Event { provider, .. } => wanted.contains(&provider),
            Identity::Classic(classic) => wanted.contains(&classic.class),
            Identity::Kernel { hook, .. } => class_of_hook(hook).is_some_and(|class| wanted.contains(&class)),
            Identity::Message(message) => message.guid.is_some_and(|guid| wanted.contains(&guid)),
            Identity::Error => false,
        }
    }

    fn is_context(&self, record: &EventRecord<'_>) -> bool {
        match record.identity {
            Identity::Kernel { hook, .. } => match hook.0 {
                // Images of other processes are irrelevant for the selected ones; the kernel's are not.
                0x030a | 0x1400..=0x14ff => match (&self.processes, image_process(record)) {
                    (Some(wanted), Some(process)) => process == 0 || wanted.contains(&process),
                    _ => true,
                },
                // The trace itself, processes, threads, file names, the machine.
                0x0000..=0x00ff | 0x0300..=0x03ff | 0x0501..=0x0504 | 0x0548 => true,
                0x0400 | 0x0420 | 0x0423 | 0x0424 | 0x0b00..=0x0bff => true,
                // Configuration of counters and the profiler, stack definitions.
                0x0f30 | 0x0f49 | 0x0f4a | 0x1822..=0x1824 => true,
                _ => false,
            },
            Identity::Classic(classic) => {
                [METADATA_CLASS, IMAGE_ID_CLASS, SYSTEM_CONFIG_EX_CLASS].contains(&classic.class)
            }
            Identity::Event { provider, descriptor } => {
                descriptor.id == MANIFEST_EVENT
                    && self.providers.as_ref().is_none_or(|wanted| wanted.contains(&provider))
            }
            Identity::Message(_) | Identity::Error => false,
        }
    }
}

/// The process of an image event: after two pointers since version 1.
fn image_process(record: &EventRecord<'_>) -> Option<u32> {
    match record.identity {
        Identity::Kernel { version: 1.., .. } => u32_at(record.payload, 2 * record.pointer_size.bytes()),
        _ => None,
    }
}

/// The process of each thread, and the thread running on each processor.
#[derive(Default)]
struct Threads {
    process_of: BTreeMap<u32, u32>,
    running: BTreeMap<u16, u32>,
}

impl Threads {
    fn learn(&mut self, record: &EventRecord<'_>, overwrite: bool) {
        let Identity::Kernel { hook, version } = record.identity else { return };
        match hook.0 {
            0x0501..=0x0504 => {
                let (Some(first), Some(second)) = (u32_at(record.payload, 0), u32_at(record.payload, 4))
                else {
                    return;
                };
                let (process, thread) = if version == 0 { (second, first) } else { (first, second) };
                if self.process_of.len() < MAX_THREADS || self.process_of.contains_key(&thread) {
                    let known = self.process_of.entry(thread).or_insert(process);
                    // An end has no new information, and at the end of a file the id may have been
                    // reused.
                    if overwrite && hook.0 != 0x0504 {
                        *known = process;
                    }
                }
            }
            0x0524 => {
                if let Some(thread) = u32_at(record.payload, 0) {
                    self.running.insert(record.processor, thread);
                }
            }
            _ => {}
        }
    }

    /// The processes that an event concerns: two for a context switch.
    fn processes_of(&self, record: &EventRecord<'_>) -> [Option<u32>; 2] {
        let of_thread =
            |at: usize| u32_at(record.payload, at).and_then(|thread| self.process_of.get(&thread)).copied();
        if let Identity::Kernel { hook, .. } = record.identity {
            match hook.0 {
                0x1820 | 0x1825 | 0x1826 => return [u32_at(record.payload, 8), None],
                0x0f2e | 0x0f2f => return [of_thread(record.pointer_size.bytes()), None],
                0x0524 => return [of_thread(0), of_thread(4)],
                0x0532 => return [of_thread(0), None],
                _ => {}
            }
        }
        let running = || {
            let thread = self.running.get(&record.processor)?;
            self.process_of.get(thread).copied()
        };
        [record.process_id.or_else(running), None]
    }
}

//! Limits events to some processes.
//!
//! Windows delivers the kernel events of all processes only. Starts, ends and context switches always pass the filter:
//! the names and times of the selected processes depend on them.

use std::collections::HashMap;

use super::{
    CounterSample, DeviceRow, DiskFlush, DiskTransfer, EngineBusy, EtwSink, EventStack, FileOperation,
    GpuPacket, HardFault, Image, ImageSymbols, Inference, InterruptTime, NetworkTransfer, OrtActivity,
    OrtOperator, OrtRow, OrtSession, ProcessLife, Sample, SwitchDetail, ThreadLife, VirtualMemory,
};
use ortscope_core::kernel::KernelEvent;

/// Maximum number of remembered process names. Further processes are matched by id only.
const MAX_NAMES: usize = 1 << 16;

/// The processes to include and exclude. Names are program names, case-insensitive, with or without `.exe`. An exclusion
/// wins over an inclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFilter {
    /// All processes are included when both lists of inclusions are empty.
    pub include_pids: Vec<u32>,
    pub include_names: Vec<String>,
    /// By default 0 and 4: idle time and the kernel.
    pub exclude_pids: Vec<u32>,
    /// By default System, Idle and Registry.
    pub exclude_names: Vec<String>,
}

impl Default for ProcessFilter {
    fn default() -> Self {
        Self {
            exclude_pids: vec![0, 4],
            exclude_names: ["System", "Idle", "Registry"].map(str::to_owned).to_vec(),
            ..Self::everything()
        }
    }
}

impl ProcessFilter {
    pub fn everything() -> Self {
        Self {
            include_pids: Vec::new(),
            include_names: Vec::new(),
            exclude_pids: Vec::new(),
            exclude_names: Vec::new(),
        }
    }

    fn includes(&self, pid: u32, name: Option<&str>) -> bool {
        let has = |names: &[String]| name.is_some_and(|name| names.iter().any(|known| is_same(known, name)));
        let includes_all = self.include_pids.is_empty() && self.include_names.is_empty();
        (includes_all || self.include_pids.contains(&pid) || has(&self.include_names))
            && !self.exclude_pids.contains(&pid)
            && !has(&self.exclude_names)
    }
}

fn is_same(one: &str, other: &str) -> bool {
    let stem = |name: &str| {
        let lower = name.to_ascii_lowercase();
        lower.strip_suffix(".exe").map_or_else(|| lower.clone(), str::to_owned)
    };
    stem(one) == stem(other)
}

/// A filter with the processes it has decided on, so that an event costs one lookup.
#[derive(Debug)]
pub struct Filtering {
    filter: ProcessFilter,
    lets_all: bool,
    /// The decision for every process whose name is known.
    known: HashMap<u32, bool>,
    dropped: u64,
}

impl Filtering {
    pub fn new(filter: ProcessFilter) -> Self {
        let lets_all = filter == ProcessFilter::everything();
        Self { filter, lets_all, known: HashMap::new(), dropped: 0 }
    }

    /// Number of events that did not pass.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A sink that hands the events that pass to `sink`.
    pub fn over<'a, S: EtwSink + ?Sized>(&'a mut self, sink: &'a mut S) -> Filtered<'a, S> {
        Filtered { filtering: self, sink }
    }

    fn lets(&mut self, pid: u32) -> bool {
        let known = || self.known.get(&pid).copied();
        let lets = self.lets_all || known().unwrap_or_else(|| self.filter.includes(pid, None));
        self.dropped += u64::from(!lets);
        lets
    }

    fn begins(&mut self, process: &ProcessLife) {
        if !self.lets_all && (self.known.len() < MAX_NAMES || self.known.contains_key(&process.pid)) {
            self.known.insert(process.pid, self.filter.includes(process.pid, Some(&process.image_name)));
        }
    }
}

#[derive(Debug)]
pub struct Filtered<'a, S: ?Sized> {
    filtering: &'a mut Filtering,
    sink: &'a mut S,
}

/// Passes events of a process if the filter includes it, and all other events always.
macro_rules! pass_on {
    (
        of_processes { $($method:ident($value:ident: &$kind:ty) of $pid:expr;)* }
        always { $($other:ident(&$other_kind:ty);)* }
    ) => {
        $(fn $method(&mut self, $value: &$kind) {
            if self.filtering.lets($pid) {
                self.sink.$method($value);
            }
        })*
        $(fn $other(&mut self, value: &$other_kind) {
            self.sink.$other(value);
        })*
    };
}

impl<S: EtwSink + ?Sized> EtwSink for Filtered<'_, S> {
    fn kernel(&mut self, event: &KernelEvent) {
        let pid = match event {
            KernelEvent::Wakeup(event) => event.thread.pid,
            KernelEvent::Migration(event) => event.thread.pid,
            KernelEvent::PageFault(event) => event.thread.pid,
            KernelEvent::BlockIo(event) => event.thread.pid,
            KernelEvent::MemoryCall(event) => event.thread.pid,
            _ => return self.sink.kernel(event),
        };
        if self.filtering.lets(pid) {
            self.sink.kernel(event);
        }
    }

    fn process_begins(&mut self, process: &ProcessLife) {
        self.filtering.begins(process);
        self.sink.process_begins(process);
    }

    fn process_ends(&mut self, process: &ProcessLife) {
        self.sink.process_ends(process);
        self.filtering.known.remove(&process.pid);
    }

    // The kernel and its drivers have the id 0: every process runs their code.
    fn image(&mut self, image: &Image) {
        if image.pid == 0 || self.filtering.lets(image.pid) {
            self.sink.image(image);
        }
    }

    fn image_symbols(&mut self, symbols: &ImageSymbols) {
        if symbols.pid == 0 || self.filtering.lets(symbols.pid) {
            self.sink.image_symbols(symbols);
        }
    }

    pass_on! {
        of_processes {
        sample(sample: &Sample) of sample.cpu.thread.pid;
        counter_sample(sample: &CounterSample) of sample.thread.pid;
        stack(stack: &EventStack) of stack.thread.pid;
        disk(disk: &DiskTransfer) of disk.io.thread.pid;
        disk_flush(flush: &DiskFlush) of flush.thread.pid;
        file(operation: &FileOperation) of operation.thread.pid;
        hard_fault(fault: &HardFault) of fault.thread.pid;
        virtual_memory(call: &VirtualMemory) of call.thread.pid;
        network(transfer: &NetworkTransfer) of transfer.pid;
        session(session: &OrtSession) of session.pid;
        inference(inference: &Inference) of inference.pid;
        operator(operator: &OrtOperator) of operator.pid;
        ort_activity(activity: &OrtActivity) of activity.pid;
        ort(row: &OrtRow) of row.pid;
        engine_busy(busy: &EngineBusy) of busy.pid;
        gpu_packet(packet: &GpuPacket) of packet.pid;
        }
        always {
        switch(&SwitchDetail<'_>);
        thread_begins(&ThreadLife);
        thread_ends(&ThreadLife);
        interrupt(&InterruptTime);
        device(&DeviceRow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_win_and_names_match_without_extension() {
        let usual = ProcessFilter::default();
        assert!(usual.includes(100, Some("python.exe")) && usual.includes(100, None));
        assert!(
            !usual.includes(0, None)
                && !usual.includes(4, Some("x"))
                && !usual.includes(120, Some("registry"))
        );
        let some = ProcessFilter {
            include_pids: vec![7],
            include_names: vec!["Python".to_owned()],
            exclude_pids: vec![8],
            ..ProcessFilter::everything()
        };
        assert!(some.includes(7, None) && some.includes(9, Some("python.exe")));
        assert!(!some.includes(9, Some("pythonw.exe")) && !some.includes(9, None));
        assert!(!some.includes(8, Some("python.exe")));
    }
}

//! A configurable function table.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use ortscope_decode::etw::live::{HEADER_BYTES, ProviderId};
use ortscope_etl::payload::kernel::class_of_hook;
use ortscope_etl::{EventRecord, Guid, Identity, PointerSize};
use ortscope_sources::etw::{
    Code, Consumer, Control, EtwApi, InformationClass, RawItem, RawRecord, Request, SessionHandle,
    SessionStatus, Settings, TraceHandle, codes,
};

/// Delivers the records of a session; called on its reader thread.
pub type Deliver = dyn Fn(&Consumer, &AtomicBool) + Send + Sync;

#[derive(Default)]
pub struct State {
    pub sessions: HashMap<String, SessionStatus>,
    /// Every call, in order.
    pub calls: Vec<String>,
    pub claimed: HashSet<String>,
    consumer: Option<Arc<Consumer>>,
}

/// Windows, as far as sessions use it.
pub struct Table {
    pub state: Mutex<State>,
    pub changed: Condvar,
    /// Error codes by function name.
    pub refuse: HashMap<&'static str, Code>,
    pub is_emulated: bool,
    pub service: bool,
    /// Names of processor counters; the first one has number 1.
    pub counters: Vec<&'static str>,
    pub max_counters: u32,
    pub frequency: u64,
    pub deliver: Box<Deliver>,
    pub stopped: Arc<AtomicBool>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            refuse: HashMap::new(),
            is_emulated: false,
            service: false,
            counters: vec!["InstructionRetired", "TotalCycles", "CacheMisses"],
            max_counters: 2,
            frequency: 10_000_000,
            deliver: Box::new(|_, _| ()),
            stopped: Arc::default(),
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Table")
    }
}

/// The claim of a process, kept by the test for another process.
struct Claim;

impl Table {
    pub fn refusing(function: &'static str, code: Code) -> Self {
        Self { refuse: HashMap::from([(function, code)]), ..Self::default() }
    }

    pub fn calls(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.clone()
    }

    fn call(&self, function: &'static str, call: String) -> Result<(), Code> {
        self.state.lock().unwrap().calls.push(call);
        self.refuse.get(function).map_or(Ok(()), |code| Err(*code))
    }

    /// Another program ends a session.
    pub fn stop_from_outside(&self, name: &str) {
        self.state.lock().unwrap().sessions.remove(name);
        self.stopped.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

impl EtwApi for Table {
    fn is_emulated(&self) -> bool {
        self.is_emulated
    }

    fn is_service(&self) -> bool {
        self.service
    }

    fn ticks_per_second(&self) -> u64 {
        self.frequency
    }

    fn enable_profile_privilege(&self) -> Result<(), Code> {
        self.call("privilege", "enable SeSystemProfilePrivilege".to_owned())
    }

    fn start(&self, settings: &Settings) -> Result<SessionHandle, Code> {
        self.call("start", format!("start {}", settings.name))?;
        let mut state = self.state.lock().unwrap();
        if state.sessions.contains_key(&settings.name) {
            return Err(codes::ALREADY_EXISTS);
        }
        let status = SessionStatus {
            name: settings.name.clone(),
            buffer_kilobytes: settings.buffer_kilobytes,
            minimum_buffers: settings.minimum_buffers,
            maximum_buffers: settings.maximum_buffers,
            ..SessionStatus::default()
        };
        state.sessions.insert(settings.name.clone(), status);
        Ok(SessionHandle(1))
    }

    fn control(&self, name: &str, what: Control) -> Result<SessionStatus, Code> {
        self.call("control", format!("{what:?} {name}"))?;
        let mut state = self.state.lock().unwrap();
        let status = state.sessions.get_mut(name).ok_or(codes::INSTANCE_NOT_FOUND)?;
        if let Control::MaximumBuffers(buffers) = what {
            status.maximum_buffers = buffers;
        }
        let status = status.clone();
        if what == Control::Stop {
            state.sessions.remove(name);
            self.stopped.store(true, Ordering::SeqCst);
            self.changed.notify_all();
        }
        Ok(status)
    }

    fn sessions(&self) -> Result<Vec<SessionStatus>, Code> {
        self.call("sessions", "list".to_owned())?;
        Ok(self.state.lock().unwrap().sessions.values().cloned().collect())
    }

    fn set_information(
        &self,
        session: Option<SessionHandle>,
        class: InformationClass,
        data: &[u8],
    ) -> Result<(), Code> {
        let function = match class {
            InformationClass::StackTracing => "stacks",
            InformationClass::SampleInterval => "interval",
            InformationClass::Counters | InformationClass::CounterEvents => "counters",
            _ => "flags",
        };
        self.call(function, format!("set {class:?} of {:?} to {data:02x?}", session.map(|session| session.0)))
    }

    fn query_information(&self, class: InformationClass, question: &[u8]) -> Result<Vec<u8>, Code> {
        self.call("query", format!("ask for {class:?} with {question:02x?}"))?;
        Ok(match class {
            // Windows' default is 1 ms.
            InformationClass::SampleInterval => [0u32, 10_000].map(u32::to_le_bytes).as_flattened().to_vec(),
            InformationClass::MaxCounters => self.max_counters.to_le_bytes().to_vec(),
            _ => source_list(&self.counters),
        })
    }

    fn enable(
        &self,
        _session: SessionHandle,
        provider: ProviderId,
        request: Request,
        level: u8,
        keywords: u64,
    ) -> Result<(), Code> {
        self.call("provider", format!("{request:?} {provider} at level {level} with {keywords:#x}"))
    }

    fn open(&self, name: &str, consumer: Arc<Consumer>) -> Result<TraceHandle, Code> {
        self.call("open", format!("open {name}"))?;
        self.state.lock().unwrap().consumer = Some(consumer);
        Ok(TraceHandle(2))
    }

    /// Delivers the records, then waits for the end of the session like Windows.
    fn process(&self, _trace: TraceHandle) -> Result<(), Code> {
        self.call("process", "process".to_owned())?;
        let consumer = self.state.lock().unwrap().consumer.clone().unwrap();
        (self.deliver)(&consumer, &self.stopped);
        let mut state = self.state.lock().unwrap();
        while !self.stopped.load(Ordering::SeqCst) {
            state = self.changed.wait(state).unwrap();
        }
        Ok(())
    }

    fn close(&self, _trace: TraceHandle) -> Result<(), Code> {
        self.call("close", "close".to_owned())?;
        self.stopped.store(true, Ordering::SeqCst);
        self.changed.notify_all();
        Ok(())
    }

    fn claim(&self, name: &str) -> Option<Box<dyn Send + Sync>> {
        if self.state.lock().unwrap().claimed.contains(name) { None } else { Some(Box::new(Claim)) }
    }
}

/// The timer and these, in the format of Windows.
fn source_list(names: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, name) in std::iter::once(&"Timer").chain(names).enumerate() {
        let length = (24 + 2 * (name.len() + 1)).next_multiple_of(8);
        let next = if id == names.len() { 0 } else { length as u32 };
        let begin = bytes.len();
        bytes.extend([next, id as u32, 1221, 10_000, 0, 0].map(u32::to_le_bytes).as_flattened());
        bytes.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        bytes.resize(begin + length, 0);
    }
    bytes
}

pub fn corpus() -> Option<PathBuf> {
    let root = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = root.join("etl");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no traces in {}; set ORTSCOPE_CORPUS", folder.display());
    None
}

/// Passes a record of a file to a consumer, in the form in which Windows delivers session records.
pub fn deliver_record(record: &EventRecord<'_>, consumer: &Consumer) {
    const CLASSIC: u16 = 0x100;
    const PROCESSOR_INDEX: u16 = 0x200;
    let pointers = if record.pointer_size == PointerSize::Four { 0x20 } else { 0x40 };
    let mut header = [0u8; HEADER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    let (flags, provider) = match record.identity {
        Identity::Kernel { hook, version } => {
            put(42, &[version as u8]);
            put(45, &[hook.kind()]);
            // Hooks without a class get an unknown one.
            (CLASSIC, class_of_hook(hook).unwrap_or(Guid::new(1)))
        }
        Identity::Classic(classic) => {
            put(42, &[classic.version as u8]);
            put(44, &[classic.level, classic.kind]);
            (CLASSIC, classic.class)
        }
        Identity::Event { provider, descriptor } => {
            put(40, &descriptor.id.to_le_bytes());
            put(42, &[descriptor.version, descriptor.channel, descriptor.level, descriptor.opcode]);
            put(46, &descriptor.task.to_le_bytes());
            put(48, &descriptor.keyword.to_le_bytes());
            (0, provider)
        }
        Identity::Message(_) | Identity::Error => (CLASSIC, Guid::new(2)),
    };
    put(4, &(flags | PROCESSOR_INDEX | pointers).to_le_bytes());
    put(8, &record.thread_id.unwrap_or(u32::MAX).to_le_bytes());
    put(12, &record.process_id.unwrap_or(u32::MAX).to_le_bytes());
    put(16, &record.ticks.to_le_bytes());
    put(24, &provider.to_bytes());
    put(64, &record.activity.unwrap_or_default().to_bytes());
    let counters = (!record.counter_bytes.is_empty()).then_some((8u16, record.counter_bytes));
    let items: Vec<RawItem> = record
        .extended()
        .map(|item| (item.kind, item.data))
        .chain(counters)
        .map(|(kind, data)| RawItem {
            reserved: 0,
            kind,
            linkage: 0,
            bytes: data.len() as u16,
            data: data.as_ptr().expose_provenance() as u64,
        })
        .collect();
    let raw = RawRecord {
        header,
        processor: record.processor,
        logger: record.logger,
        items: items.len() as u16,
        payload_bytes: record.payload.len() as u16,
        item_list: items.as_ptr(),
        payload: record.payload.as_ptr(),
        context: std::ptr::null_mut(),
    };
    // SAFETY: everything that the record points to lives until the end of this function.
    unsafe { consumer.push(&raw) };
}

//! Adapters from DXCore, including NPUs, and their own figures (Windows 11 24H2 and newer). The library is loaded if
//! present; its COM objects have function tables that are declared here as in the public header.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::null_mut;

use windows_sys::core::GUID;

use super::com::{Count, Object, Query};
use super::kmt::KernelStatistics;
use super::native::{Function, system_library};
use crate::devices::adapters::{Adapter, AdapterApi, AdapterState, ProcessState, StateApi};

const FACTORY: GUID = GUID::from_u128(0x78ee5945_c36e_4b13_a669_005dd11c0f06);
const ADAPTER_LIST: GUID = GUID::from_u128(0x526c7776_40e9_459b_b711_f32ad76dfc28);
const ADAPTER: GUID = GUID::from_u128(0xf0db4c7f_fe5a_42a2_bd62_f2a6cf6fc83e);
/// `IDXCoreAdapter1`.
const ADAPTER_1: GUID = GUID::from_u128(0xa0783366_cfa3_43be_9d79_55b2da97c63c);
const ATTRIBUTE_D3D12_GRAPHICS: GUID = GUID::from_u128(0x0c9ece4d_2f6e_4f01_8c96_e89e331b47b1);
const ATTRIBUTE_D3D12_CORE_COMPUTE: GUID = GUID::from_u128(0x248e2800_a793_4724_abaa_23a6de1be090);
const ATTRIBUTE_GENERIC_ML: GUID = GUID::from_u128(0xb71b0d41_1088_422f_a27c_0250b7d3a988);
const ATTRIBUTE_NPU: GUID = GUID::from_u128(0xd46140c4_add7_451b_9e56_06fe8c3b58ed);
/// Limit for adapters per list.
const MAX_ADAPTERS: u32 = 64;
/// Limit for engines per adapter; real ones have fewer than twenty.
const MAX_ENGINES: u32 = 64;

/// Limit for processes per adapter.
const MAX_PROCESSES: usize = 64;

/// Property numbers from the header.
mod property {
    pub const LUID: u32 = 0;
    pub const DRIVER_VERSION: u32 = 1;
    pub const DRIVER_DESCRIPTION: u32 = 2;
    pub const DEDICATED_MEMORY: u32 = 7;
    pub const SHARED_MEMORY: u32 = 9;
    pub const IS_HARDWARE: u32 = 11;
    pub const IS_INTEGRATED: u32 = 12;
    pub const ENGINE_COUNT: u32 = 16;
}

/// Query numbers from the header.
mod state {
    pub const MEMORY_USAGE: u32 = 2;
    pub const MEMORY_USAGE_BY_PROCESS: u32 = 3;
    pub const ENGINE_RUNNING_TIME: u32 = 4;
    pub const ENGINE_RUNNING_TIME_BY_PROCESS: u32 = 5;
    pub const TEMPERATURE: u32 = 6;
    pub const PROCESS_SET: u32 = 8;
    pub const ENGINE_FREQUENCY: u32 = 9;
}

/// `DXCoreAdapterEngineIndex`; for memory the second number selects local (0) or shared (1).
#[repr(C)]
struct Which {
    physical: u32,
    which: u32,
}

/// `DXCoreEngineQueryOutput`: microseconds.
#[repr(C)]
#[derive(Default)]
struct RunningTime {
    micros: u64,
    succeeded: u8,
}

/// `DXCoreEngineQueryInput`, and `DXCoreProcessMemoryQueryInput`.
#[repr(C)]
struct WhichOfProcess {
    which: Which,
    pid: u32,
}

/// `DXCoreProcessMemoryQueryOutput`.
#[repr(C)]
#[derive(Default)]
struct ProcessMemory {
    usage: MemoryUsage,
    succeeded: u8,
}

/// `DXCoreAdapterProcessSetQueryInput`.
#[repr(C)]
struct ProcessList {
    places: u32,
    pids: *mut u32,
}

/// `DXCoreAdapterProcessSetQueryOutput`.
#[repr(C)]
#[derive(Default)]
struct ProcessCount {
    written: u32,
    total: u32,
}

/// `DXCoreMemoryUsage`.
#[repr(C)]
#[derive(Default)]
struct MemoryUsage {
    committed: u64,
    resident: u64,
}

/// `DXCoreFrequencyQueryOutput`.
#[repr(C)]
#[derive(Default)]
struct Frequency {
    hertz: u64,
    max: u64,
    most_overclocked: u64,
}

/// `IDXCoreAdapterFactory`.
#[repr(C)]
struct FactoryTable {
    query: Query,
    add: Count,
    release: Count,
    create_list:
        unsafe extern "system" fn(*mut c_void, u32, *const GUID, *const GUID, *mut *mut c_void) -> i32,
}

/// `IDXCoreAdapterList`.
#[repr(C)]
struct ListTable {
    query: Query,
    add: Count,
    release: Count,
    get: unsafe extern "system" fn(*mut c_void, u32, *const GUID, *mut *mut c_void) -> i32,
    count: Count,
}

/// `IDXCoreAdapter`. A C++ `bool` is one byte.
#[repr(C)]
struct AdapterTable {
    query: Query,
    add: Count,
    release: Count,
    is_valid: unsafe extern "system" fn(*mut c_void) -> u8,
    is_attribute_supported: unsafe extern "system" fn(*mut c_void, *const GUID) -> u8,
    is_property_supported: unsafe extern "system" fn(*mut c_void, u32) -> u8,
    get_property: unsafe extern "system" fn(*mut c_void, u32, usize, *mut c_void) -> i32,
    get_property_size: unsafe extern "system" fn(*mut c_void, u32, *mut usize) -> i32,
    is_query_state_supported: unsafe extern "system" fn(*mut c_void, u32) -> u8,
    query_state: Ask,
    is_set_state_supported: unsafe extern "system" fn(*mut c_void, u32) -> u8,
    set_state: unsafe extern "system" fn(*mut c_void, u32, usize, *const c_void, usize, *const c_void) -> i32,
    get_factory: Query,
}

/// `IDXCoreAdapter1`: one additional function.
#[repr(C)]
struct AdapterTable1 {
    base: AdapterTable,
    get_property_with_input: Ask,
}

/// A number, the question (its length first), and the buffer for the answer (its length first).
type Ask = unsafe extern "system" fn(*mut c_void, u32, usize, *const c_void, usize, *mut c_void) -> i32;

/// Listed adapters, kept for queries.
#[derive(Default)]
pub(super) struct WindowsAdapters {
    listed: BTreeMap<u64, Object<AdapterTable1>>,
}

impl AdapterApi for WindowsAdapters {
    fn adapters(&mut self) -> Result<Vec<Adapter>, String> {
        type Create = unsafe extern "system" fn(*const GUID, *mut *mut c_void) -> i32;
        let create = system_library("dxcore.dll", c"DXCoreCreateAdapterFactory")
            .ok_or_else(|| "dxcore.dll, which lists GPUs and NPUs, is missing".to_owned())?;
        // SAFETY: this is the function's documented signature.
        let create = unsafe { transmute::<Function, Create>(create) };
        let mut pointer = null_mut();
        // SAFETY: a live GUID and live space for the object.
        let status = unsafe { create(&FACTORY, &mut pointer) };
        // SAFETY: the function returns an object of the requested interface, or null.
        let factory = unsafe { Object::<FactoryTable>::own(pointer) };
        let factory = factory
            .filter(|_| status >= 0)
            .ok_or_else(|| format!("DXCore cannot be initialized: 0x{status:08X}"))?;
        let mut found: Vec<Adapter> = Vec::new();
        let mut known = false;
        // Adapter kinds; Windows before 11 does not know the last two.
        for kind in
            [ATTRIBUTE_D3D12_GRAPHICS, ATTRIBUTE_D3D12_CORE_COMPUTE, ATTRIBUTE_GENERIC_ML, ATTRIBUTE_NPU]
        {
            let mut pointer = null_mut();
            // SAFETY: the factory is live, one live GUID is passed as a list of one, and the space for the
            // object is live.
            let status = unsafe {
                (factory.table().create_list)(factory.pointer, 1, &kind, &ADAPTER_LIST, &mut pointer)
            };
            // SAFETY: as above.
            let Some(list) = (unsafe { Object::<ListTable>::own(pointer) }).filter(|_| status >= 0) else {
                continue;
            };
            known = true;
            // SAFETY: the list is live.
            let count = unsafe { (list.table().count)(list.pointer) }.min(MAX_ADAPTERS);
            for index in 0..count {
                let mut pointer = null_mut();
                // SAFETY: the list is live, the index is below its count, and the space for the object is
                // live.
                let status = unsafe { (list.table().get)(list.pointer, index, &ADAPTER, &mut pointer) };
                // SAFETY: as above.
                let adapter = (unsafe { Object::<AdapterTable>::own(pointer) }).filter(|_| status >= 0);
                if let Some((object, adapter)) =
                    adapter.and_then(|object| describe(&object).map(|adapter| (object, adapter)))
                    && found.iter().all(|known| known.id != adapter.id)
                {
                    self.listed.extend(newer(&object).map(|newer| (adapter.id, newer)));
                    found.push(adapter);
                }
            }
        }
        if known { Ok(found) } else { Err("DXCore lists no kind of adapter".to_owned()) }
    }

    fn build(&self) -> Option<u32> {
        super::build()
    }

    fn states(&mut self) -> Vec<Box<dyn StateApi>> {
        let mut states: Vec<Box<dyn StateApi>> = Vec::new();
        let mut listed = std::mem::take(&mut self.listed);
        listed.retain(|_, adapter| {
            [state::ENGINE_RUNNING_TIME, state::MEMORY_USAGE, state::TEMPERATURE]
                .iter()
                .any(|state| adapter.answers(*state))
        });
        if !listed.is_empty() {
            states.push(Box::new(OwnStates { adapters: listed }));
        }
        states.push(Box::new(KernelStatistics::default()));
        states
    }
}

/// The newer interface of the same adapter; `None` before Windows 11 24H2.
fn newer(adapter: &Object<AdapterTable>) -> Option<Object<AdapterTable1>> {
    let mut pointer = null_mut();
    // SAFETY: the adapter, the GUID and the space for the object are live.
    let status = unsafe { (adapter.table().query)(adapter.pointer, &ADAPTER_1, &mut pointer) };
    // SAFETY: the function returns an object of the requested interface, or null.
    unsafe { Object::<AdapterTable1>::own(pointer) }.filter(|_| status >= 0)
}

impl Object<AdapterTable1> {
    fn answers(&self, state: u32) -> bool {
        // SAFETY: the adapter is live.
        unsafe { (self.table().base.is_query_state_supported)(self.pointer, state) != 0 }
    }

    /// Sends one query; `None` if it is not answered.
    fn query_state<Q, A: Default>(&self, state: u32, question: &Q) -> Option<A> {
        let mut answer = A::default();
        // SAFETY: the adapter is live; question and answer are live, have the stated lengths, and are plain
        // numbers in the header's layout.
        let status = unsafe {
            (self.table().base.query_state)(
                self.pointer,
                state,
                size_of::<Q>(),
                (&raw const *question).cast(),
                size_of::<A>(),
                (&raw mut answer).cast(),
            )
        };
        (status >= 0).then_some(answer)
    }

    fn engines(&self) -> u32 {
        let (physical, mut count) = (0_u32, 0_u32);
        // SAFETY: the adapter is live; question and answer are one live number each.
        let status = unsafe {
            (self.table().get_property_with_input)(
                self.pointer,
                property::ENGINE_COUNT,
                size_of::<u32>(),
                (&raw const physical).cast(),
                size_of::<u32>(),
                (&raw mut count).cast(),
            )
        };
        // Adapters that do not report the number of engines are queried until one does not exist.
        if status >= 0 && count > 0 { count.min(MAX_ENGINES) } else { MAX_ENGINES }
    }
}

/// Figures reported by the adapters.
struct OwnStates {
    adapters: BTreeMap<u64, Object<AdapterTable1>>,
}

impl StateApi for OwnStates {
    fn source(&self) -> &'static str {
        "dxcore"
    }

    fn is_last_resort(&self) -> bool {
        false
    }

    fn state(&mut self, id: u64) -> Option<AdapterState> {
        const PHYSICAL: u32 = 0;
        let adapter = self.adapters.get(&id)?;
        let mut reported = AdapterState::default();
        if adapter.answers(state::ENGINE_RUNNING_TIME) {
            let times = (0..adapter.engines()).map_while(|engine| {
                let which = Which { physical: PHYSICAL, which: engine };
                adapter.query_state::<_, RunningTime>(state::ENGINE_RUNNING_TIME, &which)
            });
            reported.engines_ns = times.map(|time| time.micros.saturating_mul(1000)).collect();
        }
        if adapter.answers(state::MEMORY_USAGE) {
            let used = |which| {
                adapter
                    .query_state::<_, MemoryUsage>(state::MEMORY_USAGE, &Which { physical: PHYSICAL, which })
            };
            let parts: Vec<u64> =
                [used(0), used(1)].into_iter().flatten().map(|usage| usage.resident).collect();
            reported.used_bytes = (!parts.is_empty()).then(|| parts.iter().sum());
        }
        if adapter.answers(state::TEMPERATURE) {
            reported.celsius = adapter.query_state::<_, f32>(state::TEMPERATURE, &PHYSICAL).map(f64::from);
        }
        if adapter.answers(state::ENGINE_FREQUENCY) {
            let clocks = (0..adapter.engines()).map_while(|engine| {
                adapter.query_state::<_, Frequency>(
                    state::ENGINE_FREQUENCY,
                    &Which { physical: PHYSICAL, which: engine },
                )
            });
            reported.hertz = clocks.map(|clock| clock.hertz as f64).reduce(f64::max);
        }
        Some(reported)
    }

    fn processes(&mut self, id: u64) -> Option<Vec<ProcessState>> {
        const PHYSICAL: u32 = 0;
        let adapter = self.adapters.get(&id)?;
        let tells_time = adapter.answers(state::ENGINE_RUNNING_TIME_BY_PROCESS);
        let tells_memory = adapter.answers(state::MEMORY_USAGE_BY_PROCESS);
        if !adapter.answers(state::PROCESS_SET) || !(tells_time || tells_memory) {
            return None;
        }
        let mut pids = [0_u32; MAX_PROCESSES];
        let list = ProcessList { places: MAX_PROCESSES as u32, pids: pids.as_mut_ptr() };
        let count: ProcessCount = adapter.query_state(state::PROCESS_SET, &list)?;
        let engines = if tells_time { adapter.engines() } else { 0 };
        let of = |pid: u32| {
            let which = |which| WhichOfProcess { which: Which { physical: PHYSICAL, which }, pid };
            let times = (0..engines).map_while(|engine| {
                let question = which(engine);
                adapter.query_state::<_, RunningTime>(state::ENGINE_RUNNING_TIME_BY_PROCESS, &question)
            });
            // A query fails for a process that has exited or is not accessible, which is different from 0.
            let engines_ns =
                times.take_while(|time| time.succeeded != 0).map(|time| time.micros.saturating_mul(1000));
            let memory = |kind| {
                let used =
                    adapter.query_state::<_, ProcessMemory>(state::MEMORY_USAGE_BY_PROCESS, &which(kind));
                used.filter(|used| tells_memory && used.succeeded != 0)
            };
            let memory: Vec<ProcessMemory> = [memory(0), memory(1)].into_iter().flatten().collect();
            let sum = |of: fn(&MemoryUsage) -> u64| {
                (!memory.is_empty()).then(|| memory.iter().map(|part| of(&part.usage)).sum())
            };
            ProcessState {
                pid,
                engines_ns: engines_ns.collect(),
                used_bytes: sum(|usage| usage.resident),
                committed_bytes: sum(|usage| usage.committed),
            }
        };
        let known = (count.written as usize).min(MAX_PROCESSES);
        Some(pids[..known].iter().map(|pid| of(*pid)).collect())
    }
}

fn describe(adapter: &Object<AdapterTable>) -> Option<Adapter> {
    let id = number(adapter, property::LUID)?;
    let flag = |which: u32| bytes(adapter, which, 1).and_then(|bytes| bytes.first().map(|byte| *byte != 0));
    // SAFETY: the adapter and the GUID are live.
    let is_npu = unsafe { (adapter.table().is_attribute_supported)(adapter.pointer, &ATTRIBUTE_NPU) != 0 };
    let name = text(adapter, property::DRIVER_DESCRIPTION).unwrap_or_else(|| "unnamed adapter".to_owned());
    let version = number(adapter, property::DRIVER_VERSION).map(|version| {
        let part = |shift: u32| (version >> shift) & 0xFFFF;
        format!("{}.{}.{}.{}", part(48), part(32), part(16), part(0))
    });
    Some(Adapter {
        id,
        name,
        is_npu,
        is_integrated: flag(property::IS_INTEGRATED),
        is_software: flag(property::IS_HARDWARE) == Some(false),
        driver: version,
        dedicated_bytes: number(adapter, property::DEDICATED_MEMORY),
        shared_bytes: number(adapter, property::SHARED_MEMORY),
    })
}

/// A property with a maximum length.
fn bytes(adapter: &Object<AdapterTable>, property: u32, max_bytes: usize) -> Option<Vec<u8>> {
    let (table, object) = (adapter.table(), adapter.pointer);
    // SAFETY: the adapter is live.
    if unsafe { (table.is_property_supported)(object, property) } == 0 {
        return None;
    }
    let mut size = 0;
    // SAFETY: the adapter and the space for the size are live.
    let status = unsafe { (table.get_property_size)(object, property, &mut size) };
    if status < 0 || size == 0 || size > max_bytes {
        return None;
    }
    let mut buffer = vec![0u8; size];
    // SAFETY: the buffer is live and has the stated length.
    let status = unsafe { (table.get_property)(object, property, size, buffer.as_mut_ptr().cast()) };
    (status >= 0).then_some(buffer)
}

fn number(adapter: &Object<AdapterTable>, property: u32) -> Option<u64> {
    let bytes = bytes(adapter, property, 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// NUL-terminated UTF-8.
fn text(adapter: &Object<AdapterTable>, property: u32) -> Option<String> {
    let bytes = bytes(adapter, property, 4096)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).trim().to_owned()).filter(|text| !text.is_empty())
}

//! Windows performance counters: one open query with English names, read as arrays of all instances.

use std::mem::transmute;
use std::ptr::null;

use super::native::{Function, system_library};
use crate::devices::adapters::{CounterApi, CounterSet};

/// English names work on every Windows because `PdhAddEnglishCounterW` translates them.
const COUNTERS: [(CounterSet, &str); 9] = [
    (CounterSet::EnginePercent, r"\GPU Engine(*)\Utilization Percentage"),
    (CounterSet::AdapterDedicated, r"\GPU Adapter Memory(*)\Dedicated Usage"),
    (CounterSet::AdapterShared, r"\GPU Adapter Memory(*)\Shared Usage"),
    (CounterSet::ProcessCommitted, r"\GPU Process Memory(*)\Total Committed"),
    (CounterSet::ProcessLocal, r"\GPU Process Memory(*)\Local Usage"),
    (CounterSet::PerformanceLimit, r"\Processor Information(*)\% Performance Limit"),
    (CounterSet::PerformancePercent, r"\Processor Information(*)\% Processor Performance"),
    (CounterSet::NominalMegahertz, r"\Processor Information(*)\Processor Frequency"),
    (CounterSet::ThermalZone, r"\Thermal Zone Information(*)\Temperature"),
];
/// `PDH_FMT_DOUBLE | PDH_FMT_NOCAP100`: processes on several engines exceed 100.
const FORMAT: u32 = 0x200 | 0x8000;
const MORE_DATA: u32 = 0x8000_07D2;
/// A counter currently has no instances: the device is unused.
const NO_DATA: u32 = 0x8000_07D5;
const NO_INSTANCE: u32 = 0x8000_07D1;
/// Maximum length of an answer; a desktop has several hundred kilobytes.
const MAX_BYTES: u32 = 64 << 20;

type OpenQuery = unsafe extern "system" fn(*const u16, usize, *mut isize) -> u32;
type AddCounter = unsafe extern "system" fn(isize, *const u16, usize, *mut isize) -> u32;
type Collect = unsafe extern "system" fn(isize) -> u32;
type Array = unsafe extern "system" fn(isize, u32, *mut u32, *mut u32, *mut Item) -> u32;
type Close = unsafe extern "system" fn(isize) -> u32;

/// `PDH_FMT_COUNTERVALUE_ITEM_W` with a double.
#[repr(C)]
#[derive(Clone, Copy)]
struct Item {
    name: *const u16,
    status: u32,
    _space: u32,
    value: f64,
}

pub(super) struct Counters {
    query: isize,
    counters: Vec<(CounterSet, isize)>,
    collect: Collect,
    array: Array,
    close: Close,
    /// In units of the items' alignment; grows and is reused.
    buffer: Vec<Item>,
}

impl Counters {
    pub(super) fn open() -> Result<Self, String> {
        let function = |name| {
            system_library("pdh.dll", name)
                .ok_or_else(|| "this Windows has no performance counters (pdh.dll)".to_owned())
        };
        let (open, add, collect, array, close) = (
            function(c"PdhOpenQueryW")?,
            function(c"PdhAddEnglishCounterW")?,
            function(c"PdhCollectQueryData")?,
            function(c"PdhGetFormattedCounterArrayW")?,
            function(c"PdhCloseQuery")?,
        );
        // SAFETY: these are the functions' documented signatures; handles are as wide as pointers.
        let (open, add, collect, array, close) = unsafe {
            (
                transmute::<Function, OpenQuery>(open),
                transmute::<Function, AddCounter>(add),
                transmute::<Function, Collect>(collect),
                transmute::<Function, Array>(array),
                transmute::<Function, Close>(close),
            )
        };
        let mut query = 0;
        // SAFETY: live space for the handle; no log file is named.
        let status = unsafe { open(null(), 0, &mut query) };
        if status != 0 {
            return Err(format!("performance counters cannot be opened: 0x{status:08X}"));
        }
        let mut opened = Self { query, counters: Vec::new(), collect, array, close, buffer: Vec::new() };
        let mut why = 0;
        for (set, path) in COUNTERS {
            let path: Vec<u16> = path.encode_utf16().chain([0]).collect();
            let mut counter = 0;
            // SAFETY: the query is open, the path is live and NUL-terminated, and the space for the handle is
            // live.
            match unsafe { add(query, path.as_ptr(), 0, &mut counter) } {
                0 => opened.counters.push((set, counter)),
                status => why = status,
            }
        }
        if opened.counters.is_empty() {
            return Err(format!("Windows has none of the required performance counters: 0x{why:08X}"));
        }
        // The first collection is the reference for the next one.
        opened.collect().ok();
        Ok(opened)
    }
}

impl CounterApi for Counters {
    fn collect(&mut self) -> Result<(), String> {
        // SAFETY: the query is open.
        match unsafe { (self.collect)(self.query) } {
            0 | NO_DATA | NO_INSTANCE => Ok(()),
            status => Err(format!("0x{status:08X}")),
        }
    }

    fn values(&mut self, set: CounterSet, each: &mut dyn FnMut(&str, f64)) -> Result<(), String> {
        let counter = self.counters.iter().find(|(known, _)| *known == set).map(|(_, counter)| *counter);
        let Some(counter) = counter else { return Err(format!("Windows lacks the counter {set:?}")) };
        // Instances appear and disappear between two calls.
        for _ in 0..4 {
            let mut bytes = u32::try_from(self.buffer.len() * size_of::<Item>()).unwrap_or(0);
            let mut count = 0;
            let buffer = if bytes == 0 { std::ptr::null_mut() } else { self.buffer.as_mut_ptr() };
            // SAFETY: the counter belongs to the open query; the buffer is live, aligned and `bytes` long, or
            // null with length 0.
            let status = unsafe { (self.array)(counter, FORMAT, &mut bytes, &mut count, buffer) };
            match status {
                MORE_DATA if bytes <= MAX_BYTES => {
                    let items = (bytes as usize).div_ceil(size_of::<Item>()) + 64;
                    self.buffer = vec![Item { name: null(), status: 0, _space: 0, value: 0.0 }; items];
                }
                0 => {
                    for item in self.buffer.iter().take(count as usize) {
                        // Valid, or new since the last collection.
                        if item.status > 1 || item.name.is_null() {
                            continue;
                        }
                        each(&self.name(item.name), item.value);
                    }
                    return Ok(());
                }
                NO_DATA | NO_INSTANCE => return Ok(()),
                status => return Err(format!("counter {set:?}: 0x{status:08X}")),
            }
        }
        Err(format!("the instances of counter {set:?} change faster than they are read"))
    }
}

impl Counters {
    /// Names are behind the items in the same buffer.
    fn name(&self, name: *const u16) -> String {
        let begin = self.buffer.as_ptr().cast::<u16>();
        let end = begin.wrapping_add(self.buffer.len() * size_of::<Item>() / 2);
        let mut text = Vec::new();
        let mut at = name;
        while at >= begin && at < end {
            // SAFETY: the position is inside the buffer, which is live; the system wrote UTF-16 there.
            let unit = unsafe { at.read_unaligned() };
            if unit == 0 {
                break;
            }
            text.push(unit);
            at = at.wrapping_add(1);
        }
        String::from_utf16_lossy(&text)
    }
}

// SAFETY: the pointers in the buffer refer to the buffer itself; a query's handles may be used by any thread, and are
// used by one at a time.
unsafe impl Send for Counters {}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: the query was opened by `open` and is closed once, together with its counters.
        unsafe { (self.close)(self.query) };
    }
}

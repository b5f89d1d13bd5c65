//! Facts about the machine from WMI, queried only if registry and environment lack them because an answer can take
//! seconds. The COM objects have function tables that are declared here as in `wbemcli.h`.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::{null, null_mut};

use windows_sys::core::GUID;

use super::com::{Count, Object, Query};
use super::native::{Function, system_library};
use crate::machine::{Inventory, SYSTEM_TYPES};

const LOCATOR_CLASS: GUID = GUID::from_u128(0x4590f811_1d3a_11d0_891f_00aa004b2e24);
const LOCATOR: GUID = GUID::from_u128(0xdc12a687_737f_11cf_884d_00aa004b2e24);
/// Timeout for one row; the whole query has its own limit.
const ROW_MILLIS: i32 = 2_000;
/// Limit for rows per class.
const MAX_ROWS: usize = 16;
/// Length of a text in UTF-16 units.
const MAX_UNITS: usize = 512;

/// A COM string: its length precedes it, and it is not owned by this program's allocator.
struct Text(*mut u16);

/// `IWbemLocator`.
#[repr(C)]
struct LocatorTable {
    query: Query,
    add: Count,
    release: Count,
    connect: unsafe extern "system" fn(
        *mut c_void,
        *const u16,
        *const u16,
        *const u16,
        *const u16,
        i32,
        *const u16,
        *mut c_void,
        *mut *mut c_void,
    ) -> i32,
}

/// `IWbemServices`: seventeen uncalled functions precede the one that is called.
#[repr(C)]
struct ServicesTable {
    query: Query,
    add: Count,
    release: Count,
    others: [*const c_void; 17],
    execute: unsafe extern "system" fn(
        *mut c_void,
        *const u16,
        *const u16,
        i32,
        *mut c_void,
        *mut *mut c_void,
    ) -> i32,
}

/// `IEnumWbemClassObject`.
#[repr(C)]
struct RowsTable {
    query: Query,
    add: Count,
    release: Count,
    reset: *const c_void,
    next: unsafe extern "system" fn(*mut c_void, i32, u32, *mut *mut c_void, *mut u32) -> i32,
}

/// `IWbemClassObject`.
#[repr(C)]
struct RowTable {
    query: Query,
    add: Count,
    release: Count,
    qualifiers: *const c_void,
    get: unsafe extern "system" fn(*mut c_void, *const u16, i32, *mut Variant, *mut i32, *mut i32) -> i32,
}

/// `VARIANT`: a kind, three unused numbers, and two words of which the first holds a number or a pointer.
#[repr(C)]
#[derive(Default)]
struct Variant {
    kind: u16,
    unused: [u16; 3],
    value: u64,
    more: u64,
}

/// COM functions, resolved on demand.
struct Com {
    allocate: Allocate,
    free: Free,
    clear: Clear,
    initialize: Initialize,
    uninitialize: Uninitialize,
    create: Create,
    blanket: Blanket,
}

type Allocate = unsafe extern "system" fn(*const u16) -> *mut u16;
type Free = unsafe extern "system" fn(*mut u16);
type Clear = unsafe extern "system" fn(*mut Variant) -> i32;
type Initialize = unsafe extern "system" fn(*const c_void, u32) -> i32;
type Uninitialize = unsafe extern "system" fn();
type Create = unsafe extern "system" fn(*const GUID, *mut c_void, u32, *const GUID, *mut *mut c_void) -> i32;
type Blanket =
    unsafe extern "system" fn(*mut c_void, u32, u32, *const u16, u32, u32, *const c_void, u32) -> i32;

impl Com {
    fn load() -> Option<Self> {
        // SAFETY: these are the functions' documented signatures.
        unsafe {
            Some(Self {
                allocate: transmute::<Function, Allocate>(system_library("oleaut32.dll", c"SysAllocString")?),
                free: transmute::<Function, Free>(system_library("oleaut32.dll", c"SysFreeString")?),
                clear: transmute::<Function, Clear>(system_library("oleaut32.dll", c"VariantClear")?),
                initialize: transmute::<Function, Initialize>(system_library(
                    "ole32.dll",
                    c"CoInitializeEx",
                )?),
                uninitialize: transmute::<Function, Uninitialize>(system_library(
                    "ole32.dll",
                    c"CoUninitialize",
                )?),
                create: transmute::<Function, Create>(system_library("ole32.dll", c"CoCreateInstance")?),
                blanket: transmute::<Function, Blanket>(system_library("ole32.dll", c"CoSetProxyBlanket")?),
            })
        }
    }

    fn text(&self, text: &str) -> Text {
        let wide: Vec<u16> = text.encode_utf16().chain([0]).collect();
        // SAFETY: a live NUL-terminated text, which is copied.
        Text(unsafe { (self.allocate)(wide.as_ptr()) })
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(i64),
}

impl Value {
    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Self::Number(_) => None,
        }
    }

    /// 64-bit numbers are returned as text.
    fn number(self) -> Option<u64> {
        match self {
            Self::Text(text) => text.trim().parse().ok(),
            Self::Number(number) => u64::try_from(number).ok(),
        }
    }
}

/// Runs all queries. The caller limits the time.
pub(super) fn inventory() -> Result<Inventory, String> {
    const MULTITHREADED: u32 = 0;
    let com = Com::load().ok_or("COM, which is required for WMI, is missing")?;
    // SAFETY: the second argument is a documented number; this thread has no apartment yet.
    let status = unsafe { (com.initialize)(null(), MULTITHREADED) };
    if status < 0 {
        return Err(format!("COM cannot be initialized: 0x{status:08X}"));
    }
    let answer = ask(&com);
    // SAFETY: initialized above, and all of its objects are released.
    unsafe { (com.uninitialize)() };
    answer
}

fn ask(com: &Com) -> Result<Inventory, String> {
    let services = connect(com)?;
    let mut found = Inventory::default();
    let mut reasons = Vec::new();
    let mut rows = |class: &str, fields: &[&str]| match rows(com, &services, class, fields) {
        Ok(rows) => rows,
        Err(why) => {
            reasons.push(format!("{class}: {why}"));
            Vec::new()
        }
    };
    let fields = ["Manufacturer", "Model", "PCSystemTypeEx", "TotalPhysicalMemory"];
    if let Some(row) = rows("Win32_ComputerSystem", &fields).into_iter().next() {
        let [maker, model, kind, memory]: [Option<Value>; 4] = row.try_into().unwrap_or_default();
        found.maker = maker.and_then(Value::text);
        found.model = model.and_then(Value::text);
        let kind = kind.and_then(Value::number);
        found.kind = SYSTEM_TYPES.iter().find(|(number, _)| Some(*number) == kind).map(|(_, name)| *name);
        found.memory_bytes = memory.and_then(Value::number);
    }
    if let Some(row) = rows("Win32_Processor", &["Name"]).into_iter().next() {
        found.cpu_model = row.into_iter().next().flatten().and_then(Value::text);
    }
    for row in rows("Win32_VideoController", &["Name", "DriverVersion"]) {
        let [name, version]: [Option<Value>; 2] = row.try_into().unwrap_or_default();
        if let (Some(name), Some(version)) = (name.and_then(Value::text), version.and_then(Value::text)) {
            found.drivers.insert(name, version);
        }
    }
    if found == Inventory::default() {
        return Err(match reasons.is_empty() {
            true => "WMI has no data about this machine".to_owned(),
            false => format!("WMI does not answer ({})", reasons.join("; ")),
        });
    }
    Ok(found)
}

fn connect(com: &Com) -> Result<Object<ServicesTable>, String> {
    const IN_PROCESS: u32 = 1;
    const WINDOWS_LOGON: u32 = 10;
    const PER_CALL: u32 = 3;
    const IMPERSONATE: u32 = 3;
    let mut pointer = null_mut();
    // SAFETY: live GUIDs and live space for the object.
    let status = unsafe { (com.create)(&LOCATOR_CLASS, null_mut(), IN_PROCESS, &LOCATOR, &mut pointer) };
    // SAFETY: the function returns an object of the requested interface, or null.
    let locator = unsafe { Object::<LocatorTable>::own(pointer) }.filter(|_| status >= 0);
    let locator = locator.ok_or_else(|| format!("WMI is not available: 0x{status:08X}"))?;
    let namespace = com.text(r"ROOT\CIMV2");
    let mut pointer = null_mut();
    // SAFETY: the locator is live, the name is a live COM string, the other arguments are omitted, and the space is
    // live.
    let status = unsafe {
        (locator.table().connect)(
            locator.pointer,
            namespace.0,
            null(),
            null(),
            null(),
            0,
            null(),
            null_mut(),
            &mut pointer,
        )
    };
    // SAFETY: allocated above, not used afterwards.
    unsafe { (com.free)(namespace.0) };
    // SAFETY: as above.
    let services = unsafe { Object::<ServicesTable>::own(pointer) }.filter(|_| status >= 0);
    let services = services.ok_or_else(|| format!("WMI refuses: 0x{status:08X}"))?;
    // SAFETY: the services are live; the numbers are documented. If it fails, the queries report it.
    unsafe { (com.blanket)(services.pointer, WINDOWS_LOGON, 0, null(), PER_CALL, IMPERSONATE, null(), 0) };
    Ok(services)
}

type Row = Vec<Option<Value>>;

fn rows(
    com: &Com,
    services: &Object<ServicesTable>,
    class: &str,
    fields: &[&str],
) -> Result<Vec<Row>, String> {
    /// Forward only, without waiting for the whole answer.
    const FLAGS: i32 = 0x20 | 0x10;
    const NO_MORE: i32 = 1;
    let (language, question) =
        (com.text("WQL"), com.text(&format!("SELECT {} FROM {class}", fields.join(", "))));
    let mut pointer = null_mut();
    // SAFETY: the services are live, both texts are COM strings, and the space for the object is live.
    let status = unsafe {
        let table = services.table();
        (table.execute)(services.pointer, language.0, question.0, FLAGS, null_mut(), &mut pointer)
    };
    // SAFETY: allocated above, not used afterwards.
    unsafe {
        (com.free)(language.0);
        (com.free)(question.0);
    }
    // SAFETY: the function returns an object of this interface, or null.
    let list = unsafe { Object::<RowsTable>::own(pointer) }.filter(|_| status >= 0);
    let list = list.ok_or_else(|| format!("0x{status:08X}"))?;
    let mut found = Vec::new();
    while found.len() < MAX_ROWS {
        let (mut pointer, mut count) = (null_mut(), 0);
        // SAFETY: the list is live, with space for one object and a live number.
        let status = unsafe { (list.table().next)(list.pointer, ROW_MILLIS, 1, &mut pointer, &mut count) };
        // SAFETY: as above.
        let row = unsafe { Object::<RowTable>::own(pointer) }.filter(|_| status >= 0 && count == 1);
        let Some(row) = row else {
            match status {
                NO_MORE => break,
                _ if found.is_empty() => return Err(format!("no row: 0x{status:08X}")),
                _ => break,
            }
        };
        found.push(fields.iter().map(|field| value(com, &row, field)).collect());
    }
    Ok(found)
}

fn value(com: &Com, row: &Object<RowTable>, field: &str) -> Option<Value> {
    let name: Vec<u16> = field.encode_utf16().chain([0]).collect();
    let mut variant = Variant::default();
    // SAFETY: the row is live, the name is NUL-terminated, the value is empty and live, and the rest is omitted.
    let status =
        unsafe { (row.table().get)(row.pointer, name.as_ptr(), 0, &mut variant, null_mut(), null_mut()) };
    if status < 0 {
        return None;
    }
    let found = read(&variant);
    // SAFETY: a value that the row filled, released once.
    unsafe { (com.clear)(&mut variant) };
    found
}

/// Numbers and texts; nothing else is queried.
fn read(variant: &Variant) -> Option<Value> {
    const TEXT: u16 = 8;
    match variant.kind {
        2 => Some(Value::Number(i64::from(variant.value as u16 as i16))),
        3 => Some(Value::Number(i64::from(variant.value as u32 as i32))),
        17 => Some(Value::Number(i64::from(variant.value as u8))),
        18 => Some(Value::Number(i64::from(variant.value as u16))),
        19 => Some(Value::Number(i64::from(variant.value as u32))),
        TEXT => {
            let pointer = variant.value as usize as *const u16;
            if pointer.is_null() {
                return None;
            }
            // SAFETY: a COM string is NUL-terminated; nothing behind it is read.
            let units = unsafe {
                let length = (0..MAX_UNITS).find(|at| *pointer.add(*at) == 0).unwrap_or(MAX_UNITS);
                std::slice::from_raw_parts(pointer, length)
            };
            Some(Value::Text(String::from_utf16_lossy(units)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wine's WMI has some of these classes, and its answers are handled like those of Windows.
    #[test]
    fn this_machine_answers_or_says_why_not() {
        match inventory() {
            Ok(found) => assert_ne!(found, Inventory::default(), "an empty answer is a reason"),
            Err(why) => assert!(!why.is_empty()),
        }
    }

    #[test]
    fn values_are_numbers_texts_or_nothing() {
        let of = |kind, value| read(&Variant { kind, value, ..Variant::default() });
        assert_eq!(of(3, 2), Some(Value::Number(2)));
        assert_eq!(of(3, 0xFFFF_FFFF), Some(Value::Number(-1)));
        assert_eq!((of(1, 0), of(8, 0), of(0x2003, 7)), (None, None, None));
        let text: Vec<u16> = "17179869184\0".encode_utf16().collect();
        let value = of(8, text.as_ptr() as u64);
        assert_eq!(value.and_then(Value::number), Some(17_179_869_184));
        assert_eq!((size_of::<Variant>(), std::mem::offset_of!(Variant, value)), (24, 8));
    }
}

//! Adapters by DXCore, which knows NPUs too. The library is loaded if it is there; its objects are COM objects whose tables
//! of functions are declared here as the public header has them.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::null_mut;

use windows_sys::core::GUID;

use super::native::{Function, system_library};
use crate::devices::adapters::{Adapter, AdapterApi};

const FACTORY: GUID = GUID::from_u128(0x78ee5945_c36e_4b13_a669_005dd11c0f06);
const ADAPTER_LIST: GUID = GUID::from_u128(0x526c7776_40e9_459b_b711_f32ad76dfc28);
const ADAPTER: GUID = GUID::from_u128(0xf0db4c7f_fe5a_42a2_bd62_f2a6cf6fc83e);
const ATTRIBUTE_D3D12_GRAPHICS: GUID = GUID::from_u128(0x0c9ece4d_2f6e_4f01_8c96_e89e331b47b1);
const ATTRIBUTE_D3D12_CORE_COMPUTE: GUID = GUID::from_u128(0x248e2800_a793_4724_abaa_23a6de1be090);
const ATTRIBUTE_GENERIC_ML: GUID = GUID::from_u128(0xb71b0d41_1088_422f_a27c_0250b7d3a988);
const ATTRIBUTE_NPU: GUID = GUID::from_u128(0xd46140c4_add7_451b_9e56_06fe8c3b58ed);
/// Adapters of one list that are looked at.
const MOST_ADAPTERS: u32 = 64;

/// Properties of an adapter, by the header's numbers.
mod property {
    pub const LUID: u32 = 0;
    pub const DRIVER_VERSION: u32 = 1;
    pub const DRIVER_DESCRIPTION: u32 = 2;
    pub const DEDICATED_MEMORY: u32 = 7;
    pub const SHARED_MEMORY: u32 = 9;
    pub const IS_HARDWARE: u32 = 11;
    pub const IS_INTEGRATED: u32 = 12;
}

type Query = unsafe extern "system" fn(*mut c_void, *const GUID, *mut *mut c_void) -> i32;
type Count = unsafe extern "system" fn(*mut c_void) -> u32;

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

/// `IDXCoreAdapter`; what follows in the header is not called.
#[repr(C)]
struct AdapterTable {
    query: Query,
    add: Count,
    release: Count,
    is_valid: unsafe extern "system" fn(*mut c_void) -> bool,
    is_attribute_supported: unsafe extern "system" fn(*mut c_void, *const GUID) -> bool,
    is_property_supported: unsafe extern "system" fn(*mut c_void, u32) -> bool,
    get_property: unsafe extern "system" fn(*mut c_void, u32, usize, *mut c_void) -> i32,
    get_property_size: unsafe extern "system" fn(*mut c_void, u32, *mut usize) -> i32,
}

/// An object that is released when it is dropped. `T` is its table.
struct Object<T> {
    pointer: *mut c_void,
    _table: std::marker::PhantomData<T>,
}

impl<T> Object<T> {
    /// `None` for no object.
    ///
    /// # Safety
    /// The pointer is null, or a COM object of this table that is given up to the caller.
    unsafe fn own(pointer: *mut c_void) -> Option<Self> {
        (!pointer.is_null()).then_some(Self { pointer, _table: std::marker::PhantomData })
    }

    fn table(&self) -> &T {
        // SAFETY: an object begins with a pointer to its table, which lives as long as the library; it is never unloaded.
        unsafe { &**self.pointer.cast::<*const T>() }
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        /// Every table begins so.
        #[repr(C)]
        struct Unknown {
            query: Query,
            add: Count,
            release: Count,
        }
        // SAFETY: as in `table`; every COM object has these three functions, and this reference is given up once.
        unsafe { ((**self.pointer.cast::<*const Unknown>()).release)(self.pointer) };
    }
}

pub(super) struct WindowsAdapters;

impl AdapterApi for WindowsAdapters {
    fn adapters(&mut self) -> Result<Vec<Adapter>, String> {
        type Create = unsafe extern "system" fn(*const GUID, *mut *mut c_void) -> i32;
        let create = system_library("dxcore.dll", c"DXCoreCreateAdapterFactory")
            .ok_or_else(|| "this Windows has no dxcore.dll, which names GPUs and NPUs".to_owned())?;
        // SAFETY: this is the function's documented signature.
        let create = unsafe { transmute::<Function, Create>(create) };
        let mut pointer = null_mut();
        // SAFETY: a live GUID and a live place for the object.
        let status = unsafe { create(&FACTORY, &mut pointer) };
        // SAFETY: the function gives an object of the interface that was asked for, or null.
        let factory = unsafe { Object::<FactoryTable>::own(pointer) };
        let factory = factory.filter(|_| status >= 0).ok_or_else(|| format!("DXCore does not start: 0x{status:08X}"))?;
        let mut found: Vec<Adapter> = Vec::new();
        let mut known = false;
        // Kinds of adapters; Windows before 11 does not know the last two.
        for kind in [ATTRIBUTE_D3D12_GRAPHICS, ATTRIBUTE_D3D12_CORE_COMPUTE, ATTRIBUTE_GENERIC_ML, ATTRIBUTE_NPU] {
            let mut pointer = null_mut();
            // SAFETY: the factory is live, one live GUID is passed as a list of one, the place for the object is live.
            let status = unsafe {
                (factory.table().create_list)(factory.pointer, 1, &kind, &ADAPTER_LIST, &mut pointer)
            };
            // SAFETY: as above.
            let Some(list) = (unsafe { Object::<ListTable>::own(pointer) }).filter(|_| status >= 0) else {
                continue;
            };
            known = true;
            // SAFETY: the list is live.
            let count = unsafe { (list.table().count)(list.pointer) }.min(MOST_ADAPTERS);
            for index in 0..count {
                let mut pointer = null_mut();
                // SAFETY: the list is live, the index is below its count, the place for the object is live.
                let status = unsafe { (list.table().get)(list.pointer, index, &ADAPTER, &mut pointer) };
                // SAFETY: as above.
                let adapter = (unsafe { Object::<AdapterTable>::own(pointer) }).filter(|_| status >= 0);
                if let Some(adapter) = adapter.and_then(|adapter| describe(&adapter))
                    && found.iter().all(|known| known.id != adapter.id)
                {
                    found.push(adapter);
                }
            }
        }
        if known { Ok(found) } else { Err("DXCore lists no kind of adapter".to_owned()) }
    }

    fn build(&self) -> Option<u32> {
        super::build()
    }
}

fn describe(adapter: &Object<AdapterTable>) -> Option<Adapter> {
    let id = number(adapter, property::LUID)?;
    let flag = |which: u32| bytes(adapter, which, 1).and_then(|bytes| bytes.first().map(|byte| *byte != 0));
    // SAFETY: the adapter and the GUID are live.
    let is_npu = unsafe { (adapter.table().is_attribute_supported)(adapter.pointer, &ATTRIBUTE_NPU) };
    let name = text(adapter, property::DRIVER_DESCRIPTION).unwrap_or_else(|| "adapter without a name".to_owned());
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

/// A property of at most so many bytes.
fn bytes(adapter: &Object<AdapterTable>, property: u32, most: usize) -> Option<Vec<u8>> {
    let (table, object) = (adapter.table(), adapter.pointer);
    // SAFETY: the adapter is live.
    if !unsafe { (table.is_property_supported)(object, property) } {
        return None;
    }
    let mut size = 0;
    // SAFETY: the adapter and the place for the size are live.
    let status = unsafe { (table.get_property_size)(object, property, &mut size) };
    if status < 0 || size == 0 || size > most {
        return None;
    }
    let mut room = vec![0u8; size];
    // SAFETY: the buffer is live and as long as it says.
    let status = unsafe { (table.get_property)(object, property, size, room.as_mut_ptr().cast()) };
    (status >= 0).then_some(room)
}

fn number(adapter: &Object<AdapterTable>, property: u32) -> Option<u64> {
    let bytes = bytes(adapter, property, 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// UTF-8 that ends with a zero.
fn text(adapter: &Object<AdapterTable>, property: u32) -> Option<String> {
    let bytes = bytes(adapter, property, 4096)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).trim().to_owned()).filter(|text| !text.is_empty())
}

//! Copies of ONNX Runtime's tables with our functions in them: one per library, created on first use.
#![expect(unsafe_code, reason = "reads the tables of ONNX Runtime's C API and hands out others")]

use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use ort_sys as sys;

use crate::{calls, output};

pub type GetApiBase = unsafe extern "system" fn() -> *const sys::OrtApiBase;

/// Libraries in one process. Those beyond are not recorded.
pub const MAX_LIBRARIES: usize = 8;
/// The versions whose tables are known.
const OLDEST_MINOR: u32 = 15;
const NEWEST_MINOR: u32 = 31;
/// Slots of the table of each version, where it grew: (minor, slots).
const SLOTS: [(u32, usize); 14] = [
    (15, 255),
    (16, 266),
    (17, 276),
    (18, 280),
    (20, 285),
    (22, 318),
    (23, 390),
    (24, 415),
    (25, 419),
    (27, 422),
    (28, 424),
    (29, 425),
    (30, 426),
    (31, 428),
];
/// The first versions with these functions.
const RUN_ASYNC_SINCE: u32 = 16;
const RUN_PROFILES_SINCE: u32 = 25;

const _: () = assert!(size_of::<sys::OrtApi>() == 428 * size_of::<usize>(), "ort-sys knows another table");

/// One library.
struct Library {
    get_api_base: AtomicPtr<()>,
    base: AtomicPtr<sys::OrtApiBase>,
    wrapped_base: AtomicPtr<sys::OrtApiBase>,
    api: AtomicPtr<sys::OrtApi>,
    wrapped_api: AtomicPtr<sys::OrtApi>,
    minor: AtomicU32,
}

static LIBRARIES: [Library; MAX_LIBRARIES] = [const {
    Library {
        get_api_base: AtomicPtr::new(null_mut()),
        base: AtomicPtr::new(null_mut()),
        wrapped_base: AtomicPtr::new(null_mut()),
        api: AtomicPtr::new(null_mut()),
        wrapped_api: AtomicPtr::new(null_mut()),
        minor: AtomicU32::new(0),
    }
}; MAX_LIBRARIES];

/// The replacement for a library's `OrtGetApiBase`; the original if there are too many.
pub fn entry_for(real: GetApiBase) -> GetApiBase {
    let address = real as *mut ();
    for (library, entry) in LIBRARIES.iter().zip(ENTRIES) {
        let before =
            library.get_api_base.compare_exchange(null_mut(), address, Ordering::AcqRel, Ordering::Acquire);
        if before.is_ok() || before == Err(address) {
            return entry;
        }
    }
    real
}

const ENTRIES: [GetApiBase; MAX_LIBRARIES] = [
    get_api_base::<0>,
    get_api_base::<1>,
    get_api_base::<2>,
    get_api_base::<3>,
    get_api_base::<4>,
    get_api_base::<5>,
    get_api_base::<6>,
    get_api_base::<7>,
];

/// # Safety
/// Handed out by [`entry_for`], after which the address of the library's own function is known.
unsafe extern "system" fn get_api_base<const N: usize>() -> *const sys::OrtApiBase {
    let library = &LIBRARIES[N];
    let wrapped = library.wrapped_base.load(Ordering::Acquire);
    if !wrapped.is_null() {
        return wrapped;
    }
    // SAFETY: `entry_for` stored a function of this type; it takes nothing, and its library is not unloaded while the
    // program calls it through us.
    let base =
        unsafe { std::mem::transmute::<*mut (), GetApiBase>(library.get_api_base.load(Ordering::Acquire))() };
    if base.is_null() {
        return base;
    }
    // SAFETY: two function pointers in every version; the text is static.
    let (version, get_version_string) =
        unsafe { (CStr::from_ptr(((*base).GetVersionString)()).to_string_lossy(), (*base).GetVersionString) };
    let minor: u32 = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    if minor < OLDEST_MINOR || !version.starts_with("1.") {
        output::complain(&format!("ONNX Runtime {version} is too old to be recorded: 1.15 is the oldest"));
        return base;
    }
    library.minor.store(minor, Ordering::Release);
    library.base.store(base.cast_mut(), Ordering::Release);
    let wrapped = Box::into_raw(Box::new(sys::OrtApiBase {
        GetApi: get_api::<N>,
        GetVersionString: get_version_string,
    }));
    publish(&library.wrapped_base, wrapped)
}

/// Puts a new value in place; the one of a faster thread is as good, and ours goes.
fn publish<T>(place: &AtomicPtr<T>, new: *mut T) -> *mut T {
    match place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(before) => {
            // SAFETY: just created by `Box::into_raw` and not shared.
            drop(unsafe { Box::from_raw(new) });
            before
        }
    }
}

/// # Safety
/// In a base that [`get_api_base`] has handed out.
unsafe extern "system" fn get_api<const N: usize>(version: u32) -> *const sys::OrtApi {
    let library = &LIBRARIES[N];
    let base = library.base.load(Ordering::Acquire);
    // SAFETY: stored before the base was handed out.
    let real = unsafe { ((*base).GetApi)(version) };
    if real.is_null() {
        return null();
    }
    if version > NEWEST_MINOR {
        output::complain(&format!(
            "the program uses version {version} of ONNX Runtime's C API, which this ortscope does not know: its \
             inferences are not recorded"
        ));
        return real;
    }
    let wrapped = library.wrapped_api.load(Ordering::Acquire);
    if wrapped.is_null() {
        library.api.store(real.cast_mut(), Ordering::Release);
        let minor = library.minor.load(Ordering::Acquire).min(NEWEST_MINOR);
        // SAFETY: `real` is the table of a library of this version.
        let copy = unsafe { copy_of::<N>(real, minor) };
        return publish(&library.wrapped_api, copy);
    }
    // All versions have one table. Should a library have several, only the first is wrapped.
    if library.api.load(Ordering::Acquire).cast_const() == real { wrapped } else { real }
}

/// # Safety
/// `real` is the table of a library of version 1.`minor`.
unsafe fn copy_of<const N: usize>(real: *const sys::OrtApi, minor: u32) -> *mut sys::OrtApi {
    let slots = SLOTS.iter().rev().find(|(since, _)| *since <= minor).map_or(SLOTS[0].1, |(_, slots)| *slots);
    // The size of a whole table; slots that the library does not have stay null, and no accepted program uses them.
    let copy = Box::into_raw(Box::new(std::mem::MaybeUninit::<sys::OrtApi>::zeroed())).cast::<sys::OrtApi>();
    // SAFETY: the library's table has `slots` pointers, the copy has at least as many; the slots that are replaced exist
    // in this version, and get functions of the same type.
    unsafe {
        std::ptr::copy_nonoverlapping(real.cast::<usize>(), copy.cast::<usize>(), slots);
        (&raw mut (*copy).CreateSession).write(calls::create_session::<N>);
        (&raw mut (*copy).CreateSessionFromArray).write(calls::create_session_from_array::<N>);
        (&raw mut (*copy).CreateSessionWithPrepackedWeightsContainer)
            .write(calls::create_session_with_container::<N>);
        (&raw mut (*copy).CreateSessionFromArrayWithPrepackedWeightsContainer)
            .write(calls::create_session_from_array_with_container::<N>);
        (&raw mut (*copy).Run).write(calls::run::<N>);
        (&raw mut (*copy).RunWithBinding).write(calls::run_with_binding::<N>);
        (&raw mut (*copy).ReleaseSession).write(calls::release_session::<N>);
        if minor >= RUN_ASYNC_SINCE {
            (&raw mut (*copy).RunAsync).write(calls::run_async::<N>);
        }
    }
    copy
}

/// The library's own table. Only for our functions, which are in no table before it is known.
pub fn real<const N: usize>() -> *const sys::OrtApi {
    LIBRARIES[N].api.load(Ordering::Acquire)
}

pub fn can_profile_runs<const N: usize>() -> bool {
    LIBRARIES[N].minor.load(Ordering::Relaxed) >= RUN_PROFILES_SINCE
}

pub fn version<const N: usize>() -> Option<String> {
    let base = LIBRARIES[N].base.load(Ordering::Acquire);
    // SAFETY: null or the library's base, whose text is static.
    (!base.is_null())
        .then(|| unsafe { CStr::from_ptr(((*base).GetVersionString)()).to_string_lossy().into_owned() })
}

//! How the program finds us: by the name of ONNX Runtime's single entry point, whether it is linked or looked up.
//!
//! A program linked to ONNX Runtime finds our `OrtGetApiBase` because this library was loaded first. A program that
//! calls `dlsym` finds our `dlsym`, which forwards every other lookup by a jump instead of a call, because the
//! system's version inspects its caller.
#![expect(unsafe_code, reason = "replaces functions of the dynamic linker")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use ort_sys as sys;

use crate::output;
use crate::table::{self, GetApiBase};

const ENTRY: &CStr = c"OrtGetApiBase";
/// The versions under which `dlsym` is known, the newest first: glibc moved it once.
const DLSYM_VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.17", c"GLIBC_2.2.5"];

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The system's own; filled before it is first used.
static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// In place of ONNX Runtime's, for programs that are linked to it.
///
/// # Safety
/// None is needed: it takes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn OrtGetApiBase() -> *const sys::OrtApiBase {
    let Some(real) = real_entry() else {
        return std::ptr::null();
    };
    let entry = if is_recorded() { table::entry_for(real) } else { real };
    // SAFETY: it takes nothing.
    unsafe { entry() }
}

fn is_recorded() -> bool {
    static AT_FORK: Once = Once::new();
    if output::base().is_none() {
        return false;
    }
    AT_FORK.call_once(|| {
        // SAFETY: the handler only stores a flag, which is allowed in a child of `fork`. Without it a child would write
        // into its parent's directory, which does no harm either.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    true
}

extern "C" fn in_child() {
    output::note_fork();
}

/// ONNX Runtime's own: behind us in the order of loading, or in a library that was loaded for itself.
fn real_entry() -> Option<GetApiBase> {
    let real = real_dlsym();
    // SAFETY: looks up a name; the result has the type of this symbol in every version.
    let found = unsafe { real(libc::RTLD_NEXT, ENTRY.as_ptr()) };
    let found = if found.is_null() { in_loaded_libraries(real) } else { found };
    // SAFETY: as above.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, GetApiBase>(found) })
}

/// Looks through the libraries that are loaded without being visible to all.
fn in_loaded_libraries(real: Dlsym) -> *mut c_void {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the list below; the linker gives a valid record with a name that ends with zero.
        let (names, name) = unsafe { (&mut *data.cast::<Vec<CString>>(), (*info).dlpi_name) };
        if !name.is_null() {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(name) };
            if name.to_bytes().windows(11).any(|part| part == b"onnxruntime") {
                names.push(name.to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback is called before this returns, with the list that lives here.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    for name in names {
        // SAFETY: only increments the reference count of a loaded library and keeps it, as the program does.
        let found = unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if handle.is_null() { null_mut() } else { real(handle, ENTRY.as_ptr()) }
        };
        if !found.is_null() && found != OrtGetApiBase as *mut c_void {
            return found;
        }
    }
    null_mut()
}

/// The system's `dlsym`. `dlvsym` is another function, so asking it does not lead back here.
fn real_dlsym() -> Dlsym {
    let mut known = REAL_DLSYM.load(Ordering::Acquire);
    if known.is_null() {
        // SAFETY: looks up a name.
        let find =
            |version: &&CStr| unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        let found = DLSYM_VERSIONS.iter().map(find).find(|found| !found.is_null());
        known = found.unwrap_or(finds_nothing as *mut c_void);
        REAL_DLSYM.store(known, Ordering::Release);
    }
    // SAFETY: the address of a function of this type.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(known) }
}

/// For a system without `dlsym`, which there is none.
unsafe extern "C" fn finds_nothing(_handle: *mut c_void, _name: *const c_char) -> *mut c_void {
    null_mut()
}

/// The replacement for a `dlsym` lookup; null means to use the system's result.
///
/// # Safety
/// `name` is the argument of a `dlsym` call.
unsafe extern "C" fn instead(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let real = real_dlsym();
    // SAFETY: the caller's.
    if name.is_null() || unsafe { CStr::from_ptr(name) } != ENTRY || !is_recorded() {
        return null_mut();
    }
    // A caller that asks for the next symbol is a preloaded library like this one.
    if handle == libc::RTLD_NEXT {
        return null_mut();
    }
    // SAFETY: the caller's question.
    let found = unsafe { real(handle, name) };
    if found.is_null() || found == OrtGetApiBase as *mut c_void {
        return found;
    }
    // SAFETY: the symbol of this name has this type in every version.
    let found = unsafe { std::mem::transmute::<*mut c_void, GetApiBase>(found) };
    table::entry_for(found) as *mut c_void
}

std::cfg_select! {
    target_arch = "x86_64" => {
        /// # Safety
        /// As the system's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
            std::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                "call {instead}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                "test rax, rax",
                "jnz 2f",
                "jmp qword ptr [rip + {real}]",
                "2:",
                "ret",
                instead = sym instead,
                real = sym REAL_DLSYM,
            )
        }
    }
    target_arch = "aarch64" => {
        /// # Safety
        /// As the system's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
            std::arch::naked_asm!(
                "stp x29, x30, [sp, #-32]!",
                "stp x0, x1, [sp, #16]",
                "bl {instead}",
                "mov x9, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                "cbnz x9, 2f",
                "adrp x9, {real}",
                "ldr x9, [x9, #:lo12:{real}]",
                "br x9",
                "2:",
                "mov x0, x9",
                "ret",
                instead = sym instead,
                real = sym REAL_DLSYM,
            )
        }
    }
    _ => {
        // Only programs that are linked to ONNX Runtime are recorded there.
    }
}

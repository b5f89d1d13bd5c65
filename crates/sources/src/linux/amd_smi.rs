//! AMD's management libraries through their C interfaces (`amdsmi.h`, `rocm_smi.h`). Only functions with stable
//! signatures are used. All symbols are resolved when the library is loaded; a missing one is reported as the reason.
#![expect(unsafe_code, reason = "functions of a C library that is loaded at run time")]

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::devices::{AmdLibrary, AmdSmi, NoLibrary, PciAddress, SmiProcess};

/// Ordered by preference: the newer library first, runtime names before development names.
const LIBRARIES: [(&str, Kind); 12] = [
    ("libamd_smi.so.26", Kind::AmdSmi),
    ("libamd_smi.so.25", Kind::AmdSmi),
    ("libamd_smi.so.24", Kind::AmdSmi),
    ("libamd_smi.so", Kind::AmdSmi),
    ("/opt/rocm/lib/libamd_smi.so", Kind::AmdSmi),
    ("librocm_smi64.so.8", Kind::RocmSmi),
    ("librocm_smi64.so.7", Kind::RocmSmi),
    ("librocm_smi64.so.6", Kind::RocmSmi),
    ("librocm_smi64.so.5", Kind::RocmSmi),
    ("librocm_smi64.so.1", Kind::RocmSmi),
    ("librocm_smi64.so", Kind::RocmSmi),
    ("/opt/rocm/lib/librocm_smi64.so", Kind::RocmSmi),
];
const MAX_CARDS: u32 = 64;
/// Limit for queried processes.
const MAX_PROCESSES: usize = 256;
/// "Not counted" in both libraries.
const INVALID_OCCUPANCY: u32 = u32::MAX;
/// "Unknown" in both: the driver uses other process ids than a container with its own namespace.
const INVALID_BYTES: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    AmdSmi,
    RocmSmi,
}

/// A loaded library. It is never unloaded because one of its threads may hang.
#[derive(Debug, Clone, Copy)]
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: the path is NUL-terminated; loading runs initializers of a library that the user installed.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// # Safety
    /// `F` must be the type that the library's header declares for this function.
    unsafe fn function<F: Copy>(self, name: &'static str) -> Result<F, NoLibrary> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: the library stays loaded and the name is NUL-terminated.
        let found = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if found.is_null() {
            let why = format!("AMD's library lacks the function {name}: unsupported version");
            return Err(NoLibrary::Because(why));
        }
        // SAFETY: the caller guarantees the function's type, and the size was checked.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}

/// Loads and initializes the installed library.
pub(crate) fn amd_smi(library: &AmdLibrary) -> Result<Box<dyn AmdSmi>, NoLibrary> {
    let (library, kind) = match library {
        AmdLibrary::None => return Err(NoLibrary::NotInstalled),
        AmdLibrary::At(path) => {
            let is_rocm = path.file_name().is_some_and(|name| name.to_string_lossy().contains("rocm_smi"));
            let kind = if is_rocm { Kind::RocmSmi } else { Kind::AmdSmi };
            (Library::open(path).ok_or(NoLibrary::NotInstalled)?, kind)
        }
        AmdLibrary::System => LIBRARIES
            .iter()
            .find_map(|(name, kind)| Some((Library::open(Path::new(name))?, *kind)))
            .ok_or(NoLibrary::NotInstalled)?,
    };
    match kind {
        Kind::AmdSmi => start_amdsmi(library).map(|smi| Box::new(smi) as Box<dyn AmdSmi>),
        Kind::RocmSmi => start_rocm_smi(library).map(|smi| Box::new(smi) as Box<dyn AmdSmi>),
    }
}

/// `amdsmi_process_info_t` and `rsmi_process_info_t`; the offsets of these fields are the same in all versions.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ProcessInfo {
    pid: u32,
    _pasid: u32,
    memory_bytes: u64,
    _sdma_micros: u64,
    occupancy: u32,
    _more: u32,
}

impl ProcessInfo {
    /// The libraries leave 0 where the driver has no file because the process does not use the card. `None` if
    /// nothing is known.
    fn known(self) -> Option<SmiProcess> {
        let memory_bytes = Some(self.memory_bytes).filter(|bytes| ![0, INVALID_BYTES].contains(bytes));
        // A process with memory on the card that computes nothing really is at 0.
        let is_known =
            |percent: &u32| *percent != INVALID_OCCUPANCY && (*percent > 0 || memory_bytes.is_some());
        let compute_unit_percent = Some(self.occupancy).filter(is_known).map(|percent| percent.min(100));
        (memory_bytes.is_some() || compute_unit_percent.is_some()).then_some(SmiProcess {
            pid: self.pid,
            memory_bytes,
            compute_unit_percent,
        })
    }
}

type StatusText = fn(c_int) -> String;

/// Message for a status code.
fn status_text(status: c_int, names: &[(c_int, &str)]) -> String {
    let name = names.iter().find(|(code, _)| *code == status).map(|(_, name)| *name);
    name.map_or_else(|| format!("status {status}"), str::to_owned)
}

type EnergyCount<W> = unsafe extern "C" fn(W, *mut u64, *mut f32, *mut u64) -> c_int;

/// A count multiplied by its resolution in microjoules.
fn energy<W: Copy>(function: EnergyCount<W>, which: W, status_text: StatusText) -> Result<f64, String> {
    let (mut count, mut resolution, mut _at) = (0, 0.0, 0);
    // SAFETY: the library returned this card, and the pointers refer to live values of the header's types.
    let status = unsafe { function(which, &raw mut count, &raw mut resolution, &raw mut _at) };
    if status != 0 {
        return Err(status_text(status));
    }
    if !resolution.is_finite() || resolution <= 0.0 {
        return Err(format!("its counter has a resolution of {resolution} µJ"));
    }
    // The count comes from the driver; a counter that does not count shows 0.
    if count == 0 {
        Err("its counter is at 0 and does not count".to_owned())
    } else {
        Ok(count as f64 * f64::from(resolution))
    }
}

/// Queries one process.
enum ProcessQuery<W> {
    /// Use of all cards together.
    AllCards(unsafe extern "C" fn(u32, *mut ProcessInfo) -> c_int),
    OneCard(unsafe extern "C" fn(u32, W, *mut ProcessInfo) -> c_int),
}

/// An initialized library. Both offer the same queries; `W` is their card handle.
struct Smi<W> {
    name: &'static str,
    status_text: StatusText,
    cards: Vec<PciAddress>,
    which: Vec<W>,
    energy: EnergyCount<W>,
    /// Writes the cap, or a structure that begins with it.
    cap: unsafe extern "C" fn(W, u32, *mut u64) -> c_int,
    processes: unsafe extern "C" fn(*mut ProcessInfo, *mut u32) -> c_int,
    process: ProcessQuery<W>,
}

impl<W: Copy> Smi<W> {
    fn add(&mut self, address: u64, which: W) {
        if self.which.len() < MAX_CARDS as usize {
            self.cards.push(PciAddress(address));
            self.which.push(which);
        }
    }

    /// Processes that compute on any card. The other fields of the list are always 0.
    fn pids(&self) -> Result<Vec<u32>, String> {
        let mut list = vec![ProcessInfo::default(); MAX_PROCESSES];
        let mut count = MAX_PROCESSES as u32;
        // SAFETY: the list is live and has the given number of entries.
        let status = unsafe { (self.processes)(list.as_mut_ptr(), &raw mut count) };
        if status != 0 {
            return Err((self.status_text)(status));
        }
        list.truncate(count as usize);
        Ok(list.into_iter().map(|process| process.pid).filter(|pid| *pid != 0).collect())
    }

    /// `None` if the process has ended.
    fn process(&self, pid: u32, card: usize) -> Option<ProcessInfo> {
        // Spare capacity for a structure that grows in later versions.
        let mut one = [ProcessInfo::default(); 4];
        // SAFETY: the structure is live and longer than in any version, and the library returned this card.
        let status = unsafe {
            match self.process {
                ProcessQuery::AllCards(query) => query(pid, one.as_mut_ptr()),
                ProcessQuery::OneCard(query) => query(pid, self.which[card], one.as_mut_ptr()),
            }
        };
        (status == 0).then_some(one[0])
    }
}

impl<W: Copy> AmdSmi for Smi<W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cards(&self) -> &[PciAddress] {
        &self.cards
    }

    fn energy_microjoules(&mut self, card: usize) -> Result<f64, String> {
        energy(self.energy, self.which[card], self.status_text)
    }

    fn power_cap_microwatts(&mut self, card: usize) -> Result<u64, String> {
        // `amdsmi_power_cap_info_t` has eight fields; the buffer is larger than in any version.
        let mut info = [0_u64; 32];
        // SAFETY: the library returned this card; the buffer is live and at least as long as the structure.
        let status = unsafe { (self.cap)(self.which[card], 0, info.as_mut_ptr()) };
        if status == 0 { Ok(info[0]) } else { Err((self.status_text)(status)) }
    }

    fn processes(&mut self, card: usize) -> Result<Vec<SmiProcess>, String> {
        if matches!(self.process, ProcessQuery::AllCards(_)) && self.which.len() > 1 {
            return Err(format!("{} reports only the use of all cards together", self.name));
        }
        let known: Vec<ProcessInfo> =
            self.pids()?.into_iter().filter_map(|pid| self.process(pid, card)).collect();
        if !known.is_empty() && known.iter().all(|process| process.memory_bytes == INVALID_BYTES) {
            return Err("the driver's process ids differ from those in this container".to_owned());
        }
        Ok(known.into_iter().filter_map(ProcessInfo::known).collect())
    }
}

type Handle = *mut c_void;
type Init = unsafe extern "C" fn(u64) -> c_int;

/// `libamd_smi.so`.
fn start_amdsmi(library: Library) -> Result<Smi<Handle>, NoLibrary> {
    type Handles = unsafe extern "C" fn(*mut u32, *mut Handle) -> c_int;
    type HandlesOf = unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> c_int;
    type Address = unsafe extern "C" fn(Handle, *mut u64) -> c_int;
    const GPUS: u64 = 1 << 1;
    let failed = |what: &str, status| {
        NoLibrary::Because(format!("AMD's library (amdsmi) {what}: {}", amdsmi_status_text(status)))
    };
    // SAFETY: the types match `amdsmi.h`; the arrays are live and their lengths are passed.
    unsafe {
        let init: Init = library.function("amdsmi_init")?;
        let sockets: Handles = library.function("amdsmi_get_socket_handles")?;
        let of_socket: HandlesOf = library.function("amdsmi_get_processor_handles")?;
        let address: Address = library.function("amdsmi_get_gpu_device_bdf")?;
        let mut smi = Smi {
            name: "amdsmi",
            status_text: amdsmi_status_text,
            cards: Vec::new(),
            which: Vec::new(),
            energy: library.function("amdsmi_get_energy_count")?,
            cap: library.function("amdsmi_get_power_cap_info")?,
            processes: library.function("amdsmi_get_gpu_compute_process_info")?,
            process: ProcessQuery::AllCards(library.function("amdsmi_get_gpu_compute_process_info_by_pid")?),
        };
        let status = init(GPUS);
        if status != 0 {
            return Err(failed("cannot be initialized", status));
        }
        let (mut count, mut found) = (MAX_CARDS, [std::ptr::null_mut(); MAX_CARDS as usize]);
        let status = sockets(&raw mut count, found.as_mut_ptr());
        if status != 0 {
            return Err(failed("cannot list its cards", status));
        }
        for socket in &found[..count.min(MAX_CARDS) as usize] {
            let (mut count, mut inside) = (MAX_CARDS, [std::ptr::null_mut(); MAX_CARDS as usize]);
            if of_socket(*socket, &raw mut count, inside.as_mut_ptr()) != 0 {
                continue;
            }
            for handle in &inside[..count.min(MAX_CARDS) as usize] {
                let mut bits = 0;
                if address(*handle, &raw mut bits) == 0 {
                    smi.add(bits, *handle);
                }
            }
        }
        Ok(smi)
    }
}

fn amdsmi_status_text(status: c_int) -> String {
    status_text(
        status,
        &[
            (1, "invalid arguments"),
            (2, "not supported by this card"),
            (3, "not implemented by this library version"),
            (8, "the card timed out"),
            (9, "the card requests a retry"),
            (10, "permission denied"),
            (12, "the card cannot be read"),
            (14, "the driver's file cannot be read"),
            (30, "the card is busy"),
            (31, "the card was not found"),
            (32, "the library is not initialized"),
            (34, "the driver is not loaded"),
            (40, "no data"),
            (52, "the driver's file does not exist"),
        ],
    )
}

/// `librocm_smi64.so`.
fn start_rocm_smi(library: Library) -> Result<Smi<u32>, NoLibrary> {
    type Count = unsafe extern "C" fn(*mut u32) -> c_int;
    type Address = unsafe extern "C" fn(u32, *mut u64) -> c_int;
    let failed = |what: &str, status| {
        NoLibrary::Because(format!("AMD's library (rocm-smi) {what}: {}", rocm_smi_status_text(status)))
    };
    // SAFETY: the types match `rocm_smi.h`, and the pointers refer to live values.
    unsafe {
        let init: Init = library.function("rsmi_init")?;
        let devices: Count = library.function("rsmi_num_monitor_devices")?;
        let address: Address = library.function("rsmi_dev_pci_id_get")?;
        let mut smi = Smi {
            name: "rocm-smi",
            status_text: rocm_smi_status_text,
            cards: Vec::new(),
            which: Vec::new(),
            energy: library.function("rsmi_dev_energy_count_get")?,
            cap: library.function("rsmi_dev_power_cap_get")?,
            processes: library.function("rsmi_compute_process_info_get")?,
            process: ProcessQuery::OneCard(library.function("rsmi_compute_process_info_by_device_get")?),
        };
        let status = init(0);
        if status != 0 {
            return Err(failed("cannot be initialized", status));
        }
        let mut count = 0;
        let status = devices(&raw mut count);
        if status != 0 {
            return Err(failed("cannot list its cards", status));
        }
        for index in 0..count.min(MAX_CARDS) {
            let mut bits = 0;
            if address(index, &raw mut bits) == 0 {
                smi.add(bits, index);
            }
        }
        Ok(smi)
    }
}

fn rocm_smi_status_text(status: c_int) -> String {
    status_text(
        status,
        &[
            (1, "invalid arguments"),
            (2, "not supported by this card"),
            (3, "the driver's file cannot be read"),
            (4, "permission denied"),
            (8, "the library is not initialized"),
            (10, "the card was not found"),
            (14, "no data"),
            (16, "the card is busy"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_offsets_match_the_headers() {
        assert_eq!((std::mem::offset_of!(ProcessInfo, memory_bytes), size_of::<ProcessInfo>()), (8, 32));
        assert_eq!(std::mem::offset_of!(ProcessInfo, occupancy), 24);
    }

    /// Regression: zeros left by the libraries for unknown values were reported as measured.
    #[test]
    fn unknown_process_figures_are_not_reported() {
        let known = |memory_bytes, occupancy| {
            let info = ProcessInfo { pid: 7, memory_bytes, occupancy, ..Default::default() };
            info.known().map(|process| (process.memory_bytes, process.compute_unit_percent))
        };
        assert_eq!(known(0, 0), None);
        assert_eq!(known(INVALID_BYTES, INVALID_OCCUPANCY), None);
        assert_eq!(known(5, INVALID_OCCUPANCY), Some((Some(5), None)));
        assert_eq!(known(0, 40), Some((None, Some(40))));
        assert_eq!((known(5, 0), known(5, 250)), (Some((Some(5), Some(0))), Some((Some(5), Some(100)))));
    }

    #[test]
    fn a_file_that_is_not_a_library_counts_as_not_installed() {
        let text = tempfile::NamedTempFile::new().unwrap();
        for library in [AmdLibrary::At(text.path().to_owned()), AmdLibrary::None] {
            assert!(matches!(amd_smi(&library), Err(NoLibrary::NotInstalled)));
        }
    }
}

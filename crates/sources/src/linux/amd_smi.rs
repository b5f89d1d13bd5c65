//! AMD's management libraries, by their C interface (`amdsmi.h`, `rocm_smi.h`): only functions whose signatures have not
//! changed between versions. Every symbol is looked up when the library is loaded; one that is missing is a reason.
#![expect(unsafe_code, reason = "functions of a C library that is loaded at run time")]

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::devices::{AmdLibrary, AmdSmi, NoLibrary, PciAddress, SmiProcess};

/// In the order of preference: the newer library first, the names of packages before those of developers.
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
/// Processes that are asked for.
const MAX_PROCESSES: usize = 256;
/// "Not counted" in both libraries.
const INVALID_OCCUPANCY: u32 = u32::MAX;
/// "Not known" in both: in a container with process ids of its own the driver's files have others.
const INVALID_BYTES: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    AmdSmi,
    RocmSmi,
}

/// A loaded library, which is never unloaded: threads of it may hang.
#[derive(Debug, Clone, Copy)]
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: a text that ends with zero; loading runs the library's own beginnings, which is what the user installed
        // it for.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// # Safety
    /// `F` is the type of the function of this name in the library's header.
    unsafe fn function<F: Copy>(self, name: &'static str) -> Result<F, NoLibrary> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: the library is loaded and stays so; the name ends with zero.
        let found = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if found.is_null() {
            let why = format!("AMD's library has no function {name}: its version is not known here");
            return Err(NoLibrary::Because(why));
        }
        // SAFETY: a function pointer of the type that the caller promises, of the size that was checked.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}

/// Loads and starts what is installed.
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

/// `amdsmi_process_info_t` and `rsmi_process_info_t`: what stands between has changed, the places of these have not.
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
    /// The libraries leave 0 where the driver has no file: of a process that does not use the card. `None`: nothing is known.
    fn told(self) -> Option<SmiProcess> {
        let memory_bytes = Some(self.memory_bytes).filter(|bytes| ![0, INVALID_BYTES].contains(bytes));
        // One that has memory there and computes nothing is at 0 indeed.
        let is_told =
            |percent: &u32| *percent != INVALID_OCCUPANCY && (*percent > 0 || memory_bytes.is_some());
        let compute_unit_percent = Some(self.occupancy).filter(is_told).map(|percent| percent.min(100));
        (memory_bytes.is_some() || compute_unit_percent.is_some()).then_some(SmiProcess {
            pid: self.pid,
            memory_bytes,
            compute_unit_percent,
        })
    }
}

type Words = fn(c_int) -> String;

/// Words for the usual numbers of a library.
fn words(status: c_int, names: &[(c_int, &str)]) -> String {
    let name = names.iter().find(|(code, _)| *code == status).map(|(_, name)| *name);
    name.map_or_else(|| format!("status {status}"), str::to_owned)
}

type EnergyCount<W> = unsafe extern "C" fn(W, *mut u64, *mut f32, *mut u64) -> c_int;

/// A count times its resolution in microjoules.
fn energy<W: Copy>(function: EnergyCount<W>, which: W, words: Words) -> Result<f64, String> {
    let (mut count, mut resolution, mut _at) = (0, 0.0, 0);
    // SAFETY: the card is one that the library named, and three live numbers of the header's types.
    let status = unsafe { function(which, &raw mut count, &raw mut resolution, &raw mut _at) };
    if status != 0 {
        return Err(words(status));
    }
    if !resolution.is_finite() || resolution <= 0.0 {
        return Err(format!("its counter has a resolution of {resolution} µJ"));
    }
    // The counter is the driver's: 0 is what one that does not count shows.
    if count == 0 {
        Err("its counter is at 0 and does not count".to_owned())
    } else {
        Ok(count as f64 * f64::from(resolution))
    }
}

/// Asks for one process.
enum ProcessOf<W> {
    /// What it uses of all cards together.
    AllCards(unsafe extern "C" fn(u32, *mut ProcessInfo) -> c_int),
    OneCard(unsafe extern "C" fn(u32, W, *mut ProcessInfo) -> c_int),
}

/// A library that has started. Both have the same questions; `W` is how they call a card.
struct Smi<W> {
    name: &'static str,
    words: Words,
    cards: Vec<PciAddress>,
    which: Vec<W>,
    energy: EnergyCount<W>,
    /// Writes the cap, or a structure that begins with it.
    cap: unsafe extern "C" fn(W, u32, *mut u64) -> c_int,
    processes: unsafe extern "C" fn(*mut ProcessInfo, *mut u32) -> c_int,
    process: ProcessOf<W>,
}

impl<W: Copy> Smi<W> {
    fn add(&mut self, address: u64, which: W) {
        if self.which.len() < MAX_CARDS as usize {
            self.cards.push(PciAddress(address));
            self.which.push(which);
        }
    }

    /// Of all processes that compute on any card. The list itself tells nothing more: its other numbers stay 0.
    fn pids(&self) -> Result<Vec<u32>, String> {
        let mut list = vec![ProcessInfo::default(); MAX_PROCESSES];
        let mut count = MAX_PROCESSES as u32;
        // SAFETY: the list is live and has as many places as told.
        let status = unsafe { (self.processes)(list.as_mut_ptr(), &raw mut count) };
        if status != 0 {
            return Err((self.words)(status));
        }
        list.truncate(count as usize);
        Ok(list.into_iter().map(|process| process.pid).filter(|pid| *pid != 0).collect())
    }

    /// `None` if it has ended.
    fn process(&self, pid: u32, card: usize) -> Option<ProcessInfo> {
        // Room for a structure that has grown.
        let mut one = [ProcessInfo::default(); 4];
        // SAFETY: the structure is live and longer than any version's; the card is one that the library named.
        let status = unsafe {
            match self.process {
                ProcessOf::AllCards(ask) => ask(pid, one.as_mut_ptr()),
                ProcessOf::OneCard(ask) => ask(pid, self.which[card], one.as_mut_ptr()),
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
        energy(self.energy, self.which[card], self.words)
    }

    fn power_cap_microwatts(&mut self, card: usize) -> Result<u64, String> {
        // `amdsmi_power_cap_info_t` is eight numbers; the room is larger than any version's.
        let mut info = [0_u64; 32];
        // SAFETY: a card that the library named; the room is live and as long as what is written, or longer.
        let status = unsafe { (self.cap)(self.which[card], 0, info.as_mut_ptr()) };
        if status == 0 { Ok(info[0]) } else { Err((self.words)(status)) }
    }

    fn processes(&mut self, card: usize) -> Result<Vec<SmiProcess>, String> {
        if matches!(self.process, ProcessOf::AllCards(_)) && self.which.len() > 1 {
            return Err(format!("{} tells what a process uses of all cards together", self.name));
        }
        let known: Vec<ProcessInfo> =
            self.pids()?.into_iter().filter_map(|pid| self.process(pid, card)).collect();
        if !known.is_empty() && known.iter().all(|process| process.memory_bytes == INVALID_BYTES) {
            return Err("the driver knows them by other ids than this container does".to_owned());
        }
        Ok(known.into_iter().filter_map(ProcessInfo::told).collect())
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
        NoLibrary::Because(format!("AMD's library (amdsmi) {what}: {}", amdsmi_words(status)))
    };
    // SAFETY: the types are those of `amdsmi.h`. Arrays are live and their lengths are told.
    unsafe {
        let init: Init = library.function("amdsmi_init")?;
        let sockets: Handles = library.function("amdsmi_get_socket_handles")?;
        let of_socket: HandlesOf = library.function("amdsmi_get_processor_handles")?;
        let address: Address = library.function("amdsmi_get_gpu_device_bdf")?;
        let mut smi = Smi {
            name: "amdsmi",
            words: amdsmi_words,
            cards: Vec::new(),
            which: Vec::new(),
            energy: library.function("amdsmi_get_energy_count")?,
            cap: library.function("amdsmi_get_power_cap_info")?,
            processes: library.function("amdsmi_get_gpu_compute_process_info")?,
            process: ProcessOf::AllCards(library.function("amdsmi_get_gpu_compute_process_info_by_pid")?),
        };
        let status = init(GPUS);
        if status != 0 {
            return Err(failed("does not start", status));
        }
        let (mut count, mut found) = (MAX_CARDS, [std::ptr::null_mut(); MAX_CARDS as usize]);
        let status = sockets(&raw mut count, found.as_mut_ptr());
        if status != 0 {
            return Err(failed("does not list its cards", status));
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

fn amdsmi_words(status: c_int) -> String {
    words(
        status,
        &[
            (1, "it does not take the question"),
            (2, "this card does not support it"),
            (3, "the library does not have it yet"),
            (8, "the card did not answer in time"),
            (9, "the card wants to be asked again"),
            (10, "it is not allowed"),
            (12, "the card cannot be read"),
            (14, "the driver's file cannot be read"),
            (30, "the card is busy"),
            (31, "the card is not there"),
            (32, "the library is not started"),
            (34, "the driver is not loaded"),
            (40, "there is no data"),
            (52, "the driver's file is not there"),
        ],
    )
}

/// `librocm_smi64.so`.
fn start_rocm_smi(library: Library) -> Result<Smi<u32>, NoLibrary> {
    type Count = unsafe extern "C" fn(*mut u32) -> c_int;
    type Address = unsafe extern "C" fn(u32, *mut u64) -> c_int;
    let failed = |what: &str, status| {
        NoLibrary::Because(format!("AMD's library (rocm-smi) {what}: {}", rocm_smi_words(status)))
    };
    // SAFETY: the types are those of `rocm_smi.h`; numbers that functions fill are live.
    unsafe {
        let init: Init = library.function("rsmi_init")?;
        let devices: Count = library.function("rsmi_num_monitor_devices")?;
        let address: Address = library.function("rsmi_dev_pci_id_get")?;
        let mut smi = Smi {
            name: "rocm-smi",
            words: rocm_smi_words,
            cards: Vec::new(),
            which: Vec::new(),
            energy: library.function("rsmi_dev_energy_count_get")?,
            cap: library.function("rsmi_dev_power_cap_get")?,
            processes: library.function("rsmi_compute_process_info_get")?,
            process: ProcessOf::OneCard(library.function("rsmi_compute_process_info_by_device_get")?),
        };
        let status = init(0);
        if status != 0 {
            return Err(failed("does not start", status));
        }
        let mut count = 0;
        let status = devices(&raw mut count);
        if status != 0 {
            return Err(failed("does not list its cards", status));
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

fn rocm_smi_words(status: c_int) -> String {
    words(
        status,
        &[
            (1, "it does not take the question"),
            (2, "this card does not support it"),
            (3, "the driver's file cannot be read"),
            (4, "it is not allowed"),
            (8, "the library is not started"),
            (10, "the card is not there"),
            (14, "there is no data"),
            (16, "the card is busy"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_structures_are_those_of_the_headers() {
        assert_eq!((std::mem::offset_of!(ProcessInfo, memory_bytes), size_of::<ProcessInfo>()), (8, 32));
        assert_eq!(std::mem::offset_of!(ProcessInfo, occupancy), 24);
    }

    /// Zeros that the libraries leave where the driver has no file used to be told as measured.
    #[test]
    fn what_is_not_known_of_a_process_is_no_figure() {
        let told = |memory_bytes, occupancy| {
            let info = ProcessInfo { pid: 7, memory_bytes, occupancy, ..Default::default() };
            info.told().map(|process| (process.memory_bytes, process.compute_unit_percent))
        };
        assert_eq!(told(0, 0), None);
        assert_eq!(told(INVALID_BYTES, INVALID_OCCUPANCY), None);
        assert_eq!(told(5, INVALID_OCCUPANCY), Some((Some(5), None)));
        assert_eq!(told(0, 40), Some((None, Some(40))));
        assert_eq!((told(5, 0), told(5, 250)), (Some((Some(5), Some(0))), Some((Some(5), Some(100)))));
    }

    #[test]
    fn a_file_that_is_no_library_is_not_installed() {
        let text = tempfile::NamedTempFile::new().unwrap();
        for library in [AmdLibrary::At(text.path().to_owned()), AmdLibrary::None] {
            assert!(matches!(amd_smi(&library), Err(NoLibrary::NotInstalled)));
        }
    }
}

//! Power source and limits of the machine: mains or battery, the power plan, and the frequency limit.

use std::sync::OnceLock;

use ortscope_decode::battery_state::{BATTERY_STATE_BYTES, BatteryState};
use windows_sys::Win32::System::Power::{GetSystemPowerStatus, SYSTEM_POWER_STATUS};
use windows_sys::core::GUID;

use super::native::{self, Function};

/// `PROCESSOR_POWER_INFORMATION` of one processor.
const PROCESSOR_POWER_WORDS: usize = 6;
/// Limit for inspected processors; on larger machines the first ones are representative.
const MAX_PROCESSORS: usize = 256;

/// Emits what is known; `false` if the machine does not report its power source.
pub(super) fn environment(emit: &mut dyn FnMut(&'static str, &'static str, f64)) -> bool {
    if let Some(ratio) = frequency_limit() {
        emit("power", "cpu_frequency_limit_ratio", ratio);
    }
    let mut status = SYSTEM_POWER_STATUS {
        ACLineStatus: 255,
        BatteryFlag: 255,
        BatteryLifePercent: 255,
        SystemStatusFlag: 0,
        BatteryLifeTime: 0,
        BatteryFullLifeTime: 0,
    };
    // SAFETY: the structure is live.
    if unsafe { GetSystemPowerStatus(&mut status) } == 0 || status.ACLineStatus > 1 {
        return false;
    }
    emit("power", "mains_ratio", f64::from(status.ACLineStatus));
    emit("power", "battery_saver_ratio", f64::from(status.SystemStatusFlag & 1));
    if status.BatteryLifePercent <= 100 {
        emit("power", "battery_charge_ratio", f64::from(status.BatteryLifePercent) / 100.0);
    }
    true
}

/// `None` if unknown.
pub(super) fn has_battery() -> Option<bool> {
    const NO_BATTERY: u8 = 128;
    const UNKNOWN: u8 = 255;
    let mut status = SYSTEM_POWER_STATUS {
        ACLineStatus: UNKNOWN,
        BatteryFlag: UNKNOWN,
        BatteryLifePercent: UNKNOWN,
        SystemStatusFlag: 0,
        BatteryLifeTime: 0,
        BatteryFullLifeTime: 0,
    };
    // SAFETY: the structure is live.
    let answered = unsafe { GetSystemPowerStatus(&mut status) } != 0;
    (answered && status.BatteryFlag != UNKNOWN).then_some(status.BatteryFlag & NO_BATTERY == 0)
}

type PowerInformation = unsafe extern "system" fn(i32, *const u8, u32, *mut u32, u32) -> i32;

/// `CallNtPowerInformation`.
fn power_information() -> Option<PowerInformation> {
    static FUNCTION: OnceLock<Option<PowerInformation>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        let function = native::system_library("powrprof.dll", c"CallNtPowerInformation")?;
        // SAFETY: this is the function's documented signature; the caller describes the output buffer.
        Some(unsafe { std::mem::transmute::<Function, PowerInformation>(function) })
    })
}

/// All batteries together.
pub(super) fn battery() -> Option<BatteryState> {
    const SYSTEM_BATTERY_STATE: i32 = 5;
    let function = power_information()?;
    let mut buffer = [0u32; BATTERY_STATE_BYTES / size_of::<u32>()];
    // SAFETY: there is no input; the buffer is live and has the stated length.
    let status = unsafe {
        function(SYSTEM_BATTERY_STATE, std::ptr::null(), 0, buffer.as_mut_ptr(), BATTERY_STATE_BYTES as u32)
    };
    let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_le_bytes()).collect();
    BatteryState::parse(&bytes).filter(|_| status == 0)
}

/// The frequency that the system currently allows, relative to the maximum.
fn frequency_limit() -> Option<f64> {
    const PROCESSOR_INFORMATION: i32 = 11;
    let function = power_information()?;
    let mut buffer = [0u32; PROCESSOR_POWER_WORDS * MAX_PROCESSORS];
    let count = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_PROCESSORS);
    let bytes = (count * PROCESSOR_POWER_WORDS * size_of::<u32>()) as u32;
    // SAFETY: there is no input; the buffer is live and at least `bytes` long.
    let status = unsafe { function(PROCESSOR_INFORMATION, std::ptr::null(), 0, buffer.as_mut_ptr(), bytes) };
    let processors = buffer[..count * PROCESSOR_POWER_WORDS].chunks_exact(PROCESSOR_POWER_WORDS);
    // Number, maximum, current and allowed megahertz, idle states.
    let ratios =
        processors.filter(|one| one[1] > 0 && one[3] > 0).map(|one| f64::from(one[3]) / f64::from(one[1]));
    let (sum, known) = ratios.fold((0.0, 0u32), |(sum, known), ratio| (sum + ratio, known + 1));
    (status == 0 && known > 0).then(|| sum / f64::from(known))
}

/// The name of the power plan, in the language of the system.
pub(super) fn plan() -> Option<String> {
    type ActiveScheme = unsafe extern "system" fn(*const u8, *mut *mut GUID) -> u32;
    type FriendlyName =
        unsafe extern "system" fn(*const u8, *const GUID, *const GUID, *const GUID, *mut u8, *mut u32) -> u32;
    type Free = unsafe extern "system" fn(*mut GUID) -> *mut GUID;
    let (active, name, free) = (
        native::system_library("powrprof.dll", c"PowerGetActiveScheme")?,
        native::system_library("powrprof.dll", c"PowerReadFriendlyName")?,
        native::system_library("kernel32.dll", c"LocalFree")?,
    );
    // SAFETY: these are the functions' documented signatures.
    let (active, name, free) = unsafe {
        (
            std::mem::transmute::<Function, ActiveScheme>(active),
            std::mem::transmute::<Function, FriendlyName>(name),
            std::mem::transmute::<Function, Free>(free),
        )
    };
    let mut scheme = std::ptr::null_mut();
    // SAFETY: live space for the pointer that the function allocates.
    if unsafe { active(std::ptr::null(), &mut scheme) } != 0 || scheme.is_null() {
        return None;
    }
    let mut buffer = [0u16; 256];
    let mut bytes = size_of_val(&buffer) as u32;
    let none = std::ptr::null();
    // SAFETY: the plan that was just returned, and a live buffer with its length; the plan is freed once, after its
    // last use.
    let status = unsafe {
        let status = name(std::ptr::null(), scheme, none, none, buffer.as_mut_ptr().cast(), &mut bytes);
        free(scheme);
        status
    };
    let text = String::from_utf16_lossy(buffer.get(..bytes as usize / 2).filter(|_| status == 0)?);
    Some(text.trim_end_matches('\0').to_owned()).filter(|text| !text.is_empty())
}

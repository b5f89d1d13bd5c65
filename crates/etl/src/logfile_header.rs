//! The first event of a file (`TRACE_LOGFILE_HEADER`): recorder, time, clock and losses.

use crate::PointerSize;
use crate::clock::{Clock, ClockKind, FileTime};
use crate::le::{chunk_at, u16_at, u32_at, u64_at};

/// Bits of [`LogFileHeader::log_file_mode`].
pub mod log_file_modes {
    pub const SEQUENTIAL: u32 = 0x1;
    pub const CIRCULAR: u32 = 0x2;
    pub const APPEND: u32 = 0x4;
    pub const NEW_FILE: u32 = 0x8;
    pub const PREALLOCATE: u32 = 0x20;
    pub const REAL_TIME: u32 = 0x100;
    pub const BUFFERING: u32 = 0x400;
    pub const PRIVATE_LOGGER: u32 = 0x800;
    pub const RELOG: u32 = 0x1_0000;
    pub const SYSTEM_LOGGER: u32 = 0x200_0000;
    pub const COMPRESSED: u32 = 0x400_0000;
    pub const NO_PER_PROCESSOR_BUFFERING: u32 = 0x1000_0000;
}

/// Maximum length of names in the file; longer ones are truncated.
const MAX_NAME_CHARACTERS: usize = 32_768;
/// Longer than any Windows path without a prefix; two of them fit into the smallest buffer.
const MAX_WRITTEN_NAME: usize = 260;
const TIME_ZONE_BYTES: usize = 172;
const ZONE_NAME_CHARACTERS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFileHeader {
    /// Size of a buffer in memory, and on disk unless compressed.
    pub buffer_size: u32,
    /// Major, minor, sub and sub-minor version of the file; a third number of 2 indicates compression.
    pub version: [u8; 4],
    /// The build of Windows.
    pub os_build: u32,
    pub processors: u32,
    /// 0 in a file that was not closed.
    pub end_time: FileTime,
    /// In units of 100 ns; the unit of the CPU times in record headers.
    pub timer_resolution: u32,
    pub maximum_file_size: u32,
    pub log_file_mode: u32,
    /// Including the header's own.
    pub buffers_written: u32,
    pub start_buffers: u32,
    pub pointer_size: PointerSize,
    pub events_lost: u32,
    pub cpu_mhz: u32,
    /// Pointers to the names in Vista; later versions store which timers the machine uses.
    pub reserved_pointers: [u64; 2],
    pub time_zone: TimeZone,
    pub boot_time: FileTime,
    pub performance_frequency: u64,
    pub start_time: FileTime,
    pub clock: Clock,
    pub buffers_lost: u32,
    pub logger_name: String,
    pub log_file_name: String,
}

/// The time zone of the machine that recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeZone {
    /// Minutes to add to local time to get UTC.
    pub bias_minutes: i32,
    pub standard_name: String,
    /// Year, month, day of the week, day, hour, minute, second, millisecond of the change to standard time.
    pub standard_date: [u16; 8],
    pub standard_bias_minutes: i32,
    pub daylight_name: String,
    pub daylight_date: [u16; 8],
    pub daylight_bias_minutes: i32,
}

impl LogFileHeader {
    /// `ticks` are those of the event with `payload`. `None` if the payload is too short.
    pub fn parse(payload: &[u8], pointer_size: PointerSize, ticks: u64) -> Option<Self> {
        // The header has the machine's pointer size; a relogger with another pointer size may have written the
        // event.
        let pointer_size = match u32_at(payload, 0x2c)? {
            4 => PointerSize::Four,
            8 => PointerSize::Eight,
            _ => pointer_size,
        };
        let zone_at = 0x38 + 2 * pointer_size.bytes();
        let times_at = (zone_at + TIME_ZONE_BYTES).next_multiple_of(8);
        let performance_frequency = u64_at(payload, times_at + 8)?;
        let start_time = FileTime(u64_at(payload, times_at + 16)?);
        let kind = ClockKind::from_raw(u32_at(payload, times_at + 24)?);
        let cpu_mhz = u32_at(payload, 0x34)?;
        let ticks_per_second = match kind {
            ClockKind::ProcessorCycles => u64::from(cpu_mhz) * 1_000_000,
            _ => performance_frequency,
        };
        let names_at = times_at + 32;
        let (logger_name, log_file_name_at) = text_at(payload, names_at, MAX_NAME_CHARACTERS);
        let (log_file_name, _) = text_at(payload, log_file_name_at, MAX_NAME_CHARACTERS);
        Some(Self {
            buffer_size: u32_at(payload, 0)?,
            version: chunk_at(payload, 4)?,
            os_build: u32_at(payload, 8)?,
            processors: u32_at(payload, 0xc)?,
            end_time: FileTime(u64_at(payload, 0x10)?),
            timer_resolution: u32_at(payload, 0x18)?,
            maximum_file_size: u32_at(payload, 0x1c)?,
            log_file_mode: u32_at(payload, 0x20)?,
            buffers_written: u32_at(payload, 0x24)?,
            start_buffers: u32_at(payload, 0x28)?,
            pointer_size,
            events_lost: u32_at(payload, 0x30)?,
            cpu_mhz,
            reserved_pointers: match pointer_size {
                PointerSize::Four => [u64::from(u32_at(payload, 0x38)?), u64::from(u32_at(payload, 0x3c)?)],
                PointerSize::Eight => [u64_at(payload, 0x38)?, u64_at(payload, 0x40)?],
            },
            time_zone: TimeZone::parse(payload.get(zone_at..zone_at + TIME_ZONE_BYTES)?)?,
            boot_time: FileTime(u64_at(payload, times_at)?),
            performance_frequency,
            start_time,
            clock: Clock::new(kind, ticks_per_second, ticks, start_time),
            buffers_lost: u32_at(payload, times_at + 28)?,
            logger_name,
            log_file_name,
        })
    }

    /// The system time of an event.
    pub fn time_of(&self, ticks: u64) -> FileTime {
        self.clock.file_time(ticks)
    }

    /// The end time, which a session writes when it closes the file.
    pub fn is_closed(&self) -> bool {
        self.end_time.0 != 0
    }

    /// The payload of the header's event, the inverse of [`Self::parse`].
    pub(crate) fn to_payload(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(0x400);
        out.extend(self.buffer_size.to_le_bytes());
        out.extend(self.version);
        out.extend(self.os_build.to_le_bytes());
        out.extend(self.processors.to_le_bytes());
        out.extend(self.end_time.0.to_le_bytes());
        for number in [
            self.timer_resolution,
            self.maximum_file_size,
            self.log_file_mode,
            self.buffers_written,
            self.start_buffers,
            self.pointer_size.bytes() as u32,
            self.events_lost,
            self.cpu_mhz,
        ] {
            out.extend(number.to_le_bytes());
        }
        for pointer in self.reserved_pointers {
            out.extend(&pointer.to_le_bytes()[..self.pointer_size.bytes()]);
        }
        self.time_zone.write(&mut out);
        out.resize(out.len().next_multiple_of(8), 0);
        for number in [self.boot_time.0, self.performance_frequency, self.start_time.0] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.clock.kind().raw().to_le_bytes());
        out.extend(self.buffers_lost.to_le_bytes());
        for name in [&self.logger_name, &self.log_file_name] {
            out.extend(
                name.encode_utf16()
                    .take(MAX_WRITTEN_NAME)
                    .filter(|&unit| unit != 0)
                    .flat_map(u16::to_le_bytes),
            );
            out.extend([0, 0]);
        }
        out
    }
}

impl TimeZone {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            bias_minutes: u32_at(bytes, 0)? as i32,
            standard_name: text_at(bytes.get(..0x44)?, 4, ZONE_NAME_CHARACTERS).0,
            standard_date: date_at(bytes, 0x44)?,
            standard_bias_minutes: u32_at(bytes, 0x54)? as i32,
            daylight_name: text_at(bytes.get(..0x98)?, 0x58, ZONE_NAME_CHARACTERS).0,
            daylight_date: date_at(bytes, 0x98)?,
            daylight_bias_minutes: u32_at(bytes, 0xa8)? as i32,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.bias_minutes.to_le_bytes());
        for (name, date, bias) in [
            (&self.standard_name, self.standard_date, self.standard_bias_minutes),
            (&self.daylight_name, self.daylight_date, self.daylight_bias_minutes),
        ] {
            let end = out.len() + 2 * ZONE_NAME_CHARACTERS;
            out.extend(name.encode_utf16().take(ZONE_NAME_CHARACTERS).flat_map(u16::to_le_bytes));
            out.resize(end, 0);
            out.extend(date.into_iter().flat_map(u16::to_le_bytes));
            out.extend(bias.to_le_bytes());
        }
    }
}

fn date_at(bytes: &[u8], at: usize) -> Option<[u16; 8]> {
    let bytes: [u8; 16] = chunk_at(bytes, at)?;
    Some(std::array::from_fn(|part| u16::from_le_bytes([bytes[2 * part], bytes[2 * part + 1]])))
}

/// UTF-16 up to NUL, and the offset behind it.
fn text_at(bytes: &[u8], at: usize, max_characters: usize) -> (String, usize) {
    let mut units = Vec::new();
    let mut next = at;
    while let Some(unit) = u16_at(bytes, next) {
        next += 2;
        if unit == 0 {
            break;
        }
        if units.len() < max_characters {
            units.push(unit);
        } else {
            break;
        }
    }
    (String::from_utf16_lossy(&units), next)
}

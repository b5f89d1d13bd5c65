//! Collects ONNX Runtime's log lines for reports instead of printing them.
//!
//! ONNX Runtime has one environment per process and keeps the logger of the first creator, even after that caller is
//! gone. The collector therefore belongs to the loaded library, not to an `Environment`, and is never freed.
#![expect(unsafe_code, reason = "a callback that C code calls")]

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort_sys as sys;
use ortscope_core::session::{LogLevel, LogLine};

use crate::text;

/// Lines kept until they are taken; when full, newer lines are dropped and counted.
pub const MAX_LOG_LINES: usize = 500;
/// Longer messages (ONNX Runtime can print whole graphs) are cut here.
const MAX_MESSAGE_BYTES: usize = 4096;

fn level_from_raw(level: i32) -> LogLevel {
    match level {
        i32::MIN..=0 => LogLevel::Verbose,
        1 => LogLevel::Info,
        2 => LogLevel::Warning,
        3 => LogLevel::Error,
        _ => LogLevel::Fatal,
    }
}

pub(crate) fn level_to_raw(level: LogLevel) -> sys::OrtLoggingLevel {
    match level {
        LogLevel::Verbose => sys::OrtLoggingLevel::ORT_LOGGING_LEVEL_VERBOSE,
        LogLevel::Info => sys::OrtLoggingLevel::ORT_LOGGING_LEVEL_INFO,
        LogLevel::Warning => sys::OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING,
        LogLevel::Error => sys::OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR,
        LogLevel::Fatal => sys::OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL,
    }
}

/// The bounded buffer behind the callback.
#[derive(Debug, Default)]
pub(crate) struct LogCollector(Mutex<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    lines: VecDeque<LogLine>,
    /// Lines ever kept, so that a reader can ask for those after a point in time.
    kept: u64,
    dropped: u64,
    dropped_total: u64,
}

impl LogCollector {
    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        // A panic while holding the lock leaves at worst one line missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: LogLine) {
        let mut buffer = self.buffer();
        if buffer.lines.len() < MAX_LOG_LINES {
            buffer.kept += 1;
            buffer.lines.push_back(line);
        } else {
            buffer.dropped += 1;
            buffer.dropped_total += 1;
        }
    }

    /// Takes all lines. If some were dropped, the last line contains their number.
    pub(crate) fn take(&self) -> Vec<LogLine> {
        let mut buffer = self.buffer();
        let dropped = std::mem::take(&mut buffer.dropped);
        let mut lines: Vec<LogLine> = buffer.lines.drain(..).collect();
        if dropped > 0 {
            lines.push(LogLine {
                level: LogLevel::Warning,
                category: "ortscope".to_owned(),
                message: format!("{dropped} more log lines were dropped (limit {MAX_LOG_LINES})"),
            });
        }
        lines
    }

    pub(crate) fn dropped_total(&self) -> u64 {
        self.buffer().dropped_total
    }

    /// A point in the stream of lines, for [`Self::since`].
    pub(crate) fn mark(&self) -> u64 {
        self.buffer().kept
    }

    /// Copies the lines that came after `mark` and are still there.
    pub(crate) fn since(&self, mark: u64) -> Vec<LogLine> {
        let buffer = self.buffer();
        let new = usize::try_from(buffer.kept.saturating_sub(mark)).unwrap_or(usize::MAX);
        let skip = buffer.lines.len().saturating_sub(new);
        buffer.lines.iter().skip(skip).cloned().collect()
    }
}

/// The callback as C sees it, with the level as an integer: a newer library may send one ort-sys does not know.
type Callback =
    unsafe extern "system" fn(*mut c_void, i32, *const c_char, *const c_char, *const c_char, *const c_char);

pub(crate) fn callback() -> sys::OrtLoggingFunction {
    // SAFETY: only the level's type differs, a repr(i32) enum against its integer.
    unsafe { std::mem::transmute::<Callback, sys::OrtLoggingFunction>(on_log) }
}

/// # Safety
/// ONNX Runtime calls it with the collector it was given, which is never freed, and with valid strings.
unsafe extern "system" fn on_log(
    collector: *mut c_void,
    level: i32,
    category: *const c_char,
    _log_id: *const c_char,
    _code_location: *const c_char,
    message: *const c_char,
) {
    // A panic must not cross into C++. It cannot be reported, so the line is lost.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by this function's contract.
        let (collector, category, mut message) =
            unsafe { (&*collector.cast::<LogCollector>(), text::copy(category), text::copy(message)) };
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        collector.push(LogLine { level: level_from_raw(level), category, message });
    }));
    drop(outcome);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: String) -> LogLine {
        LogLine { level: LogLevel::Info, category: "test".to_owned(), message }
    }

    #[test]
    fn the_buffer_is_bounded_and_counts() {
        let collector = LogCollector::default();
        for index in 0..MAX_LOG_LINES + 7 {
            collector.push(line(index.to_string()));
        }
        let lines = collector.take();
        assert_eq!(lines.len(), MAX_LOG_LINES + 1);
        assert_eq!(lines[MAX_LOG_LINES].message, "7 more log lines were dropped (limit 500)");
        assert_eq!(collector.dropped_total(), 7);
        assert!(collector.take().is_empty());
    }

    #[test]
    fn lines_after_a_mark() {
        let collector = LogCollector::default();
        collector.push(line("before".to_owned()));
        let mark = collector.mark();
        assert!(collector.since(mark).is_empty());
        collector.push(line("after".to_owned()));
        assert_eq!(collector.since(mark), [line("after".to_owned())]);

        // Lines that were dropped or taken since do not make older ones look new.
        for index in 0..MAX_LOG_LINES + 3 {
            collector.push(line(index.to_string()));
        }
        assert!(collector.since(collector.mark()).is_empty());
        collector.take();
        collector.push(line("last".to_owned()));
        assert_eq!(collector.since(mark), [line("last".to_owned())]);
    }
}

//! The record of one inference as it crosses the channel: fixed size, little endian.

use ortscope_core::schema::NameSet;
pub use ortscope_core::schema::Phase;

fn phase_from_code(code: u8) -> Option<Phase> {
    Phase::NAMES.get(usize::from(code)).map(|(phase, _)| *phase)
}

/// One inference. Times are monotonic nanoseconds of [`ortscope_core::clock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferenceRecord {
    pub start_ns: u64,
    pub planned_ns: u64,
    pub copy_in_ns: u64,
    pub run_ns: u64,
    pub copy_out_ns: u64,
    pub sequence: u64,
    /// 0 = unknown.
    pub batch_size: u32,
    pub queue_depth: Option<u32>,
    pub token: Option<u32>,
    pub stream: u16,
    /// Number of the session within its process.
    pub session: u16,
    pub phase: Phase,
    pub ok: bool,
}

/// Stands for "none" in the optional fields.
const NONE: u32 = u32::MAX;

/// An inference with nothing but its times, shapes and outcome: short enough to fit, with its header, into one cache
/// line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainInference {
    pub start_ns: u64,
    pub run_ns: u64,
    pub sequence: u64,
    /// 0 = unknown.
    pub batch_size: u32,
    pub stream: u16,
    pub session: u16,
    pub phase: Phase,
    pub ok: bool,
}

impl PlainInference {
    /// As words; the last one is reserved.
    pub const WORDS: usize = 6;
    pub const BYTES: usize = Self::WORDS * 8;

    #[inline]
    pub fn to_words(self) -> [u64; Self::WORDS] {
        let numbers =
            u64::from(self.batch_size) | u64::from(self.stream) << 32 | u64::from(self.session) << 48;
        let outcome = self.phase as u64 | u64::from(self.ok) << 8;
        [self.start_ns, self.run_ns, self.sequence, numbers, outcome, 0].map(u64::to_le)
    }

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut words = [0; Self::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [start_ns, run_ns, sequence, numbers, outcome, _] = words;
        Some(Self {
            start_ns,
            run_ns,
            sequence,
            batch_size: numbers as u32,
            stream: (numbers >> 32) as u16,
            session: (numbers >> 48) as u16,
            phase: phase_from_code(outcome as u8)?,
            ok: outcome >> 8 & 1 != 0,
        })
    }
}

impl From<PlainInference> for InferenceRecord {
    fn from(plain: PlainInference) -> Self {
        let PlainInference { start_ns, run_ns, sequence, batch_size, stream, session, phase, ok } = plain;
        Self {
            start_ns,
            planned_ns: start_ns,
            copy_in_ns: 0,
            run_ns,
            copy_out_ns: 0,
            sequence,
            batch_size,
            queue_depth: None,
            token: None,
            stream,
            session,
            phase,
            ok,
        }
    }
}

impl InferenceRecord {
    pub const BYTES: usize = 72;

    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words =
            [self.start_ns, self.planned_ns, self.copy_in_ns, self.run_ns, self.copy_out_ns, self.sequence];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes[48..52].copy_from_slice(&self.batch_size.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.queue_depth.unwrap_or(NONE).to_le_bytes());
        bytes[56..60].copy_from_slice(&self.token.unwrap_or(NONE).to_le_bytes());
        bytes[60..62].copy_from_slice(&self.stream.to_le_bytes());
        bytes[62..64].copy_from_slice(&self.session.to_le_bytes());
        bytes[64] = self.phase as u8;
        bytes[65] = u8::from(self.ok);
        bytes
    }

    /// From either form; `None` if the bytes are none of them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if let Ok(plain) = bytes.try_into() {
            return PlainInference::from_bytes(plain).map(Self::from);
        }
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let optional = |at: usize| Some(half(at)).filter(|value| *value != NONE);
        Some(Self {
            start_ns: word(0),
            planned_ns: word(8),
            copy_in_ns: word(16),
            run_ns: word(24),
            copy_out_ns: word(32),
            sequence: word(40),
            batch_size: half(48),
            queue_depth: optional(52),
            token: optional(56),
            stream: u16::from_le_bytes([bytes[60], bytes[61]]),
            session: u16::from_le_bytes([bytes[62], bytes[63]]),
            phase: phase_from_code(bytes[64])?,
            ok: bytes[65] != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let record = InferenceRecord {
            start_ns: 1,
            planned_ns: 2,
            copy_in_ns: 3,
            run_ns: u64::MAX,
            copy_out_ns: 5,
            sequence: 6,
            batch_size: 7,
            queue_depth: None,
            token: Some(9),
            stream: 10,
            session: 11,
            phase: Phase::Token,
            ok: true,
        };
        assert_eq!(InferenceRecord::from_bytes(&record.to_bytes()), Some(record));
        let mut unknown_phase = record.to_bytes();
        unknown_phase[64] = 200;
        assert_eq!(InferenceRecord::from_bytes(&unknown_phase), None);
        assert_eq!(InferenceRecord::from_bytes(b"short"), None);
    }

    #[test]
    fn plain_records_round_trip() {
        let plain = PlainInference {
            start_ns: u64::MAX - 1,
            run_ns: 2,
            sequence: 3,
            batch_size: u32::MAX,
            stream: 0xfffe,
            session: 0x8001,
            phase: Phase::First,
            ok: true,
        };
        let bytes = |plain: PlainInference| plain.to_words().map(u64::to_ne_bytes).concat();
        let record = InferenceRecord::from(plain);
        assert_eq!(InferenceRecord::from_bytes(&bytes(plain)), Some(record));
        assert_eq!((record.planned_ns, record.queue_depth, record.token), (u64::MAX - 1, None, None));
        let failed = PlainInference { ok: false, ..plain };
        assert_eq!(
            InferenceRecord::from_bytes(&bytes(failed)),
            Some(InferenceRecord { ok: false, ..record })
        );
        let mut unknown_phase = bytes(plain);
        unknown_phase[32] = 200;
        assert_eq!(InferenceRecord::from_bytes(&unknown_phase), None);
    }
}

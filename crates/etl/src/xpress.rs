//! Plain LZ77 of MS-XCA ("XPRESS"), the compression of buffers in `.etl` files.
//!
//! The decoder can stop at any byte of output and continue later, so that a walk over many processors holds a small
//! window of each compressed buffer instead of all of it.

/// Maximum distance of a match (13 bits).
pub(crate) const WINDOW_BYTES: usize = 1 << 13;

/// Flags 4, match 2, nibble 1, byte 1, u16 2, u32 4: with fewer bytes a token may be incomplete.
pub(crate) const MAX_TOKEN: usize = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XpressError {
    #[error("the compressed bytes end inside a match; the buffer is truncated or damaged")]
    Truncated,
    #[error("a match reaches back before the start of the output; the buffer is damaged")]
    BadDistance,
    #[error("a match has an impossible length; the buffer is damaged")]
    BadLength,
}

/// Decompresses until `limit` bytes or the end of the input. After an error `output` has everything before it.
pub fn xpress_decompress(input: &[u8], limit: usize, output: &mut Vec<u8>) -> Result<(), XpressError> {
    output.clear();
    let mut decoder = Decoder::default();
    let mut input = Input { bytes: input, at: 0, is_last: true };
    match decoder.run(&mut input, output, limit)? {
        Stop::Limit | Stop::InputEnds => Ok(()),
    }
}

/// The available part of the compressed bytes.
pub(crate) struct Input<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
    /// No more bytes will follow: an end inside a match is damage.
    pub(crate) is_last: bool,
}

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..)?.first_chunk::<N>().copied()?;
        self.at += N;
        Some(bytes)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The output has the requested length.
    Limit,
    /// All input was used, or so much of it that the next token might be incomplete.
    InputEnds,
}

/// State between two calls of [`Decoder::run`], besides the last [`WINDOW_BYTES`] of output.
#[derive(Debug, Default, Clone)]
pub(crate) struct Decoder {
    flags: u32,
    flags_left: u32,
    /// The upper half of a length byte whose lower half belongs to an earlier match.
    half_byte: Option<u8>,
    /// Distance and remaining bytes of a match that did not fit.
    pending: Option<(usize, usize)>,
}

impl Decoder {
    /// Appends to `output` until it is `limit` bytes long. Matches may refer back to its beginning.
    pub(crate) fn run(
        &mut self,
        input: &mut Input<'_>,
        output: &mut Vec<u8>,
        limit: usize,
    ) -> Result<Stop, XpressError> {
        // The vector is enlarged before the loop, so that no token has to grow it.
        let mut out = Output { at: output.len(), limit, bytes: std::mem::take(output) };
        out.bytes.resize(limit.max(out.at), 0);
        let stop = self.decode(input, &mut out);
        out.bytes.truncate(out.at);
        *output = out.bytes;
        stop
    }

    fn decode(&mut self, input: &mut Input<'_>, out: &mut Output) -> Result<Stop, XpressError> {
        if let Some((distance, length)) = self.pending.take() {
            self.pending = out.copy(distance, length)?;
        }
        while out.at < out.limit {
            if !input.is_last && input.bytes.len() - input.at < MAX_TOKEN {
                return Ok(Stop::InputEnds);
            }
            if self.flags_left == 0 {
                let Some(word) = input.take() else { return Ok(Stop::InputEnds) };
                self.flags = u32::from_le_bytes(word);
                self.flags_left = 32;
            }
            // Literals come in runs: the number of leading zero bits in the flags is their length.
            let literals = (self.flags.leading_zeros().min(self.flags_left)) as usize;
            if literals > 0 {
                let run = literals.min(out.limit - out.at).min(input.bytes.len() - input.at);
                if run == 0 {
                    return Ok(Stop::InputEnds);
                }
                out.literals(&input.bytes[input.at..], run);
                input.at += run;
                self.drop_flags(run as u32);
                continue;
            }
            // The end of the input before a match is the regular end: the last flags are padded with ones.
            if input.at == input.bytes.len() {
                return Ok(Stop::InputEnds);
            }
            self.drop_flags(1);
            let (distance, length) = self.read_match(input)?;
            self.pending = out.copy(distance, length)?;
        }
        Ok(Stop::Limit)
    }

    fn drop_flags(&mut self, count: u32) {
        self.flags = self.flags.checked_shl(count).unwrap_or(0);
        self.flags_left -= count;
    }

    fn read_match(&mut self, input: &mut Input<'_>) -> Result<(usize, usize), XpressError> {
        let token = u16::from_le_bytes(input.take().ok_or(XpressError::Truncated)?);
        let distance = usize::from(token >> 3) + 1;
        let mut length = u32::from(token & 7);
        if length == 7 {
            let half = match self.half_byte.take() {
                Some(half) => half,
                None => {
                    let [byte] = input.take().ok_or(XpressError::Truncated)?;
                    self.half_byte = Some(byte >> 4);
                    byte & 15
                }
            };
            length = u32::from(half);
            if length == 15 {
                let [byte] = input.take().ok_or(XpressError::Truncated)?;
                length = u32::from(byte);
                if length == 255 {
                    length = u32::from(u16::from_le_bytes(input.take().ok_or(XpressError::Truncated)?));
                    if length == 0 {
                        length = u32::from_le_bytes(input.take().ok_or(XpressError::Truncated)?);
                    }
                    // These forms count from zero, the shorter ones from the end of the previous
                    // form.
                    length = length.checked_sub(15 + 7).ok_or(XpressError::BadLength)?;
                }
                length += 15;
            }
            length += 7;
        }
        Ok((distance, length as usize + 3))
    }
}

/// Decompressed data is before `at`; everything up to `limit` may be written.
struct Output {
    bytes: Vec<u8>,
    at: usize,
    limit: usize,
}

/// Most literals and matches are shorter than this: a copy of constant size is several times faster than an exact one,
/// and excess bytes are overwritten by the next.
const STRIDE: usize = 16;

impl Output {
    #[inline(always)]
    fn literals(&mut self, from: &[u8], run: usize) {
        if run <= STRIDE
            && let Some(source) = from.first_chunk::<STRIDE>()
            && let Some(place) = self.bytes.get_mut(self.at..self.at + STRIDE)
        {
            place.copy_from_slice(source);
        } else {
            self.bytes[self.at..self.at + run].copy_from_slice(&from[..run]);
        }
        self.at += run;
    }

    /// Returns the part of the match that did not fit.
    #[inline(always)]
    fn copy(&mut self, distance: usize, length: usize) -> Result<Option<(usize, usize)>, XpressError> {
        let start = self.at.checked_sub(distance).ok_or(XpressError::BadDistance)?;
        let now = length.min(self.limit - self.at);
        let end = self.at + now;
        if now <= STRIDE && distance >= STRIDE && self.at + STRIDE <= self.bytes.len() {
            self.bytes.copy_within(start..start + STRIDE, self.at);
        } else if distance >= now {
            self.bytes.copy_within(start..start + now, self.at);
        } else if distance == 1 {
            let byte = self.bytes[start];
            self.bytes[self.at..end].fill(byte);
        } else {
            // The match overlaps itself: the finished part doubles with each copy.
            let mut at = self.at;
            while at < end {
                let part = (at - start).min(end - at);
                self.bytes.copy_within(start..start + part, at);
                at += part;
            }
        }
        self.at = end;
        Ok((now < length).then_some((distance, length - now)))
    }
}

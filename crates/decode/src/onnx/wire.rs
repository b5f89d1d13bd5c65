//! The protobuf wire format: a cursor that borrows, never allocates and knows its file offset.
//!
//! Like the C++ parser in ONNX Runtime it skips unknown fields and groups; unlike a generated decoder it reports the
//! offset of a truncation and skips weights.

/// Protobuf's own limit for messages and fields: 2 GiB.
pub(super) const MAX_LENGTH: u64 = i32::MAX as u64;

/// Groups are deprecated; only malicious files nest them.
const MAX_GROUP_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireError {
    /// Offset in the file.
    pub at: usize,
    pub kind: WireErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireErrorKind {
    /// The bytes end inside a number.
    CutNumber,
    /// A field claims this many bytes more than available.
    CutField { missing: u64 },
    /// A number of more than ten bytes or 64 bits.
    LongNumber,
    /// A length beyond protobuf's own limit.
    LongField { length: u64 },
    /// Field number 0, or an invalid wire type.
    BadTag,
    /// Groups nested too deeply, or not closed correctly.
    BadGroup,
}

/// A field's payload.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(Cursor<'a>),
    Group,
}

/// Reads the fields of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    /// Offset of `rest` in the file.
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.rest
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn error(&self, kind: WireErrorKind) -> WireError {
        WireError { at: self.at, kind }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        if length > MAX_LENGTH {
            return Err(self.error(WireErrorKind::LongField { length }));
        }
        let available = self.rest.len() as u64;
        let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((head, tail)) = split else {
            return Err(WireError {
                at: self.at + self.rest.len(),
                kind: WireErrorKind::CutField { missing: length - available },
            });
        };
        self.rest = tail;
        self.at += head.len();
        Ok(head)
    }

    /// A base-128 number, also used in packed lists.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            if index == 9 && *byte > 1 {
                return Err(self.error(WireErrorKind::LongNumber));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                self.at += index + 1;
                return Ok(value);
            }
        }
        if self.rest.len() >= 10 {
            return Err(self.error(WireErrorKind::LongNumber));
        }
        Err(WireError { at: self.at + self.rest.len(), kind: WireErrorKind::CutNumber })
    }

    /// Four bytes, also used in packed lists.
    pub fn fixed32(&mut self) -> Result<u32, WireError> {
        let bytes = self.take(4)?;
        Ok(bytes.try_into().map_or(0, u32::from_le_bytes))
    }

    /// The next field, or `None` at the end of the message.
    pub fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let payload = match wire_type {
            0 => Payload::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Payload::Fixed64
            }
            2 => {
                let length = self.varint()?;
                let at = self.at;
                Payload::Bytes(Cursor { rest: self.take(length)?, at })
            }
            3 => {
                self.skip_group(number)?;
                Payload::Group
            }
            5 => Payload::Fixed32(self.fixed32()?),
            _ => return Err(self.error(WireErrorKind::BadTag)),
        };
        Ok(Some((number, payload)))
    }

    fn tag(&mut self) -> Result<(u32, u64), WireError> {
        let before = *self;
        let tag = self.varint()?;
        match u32::try_from(tag) {
            Ok(tag) if tag >> 3 != 0 => Ok((tag >> 3, u64::from(tag & 7))),
            _ => Err(before.error(WireErrorKind::BadTag)),
        }
    }

    /// Skips a group without recursion.
    fn skip_group(&mut self, number: u32) -> Result<(), WireError> {
        let mut open = vec![number];
        while let Some(innermost) = open.last().copied() {
            let (number, wire_type) = self.tag()?;
            match wire_type {
                0 => {
                    self.varint()?;
                }
                1 => {
                    self.take(8)?;
                }
                2 => {
                    let length = self.varint()?;
                    self.take(length)?;
                }
                3 if open.len() < MAX_GROUP_DEPTH => open.push(number),
                4 if number == innermost => {
                    open.pop();
                }
                5 => {
                    self.take(4)?;
                }
                3 | 4 => return Err(self.error(WireErrorKind::BadGroup)),
                _ => return Err(self.error(WireErrorKind::BadTag)),
            }
        }
        Ok(())
    }
}

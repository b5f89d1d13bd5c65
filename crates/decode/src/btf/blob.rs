//! The BTF blob: header, types, strings, and lookup by name.

use super::BtfError;

const MAGIC: u16 = 0xeb9f;
/// Every type starts with three words: name, kind with counts, size or referenced type.
const TYPE_BYTES: usize = 12;
/// Limit for a chain of `typedef`, `const` and similar; real code has four or five.
const MAX_MODIFIERS: usize = 64;

/// The number of a type in its blob, as used by system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// Kinds of types that can be looked up by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Struct,
    Union,
    Enum,
    Typedef,
    Function,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Union => "union",
            Self::Enum => "enum",
            Self::Typedef => "typedef",
            Self::Function => "function",
        }
    }

    fn holds(self, code: u8) -> bool {
        match self {
            Self::Struct => code == code::STRUCT,
            Self::Union => code == code::UNION,
            Self::Enum => code == code::ENUM || code == code::ENUM64,
            Self::Typedef => code == code::TYPEDEF,
            Self::Function => code == code::FUNC,
        }
    }
}

/// The numbers of `include/uapi/linux/btf.h`.
pub(super) mod code {
    pub const INT: u8 = 1;
    pub const PTR: u8 = 2;
    pub const ARRAY: u8 = 3;
    pub const STRUCT: u8 = 4;
    pub const UNION: u8 = 5;
    pub const ENUM: u8 = 6;
    pub const FWD: u8 = 7;
    pub const TYPEDEF: u8 = 8;
    pub const VOLATILE: u8 = 9;
    pub const CONST: u8 = 10;
    pub const RESTRICT: u8 = 11;
    pub const FUNC: u8 = 12;
    pub const FUNC_PROTO: u8 = 13;
    pub const VAR: u8 = 14;
    pub const DATASEC: u8 = 15;
    pub const FLOAT: u8 = 16;
    pub const DECL_TAG: u8 = 17;
    pub const TYPE_TAG: u8 = 18;
    pub const ENUM64: u8 = 19;
}

/// The decoded first three words of a type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub name: u32,
    pub code: u8,
    /// Number of members, enumerators or parameters.
    pub count: usize,
    /// For structures: offsets include the width of bit fields. For enumerations: values are signed.
    pub flag: bool,
    /// Size in bytes, or the referenced type.
    pub size_or_type: u32,
    /// Offset of the data after the head, in the type section.
    pub body: usize,
}

/// A blob with an index of its types.
#[derive(Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    big_endian: bool,
    /// Offset of each type; number 0 is `void`, which has none.
    starts: Vec<u32>,
    complete: bool,
}

impl<'a> Btf<'a> {
    /// Parses the header and indexes all types.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let magic = bytes.get(..2).ok_or(BtfError::NotBtf("shorter than its header"))?;
        let big_endian = match [magic[0], magic[1]] {
            pair if pair == MAGIC.to_le_bytes() => false,
            pair if pair == MAGIC.to_be_bytes() => true,
            _ => return Err(BtfError::NotBtf("the magic number is different")),
        };
        let word =
            |at: usize| word_at(bytes, at, big_endian).ok_or(BtfError::NotBtf("shorter than its header"));
        let header = word(4)? as usize;
        let section = |offset: u32, length: u32| {
            let begin = header.checked_add(offset as usize)?;
            bytes.get(begin..begin.checked_add(length as usize)?)
        };
        let outside = BtfError::NotBtf("a section is outside the file");
        let types = section(word(8)?, word(12)?).ok_or(outside.clone())?;
        let strings = section(word(16)?, word(20)?).ok_or(outside)?;
        let mut btf = Self { types, strings, big_endian, starts: vec![0], complete: false };
        btf.complete = btf.walk();
        Ok(btf)
    }

    /// Whether every type is supported; otherwise the list ends before the first unsupported one.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Number of types, including `void`.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.len() <= 1
    }

    fn walk(&mut self) -> bool {
        let mut at = 0;
        while at < self.types.len() {
            let Some(head) = self.head_at(at) else { return false };
            let Some(body) = body_bytes(&head) else { return false };
            let Ok(start) = u32::try_from(at) else { return false };
            // A truncated body belongs to no usable type.
            if self.types.len() - head.body < body {
                return false;
            }
            self.starts.push(start);
            at = head.body + body;
        }
        true
    }

    /// The first type of a kind with this name.
    pub fn find(&self, kind: Kind, name: &str) -> Result<TypeId, BtfError> {
        let matches = |start: &u32| {
            self.head_at(*start as usize)
                .is_some_and(|head| kind.holds(head.code) && self.has_name(head.name, name))
        };
        let place = self.starts.iter().skip(1).position(matches);
        let missing = || BtfError::NoSuchType { kind: kind.name(), name: name.to_owned() };
        place.and_then(|place| u32::try_from(place + 1).ok()).map(TypeId).ok_or_else(missing)
    }

    /// The value of an enumerator, wherever it is declared: the kernel's enumerations are often anonymous.
    pub fn enumerator(&self, name: &str) -> Result<i64, BtfError> {
        let value = |start: &u32| {
            let head = self.head_at(*start as usize)?;
            let words = match head.code {
                code::ENUM => 2,
                code::ENUM64 => 3,
                _ => return None,
            };
            (0..head.count).find_map(|number| {
                let at = head.body + number * words * 4;
                if !self.has_name(self.word(at)?, name) {
                    return None;
                }
                let low = self.word(at + 4)?;
                Some(match (head.code, head.flag) {
                    (code::ENUM, true) => i64::from(low as i32),
                    (code::ENUM, false) => i64::from(low),
                    _ => ((u64::from(self.word(at + 8)?) << 32) | u64::from(low)) as i64,
                })
            })
        };
        let missing = || BtfError::NoSuchType { kind: "enumerator", name: name.to_owned() };
        self.starts.iter().skip(1).find_map(value).ok_or_else(missing)
    }

    /// Number of parameters of a function, or of a function behind a typedef or pointer.
    pub fn parameter_count(&self, function: TypeId) -> Option<usize> {
        let mut id = function;
        for _ in 0..MAX_MODIFIERS {
            let head = self.head(id)?;
            match head.code {
                code::FUNC_PROTO => return Some(head.count),
                code::FUNC | code::PTR | code::TYPEDEF | code::CONST | code::TYPE_TAG => {
                    id = TypeId(head.size_or_type);
                }
                _ => return None,
            }
        }
        None
    }

    /// Skips `typedef`, `const` and similar.
    pub(super) fn without_modifiers(&self, id: TypeId) -> Option<(TypeId, Head)> {
        let mut id = id;
        for _ in 0..MAX_MODIFIERS {
            let head = self.head(id)?;
            match head.code {
                code::TYPEDEF | code::VOLATILE | code::CONST | code::RESTRICT | code::TYPE_TAG => {
                    id = TypeId(head.size_or_type);
                }
                _ => return Some((id, head)),
            }
        }
        None
    }

    pub(super) fn head(&self, id: TypeId) -> Option<Head> {
        if id.0 == 0 {
            return None;
        }
        self.head_at(*self.starts.get(id.0 as usize)? as usize)
    }

    fn head_at(&self, at: usize) -> Option<Head> {
        let bytes = self.types.get(at..at.checked_add(TYPE_BYTES)?)?;
        let word = |at: usize| word_at(bytes, at, self.big_endian);
        let info = word(4)?;
        Some(Head {
            name: word(0)?,
            code: ((info >> 24) & 0x1f) as u8,
            count: (info & 0xffff) as usize,
            flag: info >> 31 == 1,
            size_or_type: word(8)?,
            body: at + TYPE_BYTES,
        })
    }

    /// A word of the type section.
    pub(super) fn word(&self, at: usize) -> Option<u32> {
        word_at(self.types, at, self.big_endian)
    }

    /// Whether the string at this offset equals `name`; anonymous types have an empty name.
    pub(super) fn has_name(&self, at: u32, name: &str) -> bool {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes()).is_some_and(|after| after.first() == Some(&0))
    }
}

fn word_at(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let word: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
}

/// Number of bytes after the head, `None` for unknown kinds.
fn body_bytes(head: &Head) -> Option<usize> {
    Some(match head.code {
        code::INT | code::VAR | code::DECL_TAG => 4,
        code::ARRAY => 12,
        code::STRUCT | code::UNION | code::DATASEC | code::ENUM64 => 12 * head.count,
        code::ENUM | code::FUNC_PROTO => 8 * head.count,
        code::PTR | code::FWD | code::TYPEDEF | code::VOLATILE | code::CONST | code::RESTRICT => 0,
        code::FUNC | code::FLOAT | code::TYPE_TAG => 0,
        _ => return None,
    })
}

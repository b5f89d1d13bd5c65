//! Offsets of structure members, including those in anonymous structures and unions.

use super::BtfError;
use super::blob::{Btf, Head, Kind, TypeId, code};

/// Limit for nested anonymous members; the kernel has three or four levels.
const MAX_NESTING: usize = 16;
/// Limit for visited members per lookup: more than any structure has, and a bound for malicious blobs.
const MAX_MEMBERS: usize = 100_000;

/// A member that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Relative to the outermost structure.
    pub bit_offset: u32,
    /// Width of a bit field in bits, 0 for ordinary members.
    pub bit_width: u32,
    /// Size of its type in bytes, if the type has one.
    pub size_bytes: Option<u32>,
    pub type_id: TypeId,
}

impl Member {
    pub fn byte_offset(&self) -> u32 {
        self.bit_offset / 8
    }
}

impl Btf<'_> {
    /// Finds a member of a structure or union by its name and a dotted path: `se.sum_exec_runtime`.
    pub fn member(&self, holder: &str, path: &str) -> Result<Member, BtfError> {
        let id = self
            .find(Kind::Struct, holder)
            .or_else(|error| self.find(Kind::Union, holder).map_err(|_| error))?;
        self.member_of(id, holder, path)
    }

    /// The same for a structure's number, for many members of one structure; `holder` is for messages only.
    pub fn member_of(&self, structure: TypeId, holder: &str, path: &str) -> Result<Member, BtfError> {
        let mut id = structure;
        let mut bit_offset = 0u32;
        let mut found: Option<Member> = None;
        for name in path.split('.') {
            let mut looked_at = 0;
            let missing = || BtfError::NoSuchMember { holder: holder.to_owned(), member: path.to_owned() };
            let step = self
                .search(id, name, 0, &mut looked_at)
                .map_err(|TooDeep| BtfError::TooDeep(holder.to_owned()))?
                .ok_or_else(missing)?;
            bit_offset = bit_offset.checked_add(step.bit_offset).ok_or_else(missing)?;
            id = step.type_id;
            found = Some(Member { bit_offset, ..step });
        }
        found.ok_or_else(|| BtfError::NoSuchMember { holder: holder.to_owned(), member: path.to_owned() })
    }

    fn search(
        &self,
        id: TypeId,
        name: &str,
        depth: usize,
        looked_at: &mut usize,
    ) -> Result<Option<Member>, TooDeep> {
        if depth > MAX_NESTING || name.is_empty() {
            return if name.is_empty() { Ok(None) } else { Err(TooDeep) };
        }
        let Some((_, head)) = self.without_modifiers(id) else { return Ok(None) };
        if head.code != code::STRUCT && head.code != code::UNION {
            return Ok(None);
        }
        for number in 0..head.count {
            *looked_at += 1;
            if *looked_at > MAX_MEMBERS {
                return Err(TooDeep);
            }
            let Some((member_name, member)) = self.nth_member(&head, number) else { return Ok(None) };
            if self.has_name(member_name, name) {
                return Ok(Some(member));
            }
            if self.has_name(member_name, "")
                && let Some(inner) = self.search(member.type_id, name, depth + 1, looked_at)?
            {
                let bit_offset = inner.bit_offset.checked_add(member.bit_offset);
                return Ok(bit_offset.map(|bit_offset| Member { bit_offset, ..inner }));
            }
        }
        Ok(None)
    }

    fn nth_member(&self, head: &Head, number: usize) -> Option<(u32, Member)> {
        let at = head.body + number * 12;
        let type_id = TypeId(self.word(at + 4)?);
        let offset = self.word(at + 8)?;
        let (bit_offset, bit_width) =
            if head.flag { (offset & 0x00ff_ffff, offset >> 24) } else { (offset, 0) };
        Some((
            self.word(at)?,
            Member { bit_offset, bit_width, size_bytes: self.size_bytes(type_id), type_id },
        ))
    }

    /// The size of a type in bytes; `None` for pointers, whose size depends on the described machine.
    pub fn size_bytes(&self, id: TypeId) -> Option<u32> {
        let (_, head) = self.without_modifiers(id)?;
        match head.code {
            code::INT
            | code::STRUCT
            | code::UNION
            | code::ENUM
            | code::ENUM64
            | code::FLOAT
            | code::DATASEC => Some(head.size_or_type),
            code::ARRAY => {
                let (_, element) = self.without_modifiers(TypeId(self.word(head.body)?))?;
                let sized = matches!(
                    element.code,
                    code::INT | code::STRUCT | code::UNION | code::ENUM | code::ENUM64
                );
                let count = self.word(head.body + 8)?;
                sized.then(|| element.size_or_type.checked_mul(count)).flatten()
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
struct TooDeep;

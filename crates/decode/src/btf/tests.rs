use proptest::prelude::*;

use super::*;

/// Builds blobs: types are numbered in the order in which they are added.
#[derive(Default)]
struct BlobBuilder {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl BlobBuilder {
    fn new() -> Self {
        Self { types: Vec::new(), strings: vec![0] }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        at
    }

    fn add(&mut self, name: &str, code: u32, count: u32, flag: bool, size_or_type: u32, body: &[u32]) {
        let name = self.name(name);
        for word in [name, (u32::from(flag) << 31) | (code << 24) | count, size_or_type].iter().chain(body) {
            self.types.extend(word.to_le_bytes());
        }
    }

    fn members(&mut self, list: &[(&str, u32, u32)]) -> Vec<u32> {
        list.iter().flat_map(|(name, type_id, offset)| [self.name(name), *type_id, *offset]).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

/// 1 int, 2 struct inner {int depth}, 3 anonymous union {int left; struct inner right}, 4 typedef of 3,
/// 5 struct outer {int first; anonymous 4; int bits:3; struct inner last}, 6 enum, 7 enum64, 8 prototype, 9 function,
/// 10 pointer to 8, 11 typedef of 10.
fn sample() -> Vec<u8> {
    let mut maker = BlobBuilder::new();
    maker.add("int", 1, 0, false, 4, &[32]);
    let inner = maker.members(&[("depth", 1, 32)]);
    maker.add("inner", 4, 1, false, 8, &inner);
    let union = maker.members(&[("left", 1, 0), ("right", 2, 0)]);
    maker.add("", 5, 2, false, 8, &union);
    maker.add("named", 8, 0, false, 3, &[]);
    let outer =
        maker.members(&[("first", 1, 0), ("", 4, 64), ("bits", 1, (3 << 24) | 130), ("last", 2, 192)]);
    maker.add("outer", 4, 4, true, 32, &outer);
    let (minus, two) = (maker.name("MINUS"), maker.name("TWO"));
    maker.add("", 6, 2, true, 4, &[minus, u32::MAX, two, 2]);
    let wide = maker.name("WIDE");
    maker.add("wide", 19, 1, false, 8, &[wide, 5, 1]);
    maker.add("", 13, 3, false, 0, &[0, 0, 0, 1, 0, 1]);
    maker.add("do_it", 12, 1, false, 8, &[]);
    maker.add("", 2, 0, false, 8, &[]);
    maker.add("btf_trace_it", 8, 0, false, 10, &[]);
    maker.bytes()
}

#[test]
fn members_are_found_through_anonymous_members_and_paths() {
    let bytes = sample();
    let btf = Btf::parse(&bytes).unwrap();
    assert!(btf.is_complete());
    assert_eq!(btf.len(), 12);
    let offset = |path: &str| btf.member("outer", path).map(|member| member.byte_offset());
    assert_eq!(offset("first"), Ok(0));
    assert_eq!(offset("left"), Ok(8));
    assert_eq!(offset("right.depth"), Ok(12));
    assert_eq!(offset("last.depth"), Ok(28));
    let bits = btf.member("outer", "bits").unwrap();
    assert_eq!((bits.bit_offset, bits.bit_width, bits.size_bytes), (130, 3, Some(4)));
    let missing = btf.member("outer", "left.depth").unwrap_err().to_string();
    assert_eq!(missing, "outer has no member left.depth in this kernel");
    assert!(btf.member("outer", "").is_err());
    assert!(btf.member("nothing", "first").is_err());
}

#[test]
fn functions_and_enumerators_are_found() {
    let bytes = sample();
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.enumerator("MINUS"), Ok(-1));
    assert_eq!(btf.enumerator("TWO"), Ok(2));
    assert_eq!(btf.enumerator("WIDE"), Ok((1 << 32) + 5));
    assert!(btf.enumerator("WID").is_err());
    let function = btf.find(Kind::Function, "do_it").unwrap();
    assert_eq!(function, TypeId(9));
    assert_eq!(btf.parameter_count(function), Some(3));
    let trace = btf.find(Kind::Typedef, "btf_trace_it").unwrap();
    assert_eq!(btf.parameter_count(trace), Some(3));
    assert_eq!(btf.parameter_count(TypeId(1)), None);
    assert_eq!(btf.parameter_count(TypeId(u32::MAX)), None);
}

#[test]
fn recursive_types_terminate() {
    let mut maker = BlobBuilder::new();
    maker.add("loop", 8, 0, false, 1, &[]);
    let members = maker.members(&[("", 2, 0), ("", 2, 0), ("", 2, 0)]);
    maker.add("self", 4, 3, false, 8, &members);
    let members = maker.members(&[("through", 1, 0)]);
    maker.add("typedef", 4, 1, false, 8, &members);
    let bytes = maker.bytes();
    let btf = Btf::parse(&bytes).unwrap();
    assert_eq!(btf.member("self", "x"), Err(BtfError::TooDeep("self".to_owned())));
    assert!(btf.member("typedef", "through.x").is_err());
    assert_eq!(btf.size_bytes(TypeId(1)), None);
}

#[test]
fn an_unknown_kind_ends_the_list_and_is_reported() {
    let mut maker = BlobBuilder::new();
    maker.add("int", 1, 0, false, 4, &[32]);
    maker.add("future", 30, 0, false, 0, &[]);
    maker.add("late", 4, 0, false, 0, &[]);
    let bytes = maker.bytes();
    let btf = Btf::parse(&bytes).unwrap();
    assert!(!btf.is_complete());
    assert_eq!(btf.len(), 2);
    assert!(btf.find(Kind::Struct, "late").is_err());
}

/// Calls every function.
fn query_all(bytes: &[u8]) {
    if let Ok(btf) = Btf::parse(bytes) {
        for path in ["first", "left", "right.depth", "last.depth", "bits", "x.y.z"] {
            btf.member("outer", path).ok();
        }
        btf.enumerator("TWO").ok();
        for id in 0..btf.len() as u32 + 2 {
            btf.parameter_count(TypeId(id));
            btf.size_bytes(TypeId(id));
        }
    }
}

#[test]
fn every_truncation_is_handled() {
    let bytes = sample();
    for length in 0..bytes.len() {
        query_all(&bytes[..length]);
    }
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        query_all(&bytes);
        let mut with_header = sample()[..24].to_vec();
        with_header.extend(&bytes);
        query_all(&with_header);
    }

    #[test]
    fn damaged_bytes_do_no_harm(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = sample();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        query_all(&bytes);
    }
}

//! Rows, random numbers and a strict XML reader.

use std::collections::BTreeMap;

use ortscope_core::batch::Batch;
use ortscope_core::clock::WallAnchor;
use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::{InferenceRow, Row, Text};
use ortscope_core::tables::MemoryTables;

use ortscope_result::{ReportInput, ReportModel, ReportOptions};

pub const SECOND: u64 = 1_000_000_000;
/// When the recordings of the tests begin.
pub const START: u64 = 5_000 * SECOND;

/// SplitMix64: the same numbers on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Nearly normal, deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

pub fn recording() -> RecordingInfo {
    let started = WallAnchor { monotonic_ns: START, unix_ns: 1_794_778_349_149_105_526, error_ns: 50 };
    let ended = WallAnchor { monotonic_ns: START + 12 * SECOND, ..started };
    let fingerprint = [
        ("cpu_model", "AMD Ryzen 7 7840U"),
        ("logical_cpus", "16"),
        ("governor", "performance"),
        ("os", "windows 11 24H2"),
    ];
    RecordingInfo {
        id: "2026-11-15-7f3a9c2e".into(),
        name: Some("baseline".into()),
        tags: vec!["nightly".into()],
        ortscope_version: "0.1.0".into(),
        origin: "run".into(),
        subject: "squeezenet1.1.onnx".into(),
        command: Some("ortscope run squeezenet1.1.onnx --provider dml --duration 10s --save baseline".into()),
        started,
        boot_id: None,
        fingerprint: fingerprint.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ended: Some(ended),
        end_reason: Some("requested precision reached".into()),
    }
}

pub fn input() -> ReportInput {
    ReportInput { recording: recording(), run_document: None, condition: Vec::new() }
}

/// Rows of one table as a batch.
pub fn batch<R: Row>(rows: &[R]) -> Batch {
    let mut batch = Batch::new(R::TABLE);
    for row in rows {
        assert!(batch.push(row));
    }
    batch
}

pub fn tables(batches: Vec<Batch>) -> MemoryTables {
    MemoryTables { batches }
}

pub fn build(tables: &MemoryTables, input: &ReportInput) -> ReportModel {
    ReportModel::build(tables, input, &ReportOptions::default()).expect("a model")
}

/// A steady inference of the session `s`.
pub fn inference(sequence: u64, start_ns: u64, run_ns: u64) -> InferenceRow {
    InferenceRow {
        timestamp_ns: start_ns,
        planned_ns: start_ns,
        session_id: "s".into(),
        sequence,
        phase: "steady".into(),
        copy_in_ns: 20_000,
        run_ns,
        copy_out_ns: 60_000,
        batch_size: Some(1),
        ok: true,
        ..InferenceRow::default()
    }
}

/// The same text for many rows.
pub fn texts<const N: usize>(names: [&str; N]) -> [Text; N] {
    names.map(Text::from)
}

/// An element of an XML document.
#[derive(Debug, Default)]
pub struct Element {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    pub fn all<'e>(&'e self, name: &str, found: &mut Vec<&'e Element>) {
        if self.name == name {
            found.push(self);
        }
        self.children.iter().for_each(|child| child.all(name, found));
    }
}

/// Reads a document strictly: every tag closed, every attribute quoted once, only the five entities, no forbidden
/// character. Enough of XML for what we write, and nothing more.
pub fn parse_xml(text: &str) -> Result<Element, String> {
    let rest = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").ok_or("no declaration")?;
    if let Some(bad) = text.chars().find(
        |c| matches!(c, '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}'),
    ) {
        return Err(format!("forbidden character {bad:?}"));
    }
    let mut parser = Parser { rest: rest.trim_start() };
    let root = parser.element()?;
    if parser.rest.trim().is_empty() { Ok(root) } else { Err(format!("after the root: {}", parser.rest)) }
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn take(&mut self, token: &str) -> Result<(), String> {
        self.rest =
            self.rest.strip_prefix(token).ok_or_else(|| format!("expected {token} at {:.60}", self.rest))?;
        Ok(())
    }

    fn until(&mut self, stop: &[char]) -> Result<&'t str, String> {
        let end = self.rest.find(stop).ok_or("unexpected end")?;
        let (before, after) = self.rest.split_at(end);
        self.rest = after;
        Ok(before)
    }

    fn element(&mut self) -> Result<Element, String> {
        self.take("<")?;
        let mut element = Element { name: self.until(&[' ', '>', '/'])?.to_owned(), ..Element::default() };
        if element.name.is_empty() || !element.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("bad name '{}'", element.name));
        }
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with("/>") {
                self.take("/>")?;
                return Ok(element);
            }
            if self.rest.starts_with('>') {
                self.take(">")?;
                break;
            }
            let name = self.until(&['='])?.to_owned();
            self.take("=\"")?;
            let value = unescape(self.until(&['"', '<'])?)?;
            self.take("\"")?;
            if element.attributes.insert(name.clone(), value).is_some() {
                return Err(format!("attribute {name} twice"));
            }
        }
        loop {
            let text = self.until(&['<'])?;
            element.text += &unescape(text)?;
            if self.rest.starts_with("</") {
                self.take("</")?;
                self.take(&element.name.clone())?;
                self.take(">")?;
                return Ok(element);
            }
            element.children.push(self.element()?);
        }
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out += &rest[..at];
        let entities = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\'')];
        let (entity, character) =
            entities.iter().find(|(entity, _)| rest[at..].starts_with(entity)).ok_or("bad entity")?;
        out.push(*character);
        rest = &rest[at + entity.len()..];
    }
    if text.contains('>') {
        return Err(format!("an unescaped > in {text}"));
    }
    Ok(out + rest)
}

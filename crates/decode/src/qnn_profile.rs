//! The CSV file that the QNN provider writes with `profiling_level` basic or detailed: NPU cycles per node, and the time
//! of each step of a call.
//!
//! Columns are found by name, since newer versions add some. The last column is not quoted and may contain commas, so a
//! line is split into as many parts as the header has. Unreadable lines are counted.

use std::collections::BTreeMap;

use ortscope_core::session::QnnEvent;
use serde::Serialize;

/// Further lines are only counted: a file of a whole night has hundreds of millions.
const MAX_LINES: u64 = 5_000_000;
/// Limit for distinct nodes, and for distinct events.
const MAX_NAMES: usize = 100_000;
/// Limit for node counts stored per execution (16 MB); further executions are only in the sums.
const MAX_COUNTS: usize = 1_000_000;

const MAX_EVENTS: usize = 1000;

/// Result of reading a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QnnProfile {
    /// Executions of subgraphs on the device.
    pub executions: u64,
    /// The first executions one by one, up to the limit.
    #[serde(skip)]
    pub each: Vec<QnnExecution>,
    /// Nodes in order of first mention, with their cycles over all executions.
    pub nodes: Vec<QnnNode>,
    /// Events of executions other than nodes: sums and counts by name.
    pub events: Vec<QnnEvent>,
    /// Graph preparation before the first execution.
    pub preparation: Vec<QnnEvent>,
    pub unreadable_lines: u64,
    pub skipped_lines: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QnnNode {
    /// Name of the ONNX node, without QNN's suffix.
    pub name: String,
    /// The name in the file.
    pub identifier: String,
    pub calls: u64,
    pub cycles: u64,
    /// Estimated time: the share of its execution's cycles, multiplied by that execution's microseconds.
    pub estimated_us: f64,
}

/// One execution of a subgraph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QnnExecution {
    /// Cycles that the device counted for the whole execution.
    pub cycles: Option<u64>,
    /// How long the device worked.
    pub device_us: Option<u64>,
    /// Nodes as indices in [`QnnProfile::nodes`], with their cycles.
    pub nodes: Vec<(usize, u64)>,
}

impl QnnProfile {
    /// Cycles that the device counted for whole executions.
    pub fn device_cycles(&self) -> Option<u64> {
        self.event("Accelerator (execute) time (cycles)").map(|event| event.total)
    }

    pub fn event(&self, name: &str) -> Option<&QnnEvent> {
        self.events.iter().find(|event| event.name == name)
    }
}

/// Why a text is not such a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QnnProfileError {
    #[error("the file is empty: QNN writes it when the session ends")]
    Empty,
    #[error("the file is not a QNN profile: its first line has no column '{0}'")]
    NoColumn(&'static str),
}

/// Reads a whole file.
pub fn read(text: &str) -> Result<QnnProfile, QnnProfileError> {
    let mut lines = text.lines();
    let header = lines.next().filter(|line| !line.trim().is_empty()).ok_or(QnnProfileError::Empty)?;
    let columns = Columns::of(header.trim_start_matches('\u{feff}'))?;
    let mut reader = Reader::default();
    for line in lines {
        // Several sessions may have appended to one file, each with a header.
        if line.trim().is_empty() || line == header {
            continue;
        }
        if reader.lines >= MAX_LINES {
            reader.profile.skipped_lines += 1;
            continue;
        }
        reader.lines += 1;
        reader.line(line, &columns);
    }
    Ok(reader.finish())
}

#[derive(Debug)]
struct Columns {
    count: usize,
    message: usize,
    value: usize,
    unit: usize,
    identifier: usize,
}

impl Columns {
    fn of(header: &str) -> Result<Self, QnnProfileError> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let find = |name: &'static str| {
            names.iter().position(|known| *known == name).ok_or(QnnProfileError::NoColumn(name))
        };
        Ok(Self {
            count: names.len(),
            message: find("Message")?,
            value: find("Time")?,
            unit: find("Unit of Measurement")?,
            identifier: find("Event Identifier")?,
        })
    }
}

#[derive(Debug, Default)]
struct Reader {
    profile: QnnProfile,
    lines: u64,
    node_index: BTreeMap<String, usize>,
    /// Nodes of the current execution with their cycles.
    pending: Vec<(usize, u64)>,
    pending_cycles: Option<u64>,
    pending_us: Option<u64>,
    kept_counts: usize,
}

impl Reader {
    fn line(&mut self, line: &str, columns: &Columns) {
        let parts: Vec<&str> = line.splitn(columns.count, ',').collect();
        let part = |index: usize| parts.get(index).map(|part| part.trim());
        let (Some(message), Some(value), Some(unit), Some(identifier)) =
            (part(columns.message), part(columns.value), part(columns.unit), part(columns.identifier))
        else {
            self.profile.unreadable_lines += 1;
            return;
        };
        // Objects have no number; newer versions write them for events that this format cannot represent.
        if unit == "OBJECT" {
            return;
        }
        let Ok(value) = value.parse::<u64>() else {
            self.profile.unreadable_lines += 1;
            return;
        };
        match message {
            "NODE" => self.node(identifier, value, unit),
            _ => self.event(message, identifier, unit, value),
        }
    }

    fn node(&mut self, identifier: &str, cycles: u64, unit: &str) {
        if unit != "CYCLES" {
            self.profile.unreadable_lines += 1;
            return;
        }
        let index = match self.node_index.get(identifier) {
            Some(index) => *index,
            None if self.profile.nodes.len() >= MAX_NAMES => {
                self.profile.skipped_lines += 1;
                return;
            }
            None => {
                let index = self.profile.nodes.len();
                self.profile.nodes.push(QnnNode {
                    name: onnx_name(identifier).to_owned(),
                    identifier: identifier.to_owned(),
                    ..QnnNode::default()
                });
                self.node_index.insert(identifier.to_owned(), index);
                index
            }
        };
        let node = &mut self.profile.nodes[index];
        node.calls += 1;
        node.cycles = node.cycles.saturating_add(cycles);
        self.pending.push((index, cycles));
    }

    fn event(&mut self, message: &str, name: &str, unit: &str, value: u64) {
        match name {
            "Accelerator (execute) time (cycles)" => self.pending_cycles = Some(value),
            "Accelerator (execute) time" => self.pending_us = Some(value),
            _ => {}
        }
        let prepares = message == "FINALIZE"
            || name.contains("(finalize)")
            || (message == "UNKNOWN" && self.profile.executions == 0);
        let events = if prepares { &mut self.profile.preparation } else { &mut self.profile.events };
        match events.iter().position(|event| event.name == name && event.unit == unit) {
            Some(index) => {
                events[index].count += 1;
                events[index].total = events[index].total.saturating_add(value);
            }
            None if events.len() < MAX_EVENTS => {
                events.push(QnnEvent {
                    name: name.to_owned(),
                    unit: unit.to_owned(),
                    count: 1,
                    total: value,
                });
            }
            None => self.profile.skipped_lines += 1,
        }
        if message == "EXECUTE" {
            self.execution_ended();
        }
    }

    /// The last line of an execution is its total time.
    fn execution_ended(&mut self) {
        self.profile.executions += 1;
        let (cycles, device_us) = (self.pending_cycles.take(), self.pending_us.take());
        let nodes = std::mem::take(&mut self.pending);
        if let (Some(cycles @ 1..), Some(us)) = (cycles, device_us) {
            let us_per_cycle = us as f64 / cycles as f64;
            for (index, cycles) in &nodes {
                self.profile.nodes[*index].estimated_us += *cycles as f64 * us_per_cycle;
            }
        }
        // Consecutive from the first one.
        let all_so_far = self.profile.each.len() as u64 + 1 == self.profile.executions;
        if all_so_far && self.kept_counts + nodes.len() <= MAX_COUNTS {
            self.kept_counts += nodes.len();
            self.profile.each.push(QnnExecution { cycles, device_us, nodes });
        }
    }

    fn finish(self) -> QnnProfile {
        self.profile
    }
}

/// The ONNX node behind `/pool/MaxPool_token_7_2:OpId_30 (cycles)`.
pub(crate) fn onnx_name(identifier: &str) -> &str {
    let name = identifier.strip_suffix(" (cycles)").unwrap_or(identifier);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match name.rsplit_once(":OpId_") {
        Some((name, number)) if is_number(number) => name,
        _ => name,
    };
    match name.rsplit_once("_token_") {
        Some((bare, numbers)) if numbers.split('_').all(is_number) => bare,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier";

    fn file(lines: &[&str]) -> String {
        format!("{HEADER}\n{}\n", lines.join("\n"))
    }

    #[test]
    fn an_execution_gives_times_to_its_nodes() {
        let profile = read(&file(&[
            "0,FINALIZE,561285,US,BACKEND,ROOT,QNN (finalize) time",
            "0,UNKNOWN,451,US,BACKEND,SUB-EVENT,Graph Preparation Initializing",
            "0,BACKEND,1000,CYCLES,BACKEND,ROOT,Accelerator (execute) time (cycles)",
            "0,NODE,750,CYCLES,BACKEND,SUB-EVENT,/a/Conv_token_1_2:OpId_24 (cycles)",
            "0,NODE,250,CYCLES,BACKEND,SUB-EVENT,a, name:OpId_7 (cycles)",
            "0,BACKEND,200,US,BACKEND,ROOT,Accelerator (execute) time",
            "0,UNKNOWN,UNKNOWN,OBJECT,BACKEND,ROOT,Unknown event type",
            "0,EXECUTE,9308,US,BACKEND,ROOT,QNN (execute) time",
        ]))
        .unwrap();
        assert_eq!((profile.executions, profile.unreadable_lines), (1, 0));
        let first = &profile.each[0];
        assert_eq!((first.cycles, first.device_us), (Some(1000), Some(200)));
        assert_eq!(first.nodes, [(0, 750), (1, 250)]);
        let nodes: Vec<(&str, u64, f64)> =
            profile.nodes.iter().map(|node| (node.name.as_str(), node.cycles, node.estimated_us)).collect();
        assert_eq!(nodes, [("/a/Conv", 750, 150.0), ("a, name", 250, 50.0)]);
        assert_eq!(profile.device_cycles(), Some(1000));
        assert_eq!(profile.preparation.len(), 2);
        assert_eq!(profile.event("QNN (execute) time").unwrap().mean(), 9308.0);
    }

    #[test]
    fn columns_are_found_by_name_and_unreadable_lines_are_counted() {
        let text = "Message,Time,Unit of Measurement,ONNX Source Ops,Event Identifier\n\
                    NODE,5,CYCLES,Conv,x:OpId_1 (cycles)\nNODE,five,CYCLES,Conv,x\nNODE\n\nNODE,1,US,Conv,y\n";
        let profile = read(text).unwrap();
        assert_eq!((profile.nodes.len(), profile.nodes[0].cycles), (1, 5));
        assert_eq!(profile.unreadable_lines, 3);
        assert_eq!(read(""), Err(QnnProfileError::Empty));
        assert_eq!(read("a,b,c\n1,2,3\n"), Err(QnnProfileError::NoColumn("Message")));
    }

    #[test]
    fn only_qnn_suffixes_are_removed() {
        assert_eq!(onnx_name("Input OpId_2 (cycles)"), "Input OpId_2");
        assert_eq!(onnx_name("a_token_b:OpId_3 (cycles)"), "a_token_b");
        assert_eq!(onnx_name("conv1_token_7:OpId_31 (cycles)"), "conv1");
    }
}

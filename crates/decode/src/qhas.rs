//! The analysis that Qualcomm's profile viewer makes of an NPU trace (QHAS): duration of a run, utilization of the
//! units, and for every operator its cycles and the bytes moved to and from on-chip memory (VTCM) and DRAM.

use serde::{Deserialize, Serialize};

/// Limit for operators per file; further ones are counted.
const MAX_OPERATORS: usize = 100_000;

/// One file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Qhas {
    pub model: String,
    pub summary: QhasSummary,
    /// In file order.
    pub operators: Vec<QhasOperator>,
    pub skipped_operators: u64,
}

/// A whole run on the NPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QhasSummary {
    pub time_us: Option<f64>,
    pub graph_execute_us: Option<f64>,
    pub timeline_cycles: Option<u64>,
    /// 0 to 100.
    pub percent_utilization: Option<f64>,
    pub total_dram_read: Option<u64>,
    pub total_dram_write: Option<u64>,
    pub total_vtcm_read: Option<u64>,
    pub total_vtcm_write: Option<u64>,
    pub peak_vtcm_alloc: Option<u64>,
    pub qnn_nodes: Option<u64>,
    pub htp_nodes: Option<u64>,
}

/// One operator of the graph. Several threads work concurrently: the cycles of operators add up to more than the run's.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QhasOperator {
    /// Name of the ONNX node, without QNN's suffix.
    pub name: String,
    pub op_type: String,
    pub cycles: u64,
    /// Cycles in which only this operator kept the run from ending: these add up to the run.
    pub dominant_path_cycles: Option<u64>,
    pub dram_read_bytes: Option<u64>,
    pub dram_write_bytes: Option<u64>,
    pub vtcm_read_bytes: Option<u64>,
    pub vtcm_write_bytes: Option<u64>,
}

/// Why a text is not such a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QhasError {
    #[error("the file is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the file is JSON, but not a QNN analysis: it has no 'htp_overall_summary'")]
    NoSummary,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    model_id: String,
    #[serde(default)]
    data: Parts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    htp_overall_summary: Option<List<QhasSummary>>,
    qnn_op_instances_nodes: Option<List<Node>>,
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    data: Vec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    qnn_op: String,
    qnn_op_type: String,
    cycles: u64,
    num_dominant_path_cycles_htp_0: Option<u64>,
    dram_read: Option<u64>,
    dram_write: Option<u64>,
    vtcm_read: Option<u64>,
    vtcm_write: Option<u64>,
}

/// Reads a whole file.
pub fn read(text: &str) -> Result<Qhas, QhasError> {
    let file: File = serde_json::from_str(text)?;
    let summary = file.data.htp_overall_summary.and_then(|list| list.data.into_iter().next());
    let nodes = file.data.qnn_op_instances_nodes.map(|list| list.data).unwrap_or_default();
    let skipped = nodes.len().saturating_sub(MAX_OPERATORS) as u64;
    let operators = nodes.into_iter().take(MAX_OPERATORS).map(|node| QhasOperator {
        name: crate::qnn_profile::onnx_name(&node.qnn_op).to_owned(),
        op_type: node.qnn_op_type,
        cycles: node.cycles,
        dominant_path_cycles: node.num_dominant_path_cycles_htp_0,
        dram_read_bytes: node.dram_read,
        dram_write_bytes: node.dram_write,
        vtcm_read_bytes: node.vtcm_read,
        vtcm_write_bytes: node.vtcm_write,
    });
    Ok(Qhas {
        model: file.model_id,
        summary: summary.ok_or(QhasError::NoSummary)?,
        operators: operators.collect(),
        skipped_operators: skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_and_its_operators_are_read() {
        let text = r#"{"model_id":"m","data":{
            "htp_overall_summary":{"data":[{"time_us":1343,"timeline_cycles":1582526,"percent_utilization":99.5,
                "peak_vtcm_alloc":6619136,"new_field":{"a":1}}]},
            "qnn_op_instances_nodes":{"data":[{"qnn_op":"/a/Conv_token_1_2","qnn_op_type":"Conv2d","cycles":671293,
                "num_dominant_path_cycles_htp_0":141990,"dram_read":18432,"vtcm_read":13103104},{"qnn_op":"b","cycles":1}]}}}"#;
        let qhas = read(text).unwrap();
        assert_eq!(qhas.summary.timeline_cycles, Some(1_582_526));
        assert_eq!((qhas.summary.time_us, qhas.summary.total_dram_read), (Some(1343.0), None));
        let names: Vec<(&str, u64, Option<u64>)> = qhas
            .operators
            .iter()
            .map(|operator| (operator.name.as_str(), operator.cycles, operator.dominant_path_cycles))
            .collect();
        assert_eq!(names, [("/a/Conv", 671_293, Some(141_990)), ("b", 1, None)]);
    }

    #[test]
    fn other_files_are_errors() {
        assert!(matches!(read("time,cycles"), Err(QhasError::Json(_))));
        assert!(matches!(read("{}"), Err(QhasError::NoSummary)));
        assert!(matches!(read(r#"{"data":{"htp_overall_summary":{"data":[]}}}"#), Err(QhasError::NoSummary)));
    }
}

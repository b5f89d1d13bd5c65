//! Nodes of one type, taken together.

use std::collections::BTreeMap;

use ortscope_core::schema::Text;

use super::event::OperatorEvent;
use super::lanes::ratio;
use super::quantiles::Series;
use super::report::{NodeStatistics, OpTypeStatistics};
use super::scale::Scale;

/// Own time per run and type.
#[derive(Debug, Default)]
pub(super) struct OpTypes {
    /// Type of each node, by its index.
    of_node: Vec<usize>,
    index: BTreeMap<(Text, Text), usize>,
    types: Vec<OpType>,
}

#[derive(Debug)]
struct OpType {
    op_type: Text,
    provider: Text,
    per_run: Series,
    this_run_ns: u64,
    calls: u64,
}

impl OpTypes {
    pub(super) fn add(&mut self, node: usize, event: &OperatorEvent, exclusive_ns: u64) {
        let index = match self.of_node.get(node) {
            Some(index) => *index,
            None => {
                let key = (event.op_type.clone(), event.provider.clone());
                let types = &mut self.types;
                let index = *self.index.entry(key).or_insert_with(|| {
                    let (op_type, provider) = (event.op_type.clone(), event.provider.clone());
                    types.push(OpType {
                        op_type,
                        provider,
                        per_run: Series::default(),
                        this_run_ns: 0,
                        calls: 0,
                    });
                    types.len() - 1
                });
                // Nodes are numbered as they appear, so this one is the next.
                self.of_node.push(index);
                index
            }
        };
        let op_type = &mut self.types[index];
        op_type.calls += 1;
        op_type.this_run_ns = op_type.this_run_ns.saturating_add(exclusive_ns);
    }

    pub(super) fn end_run(&mut self) {
        for op_type in &mut self.types {
            op_type.per_run.push(std::mem::take(&mut op_type.this_run_ns));
        }
    }

    pub(super) fn statistics(self, nodes: &[NodeStatistics], scale: &Scale) -> Vec<OpTypeStatistics> {
        let mut statistics: Vec<OpTypeStatistics> = self
            .types
            .into_iter()
            .map(|op_type| OpTypeStatistics {
                nodes: 0,
                calls: op_type.calls,
                share: ratio(op_type.per_run.total_ns(), scale.run_ns),
                scaled_ns_per_run: scale.per_run(op_type.per_run.total_ns()),
                per_run: op_type.per_run.distribution(),
                flops_per_run: Some(0),
                op_type: op_type.op_type,
                provider: op_type.provider,
            })
            .collect();
        for (node, index) in nodes.iter().zip(self.of_node) {
            let op_type = &mut statistics[index];
            op_type.nodes += 1;
            let flops = node.flops.map(|flops| (flops as f64 * node.calls_per_run).round());
            // Adding floats and converting back saturates.
            op_type.flops_per_run =
                op_type.flops_per_run.zip(flops).map(|(sum, flops)| (sum as f64 + flops) as u64);
        }
        statistics
            .sort_by(|a, b| b.per_run.total_ns.cmp(&a.per_run.total_ns).then(a.op_type.cmp(&b.op_type)));
        statistics
    }
}

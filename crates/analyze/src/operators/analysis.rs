//! Run after run in, one report out.

use super::event::OperatorEvent;
use super::lanes::{LaneTable, ratio};
use super::memory::MemoryRuns;
use super::nodes::NodeTable;
use super::op_types::OpTypes;
use super::pool::PoolSums;
use super::quantiles::Series;
use super::report::{Floor, Inconsistencies, NodeStatistics, OperatorReport, Parallelism, TimeSplit};
use super::run::{RunBreakdown, break_down, is_ignored};
use super::scale::{Scale, above_floor, floor};

/// Inputs of the analysis besides the events.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorOptions {
    /// Runs at the start that are not in the statistics, if there are later ones: kernels are prepared and memory is
    /// planned in the first. Default 1.
    pub warm_up_runs: usize,
    /// Time that the profiler reports for an operator that does nothing, if it was measured.
    pub floor_ns: Option<u64>,
    /// Latency with profiling over latency without.
    pub observer_factor: Option<f64>,
}

impl Default for OperatorOptions {
    fn default() -> Self {
        Self { warm_up_runs: 1, floor_ns: None, observer_factor: None }
    }
}

/// Analyzes the runs of one session in sequence.
#[derive(Debug)]
pub struct OperatorAnalysis {
    options: OperatorOptions,
    /// Warm-up runs, kept until it is clear that there are others.
    held: Vec<Vec<OperatorEvent>>,
    first_run_ns: Option<u64>,
    memory: MemoryRuns,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    runs: u64,
    run: Series,
    time: TimeSplit,
    parallel_ns: u64,
    nodes: NodeTable,
    lanes: LaneTable,
    op_types: OpTypes,
    pool: PoolSums,
    inconsistencies: Inconsistencies,
}

impl OperatorAnalysis {
    pub fn new(options: OperatorOptions) -> Self {
        Self {
            options,
            held: Vec::new(),
            first_run_ns: None,
            memory: MemoryRuns::default(),
            sums: Sums::default(),
        }
    }

    /// Adds one run: all its events, in any order.
    pub fn add_run(&mut self, events: &[OperatorEvent]) {
        let breakdown = break_down(events);
        self.first_run_ns.get_or_insert(breakdown.run_ns);
        self.memory.add(events);
        if self.sums.runs == 0 && self.held.len() < self.options.warm_up_runs {
            self.held.push(events.to_vec());
        } else {
            self.sums.add(events, &breakdown);
        }
    }

    /// Latency with profiling over latency without, when it is known only after the runs.
    pub fn set_observer_factor(&mut self, factor: Option<f64>) {
        self.options.observer_factor = factor;
    }

    /// The report. If there were no runs after the warm-up, the warm-up is what there is.
    pub fn finish(mut self) -> OperatorReport {
        let mut warm_up_runs = self.held.len() as u64;
        if self.sums.runs == 0 {
            warm_up_runs = 0;
            for events in std::mem::take(&mut self.held) {
                self.sums.add(&events, &break_down(&events));
            }
        }
        let Self { options, first_run_ns, memory, sums, .. } = self;
        let report = sums.report(&options, first_run_ns, warm_up_runs);
        OperatorReport { memory: memory.finish(), ..report }
    }
}

impl Sums {
    fn add(&mut self, events: &[OperatorEvent], breakdown: &RunBreakdown) {
        self.runs += 1;
        self.run.push(breakdown.run_ns);
        self.time.add(&breakdown.split);
        self.parallel_ns = self.parallel_ns.saturating_add(breakdown.parallel_ns);
        self.inconsistencies.contradictions += breakdown.contradictions;
        let contradicted_ns = &mut self.inconsistencies.contradicted_ns;
        *contradicted_ns = contradicted_ns.saturating_add(breakdown.contradicted_ns);
        self.inconsistencies.runs_without_event += u64::from(!breakdown.has_run_event);
        self.inconsistencies.ignored_events += breakdown.ignored_events;
        self.nodes.begin_run();
        let work = events
            .iter()
            .zip(&breakdown.exclusive_ns)
            .filter(|(event, _)| event.kind.is_work() && !is_ignored(event));
        for (event, exclusive_ns) in work {
            let Some(node) = self.nodes.find(event) else {
                self.inconsistencies.dropped_events += 1;
                continue;
            };
            self.nodes.nodes[node].add(event, *exclusive_ns);
            self.op_types.add(node, event, *exclusive_ns);
            self.pool.add(event);
            if !self.lanes.add(event, *exclusive_ns) {
                self.inconsistencies.dropped_events += 1;
            }
        }
        self.op_types.end_run();
        breakdown.threads.iter().for_each(|time| self.lanes.add_thread(time));
    }

    fn report(
        self,
        options: &OperatorOptions,
        first_run_ns: Option<u64>,
        warm_up_runs: u64,
    ) -> OperatorReport {
        let run_ns = self.time.run_ns;
        let factor = options.observer_factor.filter(|factor| factor.is_finite() && *factor > 0.0);
        let scale = Scale { runs: self.runs, run_ns, factor };
        let floor = floor(options, &self.nodes.nodes);
        let mut nodes: Vec<NodeStatistics> =
            self.nodes.nodes.iter().map(|node| scale.node(node, floor.0)).collect();
        let above: u64 = nodes.iter().map(|node| above_floor(node, floor.0)).fold(0, u64::saturating_add);
        let operators_share: f64 = nodes.iter().map(|node| node.share).sum();
        for node in &mut nodes {
            // The rest of the operators' time is divided by what each of them has above the floor.
            node.share_above_floor = ratio(above_floor(node, floor.0), above) * operators_share;
        }
        let near = || nodes.iter().filter(|node| !node.is_rankable);
        let floor = Floor {
            floor_ns: floor.0,
            source: floor.1,
            nodes_near_it: near().count() as u64,
            share_near_it: near().map(|node| node.share).sum(),
        };
        let threads = self.lanes.threads(run_ns);
        let summed_ns = threads.iter().map(|thread| thread.operators_ns).fold(0, u64::saturating_add);
        OperatorReport {
            runs: self.runs,
            warm_up_runs,
            run: self.run.distribution(),
            first_run_ns,
            time: self.time,
            op_types: self.op_types.statistics(&nodes, &scale),
            nodes,
            lanes: self.lanes.lanes(run_ns),
            parallelism: Parallelism {
                threads: threads.iter().filter(|thread| thread.operators_ns > 0).count() as u64,
                parallel_ns: self.parallel_ns,
                parallel_share: ratio(self.parallel_ns, run_ns),
                mean_concurrency: ratio(summed_ns, self.time.operators_ns),
                intra_op: self.pool.finish(),
            },
            threads,
            floor,
            observer_factor: factor,
            memory: None,
            inconsistencies: self.inconsistencies,
        }
    }
}

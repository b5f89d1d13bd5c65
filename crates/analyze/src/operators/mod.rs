//! Where the time of a profiled run goes, and what to change.
//!
//! [`OperatorAnalysis`] processes runs one by one and keeps memory for nodes, not for runs: 10,000 nodes over 1,000
//! runs fit in a few megabytes. Guarantees:
//! - Time is divided, never counted twice. A control-flow node contains the nodes of its subgraph; its own time is
//!   the rest. On every thread the exclusive times and the idle time add up to the run, to the nanosecond.
//! - Percentages never add up to 100 by hiding something: unattributed time is a part of its own ([`TimeSplit`]).
//! - Times are those of the profiler, which slows down what it measures. Nodes too short to distinguish from the
//!   profiler's own cost are marked ([`NodeStatistics::is_rankable`]), and shares can be scaled to the latency without
//!   profiling.
//!
//! Everything else is a function of the report: [`critical_path`], [`transitions`], [`roofline`], [`findings`]; and of
//! graphs: [`fusion`].

mod analysis;
mod assemble;
mod critical_path;
mod event;
mod exclusive;
mod findings;
pub mod fusion;
mod lanes;
mod memory;
mod nodes;
mod op_types;
mod pool;
mod quantiles;
mod report;
mod roofline;
mod run;
mod scale;
pub mod section;
mod shapes;
mod timeline;
mod transitions;

pub use analysis::{OperatorAnalysis, OperatorOptions};
pub use assemble::RunAssembler;
pub use critical_path::{CriticalPath, PathMethod, critical_path};
pub use event::{AllocatorState, OperatorEvent, PoolUse, runs_of};
pub use findings::{FindingContext, MAX_NODES_NAMED, OperatorFinding, ThreadFacts, findings};
pub use memory::{MemoryUse, RunMemory};
pub use pool::IntraOp;
pub use quantiles::{Distribution, RELATIVE_ERROR};
pub use report::{
    Floor, FloorSource, Inconsistencies, LaneStatistics, NodeStatistics, OpTypeStatistics, OperatorReport,
    Parallelism, ThreadStatistics, TimeSplit,
};
pub use roofline::{Bound, Peaks, Roofline, RooflinePoint, roofline};
pub use run::{RunBreakdown, break_down};
pub use section::OperatorSection;
pub use shapes::parse_shapes;
pub use timeline::{Span, Timeline, TimelineLane, timeline};
pub use transitions::{Copies, ProviderPair, Transition, Transitions, transitions};

//! Where the time of profiled runs goes.

mod analysis;
mod breakdown;
mod findings;
mod fusion;
mod optimized;
mod profile;
mod views;

use ortscope_analyze::operators::{OperatorAnalysis, OperatorEvent, OperatorOptions, OperatorReport};
use ortscope_core::schema::OperatorKind;

pub const CPU: &str = "CPUExecutionProvider";
pub const GPU: &str = "CUDAExecutionProvider";

/// An event on thread 1 of the main graph, in microseconds.
pub fn event(kind: OperatorKind, name: &str, start_us: u64, duration_us: u64) -> OperatorEvent {
    OperatorEvent {
        kind,
        name: name.into(),
        op_type: name.split('_').next().unwrap_or(name).into(),
        provider: if kind.is_work() { CPU.into() } else { "".into() },
        device: "CPU".into(),
        node_index: None,
        thread: 1,
        start_ns: start_us * 1000,
        duration_ns: duration_us * 1000,
        depth: 0,
        input_shapes: None,
        output_bytes: None,
        bytes_moved: None,
        flops: None,
        memory: None,
        pool: None,
    }
}

pub fn op(name: &str, start_us: u64, duration_us: u64) -> OperatorEvent {
    event(OperatorKind::Operator, name, start_us, duration_us)
}

pub fn run(start_us: u64, duration_us: u64) -> OperatorEvent {
    event(OperatorKind::Run, "model_run", start_us, duration_us)
}

pub fn executor(start_us: u64, duration_us: u64) -> OperatorEvent {
    event(OperatorKind::Executor, "SequentialExecutor::Execute", start_us, duration_us)
}

pub trait With: Sized {
    fn on(self, thread: u64) -> Self;
    fn by(self, provider: &str) -> Self;
    fn at(self, depth: u64) -> Self;
    fn index(self, index: u64) -> Self;
    fn shapes(self, shapes: &str) -> Self;
    fn work(self, flops: u64, bytes: u64) -> Self;
    fn writes(self, bytes: u64) -> Self;
}

impl With for OperatorEvent {
    fn on(mut self, thread: u64) -> Self {
        self.thread = thread;
        self
    }

    fn by(mut self, provider: &str) -> Self {
        self.provider = provider.into();
        self
    }

    fn at(mut self, depth: u64) -> Self {
        self.depth = depth;
        self
    }

    fn index(mut self, index: u64) -> Self {
        self.node_index = Some(index);
        self
    }

    fn shapes(mut self, shapes: &str) -> Self {
        self.input_shapes = Some(shapes.into());
        self
    }

    fn work(mut self, flops: u64, bytes: u64) -> Self {
        (self.flops, self.bytes_moved) = (Some(flops), Some(bytes));
        self
    }

    fn writes(mut self, bytes: u64) -> Self {
        self.output_bytes = Some(bytes);
        self
    }
}

/// The report over these runs, all of them in the statistics.
pub fn analyzed(runs: &[Vec<OperatorEvent>]) -> OperatorReport {
    let options = OperatorOptions { warm_up_runs: 0, ..OperatorOptions::default() };
    let mut analysis = OperatorAnalysis::new(options);
    runs.iter().for_each(|run| analysis.add_run(run));
    analysis.finish()
}

pub fn node(report: &OperatorReport, name: &str) -> usize {
    report.nodes.iter().position(|node| &*node.name == name).unwrap()
}

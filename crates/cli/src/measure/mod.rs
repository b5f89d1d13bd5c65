//! Measuring a model: the plan, the worker process that runs it, and the supervisor that watches, stops and collects.
//!
//! ```text
//! supervisor ── plan (JSON on stdin) ──► worker process: ONNX Runtime, the model, the loop
//!     ▲  └─ control page: stop ─────────────┤
//!     └── pipeline ◄── channel rings ◄──────┘ one record per inference, messages for the rest
//! ```
//! A provider that aborts takes the worker with it, never the report.

pub mod collect;
pub mod interrupt;
pub mod plan;
pub mod progress;
pub mod protocol;
pub mod supervise;

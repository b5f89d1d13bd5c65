//! One observation: a plan, its sources, the pump and its sinks.
//!
//! ```text
//! measure:  supervisor ── plan ──► worker process (ONNX Runtime, the model) ── channel ──┐
//! watch:    processes, kernel, stacks, devices, energy, heat, inferences ────────────────┼──► pipeline ──► sinks
//! ```
//! [`measure`] runs a model in a [`worker`] process and observes it; [`watch`] observes processes that are not ours.
//! [`operator_pass`] profiles the operators of a model in worker processes of its own.

pub mod device_events;
pub mod devices;
pub mod doctor;
mod input_files;
pub mod instrument;
pub mod interrupt;
pub mod measure;
pub mod model_file;
pub mod operator_pass;
mod ort_events;
pub mod plan;
pub mod programs;
pub mod progress;
pub mod recording;
pub mod watch;
pub mod worker;

/// Set to 1, it disables ONNX Runtime's telemetry.
pub const TELEMETRY_VARIABLE: &str = "ORT_DISABLE_TELEMETRY";

//! Parsers: bytes to values, on every operating system, without I/O.
//!
//! Everything here parses untrusted input. No parser executes anything or panics on any input, and each one bounds its
//! allocations by documented limits.

pub mod amdxdna;
pub mod battery_state;
pub mod btf;
pub mod chrome_trace;
pub mod drm_fdinfo;
pub mod emi;
pub mod energy_counter;
pub mod etw;
pub mod gpu_counters;
pub mod kernel_rows;
pub mod l2_events;
pub mod nt;
pub mod onnx;
pub mod openvino_counters;
pub mod ort_profile;
pub mod perf_data;
pub mod perf_record;
pub mod perf_record_samples;
pub mod procfs;
pub mod qhas;
pub mod qnn_profile;
pub mod sock_diag;
pub mod symbols;
pub mod tensors;
pub mod unwind;

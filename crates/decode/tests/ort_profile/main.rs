//! Profiles of real ONNX Runtime versions, and everything that can be wrong with one.

mod damage;
mod foreign;
mod properties;
mod rows;
mod support;
mod versions;

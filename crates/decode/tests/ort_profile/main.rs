//! Profiles of real versions of ONNX Runtime, and everything that can be wrong with one.

mod damage;
mod foreign;
mod properties;
mod rows;
mod support;
mod versions;

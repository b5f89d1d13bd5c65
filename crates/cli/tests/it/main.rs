//! The program as its users meet it: real processes, a real ONNX Runtime, what they print and how they end.

mod bad_input;
mod commands;
mod devices;
mod etl;
mod import_etl;
mod inside;
mod measuring;
mod observing;
mod operators;
mod recordings;
mod serving;
mod support;
mod verdicts;

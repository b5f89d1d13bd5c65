//! The program as its users meet it: real processes, a real ONNX Runtime, what they print and how they end.

mod altered;
mod bad_input;
mod ci;
mod commands;
mod contract;
mod devices;
mod encryption;
mod etl;
mod hostile;
mod import_etl;
mod importing;
mod inside;
mod leaks;
mod measuring;
mod observing;
mod operators;
mod other_tools;
mod providers;
mod recordings;
mod scraping;
mod secrets;
mod serving;
mod support;
mod verdicts;

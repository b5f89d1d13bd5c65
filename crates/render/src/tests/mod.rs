//! Whole recordings in memory, built into a model and rendered in every form.

mod hostile;
mod huge;
mod model;
mod properties;
mod renderings;
mod samples;
mod scenes;
mod support;

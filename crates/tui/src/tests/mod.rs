//! Frames as people see them, at several sizes and in several states, made without a terminal.

mod frames;
mod once;
mod world;

//! The live memory from outside: what goes in as batches comes out as histories, within its bounds, whatever the input.

mod cost;
mod day;
mod disorder;
mod history;
mod limits;
mod pipeline;
mod processes;
mod support;
mod unavailable;

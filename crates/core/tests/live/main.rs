//! Tests of the live memory's public interface: batches in, histories out, within its limits for any input.

mod cost;
mod day;
mod disorder;
mod history;
mod limits;
mod pipeline;
mod processes;
mod support;
mod unavailable;

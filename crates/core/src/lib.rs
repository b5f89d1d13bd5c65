//! Foundations shared by all of ortscope: units, clocks, identity, the schema of all data, columnar batches, the
//! pipeline that moves them and its configuration.
//!
//! Data flows one way: a [`pipeline::Source`] writes rows into a bounded [`pipeline::Emitter`], the pump hands columnar
//! [`batch::Batch`]es to every [`pipeline::Sink`]. Commands go the other way, through [`pipeline::Control`].

pub mod batch;
pub mod clock;
pub mod config;
pub mod failure;
pub mod filter;
pub mod identity;
pub mod kernel;
pub mod live;
pub mod message;
pub mod metric;
pub mod pipeline;
pub mod random;
pub mod rate_control;
pub mod recording;
pub mod schema;
pub mod session;
pub mod tables;
pub mod tensor;
pub mod units;

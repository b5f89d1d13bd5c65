//! Recordings on failing disks: power loss at any time, dropped, reordered or torn writes, flipped bits, disks that are
//! full or read-only at every write, several concurrent writers.
//!
//! Each runs a few seeds. `ORTSCOPE_TRUST_SEED` is the first seed, `ORTSCOPE_TRUST_SEEDS` their number. A failure names
//! its seed, which reproduces the same faults.

mod beginning;
mod figures;
mod flips;
mod ledger;
mod power;
mod refused;
mod workload;
mod writers;

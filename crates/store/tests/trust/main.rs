//! Recordings on disks that fail: power that goes at any moment, writes that are dropped, reordered or torn, bits that
//! flip, disks that are full or read-only at every place where something is written, several writers at once.
//!
//! Each runs a few seeds. `ORTSCOPE_TRUST_SEED` is the first seed, `ORTSCOPE_TRUST_SEEDS` how many. A failure names its seed:
//! the same seed makes the same faults again.

mod beginning;
mod figures;
mod flips;
mod ledger;
mod power;
mod refused;
mod workload;
mod writers;

//! Recordings from the outside: written, killed, damaged, read again.

mod crash;
mod damage;
mod encryption;
mod expansion;
mod full_disk;
mod golden;
mod live;
mod packing;
mod repairing;
#[path = "../simulation/mod.rs"]
mod simulation;
mod store;
mod support;

//! Recordings from the outside: written, killed, damaged, read again.

mod crash;
mod damage;
mod encryption;
mod expansion;
mod full_disk;
mod golden;
mod live;
mod measure;
mod packing;
mod repairing;
mod store;
mod support;

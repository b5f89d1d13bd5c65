//! The recent past in memory, bounded.

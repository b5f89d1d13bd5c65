//! Recordings for people and for other tools.

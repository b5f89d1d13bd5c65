//! PLACE

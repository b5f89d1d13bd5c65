//! What every part of ortscope shares.

pub mod tensor;

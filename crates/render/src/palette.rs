//! Colours of operator types: the same type has the same colour in every report.
//!
//! Twelve light colours after Paul Tol's schemes "muted" and "light", which people with the common kinds of colour
//! blindness can tell apart, and a strong shade of each. The number is chosen by a hash of the type, so it depends on
//! nothing but its name. The colours themselves stand in the style sheet.

/// Number of colours.
pub(super) const COLOURS: u32 = 24;
/// Colours from this one on are strong: text on them is light.
const STRONG_FROM: u32 = 12;

/// Types that most models have get colours of their own; they would collide by chance otherwise.
const COMMON: [&str; 24] = [
    "Conv",
    "MatMul",
    "Gemm",
    "Relu",
    "Add",
    "Mul",
    "Softmax",
    "Reshape",
    "Transpose",
    "LayerNormalization",
    "Concat",
    "Gelu",
    "FusedConv",
    "Gather",
    "MaxPool",
    "Sigmoid",
    "Sub",
    "Slice",
    "Resize",
    "Attention",
    "BatchNormalization",
    "GlobalAveragePool",
    "Cast",
    "MemcpyToHost",
];

/// The number of a type's colour, below [`COLOURS`].
pub(super) fn colour(op_type: &str) -> u32 {
    if let Some(index) = COMMON.iter().position(|common| *common == op_type) {
        return index as u32;
    }
    // FNV-1a.
    let hash = op_type.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash >> 32) as u32 ^ hash as u32) % COLOURS
}

/// Whether text on the colour must be light.
pub(super) fn is_strong(op_type: &str) -> bool {
    colour(op_type) >= STRONG_FROM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_stable_and_spread() {
        assert_eq!(
            (colour("Conv"), colour("MatMul"), is_strong("Conv"), is_strong("Cast")),
            (0, 1, false, true)
        );
        assert_eq!(colour("Resize"), colour("Resize"));
        let used: std::collections::BTreeSet<u32> =
            (0..400).map(|index| colour(&format!("Custom{index}"))).collect();
        assert_eq!(used.len() as u32, COLOURS);
    }
}

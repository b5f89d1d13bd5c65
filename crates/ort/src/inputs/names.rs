//! Usual meanings of dimension and input names.

/// The meaning of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Batch,
    Sequence,
    /// Tokens that a cache holds already.
    Past,
    /// Past and new tokens together.
    Total,
    /// Samples of sound.
    Samples,
    /// Height or width.
    Spatial,
    Channels,
    Unclear,
}

pub(super) fn meaning(name: &str) -> Meaning {
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let word = |words: &[&str]| name.split(|c: char| !c.is_alphanumeric()).any(|part| words.contains(&part));
    if has(&["total"]) || (has(&["past"]) && has(&["+", "plus", "and_", "_present"])) {
        Meaning::Total
    } else if has(&["past", "cache"]) {
        Meaning::Past
    } else if has(&["batch"]) || word(&["n", "bs", "b"]) {
        Meaning::Batch
    } else if has(&["sample", "audio", "waveform"]) {
        Meaning::Samples
    } else if has(&["height", "width"]) || word(&["h", "w"]) {
        Meaning::Spatial
    } else if has(&["seq", "len", "time", "token", "frame", "step"]) || word(&["t", "s"]) {
        Meaning::Sequence
    } else if has(&["channel"]) || word(&["c"]) {
        Meaning::Channels
    } else {
        Meaning::Unclear
    }
}

/// A sampling rate of sound, as voice models take it.
pub(super) fn is_sampling_rate(input: &str) -> bool {
    matches!(input.to_ascii_lowercase().as_str(), "sr" | "sample_rate" | "sampling_rate" | "samplerate")
}

/// A state that a recurrent model gives and takes: its first axis counts layers.
pub(super) fn is_state(input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    matches!(input.as_str(), "h" | "c" | "hn" | "cn" | "h0" | "c0" | "h_0" | "c_0")
        || (input.contains("state") && !input.contains("hidden_states"))
        || input.contains("hidden_in")
}

pub(super) fn is_length(input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    ["length", "lens", "_len"].iter().any(|part| input.contains(part)) || input == "len"
}

pub(super) fn is_factor(input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    ["scale", "temperature", "speed"].iter().any(|part| input.contains(part))
}

/// The name that a mistyped one was probably meant to be.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let limit = name.chars().count().div_ceil(3);
    let close = known.map(|other| (distance(name, other), other)).filter(|(distance, _)| *distance <= limit);
    close.min().map(|(_, other)| other.to_owned())
}

/// Levenshtein's, without regard to case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names() {
        for (name, expected) in [
            ("batch_size", Meaning::Batch),
            ("N", Meaning::Batch),
            ("sequence_length", Meaning::Sequence),
            ("past_sequence_length", Meaning::Past),
            ("past_sequence_length + sequence_length", Meaning::Total),
            ("total_sequence_length", Meaning::Total),
            ("height", Meaning::Spatial),
            ("W", Meaning::Spatial),
            ("num_channels", Meaning::Channels),
            ("audio_samples", Meaning::Samples),
            ("unk__612", Meaning::Unclear),
            ("DynamicDimension.0", Meaning::Unclear),
        ] {
            assert_eq!(meaning(name), expected, "{name}");
        }
    }

    #[test]
    fn typing_errors() {
        let known = ["input_ids", "attention_mask"];
        assert_eq!(nearest("inptu_ids", known.into_iter()).as_deref(), Some("input_ids"));
        assert_eq!(nearest("ATTENTION_MASK", known.into_iter()).as_deref(), Some("attention_mask"));
        assert_eq!(nearest("pixels", known.into_iter()), None);
    }
}

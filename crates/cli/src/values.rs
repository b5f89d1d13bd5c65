//! Values as people type them: durations, percentages, key=value pairs.

/// `10s`, `500ms`, `2m`, `1h`, or seconds without a unit.
pub fn duration_seconds(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor = match unit.trim() {
        "" | "s" | "sec" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{text}' is not a duration: use 10s, 500ms, 2m or 1h")),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value * factor <= 86_400.0 => Ok(value * factor),
        Ok(_) => Err(format!("'{text}' is out of range: a duration lies above 0 and at most at 24h")),
        Err(_) => Err(format!("'{text}' is not a duration: use 10s, 500ms, 2m or 1h")),
    }
}

/// `1%`, `0.5 %` or a ratio like `0.01`.
pub fn precision_ratio(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text.trim(), 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value * factor <= 0.5 => Ok(value * factor),
        _ => Err(format!("'{text}' is not a precision: use a percentage above 0% and at most 50%, e.g. 1%")),
    }
}

/// `key=value`, both non-empty before the sign.
pub fn key_value(text: &str, what: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("'{text}' is not {what}: write KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("10s", 10.0), ("500ms", 0.5), ("2m", 120.0), ("1.5", 1.5), (" 1 h ", 3600.0)]
        {
            assert_eq!(duration_seconds(text), Ok(seconds), "{text}");
        }
        for text in ["", "s", "0s", "-1s", "nan", "3 weeks", "25h", "1e300s"] {
            assert!(duration_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn precisions() {
        assert_eq!(precision_ratio("1%"), Ok(0.01));
        assert_eq!(precision_ratio("0.02"), Ok(0.02));
        for text in ["0%", "60%", "x", "", "%"] {
            assert!(precision_ratio(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pairs() {
        assert_eq!(key_value("a=b=c", "an entry"), Ok(("a".into(), "b=c".into())));
        assert!(key_value("=b", "an entry").is_err());
        assert!(key_value("ab", "an entry").is_err());
    }
}

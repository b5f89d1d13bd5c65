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

/// An age: `30d`, `2w`, or a duration like `12h` of any length.
pub fn age_seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not an age: use 30d, 2w, 12h or 45m");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = trimmed.split_at(split);
    let factor = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 7.0 * 86_400.0,
        _ => return Err(wrong()),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value * factor <= 1e10 => Ok(value * factor),
        _ => Err(wrong()),
    }
}

/// A size: `500MB`, `5 GB`, `1.5GiB`, or bytes without a unit.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size: use 500MB, 5GB or 1.5GiB");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value * factor <= 1e18 => Ok((value * factor) as u64),
        _ => Err(wrong()),
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
    fn ages_and_sizes() {
        assert_eq!(age_seconds("30d"), Ok(2_592_000.0));
        assert_eq!(age_seconds("0s"), Ok(0.0));
        assert_eq!(size_bytes("1.5 GiB"), Ok(1_610_612_736));
        assert_eq!(size_bytes("5GB"), Ok(5_000_000_000));
        for text in ["", "d", "30", "-1d", "nand", "3 moons"] {
            assert!(age_seconds(text).is_err(), "{text}");
        }
        for text in ["", "GB", "-1GB", "nan", "1 XB", "1e30"] {
            assert!(size_bytes(text).is_err(), "{text}");
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

//! Query parameters: what a route does not know is refused, so that a slip is not a silent default.

use std::str::FromStr;

use crate::error::ApiError;
use crate::routes::Param;

/// Parameters of a request. One that is given twice is refused unless it may be repeated.
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<(String, String)>);

/// More than any view needs.
const MOST_PARAMETERS: usize = 256;

impl Params {
    /// Reads a query; refuses what the route does not declare.
    pub fn read(query: Option<&str>, known: &[Param]) -> Result<Self, ApiError> {
        let mut list: Vec<(String, String)> = Vec::new();
        for part in query.unwrap_or("").split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(ApiError::bad_parameter(&shown(part), "is not valid UTF-8 in percent encoding"));
            };
            let Some(param) = known.iter().find(|param| param.name == name) else {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                return Err(ApiError::bad_parameter(&shown(&name), "is not one of this route").hint(
                    if names.is_empty() {
                        "it has none".to_owned()
                    } else {
                        format!("it has {}", names.join(", "))
                    },
                ));
            };
            if !param.repeats && list.iter().any(|(other, _)| *other == name) {
                return Err(ApiError::bad_parameter(param.name, "is given twice"));
            }
            if list.len() >= MOST_PARAMETERS {
                return Err(ApiError::bad_parameter(
                    param.name,
                    format!("is one of more than {MOST_PARAMETERS}"),
                ));
            }
            list.push((name, value));
        }
        Ok(Self(list))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| ApiError::bad_parameter(name, format!("is '{}', not {what}", shown(text))))
    }

    /// A finite number within ± 10¹⁵: milliseconds of some ten thousand years.
    pub fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        let value: Option<f64> = self.parsed(name, "a number")?;
        match value {
            Some(number) if !number.is_finite() || number.abs() > 1e15 => {
                Err(ApiError::bad_parameter(name, "is not a number that can be used"))
            }
            value => Ok(value),
        }
    }

    pub fn count(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<usize>,
        default: usize,
    ) -> Result<usize, ApiError> {
        match self.parsed::<usize>(name, "a whole number")? {
            None => Ok(default),
            Some(count) if range.contains(&count) => Ok(count),
            Some(_) => {
                let problem = format!("lies outside of {} to {}", range.start(), range.end());
                Err(ApiError::bad_parameter(name, problem))
            }
        }
    }

    pub fn whole(&self, name: &str) -> Result<Option<u64>, ApiError> {
        self.parsed(name, "a whole number")
    }

    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(other) => {
                Err(ApiError::bad_parameter(name, format!("is '{}', not true or false", shown(other))))
            }
        }
    }
}

/// A text of a stranger, for a message.
pub fn shown(text: &str) -> String {
    text.chars().take(60).collect::<String>().escape_debug().collect()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A path's part, decoded.
pub fn decode_path(text: &str) -> Option<String> {
    decode(&text.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Param] = &[Param::one("a", "A."), Param::many("b", "B.")];

    #[test]
    fn what_is_not_declared_is_refused() {
        let params = Params::read(Some("a=1%20x&b=2&b=3+4"), KNOWN).expect("known");
        assert_eq!((params.text("a"), params.all("b").collect::<Vec<_>>()), (Some("1 x"), vec!["2", "3 4"]));
        for bad in ["c=1", "a=1&a=2", "a=%f", "a=%ff", "%zz=1"] {
            assert!(Params::read(Some(bad), KNOWN).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_finite_and_in_range() {
        for bad in ["NaN", "inf", "1e300", "x", ""] {
            assert!(
                Params::read(Some(&format!("a={bad}")), KNOWN).expect("known").number("a").is_err(),
                "{bad}"
            );
        }
        let params = Params::read(Some("a=7"), KNOWN).expect("known");
        assert_eq!(params.count("a", 1..=7, 3).ok(), Some(7));
        assert!(params.count("a", 1..=6, 3).is_err());
    }
}

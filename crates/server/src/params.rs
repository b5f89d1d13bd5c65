//! Query parameters: declaration, validation and parsing. Unknown parameters are rejected, so that a typo does not silently
//! become a default.

use std::str::FromStr;

use axum::http::StatusCode;
use ortscope_core::schema::TableId;
use ortscope_export::Format;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// The kind of a parameter, for validation and for the OpenAPI document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Text,
    /// Text of this pattern. The pattern is for the document; the handler parses the text.
    Shaped(&'static str),
    /// Terms as in `ortscope export --filter`.
    Filter,
    Words(&'static [&'static str]),
    /// Name of a table of `core::schema`.
    Table,
    /// Name of a format of `ortscope export`.
    Format,
    /// Inclusive range.
    Number(f64, f64),
    /// Inclusive range.
    Whole(i64, i64),
    Flag,
}

/// Milliseconds of about 30,000 years.
pub const MAX_NUMBER: f64 = 1e15;

/// A query parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub doc: &'static str,
    pub kind: Kind,
    pub repeats: bool,
    pub required: bool,
}

impl Param {
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, doc, kind, repeats: false, required: false }
    }

    pub const fn one(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Kind::Text, doc)
    }

    pub const fn number(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Kind::Number(-MAX_NUMBER, MAX_NUMBER), doc)
    }

    pub const fn limit(most: i64) -> Self {
        Self::new("limit", Kind::Whole(1, most), "Maximum number of entries.")
    }

    pub const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

/// A field of the JSON body of a POST.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// May be `null` or missing.
    pub optional: bool,
}

/// The validated parameters of a request.
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<(String, String)>);

/// Maximum number of parameters of a request.
const MAX_PARAMETERS: usize = 256;
/// Maximum number of repetitions of a parameter.
pub const MAX_REPEATS: usize = 100;
/// Maximum number of characters of a value.
pub const MAX_TEXT: usize = 1000;

impl Param {
    /// Validates a value. Texts with their own syntax are parsed by the handlers.
    fn check(&self, text: &str) -> Result<(), ApiError> {
        let refused = |problem: String| Err(ApiError::bad_parameter(self.name, problem));
        let not = |what: &str| refused(format!("is '{}', not {what}", shown(text)));
        if text.chars().count() > MAX_TEXT {
            return refused(format!("is longer than {MAX_TEXT} characters"));
        }
        match self.kind {
            Kind::Text | Kind::Filter | Kind::Shaped(_) => Ok(()),
            Kind::Words(words) if words.contains(&text) => Ok(()),
            Kind::Words(words) => not(&format!("one of {}", words.join(", "))),
            Kind::Table if TableId::by_name(text).is_some() => Ok(()),
            Kind::Table => not("a table"),
            Kind::Format if Format::downloads().any(|format| format.name() == text) => Ok(()),
            Kind::Format => {
                let names: Vec<&str> = Format::downloads().map(Format::name).collect();
                not(&format!("one of {}", names.join(", ")))
            }
            Kind::Flag if matches!(text, "true" | "false") => Ok(()),
            Kind::Flag => not("true or false"),
            Kind::Number(least, most) => match text.parse::<f64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(()),
                Ok(number) if number.is_finite() => refused(format!("is outside {least} to {most}")),
                _ => not("a number"),
            },
            Kind::Whole(least, most) => match text.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(()),
                Ok(_) => refused(format!("is outside {least} to {most}")),
                Err(_) => not("a whole number"),
            },
        }
    }
}

impl Field {
    /// Validates this field of a body.
    pub fn check(&self, body: &Map<String, Value>) -> Result<(), ApiError> {
        let bad = |sentence: String| Err(ApiError::new(StatusCode::BAD_REQUEST, "bad_body", sentence));
        let (name, value) = (self.name, body.get(self.name).unwrap_or(&Value::Null));
        match (self.kind, value) {
            (_, Value::Null) if self.optional => Ok(()),
            (Kind::Number(least, most), Value::Number(_)) => {
                match value.as_f64().filter(|number| (least..=most).contains(number)) {
                    Some(_) => Ok(()),
                    None => {
                        bad(format!("the field '{name}' is {value}: it must be between {least} and {most}"))
                    }
                }
            }
            (Kind::Number(..), _) => bad(format!("the body needs the number '{name}'")),
            (_, Value::String(text)) if text.chars().count() <= MAX_TEXT => Ok(()),
            (_, Value::String(_)) => bad(format!("the field '{name}' is longer than {MAX_TEXT} characters")),
            _ => bad(format!("the body needs the text '{name}'")),
        }
    }
}

impl Params {
    /// Reads a query and rejects parameters that the route does not declare.
    pub fn read(query: Option<&str>, known: &[Param]) -> Result<Self, ApiError> {
        let mut list: Vec<(String, String)> = Vec::new();
        for part in query.unwrap_or("").split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(ApiError::bad_parameter(&shown(part), "is not valid UTF-8 in percent encoding"));
            };
            let Some(param) = known.iter().find(|param| param.name == name) else {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                return Err(ApiError::bad_parameter(&shown(&name), "is unknown").hint(if names.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("it has {}", names.join(", "))
                }));
            };
            let before = list.iter().filter(|(other, _)| *other == name).count();
            if !param.repeats && before > 0 {
                return Err(ApiError::bad_parameter(param.name, "is given twice"));
            }
            if before >= MAX_REPEATS {
                let problem = format!("is given more than {MAX_REPEATS} times");
                return Err(ApiError::bad_parameter(param.name, problem));
            }
            if list.len() >= MAX_PARAMETERS {
                return Err(ApiError::bad_parameter(
                    param.name,
                    format!("is one of more than {MAX_PARAMETERS}"),
                ));
            }
            param.check(&value)?;
            list.push((name, value));
        }
        let is_missing = |param: &&Param| param.required && !list.iter().any(|(name, _)| name == param.name);
        match known.iter().find(is_missing) {
            Some(param) => Err(ApiError::bad_parameter(param.name, "is missing")),
            None => Ok(Self(list)),
        }
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

    pub fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        self.parsed(name, "a number")
    }

    /// A count; the route declares its range.
    pub fn count(&self, name: &str, default: usize) -> Result<usize, ApiError> {
        Ok(self.parsed(name, "a whole number")?.unwrap_or(default))
    }

    pub fn whole(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.parsed(name, "a whole number")
    }

    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }
}

/// Untrusted text, shortened and escaped for a message.
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

/// A decoded path segment.
pub fn decode_path(text: &str) -> Option<String> {
    decode(&text.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Param] = &[
        Param::one("a", "A."),
        Param::one("b", "B.").repeats(),
        Param::new("limit", Kind::Whole(1, 7), "Limit."),
        Param::number("from_ms", "From."),
        Param::new("flag", Kind::Flag, "Flag."),
        Param::new("word", Kind::Words(&["x", "y"]), "Word."),
        Param::new("table", Kind::Table, "Table."),
    ];

    #[test]
    fn undeclared_parameters_are_rejected() {
        let params = Params::read(Some("a=1%20x&b=2&b=3+4"), KNOWN).expect("known");
        assert_eq!((params.text("a"), params.all("b").collect::<Vec<_>>()), (Some("1 x"), vec!["2", "3 4"]));
        for bad in ["c=1", "a=1&a=2", "a=%f", "a=%ff", "%zz=1"] {
            assert!(Params::read(Some(bad), KNOWN).is_err(), "{bad}");
        }
        assert!(Params::read(None, &[KNOWN[0].required()]).is_err());
        assert!(Params::read(Some(&format!("a={}", "x".repeat(MAX_TEXT + 1))), KNOWN).is_err());
    }

    #[test]
    fn values_are_validated_by_kind() {
        for bad in [
            "from_ms=NaN",
            "from_ms=inf",
            "from_ms=1e300",
            "from_ms=x",
            "from_ms=",
            "limit=0",
            "limit=8",
            "limit=1.5",
            "limit=",
            "flag=1",
            "flag=",
            "word=z",
            "table=nothing",
        ] {
            assert!(Params::read(Some(bad), KNOWN).is_err(), "{bad}");
        }
        let params =
            Params::read(Some("limit=7&from_ms=-1e3&flag=true&word=y&table=operators"), KNOWN).expect("good");
        assert_eq!(
            (params.count("limit", 3).ok(), params.number("from_ms").ok()),
            (Some(7), Some(Some(-1000.0)))
        );
        assert!(params.flag("flag") && !params.flag("other"));
        assert_eq!(params.count("other", 3).ok(), Some(3));
    }
}

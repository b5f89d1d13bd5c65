//! From a line of text to terms.

use crate::schema::{ColumnType, TableId, Unit};

use super::keys::{Key, SHORT_KEYS};
use super::value::{Compare, Moment, Number, Pattern, duration_ns, size_bytes};
use super::{Filter, Term, Test};

/// Maximum length of a filter; it limits the work that a request can cause.
pub const MAX_BYTES: usize = 4_096;
const MAX_TERMS: usize = 64;

/// Why a filter cannot be used: one sentence, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FilterError {
    message: String,
    hint: Option<String>,
}

impl FilterError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    fn of_term(term: &str, problem: &str) -> Self {
        let shown: String = term.chars().take(60).collect::<String>().escape_debug().collect();
        let dots = if term.chars().count() > 60 { "…" } else { "" };
        Self::new(format!("the filter term `{shown}{dots}` cannot be used: {problem}"))
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// How to fix the filter.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// A character of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Char {
    Plain(char),
    /// Inside quotes, without special meaning.
    Quoted(char),
    /// A quote itself: its content is a value even if empty.
    Quote,
}

impl Char {
    pub(super) fn text(self) -> Option<char> {
        match self {
            Self::Plain(c) | Self::Quoted(c) => Some(c),
            Self::Quote => None,
        }
    }
}

/// One term as it was written, and its characters without quotes.
struct Token {
    written: String,
    chars: Vec<Char>,
}

pub(super) fn parse(text: &str) -> Result<Filter, FilterError> {
    if text.len() > MAX_BYTES {
        return Err(FilterError::new(format!("the filter is longer than {MAX_BYTES} bytes")));
    }
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        let hint =
            format!("leave it out to have everything, or write terms like op:Conv dur>1ms; {}", known_keys());
        return Err(FilterError::new("the filter is empty").with_hint(hint));
    }
    if tokens.len() > MAX_TERMS {
        return Err(FilterError::new(format!("the filter has more than {MAX_TERMS} terms")));
    }
    let terms = tokens.iter().map(term).collect::<Result<Vec<_>, _>>()?;
    let filter = Filter { terms };
    check_times(&filter, text)?;
    if filter.tables().is_empty() {
        let message = "the filter can match nothing: no table has everything its terms ask for";
        let hint = format!("{}; separate choices by commas, e.g. op:Conv,Gemm", tables_of_terms(&filter));
        return Err(FilterError::new(message).with_hint(hint));
    }
    Ok(filter)
}

fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    let mut tokens = Vec::new();
    let mut current: Option<Token> = None;
    let mut in_quotes = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if !in_quotes && c.is_whitespace() {
            tokens.extend(current.take());
            continue;
        }
        let token = current.get_or_insert_with(|| Token { written: String::new(), chars: Vec::new() });
        token.written.push(c);
        match c {
            '"' => {
                in_quotes = !in_quotes;
                token.chars.push(Char::Quote);
            }
            '\\' if in_quotes => match chars.clone().next() {
                Some(escaped @ ('"' | '\\')) => {
                    chars.next();
                    token.written.push(escaped);
                    token.chars.push(Char::Quoted(escaped));
                }
                _ => token.chars.push(Char::Quoted(c)),
            },
            _ if in_quotes => token.chars.push(Char::Quoted(c)),
            _ => token.chars.push(Char::Plain(c)),
        }
    }
    tokens.extend(current.take());
    match tokens.last() {
        Some(last) if in_quotes => Err(FilterError::of_term(&last.written, "its quote is not closed")),
        _ => Ok(tokens),
    }
}

fn term(token: &Token) -> Result<Term, FilterError> {
    let (exclude, chars) = match token.chars.split_first() {
        Some((Char::Plain('!'), rest)) => (true, rest),
        _ => (false, token.chars.as_slice()),
    };
    let problem = |problem: &str| FilterError::of_term(&token.written, problem);
    let Some((name, compare, value)) = split_key(chars) else {
        let pattern = Pattern::new(chars);
        if pattern.is_blank() {
            return Err(problem("it has no text"));
        }
        return Ok(Term { exclude, test: Test::Word(pattern) });
    };
    if value.is_empty() {
        return Err(problem("there is no value behind it"));
    }
    let plain: String = value.iter().filter_map(|c| c.text()).collect();
    let name = name.to_ascii_lowercase();
    let test = match name.as_str() {
        "from" | "to" if exclude => return Err(problem("a time cannot be excluded; swap from and to")),
        "from" | "to" | "table" if compare != Compare::Equal => {
            return Err(problem(&format!("{name} is written with a colon")));
        }
        "from" => Test::From(Moment::parse(&plain).map_err(|why| problem(&why))?),
        "to" => Test::To(Moment::parse(&plain).map_err(|why| problem(&why))?),
        "table" => Test::Tables(tables(&plain).map_err(|name| unknown_table(&token.written, &name))?),
        _ => {
            let key = Key::find(&name).ok_or_else(|| unknown_key(&token.written, &name))?;
            about_column(key, compare, value, &plain).map_err(|why| problem(&why))?
        }
    };
    Ok(Term { exclude, test })
}

/// `key>=value` in its parts; `None` for a bare word. Only letters, digits and `_` make a key.
fn split_key(chars: &[Char]) -> Option<(String, Compare, &[Char])> {
    let is_key = |c: &Char| matches!(c, Char::Plain(c) if c.is_ascii_alphanumeric() || *c == '_');
    let end = chars.iter().position(|c| !is_key(c)).filter(|end| *end > 0)?;
    let or_equal = chars.get(end + 1) == Some(&Char::Plain('='));
    let (compare, length) = match (chars[end], or_equal) {
        (Char::Plain(':' | '='), _) => (Compare::Equal, 1),
        (Char::Plain('>'), true) => (Compare::GreaterOrEqual, 2),
        (Char::Plain('>'), false) => (Compare::Greater, 1),
        (Char::Plain('<'), true) => (Compare::LessOrEqual, 2),
        (Char::Plain('<'), false) => (Compare::Less, 1),
        _ => return None,
    };
    let name = chars[..end].iter().filter_map(|c| c.text()).collect();
    Some((name, compare, &chars[end + length..]))
}

fn about_column(key: Key, compare: Compare, value: &[Char], plain: &str) -> Result<Test, String> {
    let choices = value.split(|c| *c == Char::Plain(','));
    match key.column_type {
        ColumnType::Text | ColumnType::Bool if compare != Compare::Equal => {
            Err(format!("{} is not a number, so it is written with a colon", key.name))
        }
        ColumnType::Text => {
            if choices.clone().any(<[Char]>::is_empty) {
                return Err("a choice between two commas is empty".to_owned());
            }
            Ok(Test::Texts { key, any_of: choices.map(Pattern::new).collect() })
        }
        ColumnType::Bool => match plain {
            "true" | "yes" | "1" => Ok(Test::Flag { key, value: true }),
            "false" | "no" | "0" => Ok(Test::Flag { key, value: false }),
            _ => Err(format!("{} is true or false", key.name)),
        },
        ColumnType::U64 | ColumnType::I64 | ColumnType::F64 => {
            let texts = choices.map(|chars| chars.iter().filter_map(|c| c.text()).collect::<String>());
            let any_of = texts.map(|text| number(key, &text)).collect::<Result<Vec<_>, _>>()?;
            if compare != Compare::Equal && any_of.len() > 1 {
                return Err("only one number can stand behind a comparison".to_owned());
            }
            Ok(Test::Numbers { key, compare, any_of })
        }
    }
}

fn number(key: Key, text: &str) -> Result<Number, String> {
    let text = text.trim();
    let plain = Number::parse(text);
    match key.unit {
        Unit::Nanoseconds => match plain {
            // The column name implies nanoseconds; `dur` does not.
            Some(Number::Integer(nanos)) if nanos >= 0 && !key.is_duration() => Ok(Number::Integer(nanos)),
            _ => duration_ns(text).map(|nanos| Number::Integer(nanos.into())),
        },
        Unit::Bytes => size_bytes(text)
            .map(|bytes| Number::Integer(bytes.into()))
            .or(plain)
            .ok_or_else(|| format!("{} is a size like 2MB, 512KiB or 4096", key.name)),
        _ => plain.ok_or_else(|| format!("{} is a number", key.name)),
    }
}

fn tables(text: &str) -> Result<Vec<TableId>, String> {
    let by_name = |name: &str| TableId::by_name(&name.to_ascii_lowercase()).ok_or_else(|| name.to_owned());
    text.split(',').map(str::trim).map(by_name).collect()
}

fn check_times(filter: &Filter, text: &str) -> Result<(), FilterError> {
    for from in &filter.terms {
        for to in &filter.terms {
            let empty = match (&from.test, &to.test) {
                (Test::From(Moment::SinceStart(from)), Test::To(Moment::SinceStart(to)))
                | (Test::From(Moment::Absolute(from)), Test::To(Moment::Absolute(to))) => from >= to,
                // Nothing comes before the start.
                (_, Test::To(moment)) => moment.at(0) == 0,
                _ => false,
            };
            if empty {
                return Err(empty_range(text));
            }
        }
    }
    Ok(())
}

pub(super) fn empty_range(filter: &str) -> FilterError {
    FilterError::of_term(filter, "its time ends before it begins")
        .with_hint("from: must be before to:, e.g. from:2s to:10s")
}

fn unknown_key(written: &str, name: &str) -> FilterError {
    let columns = TableId::ALL.iter().flat_map(|table| table.def().columns).map(|column| column.name);
    let short = SHORT_KEYS.iter().map(|key| key.name);
    let closest = closest(name, short.chain(columns));
    let suggestion = closest.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    FilterError::of_term(written, &format!("there is no key `{name}`"))
        .with_hint(format!("{suggestion}{}; to look for the text itself, quote it", known_keys()))
}

fn unknown_table(written: &str, name: &str) -> FilterError {
    let names = || TableId::ALL.iter().map(|table| table.def().name);
    let suggestion = closest(name, names()).map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    let shown: String = name.chars().take(60).collect::<String>().escape_debug().collect();
    FilterError::of_term(written, &format!("there is no table `{shown}`"))
        .with_hint(format!("{suggestion}the tables are {}", names().collect::<Vec<_>>().join(", ")))
}

fn known_keys() -> String {
    let names: Vec<&str> = SHORT_KEYS.iter().map(|key| key.name).collect();
    format!("the keys are {} and the names of columns", names.join(", "))
}

/// Which tables each term can match, for the message that none can match all.
fn tables_of_terms(filter: &Filter) -> String {
    let of_term = |term: &Term| {
        let tables = Filter { terms: vec![term.clone()] }.tables();
        let names: Vec<&str> = tables.iter().map(|table| table.def().name).collect();
        format!("{} is about {}", Filter { terms: vec![term.clone()] }, names.join(", "))
    };
    let limiting = filter.terms.iter().filter(|term| !matches!(term.test, Test::From(_) | Test::To(_)));
    limiting.filter(|term| !term.exclude).map(of_term).collect::<Vec<_>>().join("; ")
}

/// The name with the smallest edit distance, if it is small.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (most, letters) = ((name.len() / 3).max(1), name.chars().count());
    // Words of very different length are skipped: computing the distance of a long one to all columns took
    // milliseconds.
    let alike = known.filter(|known| known.chars().count().abs_diff(letters) <= most);
    let near = alike.map(|known| (distance(name, known), known)).filter(|(distance, _)| *distance <= most);
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Letters to insert, delete or replace to make one word the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

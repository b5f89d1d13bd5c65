//! The schemas of answers, made of the contract with the dashboard: `web/src/api/types.ts`.
//!
//! That file describes every answer once, for people, for the dashboard's compiler and for the OpenAPI document. Only the
//! part of TypeScript that it uses is read: interfaces, unions, lists, pairs, records and literals. TypeScript has one
//! kind of number; names that `core::schema` has as whole numbers are whole numbers here too.

use std::collections::BTreeMap;

use ortscope_core::schema::{ColumnType, TableId};
use serde_json::{Map, Value, json};

const CONTRACT: &str = include_str!("../../../../../web/src/api/types.ts");

/// Where the contract cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("web/src/api/types.ts, line {line}: {problem}")]
pub struct ContractError {
    pub line: usize,
    pub problem: String,
}

/// A JSON schema for every type of the contract.
pub fn schemas() -> Result<Map<String, Value>, ContractError> {
    read(CONTRACT)
}

fn read(text: &str) -> Result<Map<String, Value>, ContractError> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, types: Map::new(), whole: whole_numbers() };
    while reader.peek().is_some() {
        reader.declaration()?;
    }
    Ok(reader.types)
}

/// Names of columns that are whole numbers in every table that has them, and whether they can be below zero.
fn whole_numbers() -> BTreeMap<&'static str, bool> {
    let mut names: BTreeMap<&str, Option<bool>> = BTreeMap::new();
    for column in TableId::ALL.iter().flat_map(|table| table.def().columns) {
        let signed = match column.column_type {
            ColumnType::U64 => Some(false),
            ColumnType::I64 => Some(true),
            ColumnType::F64 | ColumnType::Bool | ColumnType::Text => None,
        };
        names
            .entry(column.name)
            .and_modify(|known| *known = known.zip(signed).map(|(known, signed)| known || signed))
            .or_insert(signed);
    }
    names.into_iter().filter_map(|(name, signed)| Some((name, signed?))).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
    /// `/** … */`, without its stars.
    Doc(String),
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ContractError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let line = text[..text.len() - rest.len()].matches('\n').count() + 1;
        let open = |what: &str| ContractError { line, problem: format!("{what} does not end") };
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| open("a comment"))? + 2;
            if let Some(doc) = rest[..end - 2].strip_prefix("/**") {
                let lines = doc.lines().map(|line| line.trim().trim_start_matches('*').trim());
                let words: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
                tokens.push((line, Token::Doc(words.join(" "))));
            }
            end
        } else if first == '"' {
            let end = rest[1..].find('"').ok_or_else(|| open("a text"))?;
            tokens.push((line, Token::Text(rest[1..=end].to_owned())));
            end + 2
        } else if first.is_alphanumeric() || first == '_' {
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
            tokens.push((line, Token::Word(rest[..end].to_owned())));
            end
        } else {
            tokens.push((line, Token::Mark(first)));
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    Ok(tokens)
}

struct Reader {
    tokens: Vec<(usize, Token)>,
    at: usize,
    types: Map<String, Value>,
    whole: BTreeMap<&'static str, bool>,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn error(&self, problem: impl Into<String>) -> ContractError {
        let line =
            self.tokens.get(self.at.saturating_sub(1)).or(self.tokens.last()).map_or(0, |(line, _)| *line);
        ContractError { line, problem: problem.into() }
    }

    fn takes(&mut self, mark: char) -> bool {
        let is_it = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, mark: char) -> Result<(), ContractError> {
        if self.takes(mark) { Ok(()) } else { Err(self.error(format!("'{mark}' is missing"))) }
    }

    fn word(&mut self) -> Result<String, ContractError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            _ => Err(self.error("a name is missing")),
        }
    }

    /// The last comment before something; those before it were about something else.
    fn doc(&mut self) -> Option<String> {
        let mut last = None;
        while let Some(Token::Doc(doc)) = self.peek() {
            last = Some(doc.clone());
            self.at += 1;
        }
        last
    }

    /// `export interface Name extends A, B { … }` or `export type Name = …;`
    fn declaration(&mut self) -> Result<(), ContractError> {
        let doc = self.doc();
        if self.peek().is_none() {
            return Ok(());
        }
        if self.word()? != "export" {
            return Err(self.error("something that is not exported"));
        }
        let kind = self.word()?;
        let name = self.word()?;
        let mut schema = match kind.as_str() {
            "interface" => self.interface()?,
            "type" => {
                self.expect('=')?;
                let schema = self.union()?;
                self.expect(';')?;
                schema
            }
            other => return Err(self.error(format!("'{other}' is neither an interface nor a type"))),
        };
        if let Some(doc) = doc {
            schema["description"] = doc.into();
        }
        self.types.insert(name, schema);
        Ok(())
    }

    fn interface(&mut self) -> Result<Value, ContractError> {
        let mut bases = Vec::new();
        if self.peek() == Some(&Token::Word("extends".into())) {
            self.at += 1;
            bases.push(self.word()?);
            while self.takes(',') {
                bases.push(self.word()?);
            }
        }
        let mut own = self.object()?;
        for base in bases {
            let Some(known) = self.types.get(&base) else {
                return Err(self.error(format!("'{base}' is extended before it is declared")));
            };
            if let (Some(properties), Some(more)) =
                (own["properties"].as_object_mut(), known["properties"].as_object())
            {
                properties.extend(more.clone());
            }
            if let (Some(required), Some(more)) =
                (own["required"].as_array_mut(), known["required"].as_array())
            {
                required.extend(more.iter().cloned());
            }
        }
        Ok(own)
    }

    fn object(&mut self) -> Result<Value, ContractError> {
        self.expect('{')?;
        let (mut properties, mut required) = (Map::new(), Vec::new());
        loop {
            let doc = self.doc();
            if self.takes('}') {
                break;
            }
            let name = self.word()?;
            let is_optional = self.takes('?');
            self.expect(':')?;
            let mut schema = self.union()?;
            self.make_whole(&name, &mut schema);
            if let (Some(doc), None) = (doc, schema.get("$ref")) {
                schema["description"] = doc.into();
            }
            if !is_optional {
                required.push(Value::from(name.as_str()));
            }
            properties.insert(name, schema);
            if !self.takes(';') && !self.takes(',') && self.peek() != Some(&Token::Mark('}')) {
                return Err(self.error("a field does not end"));
            }
        }
        Ok(json!({ "type": "object", "properties": properties, "required": required }))
    }

    fn make_whole(&self, name: &str, schema: &mut Value) {
        let Some(signed) = self.whole.get(name) else { return };
        let is_number = |kind: &Value| kind == "number";
        let kind = &mut schema["type"];
        match kind {
            Value::String(_) if is_number(kind) => *kind = "integer".into(),
            Value::Array(kinds) if kinds.iter().any(is_number) => {
                kinds.iter_mut().filter(|kind| is_number(kind)).for_each(|kind| *kind = "integer".into());
            }
            _ => {
                // Looking at a field that is not there puts a null in its place.
                if kind.is_null()
                    && let Value::Object(fields) = schema
                {
                    fields.remove("type");
                }
                return;
            }
        }
        if !signed {
            schema["minimum"] = 0.into();
        }
    }

    fn union(&mut self) -> Result<Value, ContractError> {
        self.takes('|');
        let mut parts = vec![self.list()?];
        while self.takes('|') {
            parts.push(self.list()?);
        }
        Ok(union_of(parts))
    }

    /// A type, and as many `[]` as follow.
    fn list(&mut self) -> Result<Value, ContractError> {
        let mut schema = self.single()?;
        while self.takes('[') {
            schema = match self.next() {
                Some(Token::Mark(']')) => json!({ "type": "array", "items": schema }),
                // `Type["field"]`
                Some(Token::Text(field)) => {
                    self.expect(']')?;
                    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or("");
                    let found = self.types.get(name).and_then(|of| of["properties"].get(&field)).cloned();
                    found.ok_or_else(|| self.error(format!("there is no field '{field}' in '{name}'")))?
                }
                _ => return Err(self.error("']' is missing")),
            };
        }
        Ok(schema)
    }

    fn single(&mut self) -> Result<Value, ContractError> {
        if self.peek() == Some(&Token::Mark('{')) {
            return self.object();
        }
        match self.next() {
            Some(Token::Text(text)) => Ok(json!({ "type": "string", "enum": [text] })),
            Some(Token::Mark('[')) => {
                let mut items = vec![self.union()?];
                while self.takes(',') {
                    items.push(self.union()?);
                }
                self.expect(']')?;
                let count = items.len();
                Ok(json!({ "type": "array", "prefixItems": items, "minItems": count, "maxItems": count }))
            }
            Some(Token::Word(word)) => match word.as_str() {
                "string" | "number" | "boolean" | "null" => Ok(json!({ "type": word })),
                "unknown" => Ok(json!({})),
                "Record" => self.record(),
                _ => Ok(json!({ "$ref": format!("#/components/schemas/{word}") })),
            },
            _ => Err(self.error("a type is missing")),
        }
    }

    /// `Record<string, T>`, or with the names that there are.
    fn record(&mut self) -> Result<Value, ContractError> {
        self.expect('<')?;
        let keys = self.union()?;
        self.expect(',')?;
        let values = self.union()?;
        self.expect('>')?;
        let Some(names) = keys["enum"].as_array() else {
            return Ok(json!({ "type": "object", "additionalProperties": values }));
        };
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        let properties: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), values.clone())).collect();
        Ok(json!({ "type": "object", "properties": properties, "required": names }))
    }
}

/// Words become one list of words, plain types one list of types; anything else is one of several.
fn union_of(mut parts: Vec<Value>) -> Value {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    // `unknown` with anything is anything.
    if parts.iter().any(|part| part.as_object().is_some_and(Map::is_empty)) {
        return json!({});
    }
    if parts.iter().all(|part| part["enum"].is_array()) {
        let words: Vec<&Value> = parts.iter().filter_map(|part| part["enum"].as_array()).flatten().collect();
        return json!({ "type": "string", "enum": words });
    }
    let is_plain =
        |part: &Value| part.as_object().is_some_and(|fields| fields.len() == 1) && part["type"].is_string();
    if parts.iter().all(is_plain) {
        let kinds: Vec<&Value> = parts.iter().map(|part| &part["type"]).collect();
        return json!({ "type": kinds });
    }
    json!({ "anyOf": parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_contract_uses_is_read() {
        let text = r#"
            /** Both. */
            export interface Base { /** A pid. */ pid: number | null; words: string[]; }
            export type Kind = "a" | "b";
            // A comment.
            export interface More extends Base {
              kind: Kind; pair: [number | null, number]; any: unknown | null; maybe?: { deep: number };
              shares: Record<"x" | "y", number>; rest: Record<string, string>; list: Base["words"] | null;
            }"#;
        let types = read(text).expect("it is understood");
        assert_eq!(types["Kind"], json!({ "type": "string", "enum": ["a", "b"] }));
        let more = &types["More"]["properties"];
        let pid = json!({ "type": ["integer", "null"], "minimum": 0, "description": "A pid." });
        assert_eq!(more["pid"], pid);
        assert_eq!(more["kind"], json!({ "$ref": "#/components/schemas/Kind" }));
        assert_eq!(more["any"], json!({}));
        assert_eq!(more["shares"]["required"], json!(["x", "y"]));
        assert_eq!(more["rest"]["additionalProperties"], json!({ "type": "string" }));
        assert_eq!(more["pair"]["prefixItems"][0], json!({ "type": ["number", "null"] }));
        let list =
            json!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "null" }] });
        assert_eq!(more["list"], list);
        let required = types["More"]["required"].as_array().expect("a list");
        assert!(required.contains(&"words".into()) && !required.contains(&"maybe".into()));
    }

    #[test]
    fn what_it_does_not_use_is_named_with_its_line() {
        for (text, line) in [
            ("export const x = 1;", 1),
            ("\nexport interface A extends B { }", 2),
            ("export interface A { a: }", 1),
            ("export type A = string", 1),
            ("/* never", 1),
        ] {
            assert_eq!(read(text).expect_err(text).line, line, "{text}");
        }
    }

    #[test]
    fn units_are_those_of_the_schema() {
        let types = schemas().expect("the contract");
        let named = types["UnitName"]["enum"].as_array().expect("words").clone();
        let mut used: Vec<Value> = Vec::new();
        for column in TableId::ALL.iter().flat_map(|table| table.def().columns) {
            used.push(json!(column.unit));
        }
        for unit in used {
            assert!(named.contains(&unit), "{unit} is not in UnitName");
        }
    }
}

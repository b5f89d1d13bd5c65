//! Checks answers against the schemas of the OpenAPI document, more strictly than the document demands: a field that no
//! schema names is a mistake, too, because no client could know of it.

use serde_json::Value;

/// The problems of a value with their places; empty if there are none.
pub fn problems(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, value, "", &mut found);
    found
}

fn check(document: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let mut wrong = |problem: String| found.push(format!("{place}: {problem}"));
    if let Some(path) = schema["$ref"].as_str() {
        let target = document.pointer(path.trim_start_matches('#')).expect("references resolve");
        return check(document, &merged(target, schema), value, place, found);
    }
    for (key, may_fit_several) in [("anyOf", true), ("oneOf", false)] {
        let Some(choices) = schema[key].as_array() else { continue };
        let tries: Vec<Vec<String>> =
            choices.iter().map(|choice| problems(document, choice, value)).collect();
        let fitting = tries.iter().filter(|problems| problems.is_empty()).count();
        if fitting == 0 || (fitting > 1 && !may_fit_several) {
            wrong(format!("{fitting} of {} choices fit: {tries:?}", tries.len()));
        }
        return;
    }
    if let Some(constant) = schema.get("const")
        && constant != value
    {
        wrong(format!("{value} is not {constant}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_of(kind, value)) {
        return wrong(format!("{value} is not of {kinds:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        wrong(format!("{value} is not one of {words:?}"));
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
        && number < least
    {
        wrong(format!("{number} is below {least}"));
    }
    match value {
        Value::Object(fields) => {
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(name) {
                    wrong(format!("'{name}' is missing"));
                }
            }
            let known = schema["properties"].as_object();
            for (name, field) in fields {
                let schema = known.and_then(|known| known.get(name)).or(schema.get("additionalProperties"));
                match schema {
                    Some(schema) => check(document, schema, field, &format!("{place}/{name}"), found),
                    None if known.is_some() => found.push(format!("{place}: '{name}' is in no schema")),
                    None => {}
                }
            }
        }
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                let schema = schema["prefixItems"].get(index).or(schema.get("items"));
                if let Some(schema) = schema {
                    check(document, schema, item, &format!("{place}/{index}"), found);
                }
            }
        }
        _ => {}
    }
}

/// A referenced schema together with the fields that are declared beside the reference: the tag of an enum.
fn merged(target: &Value, schema: &Value) -> Value {
    let mut merged = target.clone();
    if let (Some(known), Some(more)) =
        (merged["properties"].as_object_mut(), schema["properties"].as_object())
    {
        known.extend(more.clone());
    }
    if let (Some(known), Some(more)) = (merged["required"].as_array_mut(), schema["required"].as_array()) {
        known.extend(more.iter().cloned());
    }
    merged
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("'{other}' is not a JSON type"),
    }
}

//! ONNX Runtime's errors as sentences with a hint and an exit code.

use ortscope_ort::{ErrorCode, OrtError, essence};

use crate::measure::plan::WorkerPlan;
use ortscope_core::failure::{Failure, FailureKind};

pub fn from_ort(error: &OrtError, plan: &WorkerPlan) -> Failure {
    let model = plan
        .model
        .file_name()
        .map_or_else(|| plan.model.display().to_string(), |name| name.to_string_lossy().into_owned());
    match error {
        OrtError::ProviderUnavailable { provider, available, reason } => Failure::new(
            FailureKind::Provider,
            format!("the provider {provider} cannot be used: {}", essence(reason)),
        )
        .with_hint(missing_library(reason).or_else(|| intel_only(reason)).unwrap_or_else(|| {
            format!(
                "this ONNX Runtime has {}; end --provider with ',cpu' to fall back to the CPU with a note",
                available.join(", ")
            )
        })),
        OrtError::TooOld { .. } => Failure::model(error.to_string()).with_hint(
            "install a newer one (pip install --upgrade onnxruntime) or name it with --ort-library",
        ),
        OrtError::LibraryLoad { .. } | OrtError::NotOnnxRuntime { .. } | OrtError::LibraryNotFound { .. } => {
            split_hint(&error.to_string(), "'ortscope doctor' shows where ONNX Runtime was looked for")
        }
        OrtError::NeedsVersion { .. } => {
            Failure::model(error.to_string()).with_hint("use a newer ONNX Runtime, or leave the option out")
        }
        OrtError::Call { message, code, .. } => {
            let failure = call(&model, message, *code);
            match (&failure.hint, plan.options.providers.as_slice()) {
                (None, [first, ..]) => failure.with_hint(format!(
                    "{} may not support this model; try --provider cpu, or end the list with ',cpu' to fall back",
                    first.name
                )),
                _ => failure,
            }
        }
        _ => Failure::model(essence(&error.to_string())),
    }
}

/// OpenVINO's plug-in refuses processors of other vendors; the provider in the onnxruntime-openvino package does not.
fn intel_only(reason: &str) -> Option<String> {
    reason.contains("hardware of Intel only").then(|| {
        "the package onnxruntime-openvino runs on other processors too: install it into an environment of its own \
         and name its libonnxruntime with --ort-library"
            .to_owned()
    })
}

/// What to do about a library that the provider itself needs.
fn missing_library(reason: &str) -> Option<String> {
    if reason.contains("LoadLibrary failed with error 126") {
        return Some(
            "a DLL that the provider needs is not on the PATH; its documentation names the versions".into(),
        );
    }
    let (before, _) = reason.split_once(": cannot open shared object file")?;
    let library = before.rsplit([' ', '/']).next().filter(|name| name.contains(".so"))?;
    Some(format!(
        "install what has {library}, or add its directory to LD_LIBRARY_PATH; the version must be the one that this \
         ONNX Runtime was built with"
    ))
}

fn call(model: &str, message: &str, code: ErrorCode) -> Failure {
    let text = essence(message);
    // "Load model from PATH failed:" repeats the sentence around it.
    let text = match text.split_once(" failed:") {
        Some((start, rest)) if start.starts_with("Load model from") => rest.trim().to_owned(),
        _ => text,
    };
    let lower = text.to_ascii_lowercase();
    if lower.contains("opset")
        && (lower.contains("only *guarantees*")
            || lower.contains("under development")
            || lower.contains("till opset"))
    {
        return Failure::model(format!(
            "{model} uses an operator set that this ONNX Runtime does not know: {text}"
        ))
        .with_hint("use a newer ONNX Runtime, or export the model with an older opset");
    }
    if lower.contains("unsupported model ir version") {
        return Failure::model(format!("{model} is newer than this ONNX Runtime: {text}"))
            .with_hint("use a newer ONNX Runtime, or save the model with an older IR version");
    }
    if let Some(operator) = unknown_operator(&text) {
        return Failure::model(format!(
            "{model} uses the operator {operator}, which this ONNX Runtime does not have"
        ))
        .with_hint("a custom operator needs its library; a standard one may need a newer ONNX Runtime");
    }
    if code == ErrorCode::NotImplemented || lower.contains("could not find an implementation") {
        return Failure::model(format!("{model} has an operator without an implementation here: {text}"))
            .with_hint("another provider, or a newer ONNX Runtime, may have it");
    }
    if code == ErrorCode::InvalidArgument
        && (lower.contains("got invalid dimensions")
            || lower.contains("unexpected input data type")
            || lower.contains("invalid rank"))
    {
        return Failure::input(format!("{model} refuses these inputs: {text}"))
            .with_hint("'ortscope inspect MODEL' shows what it takes; set sizes with --shape");
    }
    if lower.contains("external") && (lower.contains("data") || lower.contains("initializer")) {
        return Failure::model(format!("{model} needs weights that lie in another file: {text}"))
            .with_hint("put the model's .data files next to it");
    }
    Failure::model(format!("{model}: {text}"))
}

/// The operator's name in the two wordings of ONNX Runtime: "No Op registered for X with domain_version of 13" and
/// "X(13) is not a registered function/op".
fn unknown_operator(text: &str) -> Option<&str> {
    let new = text.split_once("No Op registered for ").and_then(|(_, rest)| rest.split_whitespace().next());
    let old = || {
        let (before, _) = text.split_once(" is not a registered function/op")?;
        let name = before.rsplit(' ').next()?;
        Some(name.split('(').next().unwrap_or(name))
    };
    new.or_else(old).filter(|name| !name.is_empty())
}

fn split_hint(text: &str, otherwise: &str) -> Failure {
    match text.split_once("\nhint: ") {
        Some((message, hint)) => Failure::model(message).with_hint(hint),
        None => Failure::model(text).with_hint(otherwise),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_refusals_get_their_exit_code() {
        let refused = call("m.onnx", "Got invalid dimensions for input: x", ErrorCode::InvalidArgument);
        assert_eq!(refused.kind, FailureKind::Input);
        for message in [
            "Load model from m.onnx failed:This is an invalid model. In Node, (a) , Error No Op registered for Foo with \
             domain_version of 13",
            "Fatal error: com.x:Foo(-1) is not a registered function/op",
        ] {
            let unknown = call("m.onnx", message, ErrorCode::Fail);
            assert!(unknown.message.contains("Foo") && unknown.hint.is_some(), "{}", unknown.message);
        }
        let newer =
            call("m.onnx", "Unsupported model IR version: 99, max supported IR version: 10", ErrorCode::Fail);
        assert_eq!(newer.kind, FailureKind::Model);
        assert!(newer.message.contains("newer than this ONNX Runtime"));
    }
}

//! Recognizes files that are not models by their first bytes.

/// Names the file format with a hint; `None` if it is not recognized.
pub(super) fn describe(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(4096)];
    by_magic(head).map(str::to_owned).or_else(|| by_text(head, bytes.len() > head.len()))
}

fn by_magic(head: &[u8]) -> Option<&'static str> {
    let contains = |needle: &[u8]| head.windows(needle.len()).any(|window| window == needle);
    let at4 = head.get(4..8).unwrap_or_default();
    Some(match head {
        _ if at4 == b"ORTM" => {
            "it is ONNX Runtime's own .ort format, which only ONNX Runtime reads; use the .onnx file it was made from"
        }
        _ if at4 == b"TFL3" => "it is a TensorFlow Lite model; convert it with tf2onnx --tflite",
        [b'P', b'K', 3, 4, ..] if contains(b"/data.pkl") || contains(b"/constants.pkl") => {
            "it is a PyTorch checkpoint (.pt); export it with torch.onnx.export"
        }
        [b'P', b'K', 3, 4, ..] if contains(b".npy") => "it is a numpy .npz archive of arrays",
        [b'P', b'K', 3 | 5, 4 | 6, ..] => "it is a zip archive; unpack it and pass the .onnx file inside",
        [0x80, 2, 0x8a, 0x0a, 0x6c, 0xfc, ..] => {
            "it is a PyTorch checkpoint (.pt); export it with torch.onnx.export"
        }
        [0x80, 2..=5, ..] => "it is a Python pickle, perhaps an old PyTorch or scikit-learn model",
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => "it is a numpy .npy array; pass it with --input",
        [b'G', b'G', b'U', b'F', ..] => "it is a GGUF model for llama.cpp",
        [0x89, b'H', b'D', b'F', ..] => "it is an HDF5 file, perhaps a Keras model; convert it with tf2onnx",
        [0x1f, 0x8b, ..] => "it is gzip-compressed; decompress it first",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is zstd-compressed; decompress it first",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "it is xz-compressed; decompress it first",
        [b'7', b'z', 0xbc, 0xaf, ..] => "it is a 7z archive; unpack it first",
        [0x7f, b'E', b'L', b'F', ..] => "it is a Linux program or library",
        [b'M', b'Z', ..] => "it is a Windows program or library",
        [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] => "it is an image",
        [b'%', b'P', b'D', b'F', ..] => "it is a PDF document",
        _ if head.get(257..262) == Some(b"ustar") => "it is a tar archive; unpack it first",
        _ if is_safetensors(head) => {
            "it is a safetensors file, which holds weights without a graph; export the model with optimum or torch.onnx"
        }
        _ if head.len() >= 4 && head.iter().all(|byte| *byte == 0) => {
            "it begins with zeros only, like an incomplete download"
        }
        _ => return None,
    })
}

/// Eight bytes of length, then a JSON object.
fn is_safetensors(head: &[u8]) -> bool {
    let Some((length, rest)) = head.split_first_chunk::<8>() else {
        return false;
    };
    let length = u64::from_le_bytes(*length);
    (2..100_000_000).contains(&length) && rest.starts_with(b"{")
}

fn by_text(head: &[u8], cut: bool) -> Option<String> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The excerpt may end inside a character.
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}')) {
        return None;
    }
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let lower: String = start.chars().take(256).collect::<String>().to_ascii_lowercase();
    Some(if start.starts_with("version https://git-lfs") {
        "it is a Git LFS pointer, not the model itself; run `git lfs pull`".to_owned()
    } else if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        "it is a web page, perhaps an error page saved by a download".to_owned()
    } else if lower.starts_with("<?xml") && lower.contains("<net ") {
        "it is an OpenVINO IR description (.xml)".to_owned()
    } else if start.starts_with('<') {
        "it is an XML file".to_owned()
    } else if start.starts_with(['{', '[']) {
        "it is a JSON file".to_owned()
    } else if lower.starts_with("ir_version") || lower.contains("opset_import") {
        "it is an ONNX model in text form; save it in binary form with onnx.save".to_owned()
    } else if start.is_empty() {
        "it contains only white space".to_owned()
    } else {
        let line: String = start.lines().next().unwrap_or_default().chars().take(40).collect();
        format!("it is a text file that begins with {line:?}")
    })
}

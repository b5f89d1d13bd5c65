//! Embeds the files of `web/dist`, if they were built. Cargo never runs npm.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const PLACEHOLDER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>ortscope</title>\
<body><h1>The dashboard is not part of this build</h1>\
<p>The API works: see <a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a>.</p>\
<p>To build the dashboard: <code>cd web &amp;&amp; npm ci &amp;&amp; npm run build</code>, then build the program again; \
<code>cargo xtask run</code> does both.</p>";

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let dist = root.join("..").join("..").join("web").join("dist");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        collect(&dist, &dist, &mut files)?;
        files.sort();
    }
    let is_built = !files.is_empty();
    if !is_built {
        let page = out.join("placeholder.html");
        fs::write(&page, PLACEHOLDER)?;
        files.push(("/index.html".into(), page));
    }
    let mut code = format!("const BUILT: bool = {is_built};\nstatic FILES: &[File] = &[\n");
    for (index, (path, file)) in files.iter().enumerate() {
        let bytes = fs::read(file)?;
        let packed = out.join(format!("file-{index}.gz"));
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&bytes)?;
        let gzip = encoder.finish()?;
        // Images and fonts are already compressed.
        let gzip = if gzip.len() < bytes.len() { gzip } else { Vec::new() };
        fs::write(&packed, gzip)?;
        // A copy: another build of the dashboard may replace the files before the compiler reads them.
        let copy = out.join(format!("file-{index}.bin"));
        fs::write(&copy, &bytes)?;
        // Writing to a string cannot fail.
        writeln!(
            code,
            "    File {{ path: {path:?}, bytes: include_bytes!({copy:?}), gzip: include_bytes!({packed:?}), tag: \"{:016x}\" }},",
            hash(&bytes)
        )
        .ok();
    }
    code.push_str("];\n");
    fs::write(out.join("files.rs"), code)
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(root, &path, files)?;
        } else if path.extension().is_none_or(|ending| ending != "map" && ending != "gz") {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let name: Vec<String> =
                relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            files.push((format!("/{}", name.join("/")), path.clone()));
        }
    }
    Ok(())
}

/// FNV-1a: for caches, not for security.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

use super::*;

fn touch(path: &Path) {
    fs_err::create_dir_all(path.parent().expect("a parent")).expect("created");
    fs_err::write(path, b"").expect("written");
}

/// A machine with nothing on it.
fn bare(windows: bool) -> Layout {
    Layout { windows, system_directories: Vec::new(), executable_directory: None, system32: None }
}

fn request(pairs: &[(&str, &Path)]) -> SearchRequest {
    let environment =
        EnvironmentVariables::from_pairs(pairs.iter().map(|(name, path)| (*name, path.as_os_str())));
    SearchRequest { environment, ..SearchRequest::default() }
}

#[test]
fn a_named_library_is_never_replaced_by_another() {
    let home = tempfile::tempdir().expect("a directory");
    let venv = home.path().join("venv");
    touch(&venv.join("lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1"));
    let mut request = request(&[("VIRTUAL_ENV", &venv)]);
    request.explicit = Some(home.path().join("missing.so"));
    let report = search_in(&request, &bare(false));
    assert_eq!(report.found, None);
    assert_eq!(report.steps.len(), 1);
    assert!(report.steps[0].outcome.ends_with("does not exist"));
    let error = report.into_result().expect_err("nothing found");
    assert!(error.to_string().contains("missing.so does not exist"), "{error}");
}

#[test]
fn a_directory_names_the_library_in_it() {
    let home = tempfile::tempdir().expect("a directory");
    touch(&home.path().join("libonnxruntime_providers_shared.so"));
    touch(&home.path().join("libonnxruntime.so"));
    touch(&home.path().join("libonnxruntime.so.1.31.1"));
    let request = request(&[("ORTSCOPE_ORT_LIBRARY", home.path())]);
    let found = search_in(&request, &bare(false)).found.expect("found");
    assert_eq!(found.path, home.path().join("libonnxruntime.so.1.31.1"));
    assert_eq!(found.how, "ORTSCOPE_ORT_LIBRARY");
}

#[test]
fn the_active_environment_comes_before_the_system() {
    let home = tempfile::tempdir().expect("a directory");
    let (venv, lib) = (home.path().join("venv"), home.path().join("lib"));
    let library = venv.join("lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1");
    touch(&library);
    touch(&lib.join("libonnxruntime.so"));
    let request = request(&[("VIRTUAL_ENV", &venv), ("LD_LIBRARY_PATH", &lib)]);
    assert_eq!(search_in(&request, &bare(false)).found.expect("found").path, library);
}

#[test]
fn an_old_package_is_explained_and_the_search_continues() {
    let home = tempfile::tempdir().expect("a directory");
    let (venv, lib) = (home.path().join("venv"), home.path().join("lib"));
    let package = venv.join("lib/python3.10/site-packages/onnxruntime");
    touch(&package.join("capi/onnxruntime_pybind11_state.so"));
    fs_err::write(package.join("__init__.py"), "\"\"\"doc\"\"\"\n__version__ = \"1.17.3\"\n")
        .expect("written");
    touch(&lib.join("libonnxruntime.so.1.20.1"));
    let report = search_in(&request(&[("VIRTUAL_ENV", &venv), ("LD_LIBRARY_PATH", &lib)]), &bare(false));
    assert!(
        report.steps[0].outcome.starts_with(
            "onnxruntime 1.17.3 is installed, but packages before 1.19 have no separate libonnxruntime.so on Linux: `pip"
        ),
        "{}",
        report.steps[0].outcome
    );
    assert_eq!(report.found.expect("found").how, "LD_LIBRARY_PATH");
}

#[test]
fn the_copy_of_windows_comes_last_and_is_labeled() {
    let home = tempfile::tempdir().expect("a directory");
    let (system32, tools) = (home.path().join("System32"), home.path().join("tools"));
    touch(&system32.join("onnxruntime.dll"));
    let layout = Layout { system32: Some(system32.clone()), ..bare(true) };
    let report = search_in(&request(&[("PATH", &system32)]), &layout);
    let found = report.found.expect("found");
    assert!(found.how.starts_with("Windows' own copy"), "{}", found.how);

    touch(&tools.join("onnxruntime.dll"));
    let path = std::env::join_paths([&system32, &tools]).expect("no separator in the names");
    let report = search_in(&request(&[("PATH", Path::new(&path))]), &layout);
    assert_eq!(report.found.expect("found").path, tools.join("onnxruntime.dll"));
}

#[test]
fn windows_packages_are_found() {
    let home = tempfile::tempdir().expect("a directory");
    let library = home.path().join("Lib/site-packages/onnxruntime/capi/onnxruntime.dll");
    touch(&library);
    let report = search_in(&request(&[("CONDA_PREFIX", home.path())]), &bare(true));
    assert_eq!(report.found.expect("found").path, library);
}

#[test]
fn a_failed_search_lists_every_place() {
    let report = search_in(&SearchRequest::default(), &bare(false));
    assert_eq!(report.found, None);
    let places: Vec<_> = report.steps.iter().map(|step| step.place.as_str()).collect();
    assert_eq!(places, ["LD_LIBRARY_PATH", "next to this program", "the system's library directories"]);
}

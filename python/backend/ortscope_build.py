"""Builds the wheel: the program ``ortscope`` first, then the extension by maturin, both into one wheel.

``ORTSCOPE_WHEEL_PROFILE`` chooses cargo's profile (``release`` by default, ``dev`` for tests). The dashboard is built
when npm is there; without it the program shows a page that says how to build it.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

import maturin
from maturin import (  # noqa: F401 - the rest of the interface is maturin's
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: As in pyproject.toml: the directory whose scripts maturin puts into the wheel.
DATA = os.path.join(ROOT, "target", "wheel", "ortscope.data")


def _profile():
    return os.environ.get("ORTSCOPE_WHEEL_PROFILE", "release")


def _build_dashboard():
    web = os.path.join(ROOT, "web")
    npm = shutil.which("npm")
    if not os.path.isfile(os.path.join(web, "package.json")) or os.path.isdir(os.path.join(web, "dist")):
        return
    if npm is None:
        sys.stderr.write("npm is not installed: the dashboard will only say how to build it\n")
        return
    for arguments in (["ci"], ["run", "build"]):
        subprocess.check_call([npm] + arguments, cwd=web)


def _build_program():
    """Builds ``ortscope`` and puts it where maturin looks for scripts."""
    command = ["cargo", "build", "--package", "ortscope-cli", "--profile", _profile()]
    command += ["--message-format=json-render-diagnostics"]
    if _profile() == "release":
        # Half a minute more to build, which the tests' wheel is spared.
        command += ["--features", "python-stacks"]
    target = os.environ.get("CARGO_BUILD_TARGET")
    if target:
        command += ["--target", target]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    program = None
    for line in output.decode("utf-8", "replace").splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["target"]["name"] == "ortscope":
            program = message["executable"]
    if program is None:
        raise RuntimeError("cargo built no program called ortscope")
    scripts = os.path.join(DATA, "scripts")
    os.makedirs(scripts, exist_ok=True)
    for old in os.listdir(scripts):
        os.remove(os.path.join(scripts, old))
    shutil.copy2(program, scripts)
    _build_preload(os.path.dirname(program), scripts)


def _build_preload(programs, scripts):
    """The library that records native programs is next to ``ortscope``; Linux only."""
    target = os.environ.get("CARGO_BUILD_TARGET", sys.platform)
    if "linux" not in target:
        return
    command = ["cargo", "build", "--package", "ortscope-preload", "--profile", _profile()]
    if os.environ.get("CARGO_BUILD_TARGET"):
        command += ["--target", target]
    subprocess.check_call(command, cwd=ROOT)
    shutil.copy2(os.path.join(programs, "libortscope_preload.so"), scripts)


def _prepare():
    _refuse_free_threading()
    _build_dashboard()
    _build_program()
    arguments = "--profile %s" % _profile()
    given = os.environ.get("MATURIN_PEP517_ARGS")
    os.environ["MATURIN_PEP517_ARGS"] = "%s %s" % (given, arguments) if given else arguments


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _prepare()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _prepare()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    # maturin refuses a data directory that is not there yet.
    os.makedirs(os.path.join(DATA, "scripts"), exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def _refuse_free_threading():
    # The wheel would be one for this interpreter only, and its monitoring relies on the lock that it does not have.
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise SystemExit("ortscope does not work with free-threaded Python yet; hint: use the ordinary build of it")


def _sources():
    """Project files: those that git tracks or does not ignore; without git, everything but build products.

    The built dashboard is included, so that building from this does not need npm.
    """
    if os.path.exists(os.path.join(ROOT, ".git")) and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
        found = [path for path in listed if path]
        for directory, _, files in os.walk(os.path.join(ROOT, "web", "dist")):
            found += [os.path.relpath(os.path.join(directory, file), ROOT) for file in files]
        return sorted(path for path in set(found) if os.path.isfile(os.path.join(ROOT, path)))
    found = []
    for directory, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name not in ("target", ".git", "node_modules", "__pycache__")]
        found += [os.path.relpath(os.path.join(directory, file), ROOT) for file in files if file != "PKG-INFO"]
    return sorted(found)


def build_sdist(sdist_directory, config_settings=None):
    """All sources: maturin's own has only the crates of the extension, and the program needs the others."""
    _build_dashboard()
    with tempfile.TemporaryDirectory() as scratch:
        name = prepare_metadata_for_build_wheel(scratch, config_settings)
        stem = name[: -len(".dist-info")]
        metadata = os.path.join(scratch, name, "METADATA")
        path = os.path.join(sdist_directory, stem + ".tar.gz")
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
            archive.add(metadata, stem + "/PKG-INFO", filter=_anonymous)
            for source in _sources():
                archive.add(os.path.join(ROOT, source), stem + "/" + source.replace(os.sep, "/"), filter=_anonymous)
    return os.path.basename(path)


def _anonymous(entry):
    # Builder and file times are private.
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = int(os.environ.get("SOURCE_DATE_EPOCH", entry.mtime))
    return entry

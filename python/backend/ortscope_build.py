"""Builds the wheel: the program ``ortscope`` first, then the extension by maturin, both into one wheel.

``ORTSCOPE_WHEEL_PROFILE`` chooses cargo's profile (``release`` by default, ``dev`` for tests). The dashboard is built
when npm is there; without it the program shows a page that says how to build it.
"""

import json
import os
import shutil
import subprocess
import sys

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


def _prepare():
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


def build_sdist(sdist_directory, config_settings=None):
    os.makedirs(os.path.join(DATA, "scripts"), exist_ok=True)
    return maturin.build_sdist(sdist_directory, config_settings)

"""The ``ortscope`` program that came with this package, for what only it can do: reports, comparisons, exports."""

import os
import shutil
import subprocess
import sys
import sysconfig
from typing import Any, List, Optional

from . import _native
from .errors import OrtscopeError

_NAME = "ortscope.exe" if os.name == "nt" else "ortscope"


def find() -> str:
    """The path of the program: next to this interpreter, in the user's scripts, or on the path."""
    named = os.environ.get("ORTSCOPE_BINARY")
    if named:
        return named
    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for scheme in ("posix_user", "nt_user"):
        if scheme in sysconfig.get_scheme_names():
            places.append(sysconfig.get_path("scripts", scheme))
    # `pip install --target` puts scripts next to the package.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places.append(os.path.join(package, "bin"))
    for place in places:
        path = os.path.join(place or "", _NAME)
        if os.path.isfile(path):
            return path
    found = shutil.which(_NAME)
    if found:
        return found
    raise OrtscopeError(
        "the program 'ortscope' is not where this package put it; hint: name it in ORTSCOPE_BINARY"
    )


def run(arguments: List[str], store: Optional[Any] = None, recording: Optional[str] = None) -> str:
    """The output of the program; a failure raises its message. ``recording`` is the recording it reads."""
    command = [find()]
    if store is not None:
        command += ["--store", os.fspath(store)]
    # A key file that a monitor of this process named is nothing that the program could know of.
    key_file = _native.key_file_of(recording, store) if recording is not None else None
    if key_file is not None:
        command += ["--key-file", os.fspath(key_file)]
    done = subprocess.run(
        command + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        raise OrtscopeError("ortscope %s failed: %s" % (arguments[0], done.stderr.strip() or done.stdout.strip()))
    return done.stdout


def report(recording: str, form: str, path: Any = None, store: Optional[Any] = None) -> str:
    text = run(["report", recording, "--format", form], store, recording)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text

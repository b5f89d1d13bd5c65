"""Instruments onnxruntime at the moment the program imports it, and costs nothing if it never does."""

import importlib.abc
import importlib.machinery
import sys
from typing import Any, Optional

_TARGET = "onnxruntime"


def install() -> None:
    if _TARGET in sys.modules:
        _patch()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _patch() -> None:
    from . import _monitor, _session

    try:
        _monitor.ensure_started()
        _session.patch_classes(_environment_config())
    except Exception as error:  # noqa: BLE001 - the program did not ask for us
        sys.stderr.write("ortscope: onnxruntime is not instrumented: %s\n" % error)


def _environment_config() -> dict:
    import os

    from . import _engine, _session

    every = os.environ.get("ORTSCOPE_PROFILE_EVERY", "")
    if not every.isdigit() or int(every) < 1:
        return {}
    # The program did not request profiles: the recording explains why there are none, without a warning.
    why_not = _session.profiling_unavailable()
    if why_not is not None:
        _engine.send_message("note", name="profiling_unavailable", text=why_not)
        return {}
    return {"enable_profiling": True, "profile_every": int(every)}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        if name != _TARGET:
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is None or found.loader is None:
            return None
        found.loader = _Loader(found.loader)
        return found


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def create_module(self, spec: Any) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        spec = module.__spec__
        module.__loader__ = spec.loader = self._inner
        self._inner.exec_module(module)
        _patch()

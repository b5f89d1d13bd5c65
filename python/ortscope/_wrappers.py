"""Functions that stand in for ONNX Runtime's ``run`` methods.

They are written out, one for each signature, and call the original with positional arguments: the interpreter then goes
from the wrapper to the original without leaving its loop (since Python 3.11), which is most of what a wrapper costs. A run
about which more is to be told has no start, and is handed to the native half as a whole.
"""

import functools
import inspect
from typing import Any, Callable, Dict, List, Tuple

from . import _native

_Made = Callable[..., Any]


def _run(original: Any, begin: Any, end: Any, failed: Any, unusual: Any) -> _Made:
    # What a caller left out is ONNX Runtime's to complain about: such a call is recorded as a run that failed.
    def run(self, output_names=..., input_feed=..., run_options=None):  # type: ignore[no-untyped-def]
        start = begin(self, input_feed)
        if start is None or output_names is ... or input_feed is ...:
            given = {"output_names": output_names, "input_feed": input_feed, "run_options": run_options}
            return unusual(self, **{name: value for name, value in given.items() if value is not ...})
        try:
            result = original(self, output_names, input_feed, run_options)
        except BaseException as error:
            failed(self, start, error, input_feed)
            raise
        end(self, start, input_feed)
        return result

    return run


def _run_with_ort_values(original: Any, begin: Any, end: Any, failed: Any, unusual: Any) -> _Made:
    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):  # type: ignore[no-untyped-def]
        start = begin(self)
        if start is None:
            return unusual(self, output_names, input_dict_ort_values, run_options)
        try:
            result = original(self, output_names, input_dict_ort_values, run_options)
        except BaseException as error:
            failed(self, start, error)
            raise
        end(self, start)
        return result

    return run_with_ort_values


def _run_with_iobinding(original: Any, begin: Any, end: Any, failed: Any, unusual: Any) -> _Made:
    def run_with_iobinding(self, iobinding, run_options=None):  # type: ignore[no-untyped-def]
        start = begin(self)
        if start is None:
            return unusual(self, iobinding, run_options)
        try:
            result = original(self, iobinding, run_options)
        except BaseException as error:
            failed(self, start, error)
            raise
        end(self, start)
        return result

    return run_with_iobinding


def _other(unusual: Any) -> _Made:
    def run(self, *arguments, **keywords):  # type: ignore[no-untyped-def]
        return unusual(self, *arguments, **keywords)

    return run


#: Methods that can be monitored. Those without a wrapper of their own are called seldom.
_KNOWN: Dict[str, Any] = {
    "run": _run,
    "run_with_ort_values": _run_with_ort_values,
    "run_with_iobinding": _run_with_iobinding,
    "run_with_ortvaluevector": None,
}
METHODS: Tuple[str, ...] = tuple(_KNOWN)


def _parameters(function: Any) -> List[Tuple[str, Any, Any]]:
    """Names, kinds and defaults; ``...`` is none."""
    found = inspect.signature(function).parameters.values()
    none = inspect.Parameter.empty
    return [(of.name, of.kind, none if of.default is ... else of.default) for of in found]


def wrapper(name: str, original: Any, derived: bool) -> _Made:
    """What stands in for the method ``name``; ``derived`` tells our own class from ONNX Runtime's."""
    natives = _native.wrapping(name, original, derived)
    make = _KNOWN[name]
    made = make(original, *natives) if make is not None else None
    # Another version of ONNX Runtime may have parameters that the wrapper does not know.
    if made is None or _parameters(made) != _parameters(original):
        made = _other(natives[3])
    return functools.wraps(original)(made)

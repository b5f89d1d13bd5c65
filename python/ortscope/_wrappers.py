"""Replacements of ONNX Runtime's ``run`` methods: native methods with the same parameters and documentation."""

import functools
import inspect
from typing import Any, Callable, Optional, Tuple

from . import _native

#: Methods that can be monitored.
METHODS: Tuple[str, ...] = ("run", "run_with_ort_values", "run_with_iobinding", "run_with_ortvaluevector")


def _text(name: str, original: Any) -> Optional[str]:
    """Signature and documentation as the interpreter reads them of a native method; ``None`` if it could not."""
    parameters = list(inspect.signature(original).parameters.values())
    words = ["$self"]
    for of in parameters[1:]:
        is_plain = of.default is of.empty or isinstance(of.default, (type(None), bool, int, str))
        if of.kind is not of.POSITIONAL_OR_KEYWORD or not is_plain:
            return None
        words.append(of.name if of.default is of.empty else "%s=%r" % (of.name, of.default))
    return "%s(%s)\n--\n\n%s" % (name, ", ".join(words), inspect.getdoc(original) or "")


def wrapper(name: str, original: Any, derived: bool) -> Callable[..., Any]:
    """The replacement of the method ``name``; ``derived`` distinguishes our own class from ONNX Runtime's."""
    text = _text(name, original)
    native: Callable[..., Any] = _native.method(name, original, derived, text or "")
    if text is not None:
        return native

    # Parameters that a native method cannot show.
    @functools.wraps(original)
    def run(self, *arguments, **keywords):  # type: ignore[no-untyped-def]
        return native(self, *arguments, **keywords)

    return run

"""Python's part of the path of an inference: listeners, the batch a caller is in, probes for sessions without one."""

import contextvars
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _native

_batch: "contextvars.ContextVar[Optional[Tuple[int, Optional[int]]]]" = contextvars.ContextVar(
    "ortscope_batch", default=None
)
_lock = threading.Lock()
_open_batches = 0
_listeners: Dict[str, List[Callable[..., None]]] = {
    "session_created": [],
    "before_inference": [],
    "after_inference": [],
    "provider_event": [],
    "memory_event": [],
}


def enter_batch(batch_size: int, queue_depth: Optional[int]) -> Any:
    global _open_batches
    with _lock:
        _open_batches += 1
        _native.set_batch_source(_open_batches)
    return _batch.set((batch_size, queue_depth))


def leave_batch(token: Any) -> None:
    global _open_batches
    _batch.reset(token)
    with _lock:
        _open_batches -= 1
        _native.set_batch_source(_open_batches)


def current_batch() -> Optional[Tuple[int, Optional[int]]]:
    return _batch.get()


def listen(event: str, callback: Callable[..., None]) -> Callable[[], None]:
    """Calls ``callback`` at each event; returns a function that ends it. Its exceptions are reported, never passed on."""
    if event not in _listeners:
        raise ValueError("there is no event %r: %s" % (event, ", ".join(sorted(_listeners))))
    if not callable(callback):
        raise TypeError("a callback must be callable, not %s" % type(callback).__name__)
    _listeners[event].append(callback)
    _install()

    def stop() -> None:
        if callback in _listeners[event]:
            _listeners[event].remove(callback)
            _install()

    return stop


def notify(event: str, *arguments: Any) -> None:
    for callback in list(_listeners[event]):
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - a listener must not break the program
            _report(error, callback)


def _report(error: BaseException, source: Any) -> None:
    import sys
    import types

    arguments = types.SimpleNamespace(
        exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=None, object=source
    )
    sys.unraisablehook(arguments)  # type: ignore[arg-type]


def _before(session: Any) -> None:
    notify("before_inference", session)


def _after(session: Any, seconds: float, ok: bool) -> None:
    notify("after_inference", session, seconds, ok)


def _attach(session: Any) -> None:
    from . import _session

    # The argument need not be a session: ONNX Runtime reports that.
    if hasattr(session, "__dict__"):
        _session.attach(session)


def _install() -> None:
    _native.set_hooks(
        _attach,
        current_batch,
        _before if _listeners["before_inference"] else None,
        _after if _listeners["after_inference"] else None,
    )


_install()

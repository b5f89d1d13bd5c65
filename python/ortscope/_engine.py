"""The one recording of this process: who needs it, when it starts and ends, and what a fork does to it.

However many monitors there are, inferences are recorded once. The first monitor that starts begins the recording, the
last that stops ends it. Under an observer (``ortscope record``) we write for it instead of making our own recording.
"""

import atexit
import json
import os
import sys
import threading
from typing import Any, Dict, List, Optional

from . import _native
from .errors import MonitorError

_lock = threading.RLock()
_observer: Optional[Any] = None
_observed_by_other = False
#: Where the observer of this process reads, be it its own or another's.
_base: Optional[str] = None
_users = 0
_last_result: Optional[Dict[str, Any]] = None


def _program_name() -> str:
    name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    return name if name not in ("", "-c", "-m") else "python"


def observer() -> Optional[Any]:
    """The running observer of this process, if it has its own."""
    return _observer


def is_observed_by_other() -> bool:
    return _observed_by_other


def check_encryption(config: Dict[str, Any]) -> None:
    """A caller that requests encryption must not join a plain recording: there is one per process, and others may have begun it."""
    if not config.get("encrypt"):
        return
    if _observer is None:
        if _base is None or not _native.is_recorded_encrypted(_base):
            raise MonitorError(
                "this program is recorded by another one, which does not encrypt the recording; "
                "hint: start it by 'ortscope record --encrypt'"
            )
    elif _observer.recording_id is not None and not _observer.encrypts:
        raise MonitorError(
            "this program is recorded already, and that recording is not encrypted; "
            "hint: end it first, or start it with encrypt=True"
        )


def acquire(config: Dict[str, Any]) -> None:
    """Starts the recording unless it runs; every call needs a :func:`release`."""
    global _observer, _observed_by_other, _base, _users
    with _lock:
        if _users == 0 and not _native.is_writing():
            base = os.environ.get(_native.CHANNEL_VARIABLE)
            if base and os.path.isdir(base):
                _base = base
                check_encryption(config)
                _native.write_to(base)
                _observed_by_other = True
            else:
                made = _native.Observer(
                    subject=config.get("subject") or _program_name(),
                    origin="python",
                    pids=[os.getpid()],
                    children=bool(config.get("children", True)),
                    sampling_hz=float(config.get("sampling_hz", 10.0)),
                    record=bool(config.get("record", True)),
                    store=config.get("store"),
                    name=config.get("name"),
                    command=list(sys.argv) if sys.argv else None,
                    encrypt=config.get("encrypt"),
                    key_file=config.get("key_file"),
                )
                try:
                    _native.write_to(made.channel, made.own_channel)
                except BaseException:
                    made.stop("could not start")
                    raise
                _observer, _base = made, str(made.channel)
        else:
            check_encryption(config)
        _users += 1


def release(reason: str = "stopped") -> Optional[Dict[str, Any]]:
    """Ends the recording with its last user; what became of it."""
    global _users
    with _lock:
        if _users == 0:
            return None
        _users -= 1
        return _end(reason) if _users == 0 else None


def _end(reason: str) -> Optional[Dict[str, Any]]:
    global _observer, _observed_by_other, _last_result
    shadow = sys.modules.get(__package__ + "._shadow")
    if shadow is not None:
        # Data of shadow sessions belongs to this recording.
        shadow.finish_all()
    ending, _observer = _observer, None
    _native.stop_writing()
    _observed_by_other = False
    if ending is None:
        return None
    text = ending.stop(reason)
    _last_result = json.loads(text) if text else None
    return _last_result


def statistics(flush: bool = True) -> Dict[str, Any]:
    """The live view of the recording."""
    running = _observer
    if running is None:
        if _observed_by_other:
            raise MonitorError("this program is recorded by another one, which has the figures: ask its recording")
        raise MonitorError("nothing is monitored now; hint: start() begins")
    if flush:
        running.flush()
    return json.loads(running.statistics())


def send_message(kind: str, **fields: Any) -> None:
    """Puts a mark on the time line; nothing happens while nothing is recorded."""
    if _native.is_writing():
        fields["kind"] = kind
        fields.setdefault("timestamp_ns", _native.now_ns())
        _native.send_message(json.dumps(fields))


def _after_fork_in_child() -> None:
    # The threads, and so the recording, are the parent's. Its observer reads what this process writes from now on.
    global _observer, _observed_by_other, _lock
    _lock = threading.RLock()
    if _observer is not None:
        _observer.abandon()
        _observer = None
        _observed_by_other = True
    try:
        _native.after_fork()
    except Exception:  # noqa: BLE001 - a child must run, recorded or not
        _native.stop_writing()


def _at_exit() -> None:
    global _users
    with _lock:
        if _users:
            _users = 0
            _end("the program ended")


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

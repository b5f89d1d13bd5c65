"""Operators where ONNX Runtime cannot profile single runs (before 1.25): a second session on sampled inputs.

The program's own session is never profiled: that would slow every run, and could not be ended while runs are in flight.
A thread of ours has a *shadow*, a session with the same model, options and providers and with the profiler on. It gets
copies of the inputs of sampled runs, runs each twice (the first time is not representative) and, when nothing has come
for a while or enough has, ends the profile and hands on one file per sampled run. Inputs that come while one waits are
skipped and counted. The shadow costs a second copy of the model while a window is open, and CPU time on other cores.
"""

import atexit
import glob
import os
import threading
import time
import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import _engine, _hooks, _native

#: A window ends after this many sampled runs, or after this long without input.
RUNS_PER_WINDOW = 8
SECONDS_OF_QUIET = 1.0
#: Inputs above this are not copied.
MAX_INPUT_BYTES = 256 << 20
_MARK = b'"model_run"'

_shadows: "weakref.WeakSet[Shadow]" = weakref.WeakSet()


class Shadow:
    """Takes the inputs of sampled runs of one session: ``shadow(sequence, feed)``."""

    def __init__(self, session: Any, number: int) -> None:
        self._session = weakref.ref(session)
        self._number = number
        self._changed = threading.Condition()
        self._waiting: Optional[Tuple[int, int, Dict[str, Any]]] = None
        self._busy = False
        self._ending = False
        self._thread: Optional[threading.Thread] = None
        self._given_up: Optional[str] = None
        self.skipped = 0
        _shadows.add(self)

    def __call__(self, sequence: int, feed: Any) -> None:
        import numpy

        with self._changed:
            if self._given_up is not None or self._ending:
                return
            if self._waiting is not None or self._busy:
                self.skipped += 1
                return
            arrays = {name: value for name, value in feed.items() if isinstance(value, numpy.ndarray)}
            if len(arrays) != len(feed) or sum(value.nbytes for value in arrays.values()) > MAX_INPUT_BYTES:
                self.skipped += 1
                return
            copies = {name: numpy.array(value, copy=True) for name, value in arrays.items()}
            self._waiting = (sequence, _native.now_ns(), copies)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ortscope-shadow", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def finish(self, timeout: float = 30.0) -> None:
        """Waits until all taken inputs are profiled and reported."""
        with self._changed:
            self._ending = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        with self._changed:
            self._ending, self._thread = False, None
        if self.skipped:
            text = "%d sampled runs were not profiled: the shadow of the session was busy" % self.skipped
            _engine.send_message("note", name="shadow_skipped", text=text)
            self.skipped = 0

    def _take(self, patience: Optional[float]) -> Optional[Tuple[int, int, Dict[str, Any]]]:
        with self._changed:
            self._busy = False
            self._changed.wait_for(lambda: self._waiting is not None or self._ending, patience)
            taken, self._waiting = self._waiting, None
            self._busy = taken is not None
            return taken

    def _work(self) -> None:
        taken = self._take(None)
        while taken is not None:
            try:
                taken = self._window(taken)
            except Exception as error:  # noqa: BLE001 - the program did not ask for this session
                self._given_up = "%s: %s" % (type(error).__name__, error)
                _engine.send_message("note", name="profiling_unavailable", text="the shadow session failed: " + self._given_up)
                return

    def _window(self, taken: Any) -> Any:
        """One shadow from creation to profile; returns inputs that came too late for it, if any."""
        directory = _native.profile_directory()
        original = self._session()
        if directory is None or original is None:
            return None
        prefix = os.path.join(directory, "shadow-%d-%d" % (self._number, time.monotonic_ns()))
        shadow = _make(original, prefix)
        del original
        runs: List[Tuple[int, int]] = []
        while taken is not None:
            sequence, at, feed = taken
            shadow.run(None, feed)
            shadow.run(None, feed)
            runs.append((sequence, at))
            taken = feed = None
            if len(runs) >= RUNS_PER_WINDOW:
                break
            taken = self._take(SECONDS_OF_QUIET)
        path = shadow.end_profiling()
        del shadow
        self._hand_on(path or (glob.glob(glob.escape(prefix) + "*") or [""])[0], prefix, runs)
        # Inputs that arrived meanwhile need another shadow.
        return self._take(None)

    def _hand_on(self, path: str, prefix: str, runs: List[Tuple[int, int]]) -> None:
        with open(path, "rb") as file:
            found = split(file.read())
        _native.remove_profile(path)
        if len(found) != 2 * len(runs):
            raise RuntimeError("the profile has %d runs instead of %d" % (len(found), 2 * len(runs)))
        for (sequence, at), lines in zip(runs, found[1::2]):
            name = "%s-run-%d-" % (prefix, sequence)
            with open(name + ".json", "wb") as file:
                file.write(b"[\n" + b",\n".join(lines) + b"\n]\n")
            text = "operators of inference %d were measured in a shadow session" % sequence
            _engine.send_message("note", name="shadow_profile", text=text, timestamp_ns=at)
            _engine.send_message("profile", session=self._number, sequence=sequence, prefix=name, timestamp_ns=at)


def _make(session: Any, prefix: str) -> Any:
    """A session like another one, with the profiler on."""
    import onnxruntime

    from . import _session

    # A copy of all settings, including those without a getter.
    options = session.get_session_options()
    options.enable_profiling = True
    options.profile_file_prefix = prefix
    model = getattr(session, "_model_path", None) or getattr(session, "_model_bytes", None)
    if model is None:
        raise RuntimeError("the session does not expose its model")
    names = list(session.get_providers())
    provider_options = session.get_provider_options()
    with _session.unmonitored():
        shadow = onnxruntime.InferenceSession(
            model, options, providers=names, provider_options=[provider_options.get(name, {}) for name in names]
        )
    # No probe: even in a patched program its runs do not count as inferences.
    shadow._ortscope_probe = None
    return shadow


def split(profile: bytes) -> List[List[bytes]]:
    """The events of each run of a profile whose runs did not overlap. A run's own event is written behind its nodes'."""
    runs: List[List[bytes]] = []
    lines: List[bytes] = []
    for line in profile.splitlines():
        line = line.strip().rstrip(b",")
        if not line.startswith(b"{"):
            continue
        if b'"cat" : "Session"' in line and _MARK not in line and b"Executor::Execute" not in line:
            # Loading and initialization belong to no run.
            continue
        lines.append(line)
        if _MARK in line:
            runs.append(lines)
            lines = []
    return runs


def finish_all() -> None:
    for shadow in list(_shadows):
        try:
            shadow.finish()
        except Exception as error:  # noqa: BLE001
            _hooks._report(error, shadow)


def _forget_threads() -> None:
    # In a child of fork there are no threads; what waited is the parent's.
    for shadow in list(_shadows):
        shadow._changed = threading.Condition()
        shadow._thread, shadow._waiting, shadow._busy = None, None, False


atexit.register(finish_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)

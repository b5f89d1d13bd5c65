"""``Monitor``: what a program uses to have its inferences, batches and stages recorded."""

import contextlib
import functools
import inspect
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional

from . import _engine, _hooks, _native
from .errors import MonitorError
from .summary import Summary

_default_lock = threading.RLock()
_default: Optional["Monitor"] = None


class InferenceMonitor:
    """The half of :class:`Monitor` that is about inferences."""

    _config: Dict[str, Any]

    def _ensure(self) -> None:
        raise NotImplementedError

    def monitor_inference(self, model_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: records every call of a function, sync or async, as an inference of ``model_name``."""
        if callable(model_name) or not isinstance(model_name, str):
            raise TypeError('monitor_inference needs the name of the model: @monitor.monitor_inference("name")')
        if not model_name:
            raise ValueError("the name of the model is empty")
        probe_lock = threading.Lock()
        made: List[Any] = []

        def probe() -> Any:
            if not made:
                with probe_lock:
                    if not made:
                        self._ensure()
                        made.append(_native.Probe(model_name, [], [], None, None, None, None))
            return made[0]

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(function):
                raise TypeError("only a function can be monitored, not %s" % type(function).__name__)
            return _wrap(function, probe)

        return decorate

    def on_session_created(self, callback: Callable[[Any], None]) -> Callable[[], None]:
        """Calls ``callback(session)`` for each new session. Returns a function that ends it."""
        return _hooks.listen("session_created", callback)

    def on_before_inference(self, callback: Callable[[Any], None]) -> Callable[[], None]:
        """Calls ``callback(session)`` before each inference."""
        return _hooks.listen("before_inference", callback)

    def on_after_inference(self, callback: Callable[[Any, float, bool], None]) -> Callable[[], None]:
        """Calls ``callback(session, seconds, ok)`` after each inference."""
        return _hooks.listen("after_inference", callback)

    def on_provider_event(self, callback: Callable[[Any, Dict[str, Any]], None]) -> Callable[[], None]:
        """Calls ``callback(session, event)`` when a requested provider is not used."""
        return _hooks.listen("provider_event", callback)

    def on_memory_event(self, callback: Callable[[Any, Dict[str, int]], None]) -> Callable[[], None]:
        """Calls ``callback(session, sizes)`` with the process's memory before and after a session was made."""
        return _hooks.listen("memory_event", callback)


class BatchMonitor:
    """The half of :class:`Monitor` that is about batches."""

    def _ensure(self) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def monitor_batch(
        self,
        batch_size: int,
        padding_ratio: Optional[float] = None,
        queue_depth: Optional[int] = None,
    ) -> Iterator[None]:
        """Inferences inside carry this batch size; the batch itself is a mark on the time line."""
        _whole("batch_size", batch_size, 1)
        if queue_depth is not None:
            _whole("queue_depth", queue_depth, 0)
        if padding_ratio is not None and not 0.0 <= float(padding_ratio) <= 1.0:
            raise ValueError("padding_ratio must lie between 0 and 1, not %r" % (padding_ratio,))
        self._ensure()
        start = _native.now_ns()
        token = _hooks.enter_batch(batch_size, queue_depth)
        try:
            yield
        finally:
            _hooks.leave_batch(token)
            _engine.send_message(
                "batch",
                timestamp_ns=start,
                duration_ns=_native.now_ns() - start,
                batch_size=batch_size,
                padding_ratio=padding_ratio,
                queue_depth=queue_depth,
            )


class Monitor(InferenceMonitor, BatchMonitor):
    """Records this program's inferences; ``with Monitor():`` or ``start()`` and ``stop()``, or just use it.

    ``record=False`` keeps only the live view. ``store`` is the directory of recordings, ``name`` a name of your own for
    this one, ``sampling_hz`` how often the process itself is sampled. ``encrypt=True`` encrypts the recording with the key in
    ``key_file``, in ``ORTSCOPE_KEY`` or in the system's key store (``ortscope key new`` makes one); if a recording runs that is
    not encrypted, ``start()`` raises. Recordings with a ``key_file`` can be read in this process without naming it again.
    """

    def __init__(
        self,
        name: Optional[str] = None,
        *,
        store: Optional[Any] = None,
        record: bool = True,
        sampling_hz: float = 10.0,
        subject: Optional[str] = None,
        encrypt: Optional[bool] = None,
        key_file: Optional[Any] = None,
    ) -> None:
        if not isinstance(sampling_hz, (int, float)) or not 0.1 <= sampling_hz <= 1000:
            raise ValueError("sampling_hz must lie between 0.1 and 1000, not %r" % (sampling_hz,))
        self._config = {
            "name": name,
            "store": store,
            "record": record,
            "sampling_hz": sampling_hz,
            "subject": subject,
            "encrypt": encrypt,
            "key_file": key_file,
        }
        self._lock = threading.RLock()
        self._started = False
        self._stopped = False
        self._result: Optional[Dict[str, Any]] = None
        self._last: Optional[Summary] = None

    def start(self) -> "Monitor":
        with self._lock:
            if not self._started:
                _engine.acquire(self._config)
                self._started, self._stopped = True, False
        return self

    def stop(self) -> Optional[Dict[str, Any]]:
        """Ends monitoring; what became of the recording (``id``, ``directory``, ``losses`` …) if this ended it."""
        with self._lock:
            if not self._started:
                return self._result
            with contextlib.suppress(MonitorError):
                self._last = Summary(_engine.statistics(), self.recording_id)
            self._started, self._stopped = False, True
            self._result = _engine.release()
            return self._result

    def _ensure(self) -> None:
        # A monitor that was stopped stays stopped.
        if not self._started and not self._stopped:
            self.start()

    def __enter__(self) -> "Monitor":
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._started

    @property
    def recording_id(self) -> Optional[str]:
        running = _engine.observer()
        if running is not None:
            return running.recording_id  # type: ignore[no-any-return]
        return (self._result or {}).get("id")

    @contextlib.contextmanager
    def span(self, name: str, trace_id: Optional[str] = None) -> Iterator[None]:
        """Puts a stage of the program on the same time line as its inferences."""
        if not isinstance(name, str) or not name:
            raise TypeError("a span needs a name")
        self._ensure()
        start, ok = _native.now_ns(), True
        try:
            yield
        except BaseException:
            ok = False
            raise
        finally:
            _engine.send_message(
                "span",
                timestamp_ns=start,
                duration_ns=_native.now_ns() - start,
                name=name,
                trace_id=trace_id,
                thread=_native.stream_number(),
                ok=ok,
            )

    def mark(self, name: str, text: str = "") -> None:
        """Puts a mark on the time line."""
        self._ensure()
        _engine.send_message("note", name=str(name), text=str(text))

    def summary(self) -> Summary:
        """The summary so far; after :meth:`stop`, that of the whole recording."""
        if not self._started and self._last is not None:
            return self._last
        return Summary(_engine.statistics(), self.recording_id)

    def live(self, seconds: float = 1.0) -> Any:
        """``with monitor.live():`` in a notebook shows the summary while the cell runs."""
        from .notebook import LiveView

        self._ensure()
        return LiveView(self, seconds)

    def to_html(self, path: Any = None) -> str:
        """The report of the recording as HTML; written to ``path`` if one is given. Ends the recording first."""
        from . import _binary

        identity = self.recording_id
        if self._started:
            self.stop()
        if identity is None:
            raise MonitorError("there is no recording to report on")
        return _binary.report(identity, "html", path, self._config.get("store"))

    def _repr_html_(self) -> str:
        try:
            return self.summary()._repr_html_()
        except MonitorError as error:
            return "<p>%s</p>" % error

    def __repr__(self) -> str:
        state = "running" if self._started else "stopped" if self._stopped else "not started"
        return "<ortscope.Monitor %s>" % state

    def __reduce__(self) -> Any:
        raise TypeError("a Monitor belongs to its process and cannot be pickled")


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**32 - 1:
        raise ValueError("%s must be a whole number from %d on, not %r" % (name, least, value))


def _wrap(function: Callable[..., Any], probe: Callable[[], Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            of = probe()
            start, ok = of.begin(), False
            try:
                result = await function(*args, **kwargs)
                ok = True
                return result
            finally:
                _end(of, start, ok)

        return asynchronous
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def generating(*args: Any, **kwargs: Any) -> Any:
            of = probe()
            start, ok = of.begin(), False
            try:
                async for item in function(*args, **kwargs):
                    yield item
                ok = True
            finally:
                _end(of, start, ok)

        return generating
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            of = probe()
            start, ok = of.begin(), False
            try:
                result = yield from function(*args, **kwargs)
                ok = True
                return result
            finally:
                _end(of, start, ok)

        return generator

    @functools.wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        of = probe()
        start, ok = of.begin(), False
        try:
            result = function(*args, **kwargs)
            ok = True
            return result
        finally:
            _end(of, start, ok)

    return synchronous


def _end(probe: Any, start: int, ok: bool) -> None:
    batch = _hooks.current_batch()
    if batch is None:
        probe.end(start, ok)
    else:
        probe.end(start, ok, batch[0], batch[1])


def ensure_started(config: Optional[Dict[str, Any]] = None) -> Optional[Monitor]:
    """Has something recorded: starts a monitor of the package's own unless one runs."""
    global _default
    with _default_lock:
        if _native.is_writing():
            _engine.check_encryption(config or {})
            return _default
        if _default is None or not _default.is_running:
            known = ("name", "store", "record", "sampling_hz", "encrypt", "key_file")
            given = {key: value for key, value in (config or {}).items() if key in known}
            _default = Monitor(**given)
            _default.start()
        return _default


def default_monitor() -> Optional[Monitor]:
    """The monitor that the package started by itself, if it did."""
    return _default


def stop() -> Optional[Dict[str, Any]]:
    """Ends the recording that ``patch()`` or a ``MonitoredInferenceSession`` began by itself; what became of it."""
    with _default_lock:
        return None if _default is None else _default.stop()

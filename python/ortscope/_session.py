"""``MonitoredInferenceSession`` and :func:`patch`: the two ways to have sessions recorded.

Both put wrappers in place of ``run``, ``run_with_ort_values``, ``run_with_iobinding`` and ``run_with_ortvaluevector``
(:mod:`ortscope._wrappers`); these call ONNX Runtime's own methods with the very same arguments.
"""

import contextlib
import functools
import json
import os
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional

from . import _engine, _hooks, _native, _wrappers
from .errors import MonitorError

#: One run of this many is profiled if profiling is requested without a number.
DEFAULT_PROFILE_EVERY = 100
#: Of the recording, if this begins it; and of sessions.
_RECORDING_SETTINGS = {"store", "record", "sampling_hz", "name", "encrypt", "key_file"}
_KNOWN_SETTINGS = {"enable_profiling", "profile_every", "model_name"} | _RECORDING_SETTINGS

_lock = threading.RLock()
_originals: Dict[str, Any] = {}
_patched: Optional[Dict[str, Any]] = None
_monitored_class: Optional[type] = None


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MonitorError(
            "onnxruntime is not installed; hint: pip install onnxruntime (or -gpu, -directml, -qnn, -openvino)"
        ) from error
    return onnxruntime


def _owner(base: type, name: str) -> Optional[type]:
    """The class of the hierarchy that defines a method."""
    return next((known for known in base.__mro__ if name in known.__dict__), None)


def _original(base: type, name: str) -> Any:
    """ONNX Runtime's own method, also after :func:`patch`."""
    owner = _owner(base, name)
    if owner is None:
        return None
    if _patched is not None and (owner, name) in _patched:
        return _patched[(owner, name)]
    return owner.__dict__[name]


def _model_name(model: Any, session: Any) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.path.splitext(os.path.basename(os.fspath(model)))[0] or "model"
    try:
        return session.get_modelmeta().graph_name or "model"
    except Exception:  # noqa: BLE001 - a name is not worth a failure
        return "model"


def _provider_names(providers: Any) -> List[str]:
    names = []
    for provider in providers or []:
        name = provider[0] if isinstance(provider, (tuple, list)) and provider else provider
        if isinstance(name, str):
            names.append(name)
    return names


def _options_text(session: Any) -> Optional[str]:
    try:
        options = session.get_session_options()
        return json.dumps(
            {
                "intra_op_num_threads": options.intra_op_num_threads,
                "inter_op_num_threads": options.inter_op_num_threads,
                "execution_mode": str(options.execution_mode).rsplit(".", 1)[-1],
                "graph_optimization_level": str(options.graph_optimization_level).rsplit(".", 1)[-1],
            }
        )
    except Exception:  # noqa: BLE001
        return None


def attach(
    session: Any,
    model: Any = None,
    requested: Any = None,
    memory_before: Optional[int] = None,
    config: Optional[Dict[str, Any]] = None,
) -> Any:
    """Attaches a probe to a session, announces the session, and returns the probe."""
    config = config or {}
    try:
        providers = list(session.get_providers())
    except Exception:  # noqa: BLE001 - a session that could not be made has none
        providers = []
    if model is None:
        model = getattr(session, "_model_path", None)
    wanted = _provider_names(requested)
    memory_after = _native.own_memory_bytes() if memory_before is not None else None
    probe = _native.Probe(
        config.get("model_name") or _model_name(model, session),
        providers,
        wanted,
        getattr(sys.modules.get("onnxruntime"), "__version__", None),
        _options_text(session),
        memory_before,
        memory_after,
    )
    session._ortscope_probe = probe
    if config.get("enable_profiling"):
        _profile(session, probe, config.get("profile_every", DEFAULT_PROFILE_EVERY))
    _hooks.notify("session_created", session)
    missing = [name for name in wanted if name not in providers]
    if missing and providers:
        _hooks.notify("provider_event", session, {"kind": "fallback", "missing": missing, "providers": providers})
    if memory_before is not None and memory_after is not None:
        sizes = {"before_session_bytes": memory_before, "after_session_bytes": memory_after}
        _hooks.notify("memory_event", session, sizes)
    return probe


def _profile(session: Any, probe: Any, every: Any) -> None:
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise ValueError("profile_every must be a whole number from 1 on, not %r" % (every,))
    why_not = profiling_unavailable()
    if why_not is None:
        probe.profile_every(every)
        return
    if not hasattr(session, "get_session_options"):
        _engine.send_message("note", name="profiling_unavailable", text=why_not)
        warnings.warn("operators are not profiled: %s" % why_not, RuntimeWarning, stacklevel=4)
        return
    from ._shadow import Shadow

    text = "%s: a second session profiles the inputs of sampled runs" % why_not
    _engine.send_message("note", name="shadow_session", text=text)
    probe.shadow_every(every, Shadow(session, probe.number))


@functools.lru_cache(maxsize=1)
def profiling_unavailable() -> Optional[str]:
    """Why single runs cannot be profiled here; ``None``: they can."""
    _onnxruntime()
    try:
        return _native.open_custom_op_hook(_native.__file__)
    except Exception as error:  # noqa: BLE001 - any error is the reason
        return str(error)


def _monitor_async(base_run_async: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(base_run_async)
    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):  # type: ignore[no-untyped-def]
        probe = getattr(self, "_ortscope_probe", None) or attach(self)
        start = probe.begin()

        def finished(results, data, error):  # type: ignore[no-untyped-def]
            probe.end(start, not error)
            callback(results, data, error)

        return base_run_async(self, output_names, input_feed, finished, user_data, run_options)

    return run_async


def _check_config(config: Any) -> Dict[str, Any]:
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise TypeError("monitoring_config must be a dict, not %s" % type(config).__name__)
    unknown = sorted(set(config) - _KNOWN_SETTINGS)
    if unknown:
        raise ValueError(
            "monitoring_config does not know %s; hint: it knows %s"
            % (", ".join(map(repr, unknown)), ", ".join(sorted(_KNOWN_SETTINGS)))
        )
    return dict(config)


def _make_class() -> type:
    onnxruntime = _onnxruntime()
    base = onnxruntime.InferenceSession

    class MonitoredInferenceSession(base):  # type: ignore[misc,valid-type]
        """An ``onnxruntime.InferenceSession`` whose inferences are recorded.

        All arguments are those of ``onnxruntime.InferenceSession``; ``monitoring_config`` may have ``enable_profiling``
        (profile the operators of sampled runs; before ONNX Runtime 1.25 in a second session), ``profile_every`` (one run of this many),
        ``model_name``, and the settings of the recording if this session is the first thing that is monitored:
        ``store``, ``record``, ``sampling_hz``, ``name``, ``encrypt``, ``key_file``. ``encrypt`` is refused where a recording runs
        that is not encrypted.
        """

        def __init__(self, path_or_bytes, sess_options=None, providers=None, *args, monitoring_config=None, **kwargs):
            config = _check_config(monitoring_config)
            from . import _monitor

            _monitor.ensure_started(config)
            memory_before = _native.own_memory_bytes()
            # A patched base would attach a probe of its own.
            with unmonitored():
                super().__init__(path_or_bytes, sess_options, providers, *args, **kwargs)
            attach(self, path_or_bytes, providers, memory_before, config)

    for name in _wrappers.METHODS:
        original = _original(base, name)
        if original is not None:
            setattr(MonitoredInferenceSession, name, _wrappers.wrapper(name, original, True))
    if _owner(base, "run_async") is not None:
        MonitoredInferenceSession.run_async = _monitor_async(_original(base, "run_async"))  # type: ignore[attr-defined]
    MonitoredInferenceSession.__module__ = "ortscope"
    MonitoredInferenceSession.__qualname__ = "MonitoredInferenceSession"
    return MonitoredInferenceSession


_creating = threading.local()


@contextlib.contextmanager
def unmonitored() -> Iterator[None]:
    """Sessions that this thread makes inside are our own and get no probe."""
    _creating.nested = getattr(_creating, "nested", 0) + 1
    try:
        yield
    finally:
        _creating.nested -= 1


def monitored_class() -> type:
    """The class; created on first use, because it derives from ONNX Runtime's."""
    global _monitored_class
    with _lock:
        if _monitored_class is None:
            _monitored_class = _make_class()
        return _monitored_class


def patch(**config: Any) -> None:
    """Records every session of this program, including existing ones. A second call changes nothing.

    Takes the settings of ``MonitoredInferenceSession``'s ``monitoring_config``.
    """
    config = _check_config(config)
    from . import _monitor

    _monitor.ensure_started(config)
    patch_classes(config)


def patch_classes(config: Optional[Dict[str, Any]] = None) -> None:
    """What :func:`patch` does to ONNX Runtime, without starting a recording."""
    global _patched
    with _lock:
        if _patched is not None:
            return
        base = _onnxruntime().InferenceSession
        originals: Dict[Any, Any] = {}
        for name in _wrappers.METHODS:
            owner = _owner(base, name)
            if owner is None:
                continue
            original = owner.__dict__[name]
            originals[(owner, name)] = original
            setattr(owner, name, _wrappers.wrapper(name, original, False))
        owner = _owner(base, "run_async")
        if owner is not None:
            originals[(owner, "run_async")] = owner.__dict__["run_async"]
            owner.run_async = _monitor_async(owner.__dict__["run_async"])  # type: ignore[attr-defined]
        original_init = base.__init__
        originals[(base, "__init__")] = original_init

        @functools.wraps(original_init)
        def __init__(self, path_or_bytes, sess_options=None, providers=None, *args, **kwargs):  # type: ignore[no-untyped-def]
            if getattr(_creating, "nested", 0):
                return original_init(self, path_or_bytes, sess_options, providers, *args, **kwargs)
            memory_before = _native.own_memory_bytes()
            original_init(self, path_or_bytes, sess_options, providers, *args, **kwargs)
            try:
                attach(self, path_or_bytes, providers, memory_before, config)
            except Exception as error:  # noqa: BLE001 - the program did not ask for us
                _hooks._report(error, attach)
            return None

        base.__init__ = __init__
        _patched = originals


def unpatch() -> None:
    """Undoes :func:`patch`. Sessions stay as they are; their inferences are no longer recorded."""
    global _patched
    with _lock:
        if _patched is None:
            return
        for (owner, name), original in _patched.items():
            setattr(owner, name, original)
        _patched = None


def is_patched() -> bool:
    return _patched is not None

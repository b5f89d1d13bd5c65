"""ortscope shows what happens inside an ONNX Runtime inference.

Three ways to have inferences recorded::

    session = ortscope.MonitoredInferenceSession("model.onnx")   # one session
    ortscope.patch()                                             # every session of this program
    python -m ortscope record app.py                             # a program as it is

``ortscope.Monitor`` adds your own functions, batches and stages. ``ortscope report last`` shows the recording.
"""

import sys
from typing import TYPE_CHECKING, Any, List

if hasattr(sys, "_is_gil_enabled"):
    import sysconfig

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        # Also where its lock is switched on: the objects of such a build are laid out in another way.
        raise ImportError("ortscope does not work with free-threaded Python yet; hint: use the ordinary build of it")

from . import devices
from ._monitor import BatchMonitor, InferenceMonitor, Monitor, stop
from ._native import __version__
from ._session import is_patched, patch, profiling_unavailable, unpatch
from .comparison import Comparison, compare
from .errors import (
    ETWAccessDeniedError,
    ETWError,
    ETWProviderError,
    ETWSessionError,
    MonitorError,
    OrtscopeError,
    RecordingError,
)
from .process import (
    BaseMonitor,
    ETWMonitor,
    ETWMonitorConfig,
    HybridMonitor,
    MetricSample,
    MonitorConfig,
    ProcessMetrics,
    ProcessMonitor,
    create_monitor,
)
from .recordings import Recording, Table, recordings, store_directory
from .summary import Summary

if TYPE_CHECKING:
    from ._typing import MonitoredInferenceSession

__all__ = [
    "BaseMonitor",
    "BatchMonitor",
    "Comparison",
    "ETWAccessDeniedError",
    "ETWError",
    "ETWMonitor",
    "ETWMonitorConfig",
    "ETWProviderError",
    "ETWSessionError",
    "HybridMonitor",
    "InferenceMonitor",
    "MetricSample",
    "Monitor",
    "MonitorConfig",
    "MonitorError",
    "MonitoredInferenceSession",
    "OrtscopeError",
    "ProcessMetrics",
    "ProcessMonitor",
    "Recording",
    "RecordingError",
    "Summary",
    "Table",
    "__version__",
    "compare",
    "create_monitor",
    "devices",
    "is_patched",
    "patch",
    "profiling_unavailable",
    "recordings",
    "stop",
    "store_directory",
    "unpatch",
]


def __getattr__(name: str) -> Any:
    # Created on first access: it derives from onnxruntime's class, and the package works without onnxruntime.
    if name == "MonitoredInferenceSession":
        from ._session import monitored_class

        made = monitored_class()
        globals()[name] = made
        return made
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def __dir__() -> List[str]:
    return sorted(__all__)

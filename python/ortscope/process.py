"""Watching processes: ``ProcessMonitor``, ``ETWMonitor`` and :func:`create_monitor`.

Sampling runs in Rust threads without the GIL; Python fetches the collected samples. A name always states its backend:
``backend`` says where the numbers come from, and what cannot be had is ``None`` with a reason.
"""

import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Set

from . import _native
from .errors import ETWAccessDeniedError, ETWError, ETWSessionError, MonitorError

#: The overhead limits of the use cases, percent of one core, are those of the program.
USE_CASES = ("development", "testing", "staging", "production", "critical")


@dataclass
class MonitorConfig:
    """The observed processes and the sampling rate."""

    sampling_rate_hz: float = 100.0
    buffer_size: int = 10000
    target_process_names: Set[str] = field(default_factory=set)
    target_processes: Set[int] = field(default_factory=set)
    max_processes: int = 20
    exclude_system_processes: bool = True
    overhead_limit_percent: float = 5.0

    def check(self) -> None:
        rate = self.sampling_rate_hz
        if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not 0.1 <= rate <= 1000:
            raise ValueError("sampling_rate_hz must lie between 0.1 and 1000, not %r" % (rate,))
        for name in ("buffer_size", "max_processes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError("%s must be a whole number from 1 on, not %r" % (name, value))
        for pid in self.target_processes:
            _check_pid(pid)
        for name in self.target_process_names:
            if not isinstance(name, str) or not name:
                raise ValueError("target_process_names must be names, not %r" % (name,))


@dataclass
class ETWMonitorConfig:
    """Settings of a kernel session of Event Tracing for Windows."""

    session_name: str = "OnnxInferenceMonitor"
    buffer_size_kb: int = 64
    min_buffers: int = 4
    max_buffers: int = 64
    enable_process_events: bool = True
    enable_thread_events: bool = True
    enable_cpu_sampling: bool = True
    enable_memory_events: bool = True
    enable_disk_io: bool = False
    enable_context_switch: bool = True
    cpu_sampling_interval: int = 1000
    enable_stack_walking: bool = False


@dataclass
class MetricSample:
    """One number of one process at one moment."""

    metric_name: str
    value: float
    unit: str
    pid: Optional[int]
    timestamp_ns: int


@dataclass
class ProcessMetrics:
    """A process at its last sample. Times are in ms, memory in bytes; what the system cannot give is ``None``."""

    pid: int
    timestamp_ns: int
    name: Optional[str] = None
    parent_pid: Optional[int] = None
    session_id: Optional[int] = None
    create_time: Optional[float] = None
    exit_time: Optional[float] = None
    exit_code: Optional[int] = None
    command_line: Optional[str] = None
    cpu_percent: Optional[float] = None
    cpu_cycles: Optional[int] = None
    kernel_time: Optional[float] = None
    user_time: Optional[float] = None
    context_switches: Optional[int] = None
    priority: Optional[int] = None
    affinity_mask: Optional[int] = None
    working_set_size: Optional[int] = None
    private_bytes: Optional[int] = None
    virtual_bytes: Optional[int] = None
    page_faults: Optional[int] = None
    hard_faults: Optional[int] = None
    peak_working_set: Optional[int] = None
    paged_pool: Optional[int] = None
    non_paged_pool: Optional[int] = None
    memory_percent: Optional[float] = None
    thread_count: Optional[int] = None
    active_threads: Optional[int] = None
    suspended_threads: Optional[int] = None
    thread_ids: Optional[List[int]] = None
    thread_states: Optional[List[str]] = None
    thread_cpu_cycles: Optional[List[int]] = None
    read_operations: Optional[int] = None
    write_operations: Optional[int] = None
    other_operations: Optional[int] = None
    read_bytes: Optional[int] = None
    write_bytes: Optional[int] = None
    network_received_bytes: Optional[int] = None
    network_sent_bytes: Optional[int] = None
    network_received_packets: Optional[int] = None
    network_sent_packets: Optional[int] = None
    network_connections: Optional[int] = None
    io_priority: Optional[int] = None
    handle_count: Optional[int] = None
    gdi_objects: Optional[int] = None
    user_objects: Optional[int] = None
    peak_handle_count: Optional[int] = None
    unavailable: Dict[str, str] = field(default_factory=dict)


#: Name and unit of the metrics of :meth:`BaseMonitor.collect_metrics`, and the column each comes from.
_METRICS = (
    ("process_cpu_percent", "percent", "cpu_percent", 1.0),
    ("process_cpu_time_ms", "ms", "cpu_time_ns", 1e-6),
    ("process_memory_rss_bytes", "bytes", "working_set_bytes", 1.0),
    ("process_memory_private_bytes", "bytes", "private_bytes", 1.0),
    ("process_memory_virtual_bytes", "bytes", "virtual_bytes", 1.0),
    ("process_thread_count", "count", "thread_count", 1.0),
    ("process_handle_count", "count", "handle_count", 1.0),
    ("process_context_switches", "count", "context_switches", 1.0),
    ("process_page_faults", "count", "page_faults", 1.0),
    ("process_read_bytes", "bytes", "read_bytes", 1.0),
    ("process_write_bytes", "bytes", "write_bytes", 1.0),
)
_SAME_NAMES = (
    "cpu_percent cpu_cycles context_switches priority affinity_mask private_bytes virtual_bytes page_faults hard_faults "
    "thread_count active_threads suspended_threads read_operations write_operations other_operations read_bytes "
    "write_bytes network_received_bytes network_sent_bytes network_received_packets network_sent_packets "
    "network_connections handle_count gdi_objects user_objects peak_handle_count name parent_pid session_id exit_code "
    "command_line"
).split()

_NOT_BY_THREAD = "the package samples processes; hint: 'ortscope attach PID --threads' has rows for every thread"
#: Why some values are always missing.
_NEVER = {
    "thread_ids": _NOT_BY_THREAD,
    "thread_states": _NOT_BY_THREAD,
    "thread_cpu_cycles": _NOT_BY_THREAD,
    "io_priority": "it is not sampled",
}


def _check_pid(pid: Any) -> None:
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 2**32:
        raise ValueError("a process id is a whole number above 0, not %r" % (pid,))


def _metrics_of(row: Dict[str, Any], system: Optional[Dict[str, Any]], reasons: Dict[str, Any]) -> ProcessMetrics:
    made = ProcessMetrics(pid=row["pid"], timestamp_ns=row["timestamp_ns"])
    for name in _SAME_NAMES:
        setattr(made, name, row.get(name))
    made.kernel_time = None if row.get("kernel_time_ns") is None else row["kernel_time_ns"] / 1e6
    made.user_time = None if row.get("user_time_ns") is None else row["user_time_ns"] / 1e6
    made.working_set_size = row.get("working_set_bytes")
    made.peak_working_set = row.get("peak_working_set_bytes")
    made.paged_pool = row.get("paged_pool_bytes")
    made.non_paged_pool = row.get("non_paged_pool_bytes")
    created = row.get("create_time_unix_ns")
    made.create_time = None if created is None else created / 1e9
    exited = row.get("exit_time_ns")
    if exited is not None:
        # On the same clock as `create_time`: when it was, seen from now.
        made.exit_time = time.time() - (_native.now_ns() - exited) / 1e9
    total = (system or {}).get("memory_total_bytes")
    if total and made.working_set_size is not None:
        made.memory_percent = made.working_set_size / total * 100.0
    made.unavailable = dict(_NEVER, **{track: given["reason"] for track, given in reasons.items()})
    return made


class BaseMonitor:
    """Watches processes; the names of its methods are what existing callers use."""

    #: Whether CPU use is to come from the kernel's events.
    _events = False

    def __init__(self, config: Optional[MonitorConfig] = None) -> None:
        self.config = config if config is not None else MonitorConfig()
        self.config.check()
        self._lock = threading.RLock()
        self._sampling: Optional[Any] = None
        self._callbacks: List[Callable[[List[MetricSample]], None]] = []
        self._feeder: Optional[threading.Thread] = None
        self._feeding = threading.Event()
        self._collections = 0
        self._collection_ms_sum = 0.0
        self._collection_ms_max = 0.0
        self._callback_errors = 0

    @property
    def backend(self) -> str:
        """Where the numbers come from."""
        sampling = self._sampling
        return sampling.backend if sampling is not None else "none: monitoring has not started"

    @property
    def is_monitoring(self) -> bool:
        return self._sampling is not None

    def start_monitoring(self) -> None:
        with self._lock:
            if self._sampling is None:
                self._sampling = self._make()
                self._feed()

    def _make(self) -> Any:
        config = self.config
        pids = sorted(config.target_processes)
        names = sorted(config.target_process_names)
        if not pids and not names:
            pids = [os.getpid()]
        return _native.ProcessSampling(
            pids,
            names,
            float(config.sampling_rate_hz),
            config.buffer_size,
            config.max_processes,
            config.exclude_system_processes,
            config.overhead_limit_percent,
            events=self._events,
            etw=self._etw(),
        )

    def _etw(self) -> Optional[Any]:
        """Settings of the kernel session that must be had; ``None``: none must."""
        return None

    def stop_monitoring(self) -> None:
        with self._lock:
            sampling, self._sampling = self._sampling, None
            feeder, self._feeder = self._feeder, None
        self._feeding.set()
        if feeder is not None and feeder is not threading.current_thread():
            feeder.join(timeout=2.0)
        if sampling is not None:
            sampling.stop()

    def cleanup(self) -> None:
        self.stop_monitoring()
        self._callbacks.clear()

    def __enter__(self) -> "BaseMonitor":
        self.start_monitoring()
        return self

    def __exit__(self, *_: Any) -> None:
        self.cleanup()

    def _running(self) -> Any:
        sampling = self._sampling
        if sampling is None:
            raise MonitorError("nothing is monitored; hint: start_monitoring() begins")
        return sampling

    def collect_metrics(self) -> List[MetricSample]:
        """The samples since the last call; the oldest are dropped, and counted, when the buffer is full."""
        begin = time.perf_counter()
        rows = json.loads(self._running().fresh())
        samples = [
            MetricSample(name, row[column] * factor, unit, row["pid"], row["timestamp_ns"])
            for row in rows
            for name, unit, column, factor in _METRICS
            if row.get(column) is not None
        ]
        took = (time.perf_counter() - begin) * 1e3
        self._collections += 1
        self._collection_ms_sum += took
        self._collection_ms_max = max(self._collection_ms_max, took)
        return samples

    def get_process_metrics(self, pid: Optional[int] = None) -> Optional[ProcessMetrics]:
        """The last sample of a process (default: this one), even if it has ended; ``None`` if it is not observed."""
        wanted = os.getpid() if pid is None else pid
        _check_pid(wanted)
        sampling = self._running()
        for _ in range(100):
            rows = json.loads(sampling.latest(wanted))
            # The first percentage needs two samples.
            if rows and rows[-1].get("cpu_percent") is not None:
                break
            if wanted not in self._targets() and not self.config.target_process_names:
                break
            time.sleep(0.01)
        if not rows:
            return None
        known = json.loads(sampling.statistics())
        return _metrics_of(rows[-1], known["system"], known["unavailable"])

    def _targets(self) -> Set[int]:
        return self.config.target_processes or {os.getpid()}

    def get_process_summary(self) -> Dict[int, Dict[str, Any]]:
        """Name, CPU and memory of every watched process by its id."""
        rows = json.loads(self._running().latest())
        return {
            row["pid"]: {
                "name": row.get("name"),
                "cpu_percent": row.get("cpu_percent"),
                "memory_mb": row["working_set_bytes"] / 1e6,
                "thread_count": row.get("thread_count"),
            }
            for row in rows
        }

    def get_statistics(self) -> Dict[str, Any]:
        """Requested and achieved rate, cost and losses of monitoring itself."""
        known = json.loads(self._running().statistics())
        seconds = known["seconds"]
        ratio = known["cpu_ratio"]
        memory = known["memory_bytes"]
        return {
            "backend": self.backend,
            "requested_hz": float(self.config.sampling_rate_hz),
            "achieved_hz": known["ticks"] / seconds if seconds > 0 else None,
            "collections": self._collections,
            "mean_collection_ms": self._collection_ms_sum / self._collections if self._collections else None,
            "max_collection_ms": self._collection_ms_max if self._collections else None,
            "overhead_percent": None if ratio is None else ratio * 100.0,
            "memory_mb": None if memory is None else memory / 1e6,
            "dropped": known["dropped"],
            "late_ticks": known["late_ticks"],
            "skipped_ticks": known["skipped_ticks"],
            "callback_errors": self._callback_errors,
            "processes": known["processes"],
            "unavailable": known["unavailable"],
            "notes": known["notes"],
        }

    def get_cpu_usage(self) -> Optional[float]:
        """The machine's CPU, 0 to 100; ``None`` before its second sample or where it cannot be read."""
        return self._system("cpu_percent")

    def get_memory_usage(self) -> Optional[float]:
        """The machine's memory in use, 0 to 100."""
        used, total = self._system("memory_used_bytes"), self._system("memory_total_bytes")
        return used / total * 100.0 if used is not None and total else None

    def _system(self, name: str) -> Optional[float]:
        sampling = self._running()
        for _ in range(50):
            system = json.loads(sampling.statistics())["system"]
            if system and system[name] is not None:
                return float(system[name])
            time.sleep(0.02)
        return None

    def add_process(self, pid: int) -> None:
        _check_pid(pid)
        self.config.target_processes = set(self._targets()) | {pid}
        self._restart()

    def remove_process(self, pid: int) -> None:
        _check_pid(pid)
        left = set(self._targets()) - {pid}
        if not left and not self.config.target_process_names:
            raise MonitorError("process %d is the only one that is watched; hint: stop_monitoring() ends it" % pid)
        self.config.target_processes = left
        self._restart()

    def _restart(self) -> None:
        with self._lock:
            if self._sampling is not None:
                before, self._sampling = self._sampling, self._make()
                before.stop()

    def register_callback(self, callback: Callable[[List[MetricSample]], None]) -> None:
        """Calls ``callback(samples)`` with batches of new samples, about ten times a second, on a thread of its own.

        Samples go either to callbacks or to :meth:`collect_metrics`. Exceptions of a callback are counted and reported. One
        that blocks keeps the other callbacks waiting, never the sampling: samples that do not fit the buffer are counted, and
        :meth:`stop_monitoring` waits for it two seconds at most.
        """
        if not callable(callback):
            raise TypeError("a callback must be callable, not %s" % type(callback).__name__)
        with self._lock:
            self._callbacks.append(callback)
            self._feed()

    def _feed(self) -> None:
        if self._callbacks and self._sampling is not None and self._feeder is None:
            # Its own: a callback that blocks may keep the feeder of an earlier start for as long as it likes.
            self._feeding = threading.Event()
            self._feeder = threading.Thread(
                target=self._feed_loop, args=(self._feeding,), name="ortscope-callbacks", daemon=True
            )
            self._feeder.start()

    def _feed_loop(self, is_over: threading.Event) -> None:
        from ._hooks import _report

        while not is_over.wait(0.1):
            try:
                samples = self.collect_metrics()
            except MonitorError:
                return
            for callback in list(self._callbacks) if samples else []:
                if is_over.is_set():
                    return
                try:
                    callback(samples)
                except Exception as error:  # noqa: BLE001 - a callback must not end the others
                    self._callback_errors += 1
                    _report(error, callback)


class ProcessMonitor(BaseMonitor):
    """Samples processes through what the system offers without special rights."""


class HybridMonitor(BaseMonitor):
    """CPU use from the kernel's own events where the rights allow it, everything else from the sampler.

    Without the rights it is a :class:`ProcessMonitor`: ``backend`` says so, and ``get_statistics()["unavailable"]`` why.
    """

    _events = True


class ETWMonitor(BaseMonitor):
    """Kernel events of Windows. Where there are none, making one raises :class:`ETWError`: it never pretends."""

    def __init__(self, config: Optional[ETWMonitorConfig] = None, monitor: Optional[MonitorConfig] = None) -> None:
        self.etw_config = config if config is not None else ETWMonitorConfig()
        if sys.platform != "win32":
            raise ETWError(
                "Event Tracing for Windows exists on Windows only; hint: ProcessMonitor works here, and "
                "'ortscope record --kernel' records kernel events on Linux"
            )
        super().__init__(monitor)
        self._kernel_flags = _flags_of(self.etw_config)
        self._check_session()

    def _etw(self) -> Any:
        config = self.etw_config
        return {
            "name": config.session_name,
            "buffer_kilobytes": config.buffer_size_kb,
            "minimum_buffers": config.min_buffers,
            "maximum_buffers": config.max_buffers,
            "kernel_flags": self._kernel_flags,
            "samples_per_second": config.cpu_sampling_interval,
            "stacks": config.enable_stack_walking,
        }

    def _check_session(self) -> None:
        refused = _native.etw_refusal(self._etw())
        if refused is not None:
            kind, sentence = refused
            raise {"access": ETWAccessDeniedError, "session": ETWSessionError}.get(kind, ETWError)(sentence)

    def set_kernel_flags(self, flags: List[str]) -> None:
        """Events by the names of Windows, such as ``EVENT_TRACE_FLAG_CSWITCH``; those that a monitor needs always come."""
        before, self._kernel_flags = self._kernel_flags, list(flags)
        try:
            self._apply()
        except BaseException:
            self._kernel_flags = before
            raise

    def enable_stack_walking(self, enabled: bool) -> None:
        self.etw_config.enable_stack_walking = bool(enabled)
        self._apply()

    def _apply(self) -> None:
        """Windows changes no session that runs: it is made anew."""
        if self.is_monitoring:
            self._restart()
        else:
            self._check_session()

    def _restart(self) -> None:
        # Two sessions cannot have one name: the old one ends first.
        if self.is_monitoring:
            self.stop_monitoring()
            self.start_monitoring()


def _flags_of(config: ETWMonitorConfig) -> List[str]:
    wanted = (
        (config.enable_process_events, "PROCESS"),
        (config.enable_thread_events, "THREAD"),
        (config.enable_cpu_sampling, "PROFILE"),
        (config.enable_memory_events, "MEMORY_PAGE"),
        (config.enable_disk_io, "DISK_IO"),
        (config.enable_context_switch, "CSWITCH"),
    )
    return ["EVENT_TRACE_FLAG_" + name for enabled, name in wanted if enabled]


def create_monitor(
    use_case: str = "production", sampling_hz: float = 100, prefer_low_overhead: bool = False
) -> BaseMonitor:
    """A monitor for a use case: its overhead limit is the program's, and the rate is lowered when it is reached.

    ``prefer_low_overhead`` halves the limit, samples ten times a second at most and does without kernel events, and so
    does the use case ``critical``; otherwise CPU use comes from events if possible; see ``backend``.
    """
    limit = _native.overhead_limit(use_case)
    if prefer_low_overhead:
        limit, sampling_hz = limit / 2, min(sampling_hz, 10)
    kind = ProcessMonitor if prefer_low_overhead or use_case == "critical" else HybridMonitor
    return kind(MonitorConfig(sampling_rate_hz=sampling_hz, overhead_limit_percent=limit))

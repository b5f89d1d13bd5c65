"""The process monitoring API under the names that existing callers use."""

import os
import subprocess
import sys
import threading
import time

import ortscope
import pytest


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_the_own_process():
    config = ortscope.MonitorConfig(sampling_rate_hz=50.0, target_processes={os.getpid()})
    with ortscope.ProcessMonitor(config) as monitor:
        busy(0.5)
        metrics = monitor.get_process_metrics()
        assert metrics.pid == os.getpid() and metrics.working_set_size > 1e6
        assert metrics.cpu_percent is not None and metrics.thread_count >= 1
        assert metrics.user_time is None or metrics.user_time > 0
        # Never without a reason.
        assert metrics.thread_ids is None and "threads" in metrics.unavailable["thread_ids"]
        samples = monitor.collect_metrics()
        names = {sample.metric_name for sample in samples}
        assert {"process_cpu_percent", "process_memory_rss_bytes"} <= names
        assert all(sample.pid == os.getpid() and sample.timestamp_ns > 0 for sample in samples)
        statistics = monitor.get_statistics()
        assert statistics["requested_hz"] == 50.0 and statistics["achieved_hz"] > 0
        assert statistics["dropped"] == 0 and statistics["mean_collection_ms"] > 0
        assert monitor.backend == statistics["backend"] and "none" not in monitor.backend
        assert 0 <= monitor.get_cpu_usage() <= 100 and 0 < monitor.get_memory_usage() <= 100
        assert monitor.get_process_summary()[os.getpid()]["memory_mb"] > 1
    with pytest.raises(ortscope.MonitorError):
        monitor.collect_metrics()
    assert monitor.backend.startswith("none")


def eventually(is_so):
    """Waits until something is so; how long depends on the machine."""
    deadline = time.monotonic() + 30
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


def test_processes_come_and_go():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monitor = ortscope.ProcessMonitor(ortscope.MonitorConfig(sampling_rate_hz=50.0))
    monitor.start_monitoring()
    try:
        assert monitor.get_process_metrics(child.pid) is None
        monitor.add_process(child.pid)
        assert monitor.get_process_metrics(child.pid).pid == child.pid
        monitor.remove_process(child.pid)
        assert monitor.get_process_metrics(child.pid) is None
        with pytest.raises(ortscope.MonitorError):
            monitor.remove_process(os.getpid())
    finally:
        child.kill()
        child.wait()
        monitor.cleanup()


def test_a_process_that_has_ended_says_when_and_how():
    script = "import sys; sys.stdin.readline(); sys.exit(3)"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    config = ortscope.MonitorConfig(sampling_rate_hz=50.0, target_processes={child.pid})
    with ortscope.ProcessMonitor(config) as monitor:
        alive = monitor.get_process_metrics(child.pid)
        assert alive.exit_time is None and alive.exit_code is None
        child.communicate(b"\n")
        deadline = time.monotonic() + 30
        while monitor.get_process_metrics(child.pid).exit_time is None and time.monotonic() < deadline:
            time.sleep(0.05)
        ended = monitor.get_process_metrics(child.pid)
        assert ended.exit_time is not None and ended.create_time < ended.exit_time <= time.time() + 1
        # Another waiter may have consumed the exit code.
        assert ended.exit_code in (3, None)
        assert child.pid not in monitor.get_process_summary()


def test_callbacks_get_batches_and_may_raise(capfd):
    batches = []
    monitor = ortscope.ProcessMonitor(ortscope.MonitorConfig(sampling_rate_hz=100.0))

    def broken(samples):
        raise RuntimeError("on purpose")

    monitor.register_callback(broken)
    monitor.register_callback(batches.append)
    monitor.start_monitoring()
    deadline = time.time() + 10
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while len(batches) < 2 and time.time() < deadline:
            time.sleep(0.05)
    assert monitor.get_statistics()["callback_errors"] >= 1
    monitor.cleanup()
    assert len(batches) >= 2 and len(batches[0]) > 1


def test_a_blocking_callback_delays_nothing_else():
    release, entered = threading.Event(), threading.Event()
    calls = []

    def stuck(samples):
        calls.append(len(samples))
        entered.set()
        release.wait(60)

    config = ortscope.MonitorConfig(sampling_rate_hz=200.0, buffer_size=5)
    monitor = ortscope.ProcessMonitor(config)
    monitor.register_callback(stuck)
    monitor.start_monitoring()
    try:
        assert entered.wait(30)
        before = monitor.get_statistics()["dropped"]
        # Sampling continues; samples that are not fetched are counted.
        assert eventually(lambda: monitor.get_statistics()["dropped"] > before)
        monitor.stop_monitoring()
        assert not monitor.is_monitoring
        monitor.start_monitoring()
        monitor.stop_monitoring()
    finally:
        release.set()
        monitor.cleanup()
    # The one that was stuck ends with the start it belongs to.
    deadline = time.monotonic() + 10
    while any(thread.name == "ortscope-callbacks" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert len(calls) <= 3


def test_a_full_buffer_drops_the_oldest_and_counts():
    config = ortscope.MonitorConfig(sampling_rate_hz=200.0, buffer_size=5)
    with ortscope.ProcessMonitor(config) as monitor:
        assert eventually(lambda: monitor.get_statistics()["dropped"] > 0)
        assert len({sample.timestamp_ns for sample in monitor.collect_metrics()}) <= 5


def test_a_name_never_lies_about_its_backend():
    if sys.platform == "win32":
        with pytest.raises(ortscope.ETWError):
            ortscope.ETWMonitor()
    else:
        with pytest.raises(ortscope.ETWError, match="Windows only"):
            ortscope.ETWMonitor(ortscope.ETWMonitorConfig(session_name="OnnxInferenceMonitor"))


def test_the_hybrid_takes_cpu_from_events_or_says_why_not():
    monitor = ortscope.create_monitor("development", sampling_hz=50)
    assert isinstance(monitor, ortscope.HybridMonitor)
    with monitor:
        began, used = time.monotonic(), time.process_time()
        seen = []
        for _ in range(6):
            busy(0.2)
            seen.append(monitor.get_process_metrics().cpu_percent or 0.0)
        # One thread that never rests gets what a machine that may be busy leaves it.
        share = 100.0 * (time.process_time() - used) / (time.monotonic() - began)
        unavailable = monitor.get_statistics()["unavailable"]
        why_not = unavailable.get("cpu_percent from kernel events")
        assert monitor.backend.startswith("kernel events for CPU use") == (why_not is None)
        if why_not is not None:
            assert why_not["reason"]
        assert share / 2 < max(seen) <= 130, (share, seen)
    for quiet in (ortscope.create_monitor("critical"), ortscope.create_monitor(prefer_low_overhead=True)):
        assert isinstance(quiet, ortscope.ProcessMonitor)


def test_use_cases_have_the_limits_of_the_program():
    monitor = ortscope.create_monitor(use_case="critical", sampling_hz=20)
    assert monitor.config.overhead_limit_percent == 2.0
    assert ortscope.create_monitor("production", 100, prefer_low_overhead=True).config.sampling_rate_hz == 10
    with pytest.raises(ortscope.MonitorError, match="production"):
        ortscope.create_monitor(use_case="sometimes")


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling_rate_hz": 0},
        {"sampling_rate_hz": float("nan")},
        {"buffer_size": 0},
        {"max_processes": -1},
        {"target_processes": {0}},
        {"target_processes": {"me"}},
        {"target_process_names": {""}},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError):
        ortscope.ProcessMonitor(ortscope.MonitorConfig(**wrong))

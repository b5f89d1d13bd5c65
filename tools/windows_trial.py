"""What a user of Windows does first, for `cargo xtask windows --python`: import, monitored sessions, operators, a report.

    windows_trial.py DIRECTORY_OF_THE_TESTS

Prints what it found, and `all well` last.
"""

import sys
import time

sys.path.insert(0, sys.argv[1])

import models  # noqa: E402
import numpy  # noqa: E402
import onnxruntime  # noqa: E402
import ortscope  # noqa: E402
import ortscope._binary  # noqa: E402

RUNS = 40
x = numpy.ones((2, 4), dtype=numpy.float32)


def monitored():
    with ortscope.Monitor(name="trial") as monitor:
        config = {"enable_profiling": True, "profile_every": 10}
        session = ortscope.MonitoredInferenceSession(
            models.chain(), providers=["CPUExecutionProvider"], monitoring_config=config
        )
        assert isinstance(session, onnxruntime.InferenceSession)
        for _ in range(RUNS):
            result = session.run(None, {"x": x})[0]
        plain = onnxruntime.InferenceSession(models.chain(), providers=["CPUExecutionProvider"])
        numpy.testing.assert_array_equal(result, plain.run(None, {"x": x})[0])
        seen = monitor.summary().model("chain")
        ended = monitor.stop()
    assert seen["count"] == RUNS and ended["losses"] == [], (seen, ended)
    print("monitored session: %d of %d inferences recorded" % (seen["count"], RUNS))
    why_not = ortscope.profiling_unavailable()
    assert why_not is None, why_not
    table = ortscope.Recording(ended["directory"])["operators"]
    operators = [name for name, kind in zip(table.column("op_type"), table.column("kind")) if kind == "operator"]
    assert seen["profiled"] == 4 and operators == ["Sin"] * 20, (seen["profiled"], operators)
    print("profiles of single runs: 4 runs of 5 operators each")
    rows = ortscope.Recording("trial")["inferences"].to_numpy()["run_ns"]
    assert len(rows) == RUNS and (rows > 0).all()


def program():
    """The program that the wheel carries reads what this process has recorded."""
    said = ortscope.Recording("trial").report()
    assert "chain" in said and str(RUNS) in said, said
    print("program: %s" % ortscope._binary.run(["--version"]).strip())


def patched():
    session = onnxruntime.InferenceSession(models.identity(), providers=["CPUExecutionProvider"])
    with ortscope.Monitor() as monitor:
        ortscope.patch()
        for _ in range(RUNS):
            session.run(None, {"x": x})
        assert monitor.summary().inferences == RUNS
        ortscope.unpatch()
        try:
            session.run(None, {})
        except ValueError:
            pass
    print("patched: %d of %d inferences recorded" % (RUNS, RUNS))


def processes():
    import os

    config = ortscope.MonitorConfig(sampling_rate_hz=20.0, target_processes={os.getpid()})
    with ortscope.ProcessMonitor(config) as watcher:
        time.sleep(0.5)
        size = watcher.get_process_metrics().working_set_size
        assert size > 1 << 20, size
        print("process monitor: %s, working set %d MB" % (watcher.backend, size >> 20))


def kernel_events():
    """Wine has no event tracing and says "access denied": that must not be passed on. Windows has it, for administrators."""
    try:
        with ortscope.ETWMonitor(ortscope.ETWMonitorConfig()) as watcher:
            time.sleep(1.0)
            print("kernel events: %s" % watcher.backend)
    except ortscope.ETWError as error:
        is_wine = "emulates Windows" in str(error)
        assert isinstance(error, ortscope.ETWAccessDeniedError) != is_wine, error
        print("kernel events: %s: %s" % (type(error).__name__, error))
    with ortscope.create_monitor("development", sampling_hz=20) as watcher:
        assert watcher.get_process_metrics().cpu_percent is not None
        print("hybrid monitor: %s" % watcher.backend)
    for wrong in ({"min_buffers": 9, "max_buffers": 8}, {"buffer_size_kb": -1}):
        try:
            ortscope.ETWMonitor(ortscope.ETWMonitorConfig(**wrong))
        except (ValueError, OverflowError):
            continue
        raise AssertionError(wrong)


print("Python %s on %s, ONNX Runtime %s, ortscope %s" % (
    sys.version.split()[0], sys.platform, onnxruntime.__version__, ortscope.__version__))
monitored()
program()
patched()
processes()
kernel_events()
print("all well")

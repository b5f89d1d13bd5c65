"""The pytest plugin, in a pytest of its own."""

import pytest

TESTS = """
import ortscope, pytest, time

@pytest.mark.ortscope_limit(model="fast", p50_ms=1000.0)
def test_within(ortscope_monitor):
    @ortscope_monitor.monitor_inference("fast")
    def work():
        return None
    for _ in range(50):
        work()

@pytest.mark.ortscope_limit(model="slow", max_ms=0.001)
def test_beyond(ortscope_monitor):
    @ortscope_monitor.monitor_inference("slow")
    def work():
        time.sleep(0.01)
    work()

@pytest.mark.ortscope_limit(p99_ms=1000.0)
def test_too_few(ortscope_monitor):
    @ortscope_monitor.monitor_inference("few")
    def work():
        return None
    work()

@pytest.mark.ortscope_limit(p50_ms=1.0)
def test_none(ortscope_monitor):
    pass
"""


def test_limits_decide(pytester):
    metadata = pytest.importorskip("importlib.metadata")

    try:
        installed = any(point.name == "ortscope" for point in metadata.entry_points(group="pytest11"))
    except TypeError:
        installed = any(point.name == "ortscope" for point in metadata.entry_points().get("pytest11", []))
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess(*([] if installed else ["-p", "ortscope.pytest_plugin"]))
    result.assert_outcomes(passed=4, errors=3)
    result.stdout.fnmatch_lines(["*slow: max is*more than 0.001 ms*", "*p99 is not known from 1 inferences*"])

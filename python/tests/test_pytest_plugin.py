"""The pytest plugin, in a pytest of its own."""

import itertools
import json
import os

import ortscope.pytest_plugin
import pytest
from ortscope.benchmark import Baseline, Judge, measure

LIMITS = """
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

BENCHMARK = """
import pytest

@pytest.mark.ortscope_gate(metrics=["p50"], blocks=5, block_seconds=0.05)
def test_sum(ortscope_benchmark, tmp_path):
    (tmp_path / "made by the test").write_text("in every process")
    assert ortscope_benchmark(sum, [1, 2, 3]) == 6
    assert ortscope_benchmark.result is None or ortscope_benchmark.result.verdict
"""

TURNS = """
import pytest

@pytest.mark.ortscope_gate(metrics=["p50"], max_rounds=6)
def test_turns(ortscope_benchmark):
    result = ortscope_benchmark.compare(lambda: None, lambda: None)
    assert result.verdict in ("pass", "improvement")
"""


@pytest.fixture
def run_tests(pytester):
    """Runs pytest in a directory of its own, with the plugin that is tested."""
    pytest.importorskip("importlib.metadata")
    from importlib import metadata

    try:
        installed = any(point.name == "ortscope" for point in metadata.entry_points(group="pytest11"))
    except TypeError:
        installed = any(point.name == "ortscope" for point in metadata.entry_points().get("pytest11", []))
    plugin = [] if installed else ["-p", "ortscope.pytest_plugin"]
    return lambda *arguments: pytester.runpytest_inprocess("-p", "no:cacheprovider", *plugin, *arguments)


@pytest.fixture
def level(monkeypatch):
    """Instead of processes that measure: side b takes as long as the last call of this says."""
    taken = [1.0]
    numbers = itertools.count()

    def block(self, number, side):
        noise = 1.0 + 0.001 * (next(numbers) % 3)
        return {"p50": noise * (taken[-1] if side == "b" else 1.0), "runs": 100.0}

    monkeypatch.setattr(ortscope.pytest_plugin.Benchmark, "_block", block)
    return taken.append


def test_limits_decide(pytester, run_tests):
    pytester.makepyfile(LIMITS)
    result = run_tests()
    result.assert_outcomes(passed=4, errors=3)
    result.stdout.fnmatch_lines(["*slow: max is*more than 0.001 ms*", "*p99 is not known from 1 inferences*"])


def test_a_benchmark_in_processes_of_its_own(pytester, run_tests):
    pytester.makepyfile(test_it=BENCHMARK)
    result = run_tests("--ortscope-save")
    result.assert_outcomes(passed=1)
    (path,) = (pytester.path / ".ortscope").iterdir()
    kept = json.loads(path.read_text())
    assert kept["benchmark"] == "test_it.py::test_sum" and len(kept["blocks"]) == 5
    assert all(block["runs"] >= 6 and block["p50"] > 0 for block in kept["blocks"]), kept
    assert kept["machine"]["architecture"] and kept["machine"]["python"]

    # As if it had been ten times as fast before.
    for block in kept["blocks"]:
        block["p50"] /= 10
    path.write_text(json.dumps(kept))
    result = run_tests()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*regression: p50 +*% [[]+*", "*ortscope benchmarks*", "*test_sum  regression: p50 +*"])


@pytest.mark.parametrize(
    "taken, outcome, said",
    [
        (1.0, "passed", "pass: nothing is worse"),
        (1.5, "failed", "regression: p50 +5"),
        (0.5, "passed", "improvement: p50 -5"),
    ],
)
def test_the_verdict_decides(pytester, run_tests, level, taken, outcome, said):
    pytester.makepyfile(test_it=BENCHMARK, test_turns=TURNS)
    run_tests("--ortscope-save", "test_it.py").assert_outcomes(passed=1)
    level(taken)
    result = run_tests("test_it.py", "test_turns.py")
    result.assert_outcomes(**{outcome: 2})
    result.stdout.fnmatch_lines(["*test_sum  %s*" % said, "*test_turns  %s*" % said])


def test_without_a_baseline_nothing_is_judged(pytester, run_tests, level):
    pytester.makepyfile(test_it=BENCHMARK, test_strict=BENCHMARK.replace("blocks=5", "fail_on='inconclusive'"))
    result = run_tests()
    result.assert_outcomes(passed=1, failed=1, warnings=1)
    result.stdout.fnmatch_lines(["*not comparable: there is no baseline*--ortscope-save*"])


def test_the_same_settings_as_the_gate(pytester, run_tests, level):
    """A margin of `[gate]` holds here too, and the marker's is stronger."""
    pytester.makefile(".toml", ortscope="[gate]\nmargins = { p50 = 60.0 }\n")
    pytester.makepyfile(test_it=BENCHMARK, test_own=BENCHMARK.replace("blocks=5", "blocks=5, margins={'p50': 5.0}"))
    run_tests("--ortscope-save").assert_outcomes(passed=2)
    level(1.5)
    result = run_tests()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_it.py::test_sum  pass: *", "*test_own.py::test_sum  regression: *"])


@pytest.mark.parametrize(
    "settings, said",
    [
        ("metrics=['p99.9']", "never judged"),
        ("metrics=['memory']", "a benchmark has no memory"),
        ("metrics=[]", "no metric"),
        ("margins={'p50': 0}", "above 0"),
        ("metrics=['p50'], margins={'p90': 5}", "not judged"),
        ("blocks=4", "from 5 to"),
        ("fail_on='always'", "use regression"),
        ("block_seconds=-1", "above 0"),
        ("max_rounds=5", "from 6 to 20"),
        ("speed=1", "speed"),
    ],
)
def test_wrong_settings_are_named(pytester, run_tests, settings, said):
    pytester.makepyfile("import pytest\n@pytest.mark.ortscope_gate(%s)\ndef test_it(ortscope_benchmark): pass" % settings)
    result = run_tests()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ortscope_gate: *%s*" % said])


def test_a_test_that_fails_in_its_process_says_so(pytester, run_tests):
    pytester.makepyfile(
        """
        import os

        def test_it(ortscope_benchmark):
            def work():
                assert "ORTSCOPE_BENCHMARK_BLOCK" not in os.environ, "only here"
            ortscope_benchmark(work)
        """
    )
    result = run_tests()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ended without it:*", "*only here*"])


def test_a_damaged_baseline_is_named(tmp_path):
    path = tmp_path / "x.json"
    judge = Judge(metrics=["p50"])
    for text in ("", "{}", '{"schema": "other"}', '{"schema": "ortscope.benchmark/1", "blocks": 3, "machine": {}}'):
        path.write_text(text)
        with pytest.raises(ortscope.OrtscopeError, match="cannot be read"):
            Baseline(str(path)).judge(judge, [], {})


def test_another_machine_is_not_comparable(tmp_path):
    judge = Judge(metrics=["p50"])
    baseline = Baseline(str(tmp_path / "new" / "x.json"))
    baseline.save("x", [{"p50": 1.0}] * 6, {"cpu_model": "X", "os": "linux"})
    result = baseline.judge(judge, [{"p50": 1.0}] * 6, {"cpu_model": "Y", "os": "linux"})
    assert (result.verdict, result.summary, result.failed) == ("not comparable", "cpu model (X against Y)", False)
    assert os.listdir(str(tmp_path / "new")) == ["x.json"]


def test_a_block_ends_when_it_has_enough_and_is_not_endless():
    calls = measure(lambda: None, 0.01, 500)
    assert len(calls) >= 500 and sum(calls) > 0

"""pytest plugin: the fixtures ``ortscope_monitor`` and ``ortscope_benchmark``, the markers ``ortscope_limit`` and
``ortscope_gate``.

::

    @pytest.mark.ortscope_limit(model="classifier", p50_ms=5.0)
    def test_fast_enough(ortscope_monitor):
        session = ortscope.MonitoredInferenceSession("classifier.onnx")
        ...

    @pytest.mark.ortscope_gate(margins={"p50": 3.0})
    def test_no_slower_than_before(ortscope_benchmark):
        session = onnxruntime.InferenceSession("classifier.onnx")
        ortscope_benchmark(session.run, None, feed)

A test with limits fails when a limit is exceeded, and when there are too few inferences to know. A benchmark fails when it
is slower than its baseline by more than the margin, as judged by the code of ``ortscope gate``.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest

_LIMITS = ("p50", "p90", "p95", "p99", "mean", "max")
#: In a process that measures a block: which one.
_BLOCK = "ORTSCOPE_BENCHMARK_BLOCK"
#: Time limit of a block process beyond its calls: imports, fixtures, the body of the test.
_PATIENCE_SECONDS = 600.0


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("ortscope")
    group.addoption(
        "--ortscope-save", action="store_true", help="keep what benchmarks measure as their baseline, judge nothing"
    )
    group.addoption("--ortscope-baseline", metavar="DIR", help="where baselines of benchmarks are (default: .ortscope)")
    parser.addini("ortscope_baseline", "where baselines of benchmarks are, below the root directory", default=".ortscope")
    parser.addini("ortscope_args", "arguments of pytest in processes that measure a block", type="args", default=[])


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers",
        "ortscope_limit(model=None, p50_ms=None, p90_ms=None, p95_ms=None, p99_ms=None, mean_ms=None, max_ms=None, "
        "errors=0): limits of the latency of the inferences that the test makes",
    )
    config.addinivalue_line(
        "markers",
        "ortscope_gate(metrics=None, margins=None, fail_on=None, blocks=6, block_seconds=None, max_rounds=None): how "
        "ortscope_benchmark judges; defaults come from [gate] of ortscope.toml",
    )
    config._ortscope_benchmarks = []


def pytest_terminal_summary(terminalreporter: Any) -> None:
    results = terminalreporter.config._ortscope_benchmarks
    if results:
        terminalreporter.section("ortscope benchmarks")
        for name, result in results:
            terminalreporter.line("%s  %s" % (name, result))


@pytest.fixture
def ortscope_monitor(request: Any, tmp_path: Any) -> Iterator[Any]:
    """A monitor whose recording is in the test's temporary directory; checks the test's limits at its end."""
    import ortscope

    markers = [dict(marker.kwargs) for marker in request.node.iter_markers("ortscope_limit")]
    for limits in markers:
        unknown = [key for key in limits if key not in ("model", "errors") and key[:-3] not in _LIMITS]
        if unknown:
            pytest.fail("ortscope_limit does not know %s" % ", ".join(sorted(unknown)))
    monitor = ortscope.Monitor(store=str(tmp_path / "ortscope"))
    monitor.start()
    try:
        yield monitor
        if markers:
            summary = monitor.summary()
            problems = [problem for limits in markers for problem in check(summary, **limits)]
            if problems:
                pytest.fail("; ".join(problems), pytrace=False)
    finally:
        monitor.stop()


def check(summary: Any, model: Any = None, errors: int = 0, **limits: Any) -> Any:
    """The exceeded limits, as text."""
    chosen = [session for session in summary.sessions if model is None or session["model_name"] == model]
    chosen = [session for session in chosen if session["count"]]
    if not chosen:
        return ["no inference of %s was recorded" % (model or "any model")]
    problems = []
    for session in chosen:
        name = session["model_name"]
        if session["errors"] > errors:
            problems.append("%s: %d inferences failed" % (name, session["errors"]))
        for key, most in limits.items():
            figure = key[:-3]
            value = session.get(key) if figure in ("mean", "max") else session["percentiles_ms"].get(figure)
            if value is None:
                problems.append("%s: %s is not known from %d inferences" % (name, figure, session["count"]))
            elif value > most:
                problems.append("%s: %s is %.3f ms, more than %.3f ms" % (name, figure, value, most))
    return problems


@pytest.fixture
def ortscope_benchmark(request: Any) -> Any:
    """Measures a function in fresh processes and judges it against its baseline; see :class:`Benchmark`."""
    settings: Dict[str, Any] = {}
    # The marker closest to the test wins.
    for marker in reversed(list(request.node.iter_markers("ortscope_gate"))):
        settings.update(marker.kwargs)
    from .benchmark import Judge

    try:
        judge = Judge(**settings)
    except (TypeError, ValueError) as error:
        pytest.fail("ortscope_gate: %s" % error, pytrace=False)
    if os.environ.get("PYTEST_XDIST_WORKER"):
        pytest.skip("benchmarks that run at the same time disturb each other: run them with -n 0")
    block = os.environ.get(_BLOCK)
    return _Block(json.loads(block), judge) if block else Benchmark(request.config, request.node, judge)


class Benchmark:
    """The fixture of a test: call it with a function and its arguments, which it hands to the function.

    It returns what the function returns. ``result`` is the last verdict.
    """

    def __init__(self, config: Any, node: Any, judge: Any) -> None:
        self._config, self._node, self._judge = config, node, judge
        self._calls = 0
        self.result: Any = None

    def __call__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        from . import benchmark

        number, name = self._next()
        value = function(*arguments, **named)
        blocks = [self._block(number, "b") for _ in range(self._judge.blocks_count)]
        facts = benchmark.machine()
        baseline = benchmark.Baseline(self._baseline_path(name))
        if self._config.getoption("--ortscope-save"):
            baseline.save(name, blocks, facts)
            self._config._ortscope_benchmarks.append((name, "kept in %s" % baseline.path))
            return value
        self._tell(name, baseline.judge(self._judge, blocks, facts))
        return value

    def compare(self, before: Callable[[], Any], after: Callable[[], Any]) -> Any:
        """Both functions now, in turns, which needs no baseline; gives the verdict on the second."""
        number, name = self._next()
        self._tell(name, self._judge.rounds(lambda side: self._block(number, side)))
        return self.result

    def _next(self) -> Tuple[int, str]:
        number, self._calls = self._calls, self._calls + 1
        return number, self._node.nodeid if number == 0 else "%s#%d" % (self._node.nodeid, number)

    def _tell(self, name: str, result: Any) -> None:
        self.result = result
        self._config._ortscope_benchmarks.append((name, result))
        if result.failed:
            pytest.fail(str(result), pytrace=False)
        if result.verdict == "not comparable":
            warnings.warn("%s: %s; --ortscope-save keeps a baseline" % (name, result), stacklevel=3)

    def _baseline_path(self, name: str) -> str:
        config = self._config
        root = str(config.rootdir)
        directory = config.getoption("--ortscope-baseline")
        place = os.path.abspath(directory) if directory else os.path.join(root, config.getini("ortscope_baseline"))
        return os.path.join(place, re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[-150:] + ".json")

    def _block(self, number: int, side: str) -> Dict[str, float]:
        """Runs this test in a process of its own, up to the call that is measured."""
        from . import _native

        path = getattr(self._node, "path", None) or self._node.fspath
        test = "%s::%s" % (path, self._node.nodeid.split("::", 1)[1])
        # Default options of the project (reports, coverage, more processes) do not belong here.
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "--rootdir", str(self._config.rootdir)]
        ini = getattr(self._config, "inipath", None)
        if ini:
            command += ["-c", str(ini)]
        for plugin in self._config.option.plugins or []:
            command += ["-p", plugin]
        command += ["-p", "no:cacheprovider"] + list(self._config.getini("ortscope_args")) + [test]
        judge = self._judge
        with tempfile.TemporaryDirectory(prefix="ortscope-") as scratch:
            output = os.path.join(scratch, "calls.json")
            order = {"call": number, "side": side, "seconds": judge.seconds, "needed": judge.needed, "output": output}
            environment = dict(os.environ, **{_BLOCK: json.dumps(order)})
            environment.pop("PYTEST_ADDOPTS", None)
            environment.pop("PYTEST_CURRENT_TEST", None)
            done = subprocess.run(
                command,
                cwd=str(self._config.invocation_params.dir),
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=judge.seconds + _PATIENCE_SECONDS,
            )
            if not os.path.isfile(output):
                said = "\n".join(done.stdout.splitlines()[-30:])
                pytest.fail("a process that measures a block of this test ended without it:\n%s" % said, pytrace=False)
            with open(output, encoding="utf-8") as file:
                return _native.block_figures(json.load(file))


class _Block:
    """The fixture in a process that measures one block: calls before it only do what the test needs."""

    def __init__(self, order: Dict[str, Any], judge: Any) -> None:
        from .benchmark import Result

        self._order = order
        self._calls = 0
        self.result = Result(judge, {"verdict": "not comparable", "summary": "this process only measures"})

    def __call__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self._is_mine():
            self._measure(lambda: function(*arguments, **named))
        return function(*arguments, **named)

    def compare(self, before: Callable[[], Any], after: Callable[[], Any]) -> Any:
        if self._is_mine():
            self._measure(before if self._order["side"] == "a" else after)
        return self.result

    def _is_mine(self) -> bool:
        self._calls += 1
        return bool(self._calls - 1 == self._order["call"])

    def _measure(self, function: Callable[[], Any]) -> None:
        from .benchmark import measure

        calls: List[int] = measure(function, self._order["seconds"], self._order["needed"])
        with open(self._order["output"], "w", encoding="utf-8") as file:
            json.dump(calls, file)
        pytest.skip("the block is measured")

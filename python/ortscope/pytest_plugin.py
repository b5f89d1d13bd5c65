"""pytest plugin: the fixture ``ortscope_monitor`` and the marker ``ortscope_limit``.

::

    @pytest.mark.ortscope_limit(model="classifier", p50_ms=5.0)
    def test_fast_enough(ortscope_monitor):
        session = ortscope.MonitoredInferenceSession("classifier.onnx")
        ...

A test with limits fails when a limit is exceeded, and when there are too few inferences to know.
"""

from typing import Any, Iterator

import pytest

_LIMITS = ("p50", "p90", "p95", "p99", "mean", "max")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers",
        "ortscope_limit(model=None, p50_ms=None, p90_ms=None, p95_ms=None, p99_ms=None, mean_ms=None, max_ms=None, "
        "errors=0): limits of the latency of the inferences that the test makes",
    )


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
    """Which limits are exceeded, in words."""
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

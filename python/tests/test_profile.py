"""Operators of sampled runs through the custom-op hook of ONNX Runtime."""

import warnings

import onnxruntime
import ortscope
import pytest

MINOR = int(onnxruntime.__version__.split(".")[1])


def test_sampled_runs_have_operators(chain, x):
    with ortscope.Monitor() as monitor, warnings.catch_warnings():
        warnings.simplefilter("error" if MINOR >= 25 else "ignore")
        config = {"enable_profiling": True, "profile_every": 10}
        session = ortscope.MonitoredInferenceSession(
            chain, providers=["CPUExecutionProvider"], monitoring_config=config
        )
        for _ in range(40):
            session.run(None, {"x": x})
        seen = monitor.summary().model("chain")
        result = monitor.stop()
    assert seen["count"] == 40 and result["losses"] == []
    if MINOR < 25:
        # test_shadow.py has what happens then.
        assert "1.25" in ortscope.profiling_unavailable()
        assert seen["profiled"] == 0
        return
    assert ortscope.profiling_unavailable() is None
    assert seen["profiled"] == 4
    table = ortscope.Recording(result["directory"])["operators"]
    kinds = list(zip(table.column("run"), table.column("kind"), table.column("op_type")))
    operators = [(run, name) for run, kind, name in kinds if kind == "operator"]
    assert operators == [(run, "Sin") for run in range(4) for _ in range(5)]
    phases = ortscope.Recording(result["directory"])["inferences"].column("phase")
    assert phases.count("profiled") == 4


def test_own_run_options_are_left_alone(chain, x):
    if MINOR < 25:
        pytest.skip("this version has no profiles of single runs")
    with ortscope.Monitor() as monitor:
        config = {"enable_profiling": True, "profile_every": 1}
        session = ortscope.MonitoredInferenceSession(
            chain, providers=["CPUExecutionProvider"], monitoring_config=config
        )
        session.run(None, {"x": x}, onnxruntime.RunOptions())
        assert monitor.summary().model("chain")["profiled"] == 0
        session.run(None, {"x": x})
        assert monitor.summary().model("chain")["profiled"] == 1
        with pytest.raises(ValueError):
            session.run(None, {})


def test_a_wrong_number_is_refused(chain):
    with pytest.raises(ValueError, match="profile_every"):
        ortscope.MonitoredInferenceSession(
            chain,
            providers=["CPUExecutionProvider"],
            monitoring_config={"enable_profiling": True, "profile_every": 0},
        )


def test_a_short_program_has_operators_too(chain, x):
    # One run in a hundred is the default; it once meant that a script of five inferences had none.
    if MINOR < 25:
        pytest.skip("this version has no profiles of single runs")
    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(
            chain, providers=["CPUExecutionProvider"], monitoring_config={"enable_profiling": True}
        )
        for _ in range(5):
            session.run(None, {"x": x})
        seen = monitor.summary().model("chain")
        directory = monitor.stop()["directory"]
    assert seen["count"] == 5 and seen["profiled"] == 1
    assert ortscope.Recording(directory)["inferences"].column("phase") == ["first", "profiled"] + ["steady"] * 3
    kinds = ortscope.Recording(directory)["operators"].column("kind")
    assert kinds.count("operator") == 5


def test_every_hundredth_is_profiled_and_shapes_may_change_meanwhile(chain):
    if MINOR < 25:
        pytest.skip("this version has no profiles of single runs")
    import numpy

    with ortscope.Monitor() as monitor:
        config = {"enable_profiling": True, "profile_every": 5}
        session = ortscope.MonitoredInferenceSession(
            chain, providers=["CPUExecutionProvider"], monitoring_config=config
        )
        for number in range(20):
            session.run(None, {"x": numpy.ones((1 + number % 2, 4), dtype=numpy.float32)})
        directory = monitor.stop()["directory"]
    phases = ortscope.Recording(directory)["inferences"].column("phase")
    assert [number for number, phase in enumerate(phases) if phase == "profiled"] == [1, 6, 11, 16]

"""Operators by a second session on sampled inputs: the way of ONNX Runtime before 1.25, forced with newer ones."""

import json

import numpy
import onnxruntime
import ortscope
import pytest
from ortscope import _session, _shadow


@pytest.fixture
def no_custom_op_hook(monkeypatch):
    monkeypatch.setattr(_session, "profiling_unavailable", lambda: "this test says so; 1.25 has profiles")


def session(path, every=10):
    config = {"enable_profiling": True, "profile_every": every}
    return ortscope.MonitoredInferenceSession(path, providers=["CPUExecutionProvider"], monitoring_config=config)


def operators(directory):
    table = ortscope.Recording(directory)["operators"]
    rows = zip(table.column("run"), table.column("kind"), table.column("op_type"))
    return [(run, name) for run, kind, name in rows if kind == "operator"]


@pytest.mark.parametrize("patched", [False, True])
def test_sampled_inputs_are_profiled_elsewhere(chain, x, no_custom_op_hook, patched):
    with ortscope.Monitor() as monitor:
        if patched:
            ortscope.patch()
        monitored = session(chain)
        import time

        for _ in range(3):
            for _ in range(10):
                monitored.run(None, {"x": x})
            # The shadow takes one at a time.
            time.sleep(0.4)
        seen = monitor.summary()
        result = monitor.stop()
    # The second session's runs do not count as inferences, and the program's own were never profiled.
    assert seen.inferences == 30 and seen.model("chain")["profiled"] == 0
    assert result["losses"] == []
    found = operators(result["directory"])
    runs = sorted({run for run, _ in found})
    assert runs and runs == list(range(len(runs))) and len(runs) <= 3
    assert found == [(run, "Sin") for run in runs for _ in range(5)]
    marks = ortscope.Recording(result["directory"])["annotations"].column("kind")
    assert marks.count("shadow_profile") == len(runs) and "shadow_session" in marks


def test_inputs_are_copied_before_the_program_changes_them(chain, no_custom_op_hook):
    with ortscope.Monitor() as monitor:
        monitored = session(chain, every=1)
        data = numpy.ones((2, 4), dtype=numpy.float32)
        shadow_feeds = []
        made = _shadow._make

        def make(original, prefix):
            shadow = made(original, prefix)
            run = shadow.run

            class Spy:
                def run(self, names, feed):
                    shadow_feeds.append(float(feed["x"].max()))
                    return run(names, feed)

                def end_profiling(self):
                    return shadow.end_profiling()

            return Spy()

        _shadow._make = make
        try:
            monitored.run(None, {"x": data})
            data[:] = 7
            monitor.stop()
        finally:
            _shadow._make = made
    assert shadow_feeds == [1.0, 1.0]


def test_a_failing_shadow_is_reported_without_side_effects(chain, x, no_custom_op_hook, monkeypatch):
    def fail(session, prefix):
        raise RuntimeError("no memory for a second model")

    monkeypatch.setattr(_shadow, "_make", fail)
    with ortscope.Monitor() as monitor:
        monitored = session(chain, every=1)
        for _ in range(5):
            monitored.run(None, {"x": x})
        result = monitor.stop()
    marks = ortscope.Recording(result["directory"])["annotations"]
    found = dict(zip(marks.column("kind"), marks.column("text")))
    assert "no memory for a second model" in found["profiling_unavailable"]
    assert result["rows"]["inferences"] == 5


def test_a_profile_is_split_at_its_runs(chain, x, tmp_path):
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "p")
    plain = onnxruntime.InferenceSession(chain, options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        plain.run(None, {"x": x})
    with open(plain.end_profiling(), "rb") as file:
        runs = _shadow.split(file.read())
    assert len(runs) == 3
    for lines in runs:
        events = [json.loads(line.decode()) for line in lines]
        assert events[-1]["name"] == "model_run"
        assert sum(event["name"].endswith("_kernel_time") for event in events) == 5

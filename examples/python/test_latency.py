"""Regression tests for CI: `pytest test_latency.py` with the model in the variable MODEL.

The first has a fixed limit. The second compares with a baseline that `pytest --ortscope-save test_latency.py` kept on this
machine; without one it only warns.
"""

import os

import numpy
import onnxruntime
import ortscope
import pytest


def zeros_for(session):
    given = session.get_inputs()[0]
    shape = [dim if isinstance(dim, int) else 1 for dim in given.shape]
    return {given.name: numpy.zeros(shape, dtype=numpy.float32)}


@pytest.mark.ortscope_limit(p50_ms=1000.0, errors=0)
def test_the_model_is_fast_enough(ortscope_monitor):
    session = ortscope.MonitoredInferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
    for _ in range(50):
        session.run(None, zeros_for(session))


@pytest.mark.ortscope_gate(metrics=["p50"], margins={"p50": 10.0}, block_seconds=0.3)
def test_the_model_is_no_slower_than_before(ortscope_benchmark):
    session = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
    ortscope_benchmark(session.run, None, zeros_for(session))

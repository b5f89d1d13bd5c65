"""A regression test for CI: `pytest test_latency.py` with the model in the variable MODEL."""

import os

import numpy
import ortscope
import pytest


@pytest.mark.ortscope_limit(p50_ms=1000.0, errors=0)
def test_the_model_is_fast_enough(ortscope_monitor):
    session = ortscope.MonitoredInferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [dim if isinstance(dim, int) else 1 for dim in given.shape]
    for _ in range(50):
        session.run(None, {given.name: numpy.zeros(shape, dtype=numpy.float32)})

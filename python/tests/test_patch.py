"""patch(): every session of a program, without changing the program."""

import inspect

import numpy
import onnxruntime
import ortscope
import pytest


def used(summary):
    """Sessions of earlier tests may still wait for the garbage collector; they have no inferences."""
    return [session for session in summary.sessions if session["count"]]


def test_sessions_before_and_after_are_recorded(identity, x):
    before = onnxruntime.InferenceSession(identity, providers=["CPUExecutionProvider"])
    original = onnxruntime.InferenceSession.run
    with ortscope.Monitor() as monitor:
        ortscope.patch()
        assert ortscope.is_patched()
        assert inspect.signature(onnxruntime.InferenceSession.run) is not None
        after = onnxruntime.InferenceSession(identity, providers=["CPUExecutionProvider"])
        for session in (before, after):
            assert type(session) is onnxruntime.InferenceSession
            numpy.testing.assert_array_equal(session.run(None, {"x": x})[0], x)
        summary = monitor.summary()
        assert summary.inferences == 2 and len(used(summary)) == 2
        assert {session["model_name"] for session in used(summary)} == {"identity"}
        ortscope.patch()
        ortscope.unpatch()
        assert onnxruntime.InferenceSession.run is original
        after.run(None, {"x": x})
        assert monitor.summary().inferences == 2


def test_a_monitored_session_is_recorded_once_in_a_patched_program(identity, x):
    with ortscope.Monitor() as monitor:
        ortscope.patch()
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        session.run(None, {"x": x})
        summary = monitor.summary()
        assert summary.inferences == 1 and len(used(summary)) == 1


def test_patching_starts_a_recording_of_its_own(identity, x):
    ortscope.patch()
    session = onnxruntime.InferenceSession(identity, providers=["CPUExecutionProvider"])
    session.run(None, {"x": x})
    from ortscope import _monitor

    assert _monitor.default_monitor().summary().inferences == 1


def test_exceptions_of_a_patched_session_are_those_of_onnxruntime(identity):
    with pytest.raises(Exception) as of_no_session:
        onnxruntime.InferenceSession.run(object(), None, {})
    ortscope.patch()
    session = onnxruntime.InferenceSession(identity, providers=["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="x"):
        session.run(None, {})
    with pytest.raises(TypeError):
        onnxruntime.InferenceSession()
    with pytest.raises(of_no_session.type) as raised:
        onnxruntime.InferenceSession.run(object(), None, {})
    assert str(raised.value) == str(of_no_session.value)

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


def looks(kind):
    """The visible properties of replaced methods."""
    from ortscope import _wrappers

    known = [(name, getattr(kind, name)) for name in _wrappers.METHODS if hasattr(kind, name)]
    return {
        name: (
            method.__name__,
            inspect.getdoc(method),
            [(of.name, of.kind, of.default) for of in list(inspect.signature(method).parameters.values())[1:]],
        )
        for name, method in known
    }


def test_methods_look_as_before():
    before = looks(onnxruntime.InferenceSession)
    assert "run" in before
    ortscope.patch()
    assert looks(onnxruntime.InferenceSession) == before
    assert looks(ortscope.MonitoredInferenceSession) == before


def test_a_method_whose_parameters_cannot_be_shown_is_recorded_all_the_same(identity, x):
    from ortscope import _session, _wrappers

    original = _session._original(onnxruntime.InferenceSession, "run")

    def run(self, output_names, input_feed, run_options=None, *, of_a_later_version=()):
        return original(self, output_names, input_feed, run_options)

    session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
    try:
        wrapper = _wrappers.wrapper("run", run, True)
        assert inspect.signature(wrapper) == inspect.signature(run)
        with ortscope.Monitor() as monitor:
            numpy.testing.assert_array_equal(wrapper(session, None, {"x": x}, of_a_later_version=(1,))[0], x)
            numpy.testing.assert_array_equal(wrapper(session, None, input_feed={"x": x})[0], x)
            with pytest.raises(TypeError, match="of_no_version"):
                wrapper(session, None, {"x": x}, of_no_version=1)
            assert monitor.summary().inferences == 3
    finally:
        _wrappers.wrapper("run", original, True)


def test_a_run_that_fails_with_shapes_of_its_own_keeps_its_exception(identity, x):
    ortscope.patch()
    session = onnxruntime.InferenceSession(identity, providers=["CPUExecutionProvider"])
    with ortscope.Monitor() as monitor:
        session.run(None, {"x": x})
        with pytest.raises(Exception, match="(?i)invalid|unexpected"):
            session.run(None, {"x": numpy.ones((2, 3, 4, 5, 6), dtype=x.dtype)})
        session.run(None, input_feed={"x": x})
        session.run(output_names=None, input_feed={"x": x}, run_options=None)
        summary = monitor.summary()
    assert summary.inferences == 4

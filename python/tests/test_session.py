"""MonitoredInferenceSession is an onnxruntime.InferenceSession in every respect, and its inferences are recorded."""

import collections
import gc
import inspect
import pickle
import threading
import weakref

import models
import numpy
import onnxruntime
import ortscope
import pytest


def only_session(summary):
    """Sessions of earlier tests may still wait for the garbage collector; they have no inferences."""
    used = [session for session in summary.sessions if session["count"]]
    assert len(used) == 1
    return used[0]


def test_it_is_a_session(identity, x):
    session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
    assert isinstance(session, onnxruntime.InferenceSession)
    assert issubclass(ortscope.MonitoredInferenceSession, onnxruntime.InferenceSession)
    assert session.get_inputs()[0].name == "x"
    assert session.get_outputs()[0].name == "y"
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_modelmeta().graph_name == "identity_graph"
    (y,) = session.run(None, {"x": x})
    numpy.testing.assert_array_equal(y, x)


def test_every_public_attribute_is_there(identity):
    plain = onnxruntime.InferenceSession(identity, providers=["CPUExecutionProvider"])
    session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
    public = [name for name in dir(plain) if not name.startswith("__")]
    assert [name for name in public if not hasattr(session, name)] == []
    for name in ("run", "run_with_iobinding", "run_with_ort_values"):
        wanted = [p.name for p in inspect.signature(getattr(plain, name)).parameters.values()]
        assert [p.name for p in inspect.signature(getattr(session, name)).parameters.values()] == wanted
        assert getattr(session, name).__name__ == name


@pytest.mark.parametrize("how", ["positional", "keywords", "mixed", "options"])
def test_arguments_reach_onnxruntime_as_they_were_given(identity, x, how):
    session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
    calls = {
        "positional": lambda: session.run(["y"], {"x": x}),
        "keywords": lambda: session.run(input_feed={"x": x}, output_names=["y"]),
        "mixed": lambda: session.run(None, input_feed={"x": x}),
        "options": lambda: session.run(None, {"x": x}, run_options=onnxruntime.RunOptions()),
    }
    numpy.testing.assert_array_equal(calls[how]()[0], x)
    with ortscope.Monitor() as monitor:
        calls[how]()
        assert monitor.summary().inferences == 2


def test_counts_and_shapes_are_recorded(identity, x):
    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        for _ in range(50):
            session.run(None, {"x": x})
        session.run(None, {"x": numpy.ones((7, 4), dtype=numpy.float32)})
        seen = only_session(monitor.summary())
        assert seen["model_name"] == "identity"
        assert (seen["count"], seen["errors"], seen["samples"]) == (51, 0, 50 * 2 + 7)
        assert 0 < seen["min_ms"] <= seen["percentiles_ms"]["p50"] <= seen["max_ms"]
        assert monitor.summary().data["mark_counts"]["input_shapes"] == 2
        directory = monitor.stop()["directory"]
    recording = ortscope.Recording(directory)
    assert recording["inferences"].column("batch_size") == [2] * 50 + [7]
    assert recording["inferences"].column("sequence") == list(range(51))
    assert recording["inferences"].column("phase")[:2] == ["first", "steady"]
    marks = recording["annotations"]
    shapes = [text for kind, text in zip(marks.column("kind"), marks.column("text")) if kind == "input_shapes"]
    assert '"dims":[2,4]' in shapes[0] and '"from_sequence":0' in shapes[0]
    assert '"dims":[7,4]' in shapes[1] and '"from_sequence":50' in shapes[1]


def test_values_without_a_cheap_shape_are_fine(identity):
    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        session.run(None, {"x": numpy.ma.masked_array(numpy.ones((2, 4), dtype=numpy.float32))})
        value = onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ones((3, 4), dtype=numpy.float32))
        (y,) = session.run_with_ort_values(["y"], {"x": value})
        assert y.numpy().shape == (3, 4)
        assert monitor.summary().inferences == 2


@pytest.mark.parametrize("call", [((), {}), ((None,), {}), ((), {"input_feed": {}})])
def test_an_invalid_call_raises_the_same_error_as_onnxruntime(identity, call):
    arguments, keywords = call
    plain = onnxruntime.InferenceSession(identity, providers=["CPUExecutionProvider"])
    with pytest.raises(TypeError) as wanted:
        plain.run(*arguments, **keywords)
    with ortscope.Monitor():
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        session.run(None, {"x": numpy.ones((2, 4), dtype=numpy.float32)})
        with pytest.raises(TypeError) as raised:
            session.run(*arguments, **keywords)
    assert str(raised.value) == str(wanted.value)


@pytest.mark.parametrize("threads", [1, 100])
def test_runs_at_the_same_time_are_all_recorded(identity, threads):
    """More than there are places for plain runs."""
    feed = {"x": numpy.ones((2, 4), dtype=numpy.float32)}
    barrier = threading.Barrier(threads)

    def work():
        barrier.wait()
        for _ in range(20):
            session.run(None, feed)

    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert monitor.summary().inferences == 20 * threads


def _batch_sizes(monitor):
    """In the order in which the runs ended."""
    rows = ortscope.Recording(monitor.stop()["directory"])["inferences"]
    return [size for _, size in sorted(zip(rows.column("sequence"), rows.column("batch_size")))]


class _Meanwhile(dict):
    """A feed that does something while ONNX Runtime looks at it, which is in the middle of a run."""

    def __init__(self, feed, work):
        super().__init__(feed)
        self.work = work

    def _once(self):
        work, self.work = self.work, lambda: None
        work()

    def keys(self):
        self._once()
        return super().keys()

    def __len__(self):
        self._once()
        return super().__len__()


# Changes of shapes were counted modulo 15: a run in which there were as many had the batch size of another one.
@pytest.mark.parametrize("changes", [1, 14, 15, 16, 30, 256])
def test_shapes_that_change_during_a_run_are_not_taken_for_its_own(identity, changes):
    own = numpy.ones((3, 4), dtype=numpy.float32)
    others = [{"x": numpy.ones((rows, 4), dtype=numpy.float32)} for rows in (1, 2)]

    def change():
        for number in range(changes):
            session.run(None, others[number % 2])

    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        session.run(None, {"x": own})
        session.run(None, _Meanwhile({"x": own}, change))
        sizes = _batch_sizes(monitor)
    assert sizes == [3] + [1 + number % 2 for number in range(changes)] + [3]


def test_threads_with_different_shapes_have_their_own_batch_sizes(identity):
    threads, runs = 16, 300
    barrier = threading.Barrier(threads)

    def work(rows):
        feed = {"x": numpy.ones((rows, 4), dtype=numpy.float32)}
        barrier.wait()
        for _ in range(runs):
            session.run(None, feed)

    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        workers = [threading.Thread(target=work, args=(number + 1,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        sizes = _batch_sizes(monitor)
    assert collections.Counter(sizes) == {number + 1: runs for number in range(threads)}


# Sessions beyond the first 32 left their counters behind in memory, each one anew.
def test_counters_of_sessions_that_are_gone_are_used_again(run_script):
    done = run_script(
        """
        from ortscope import _native

        def probe():
            return _native.Probe("model", [], [], None, None, None, None)

        kept = [probe() for _ in range(40)]
        # As many sessions as there are numbers.
        for _ in range(70_000):
            probe()
        before = _native.own_memory_bytes()
        for _ in range(400_000):
            probe()
        print((_native.own_memory_bytes() - before) // 1_000_000)
        """
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 5, "megabytes"


def test_an_exception_passes_unchanged_and_is_recorded(tmp_path):
    path = tmp_path / "reshape.onnx"
    path.write_bytes(models.reshape())
    feed = {"x": numpy.ones(6, dtype=numpy.float32), "shape": numpy.array([5, 5], dtype=numpy.int64)}
    plain = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with pytest.raises(Exception) as wanted:
        plain.run(None, feed)
    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(str(path), providers=["CPUExecutionProvider"])
        with pytest.raises(wanted.type) as raised:
            session.run(None, feed)
        assert str(raised.value) == str(wanted.value)
        with pytest.raises(ValueError):
            session.run(None, {})
        with pytest.raises(TypeError):
            session.run()
        assert only_session(monitor.summary())["errors"] == 3
        marks = monitor.summary().data["marks"]
        errors = [mark["text"] for mark in marks if mark["kind"] == "inference_error"]
        assert wanted.type.__name__ in errors[0] and "TypeError" in errors[2]


def test_io_binding_is_recorded(identity, x):
    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        numpy.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], x)
        assert monitor.summary().inferences == 1


@pytest.mark.skipif(not hasattr(onnxruntime.InferenceSession, "run_async"), reason="this version has no run_async")
def test_run_async_is_recorded_when_it_is_done(identity, x):
    import threading

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    done, results = threading.Event(), []

    def finished(values, data, error):
        results.append((values, data, error))
        done.set()

    with ortscope.Monitor() as monitor:
        session = ortscope.MonitoredInferenceSession(identity, options, providers=["CPUExecutionProvider"])
        session.run_async(["y"], {"x": x}, finished, "data")
        assert done.wait(20)
        values, data, error = results[0]
        assert data == "data" and not error
        numpy.testing.assert_array_equal(values[0], x)
        # A session of an earlier test may wait for the garbage collector: the count is what matters.
        assert monitor.summary().inferences == 1


def test_a_session_dies_with_its_last_reference(identity, x):
    session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
    session.run(None, {"x": x})
    gone = weakref.ref(session)
    gc.disable()
    try:
        del session
        assert gone() is None, "the probe makes a cycle"
    finally:
        gc.enable()


def test_pickling_behaves_as_it_does_without_us(identity):
    def outcome(kind):
        try:
            pickle.dumps(kind(identity, providers=["CPUExecutionProvider"]))
            return "pickled"
        except Exception as error:
            return type(error)

    assert outcome(ortscope.MonitoredInferenceSession) == outcome(onnxruntime.InferenceSession)


def test_a_subclass_may_override_run(identity, x):
    class Doubling(ortscope.MonitoredInferenceSession):
        def run(self, output_names, input_feed, run_options=None):
            return [2 * value for value in super().run(output_names, input_feed, run_options)]

    with ortscope.Monitor() as monitor:
        session = Doubling(identity, providers=["CPUExecutionProvider"])
        numpy.testing.assert_array_equal(session.run(None, {"x": x})[0], 2 * x)
        assert monitor.summary().inferences == 1


def test_without_a_monitor_a_session_starts_one(identity, x, store):
    session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
    session.run(None, {"x": x})
    from ortscope import _monitor

    result = _monitor.default_monitor().stop()
    assert result["rows"]["inferences"] == 1 and result["losses"] == []
    assert store.is_dir()


def test_references_are_not_leaked(identity, x):
    import sys

    session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
    feed, names = {"x": x}, ["y"]
    before = [sys.getrefcount(thing) for thing in (session, feed, names, x, None)][:4]
    for _ in range(1000):
        session.run(names, feed)
        session.run(output_names=names, input_feed=feed)
        with pytest.raises(ValueError):
            session.run(names, {})
    after = [sys.getrefcount(thing) for thing in (session, feed, names, x)]
    assert after == before


def test_wrong_settings_are_named(identity):
    with pytest.raises(ValueError, match="frobnicate"):
        ortscope.MonitoredInferenceSession(identity, monitoring_config={"frobnicate": 1})
    with pytest.raises(TypeError, match="dict"):
        ortscope.MonitoredInferenceSession(identity, monitoring_config=[])


def test_an_invalid_model_raises_the_same_error_as_onnxruntime(tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"this is no model")
    with pytest.raises(Exception) as wanted:
        onnxruntime.InferenceSession(str(bad), providers=["CPUExecutionProvider"])
    with pytest.raises(wanted.type):
        ortscope.MonitoredInferenceSession(str(bad), providers=["CPUExecutionProvider"])


def test_hooks_hear_and_cannot_break(identity, x):
    heard, unraisable = [], []
    import sys

    with ortscope.Monitor() as monitor:
        stops = [
            monitor.on_session_created(lambda session: heard.append("session")),
            monitor.on_before_inference(lambda session: heard.append("before")),
            monitor.on_after_inference(lambda session, seconds, ok: heard.append(("after", seconds > 0, ok))),
            monitor.on_after_inference(lambda *_: 1 / 0),
            monitor.on_memory_event(lambda session, sizes: heard.append("memory")),
        ]
        old, sys.unraisablehook = sys.unraisablehook, lambda args: unraisable.append(args.exc_type)
        try:
            session = ortscope.MonitoredInferenceSession(identity, providers=["CPUExecutionProvider"])
            session.run(None, {"x": x})
            with pytest.raises(ValueError):
                session.run(None, {})
        finally:
            sys.unraisablehook = old
        for stop in stops:
            stop()
        session.run(None, {"x": x})
    assert heard == ["session", "memory", "before", ("after", True, True), "before", ("after", True, False)]
    assert unraisable == [ZeroDivisionError, ZeroDivisionError]


def test_an_unused_provider_is_an_event(identity):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this machine may have it")
    events = []
    with ortscope.Monitor() as monitor:
        stop = monitor.on_provider_event(lambda session, event: events.append(event))
        with pytest.warns(UserWarning):
            ortscope.MonitoredInferenceSession(identity, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        stop()
        assert events[0]["missing"] == ["CUDAExecutionProvider"]
        assert monitor.summary().data["mark_counts"]["provider_fallback"] == 1

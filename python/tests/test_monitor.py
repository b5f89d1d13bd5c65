"""Monitor: functions, batches, spans, threads, tasks, and how it starts and stops."""

import asyncio
import pickle
import threading

import ortscope
import pytest


def test_zero_configuration(store):
    monitor = ortscope.Monitor()

    @monitor.monitor_inference("classifier")
    def classify(value):
        """Says what it is."""
        return value + 1

    assert not monitor.is_running
    assert [classify(number) for number in range(10)] == list(range(1, 11))
    assert classify.__name__ == "classify" and classify.__doc__ == "Says what it is."
    assert monitor.summary().model("classifier")["count"] == 10
    result = monitor.stop()
    assert result["rows"]["inferences"] == 10 and result["losses"] == [] and result["errors"] == []
    assert monitor.summary().model("classifier")["count"] == 10
    assert [entry["id"] for entry in ortscope.recordings()] == [result["id"]]


def test_async_functions_and_generators():
    monitor = ortscope.Monitor()

    @monitor.monitor_inference("async")
    async def infer(value):
        await asyncio.sleep(0)
        if value < 0:
            raise ValueError(value)
        return value

    @monitor.monitor_inference("stream")
    def stream():
        yield 1
        yield 2

    @monitor.monitor_inference("async stream")
    async def async_stream():
        yield 1
        yield 2

    async def main():
        results = await asyncio.gather(*[infer(number) for number in range(20)])
        with pytest.raises(ValueError):
            await infer(-1)
        return results, [item async for item in async_stream()]

    assert asyncio.iscoroutinefunction(infer)
    assert asyncio.run(main()) == (list(range(20)), [1, 2])
    assert list(stream()) == [1, 2]
    summary = monitor.summary()
    assert (summary.model("async")["count"], summary.model("async")["errors"]) == (21, 1)
    assert summary.model("stream")["count"] == 1 and summary.model("async stream")["count"] == 1
    monitor.stop()


def test_a_batch_belongs_to_its_own_task(store):
    monitor = ortscope.Monitor()

    @monitor.monitor_inference("m")
    async def infer():
        await asyncio.sleep(0)

    async def batch(size):
        with monitor.monitor_batch(batch_size=size, padding_ratio=0.25, queue_depth=size + 1):
            await asyncio.sleep(0.01)
            await infer()

    async def main():
        await asyncio.gather(batch(8), batch(16), infer())

    asyncio.run(main())
    result = monitor.stop()
    recording = ortscope.Recording(result["directory"])
    table = recording["inferences"]
    seen = sorted(zip(table.column("batch_size"), table.column("queue_depth")), key=str)
    assert seen == sorted([(8, 9), (16, 17), (None, None)], key=str)
    marks = recording["annotations"]
    texts = [text for kind, text in zip(marks.column("kind"), marks.column("text")) if kind == "batch"]
    assert len(texts) == 2 and all('"padding_ratio":0.25' in text for text in texts)


def test_spans_are_on_the_time_line(store):
    with ortscope.Monitor() as monitor:
        with monitor.span("preprocess", trace_id="4bf92f3577b34da6"):
            pass
        with pytest.raises(KeyError):
            with monitor.span("broken"):
                raise KeyError
        monitor.mark("deployed", "version 2")
        directory = monitor.stop()["directory"]
    marks = ortscope.Recording(directory)["annotations"]
    found = list(zip(marks.column("kind"), marks.column("text")))
    spans = [text for kind, text in found if kind == "span"]
    assert '"trace_id":"4bf92f3577b34da6"' in spans[0] and '"ok":true' in spans[0]
    assert '"ok":false' in spans[1]
    assert ("deployed", "version 2") in found


def test_many_threads_lose_nothing():
    monitor = ortscope.Monitor()

    @monitor.monitor_inference("m")
    def work():
        return None

    def loop():
        for _ in range(5000):
            work()

    threads = [threading.Thread(target=loop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert monitor.summary().model("m")["count"] == 40000
    result = monitor.stop()
    assert result["rows"]["inferences"] == 40000 and result["losses"] == []
    table = ortscope.Recording(result["directory"])["inferences"]
    assert sorted(table.column("sequence")) == list(range(40000))
    assert len(set(table.column("stream"))) == 8


def test_monitors_share_one_recording():
    first, second = ortscope.Monitor(), ortscope.Monitor()

    @first.monitor_inference("m")
    def work():
        return None

    first.start()
    second.start()
    work()
    assert first.stop() is None, "the second still needs it"
    work()
    assert second.summary().model("m")["count"] == 2
    assert second.stop()["rows"]["inferences"] == 2
    assert second.stop()["rows"]["inferences"] == 2, "stopping twice changes nothing"


def test_a_monitor_can_start_again():
    monitor = ortscope.Monitor()

    @monitor.monitor_inference("m")
    def work():
        return None

    counts = []
    for _ in range(3):
        with monitor:
            work()
            counts.append(monitor.summary().inferences)
        work()
    assert counts == [1, 1, 1]
    assert len(ortscope.recordings()) == 3


def test_without_a_recording_there_is_still_the_live_view(store):
    with ortscope.Monitor(record=False) as monitor:

        @monitor.monitor_inference("m")
        def work():
            return None

        work()
        assert monitor.summary().inferences == 1
        assert monitor.recording_id is None
    assert not store.exists()


def test_summaries_print():
    with ortscope.Monitor() as monitor:

        @monitor.monitor_inference("<b>model</b>")
        def work():
            return None

        work()
        summary = monitor.summary()
        assert "<b>model</b>" in str(summary) and "n/a" in str(summary)
        assert "&lt;b&gt;model&lt;/b&gt;" in summary._repr_html_()
        assert "&lt;b&gt;" in monitor._repr_html_()
        with pytest.raises(KeyError, match="model"):
            summary.model("other")


@pytest.mark.parametrize(
    "arguments",
    [{"batch_size": 0}, {"batch_size": "many"}, {"batch_size": 1, "padding_ratio": 2}, {"batch_size": 1, "queue_depth": -1}],
)
def test_wrong_batches_are_refused(arguments):
    with pytest.raises((ValueError, TypeError)):
        with ortscope.Monitor().monitor_batch(**arguments):
            pass


def test_wrong_use_is_named():
    monitor = ortscope.Monitor()
    with pytest.raises(TypeError, match="name of the model"):
        monitor.monitor_inference(lambda: None)
    with pytest.raises(ValueError):
        monitor.monitor_inference("")
    with pytest.raises(ValueError, match="sampling_hz"):
        ortscope.Monitor(sampling_hz=0)
    with pytest.raises(ortscope.MonitorError, match="start"):
        monitor.summary()
    with pytest.raises(TypeError):
        pickle.dumps(monitor)
    with pytest.raises(TypeError):
        monitor.on_after_inference("not callable")


def test_a_place_that_cannot_be_written_is_an_error_with_its_name(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ortscope.RecordingError, match="file"):
        ortscope.Monitor(store=str(blocked / "below")).start()
    with ortscope.Monitor() as monitor:
        assert monitor.is_running

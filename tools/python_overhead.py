"""What monitoring costs per `InferenceSession.run`, ours and the usual ways, in alternating blocks of one process.

    python_overhead.py IDENTITY_MODEL REAL_MODEL ROUNDS

Prints JSON. Cost is CPU time of the calling thread; every way calls the public `run` with the same arguments. One round
is one block of each way; a way's figure is the median over the rounds of its block minus the bare block of its round.
"""

import gc
import json
import os
import statistics
import sys
import tempfile
import time

CALLS = 200
WARM_UP = 30
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy  # noqa: E402
import onnxruntime  # noqa: E402


def session(kind, path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return kind(path, options, providers=["CPUExecutionProvider"])


def ways(path, feed):
    import ortscope
    import prometheus_client
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from ortscope import _session

    class Nowhere(SpanExporter):
        def export(self, spans):
            return SpanExportResult.SUCCESS

    bare = session(onnxruntime.InferenceSession, path)
    ours = session(ortscope.MonitoredInferenceSession, path)
    registry = prometheus_client.CollectorRegistry()
    histogram = prometheus_client.Histogram("run_seconds", "run", registry=registry)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=8192))
    tracer = provider.get_tracer("bench")
    kept = []

    def plain(run=bare.run):
        for _ in range(CALLS):
            bare.run(None, feed)

    def counter():
        clock = time.perf_counter
        for _ in range(CALLS):
            start = clock()
            bare.run(None, feed)
            kept.append(clock() - start)
        del kept[:]

    def prometheus():
        clock = time.perf_counter
        for _ in range(CALLS):
            start = clock()
            bare.run(None, feed)
            histogram.observe(clock() - start)

    def opentelemetry():
        for _ in range(CALLS):
            with tracer.start_as_current_span("run"):
                bare.run(None, feed)

    def monitored():
        for _ in range(CALLS):
            ours.run(None, feed)

    nothing = lambda: None  # noqa: E731
    return [
        ("bare", plain, nothing, nothing),
        ("perf_counter", counter, nothing, nothing),
        ("prometheus", prometheus, nothing, nothing),
        ("opentelemetry", opentelemetry, nothing, nothing),
        ("session", monitored, nothing, nothing),
        ("patched", plain, _session.patch_classes, _session.unpatch),
    ], bare


def measure(rounds, path):
    feed = {"x": numpy.ones((1, 4), dtype=numpy.float32)}
    name = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()[0]
    feed = {name.name: numpy.ones([dim if isinstance(dim, int) else 1 for dim in name.shape], dtype=numpy.float32)}
    chosen, bare = ways(path, feed)
    blocks = {name: [] for name, *_ in chosen}
    gc.collect()
    gc.disable()
    for round_number in range(rounds):
        order = chosen if round_number % 2 else chosen[::-1]
        for name, block, before, after in order:
            before()
            for _ in range(WARM_UP):
                bare.run(None, feed)
            start = time.thread_time_ns()
            block()
            blocks[name].append((time.thread_time_ns() - start) / CALLS)
            after()
    gc.enable()
    result = {"bare_ns": statistics.median(blocks["bare"]), "bare_min_ns": min(blocks["bare"])}
    for name in blocks:
        if name != "bare":
            added = [way - plain for way, plain in zip(blocks[name], blocks["bare"])]
            result["added_ns_" + name] = statistics.median(added)
            result["added_min_ns_" + name] = min(blocks[name]) - min(blocks["bare"])
    return result


def paced(path, rounds):
    """p50 of a real model at 1000 inferences a second: patched over plain, in alternating blocks."""
    from ortscope import _session

    plain = session(onnxruntime.InferenceSession, path)
    kinds = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}
    feed = {}
    for given in plain.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 for dim in given.shape]
        if given.name == "input" and len(shape) == 2:
            shape = [1, 576]
        feed[given.name] = numpy.zeros(shape, dtype=kinds[given.type])

    def block():
        took, due = [], time.perf_counter()
        for _ in range(150):
            due += 0.001
            while time.perf_counter() < due:
                pass
            start = time.perf_counter()
            plain.run(None, feed)
            took.append(time.perf_counter() - start)
        return statistics.median(took)

    ratios = []
    for _ in range(rounds):
        bare = block()
        _session.patch_classes()
        block_patched = block()
        _session.unpatch()
        ratios.append(block_patched / bare)
    return statistics.median(ratios), bare * 1e3


def main():
    identity, real, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory() as store:
        import ortscope

        monitor = ortscope.Monitor(store=store, sampling_hz=10).start()
        result = measure(rounds, identity)
        result["paced_p50_ratio"], result["paced_p50_ms"] = paced(real, max(4, rounds // 8))
        summary = monitor.summary()
        ended = monitor.stop()
        result["recorded"] = summary.inferences
        result["losses"] = ended["losses"]
    import opentelemetry.sdk.version
    import prometheus_client

    result["versions"] = {
        "python": sys.version.split()[0],
        "onnxruntime": onnxruntime.__version__,
        "numpy": numpy.__version__,
        "opentelemetry": opentelemetry.sdk.version.__version__,
        "prometheus_client": getattr(prometheus_client, "__version__", "unknown"),
    }
    print(json.dumps(result))


main()

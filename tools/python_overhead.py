"""What monitoring costs per `InferenceSession.run`, ours and the usual ways, in alternating blocks of one process.

    python_overhead.py IDENTITY_MODEL ROUNDS PACED_SECONDS REAL_MODEL...

Prints JSON. Cost is CPU time of the calling thread; every way calls the public `run` with the same arguments. One round
is one block of each way. `added_ns_…` is a way's fastest block minus the fastest bare one, `added_median_ns_…` the median
over the rounds of its block minus the bare block of its round. Where in memory a session happens to lie changes its runs
by as much as what is measured here: so there are several, used in turn, and each is one session of ONNX Runtime's library
behind a Python object of every kind.

The program is patched once and stays so: patching again and again would empty the interpreter's inline caches, and be
what is measured. A bare session is one of a class whose `run` is ONNX Runtime's own function.

In a program every place that calls `run` meets one kind of session, and the interpreter (from 3.11 on) adapts its code to
that kind. Here each kind therefore has copies of its own of the code that calls it and of ONNX Runtime's wrapper, and our two
kinds, which must share the latter, are measured one after the other. With common code a session of a second class without
any monitoring seemed to cost 0.4 % at 1000 inferences a second.
"""

import gc
import json
import math
import os
import statistics
import sys
import tempfile
import time
import types

CALLS = 200
SESSIONS = 4
#: Inferences of a block at 1000 a second, and how many of them are its warm-up.
PACED_CALLS = 10
PACED_WARM_UP = 1
#: Blocks of each kind behind one ratio.
PACED_BLOCKS = 20
#: The paced ratio is known well enough when its interval reaches no farther to each side.
PACED_HALF_WIDTH = 0.0005
PACED_PAIRS_LEAST = 20
#: Of the millisecond that each inference has.
MAX_RUN_SECONDS = 0.0008
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy  # noqa: E402
import onnxruntime  # noqa: E402


class Bare(onnxruntime.InferenceSession):
    """As in a program that is not patched."""

    run = onnxruntime.InferenceSession.run


def copy_of(function):
    """The same function with code of its own, to which the interpreter adapts apart from the original's."""
    code = function.__code__.replace()
    copied = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def plain_class(name):
    """A class of sessions as in a program that is not patched, which shares no code with the others."""
    own = {key: copy_of(getattr(Bare, key)) for key in ("run", "_validate_input") if hasattr(Bare, key)}
    return type(name, (onnxruntime.InferenceSession,), own)


def empty_wrapper_class():
    """The least that a wrapper in Python can do: be called."""
    wrapped = plain_class("Wrapped")
    original = wrapped.run

    def run(self, *arguments):
        return original(self, *arguments)

    wrapped.run = run
    return wrapped


def session(kind, path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return kind(path, options, providers=["CPUExecutionProvider"])


def alike(kinds, path):
    """A session of each kind, all in front of the same session of the library."""
    made = [session(kind, path) for kind in kinds]
    for other in made[1:]:
        other._sess = made[0]._sess
    return made


def ways(path, feed):
    import ortscope
    import prometheus_client
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans):
            return SpanExportResult.SUCCESS

    # One of each kind after the other, so that none has the better place.
    kinds = (plain_class("Plain"), onnxruntime.InferenceSession, ortscope.MonitoredInferenceSession)
    made = [alike(kinds, path) for _ in range(SESSIONS)]
    bare, patched, ours = zip(*made)
    registry = prometheus_client.CollectorRegistry()
    histogram = prometheus_client.Histogram("run_seconds", "run", registry=registry)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=8192))
    tracer = provider.get_tracer("bench")
    kept = []

    def plain(of):
        for _ in range(CALLS):
            of.run(None, feed)

    def counter(of):
        clock = time.perf_counter
        for _ in range(CALLS):
            start = clock()
            of.run(None, feed)
            kept.append(clock() - start)
        del kept[:]

    def prometheus(of):
        clock = time.perf_counter
        for _ in range(CALLS):
            start = clock()
            of.run(None, feed)
            histogram.observe(clock() - start)

    def opentelemetry(of):
        for _ in range(CALLS):
            with tracer.start_as_current_span("run"):
                of.run(None, feed)

    return {
        "bare": (plain, bare),
        "perf_counter": (counter, bare),
        "prometheus": (prometheus, bare),
        "opentelemetry": (opentelemetry, bare),
        "session": (copy_of(plain), ours),
        "patched": (copy_of(plain), patched),
    }


def measure(rounds, path, names):
    """The ways of these names in alternating blocks; the first is bare."""
    given = session(Bare, path).get_inputs()[0]
    feed = {given.name: numpy.ones([dim if isinstance(dim, int) else 1 for dim in given.shape], dtype=numpy.float32)}
    known = ways(path, feed)
    chosen = {name: known[name] for name in names}
    blocks = {name: [] for name in chosen}
    gc.collect()
    gc.disable()
    for round_number in range(rounds):
        order = list(chosen) if round_number % 2 else list(chosen)[::-1]
        for name in order:
            block, sessions = chosen[name]
            of = sessions[round_number // 2 % SESSIONS]
            # Once to warm up what the way before has pushed out.
            block(of)
            start = time.thread_time_ns()
            block(of)
            blocks[name].append((time.thread_time_ns() - start) / CALLS)
    gc.enable()
    result = {"bare_ns": min(blocks["bare"]), "bare_median_ns": statistics.median(blocks["bare"])}
    for name in blocks:
        if name != "bare":
            added = [way - plain for way, plain in zip(blocks[name], blocks["bare"])]
            result["added_ns_" + name] = min(blocks[name]) - min(blocks["bare"])
            result["added_median_ns_" + name] = statistics.median(added)
    return result


def ratio_of(pairs):
    """Hodges-Lehmann estimate of ours over theirs, with its 95 % interval by signed ranks (normal approximation)."""
    logs = [math.log(ours / theirs) for theirs, ours in pairs]
    count = len(logs)
    walsh = sorted((logs[i] + logs[j]) / 2 for i in range(count) for j in range(i, count))
    rank = int(max(0.0, count * (count + 1) / 4 - 1.96 * math.sqrt(count * (count + 1) * (2 * count + 1) / 24)))
    return [math.exp(value) for value in (statistics.median(walsh), walsh[rank], walsh[-rank - 1])]


def paced_block(of, feed):
    """The median time of a run."""
    clock, took = time.perf_counter, []
    due = clock()
    for _ in range(PACED_CALLS):
        due += 0.001
        while clock() < due:
            pass
        start = clock()
        of.run(None, feed)
        took.append(clock() - start)
    return statistics.median(took[PACED_WARM_UP:])


def feed_of(of, length):
    """Inputs of zeros; `length` stands for every size that the model leaves open but the batch."""
    kinds = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}
    feed = {}
    for given in of.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 if at == 0 else length for at, dim in enumerate(given.shape)]
        if given.name == "input" and len(shape) == 2:
            shape = [1, 576]
        value = length if given.name.endswith("lengths") else 0
        feed[given.name] = numpy.full(shape, value, dtype=kinds[given.type])
    return feed


def longest_feed(of):
    """(length, feed): the longest of some inputs with which the model has time for 1000 inferences a second on this machine.

    What monitoring costs does not depend on the model: a run that is nearly nothing would only show how small it is."""
    chosen = None
    for length in (1, 2, 3, 4, 6, 8, 12, 16):
        feed, took = feed_of(of, length), []
        try:
            for _ in range(60):
                start = time.perf_counter()
                of.run(None, feed)
                took.append(time.perf_counter() - start)
        except Exception:
            # What it leaves open is not a length.
            if chosen is None:
                raise
            break
        if chosen is not None and statistics.median(took) > MAX_RUN_SECONDS:
            break
        chosen = length, feed
    return chosen


def paced(path, seconds, kind):
    """p50 of a real model at 1000 inferences a second, of a kind of session and plain, in short blocks that take turns.

    As `ortscope bench` does it: a block is compared with the blocks before and after it, which meet the same speed of the
    machine; the median over some blocks is one ratio; ratios are collected until the whole is known well enough or the time
    is over. Waiting is done by looking at the clock: a processor that sleeps wakes up to other speeds, which would be what
    is measured.
    """
    both = plain_class("Plain"), kind
    sessions = [alike(both, path) for _ in range(SESSIONS)]
    length, feed = longest_feed(sessions[0][0])
    blocks = copy_of(paced_block), copy_of(paced_block)

    def one_ratio(plain, patched):
        """(plain, patched) of a typical block, by blocks that follow each other."""
        medians = [block(of, feed) for _ in range(PACED_BLOCKS) for block, of in zip(blocks, (plain, patched))]
        logs = [
            math.log(after / before) if number % 2 == 0 else math.log(before / after)
            for number, (before, after) in enumerate(zip(medians, medians[1:]))
        ]
        typical = statistics.median(medians[::2])
        return typical, typical * math.exp(statistics.median(logs))

    pairs, end = [], time.monotonic() + seconds
    while True:
        pairs.append(one_ratio(*sessions[len(pairs) % SESSIONS]))
        is_over = time.monotonic() >= end
        if is_over or (len(pairs) >= PACED_PAIRS_LEAST and len(pairs) % 10 == 0):
            ratio, low, high = ratio_of(pairs)
            if is_over or math.log(high / low) / 2 <= PACED_HALF_WIDTH:
                break
    return {
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "p50_ms": statistics.median(bare for bare, _ in pairs) * 1e3,
        "length": length,
        "pairs": len(pairs),
    }


def main():
    identity, rounds, seconds, real = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    with tempfile.TemporaryDirectory() as store:
        import ortscope

        monitor = ortscope.Monitor(store=store, sampling_hz=10).start()
        ortscope.patch()
        result = measure(rounds, identity, ("bare", "patched"))
        result.update(measure(rounds, identity, ("bare", "perf_counter", "prometheus", "opentelemetry", "session")))
        result["paced"] = [
            {
                "patched": paced(path, seconds, onnxruntime.InferenceSession),
                "empty_wrapper": paced(path, seconds, empty_wrapper_class()),
            }
            for path in real
        ]
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

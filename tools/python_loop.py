"""The loop a user writes to time a model in Python, as fair as Python allows: I/O binding, one thread, warm-up.

    python_loop.py MODEL [--runs N] [--warmup N] [--threads N] [--shape INPUT=1x3x224x224]...

Prints the percentiles of the single runs and the versions as one JSON object. This is the peer of `ortscope run`.
"""

import argparse
import gc
import json
import platform
from time import perf_counter_ns

import numpy as np
import onnxruntime

NUMPY_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


def make_input(declared, shapes, random):
    shape = shapes.get(declared.name) or [size if isinstance(size, int) else 1 for size in declared.shape]
    kind = NUMPY_TYPES[declared.type]
    if np.issubdtype(kind, np.floating):
        return random.random(shape).astype(kind)
    return np.zeros(shape, kind)


def measure(session, binding, runs):
    """The time of each run in nanoseconds; nothing else happens between the two readings of the clock."""
    times = np.empty(runs, np.int64)
    run = session.run_with_iobinding
    for index in range(runs):
        start = perf_counter_ns()
        run(binding)
        times[index] = perf_counter_ns() - start
    return times


def parse_shape(text):
    name, _, sizes = text.rpartition("=")
    return name, [int(size) for size in sizes.split("x")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shape", type=parse_shape, action="append", default=[])
    options = parser.parse_args()

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    binding = session.io_binding()
    inputs = {entry.name: make_input(entry, dict(options.shape), random) for entry in session.get_inputs()}
    for name, values in inputs.items():
        # In memory of ONNX Runtime's own, as `ortscope run` has it.
        bound = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(values.shape), values.dtype.type, "cpu")
        bound.update_inplace(values)
        binding.bind_ortvalue_input(name, bound)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    measure(session, binding, options.warmup)
    gc.disable()
    times = measure(session, binding, options.runs)
    print(json.dumps({
        "p50_ms": float(np.percentile(times, 50)) / 1e6,
        "p90_ms": float(np.percentile(times, 90)) / 1e6,
        "runs": options.runs,
        "shapes": {name: list(values.shape) for name, values in inputs.items()},
        "onnxruntime": onnxruntime.__version__,
        "python": platform.python_version(),
    }))


if __name__ == "__main__":
    main()

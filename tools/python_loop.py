"""The loop a user writes to time a model in Python, as fair as Python allows: I/O binding, one thread, warm-up.

    python_loop.py MODEL [--runs N] [--warmup N] [--threads N] [--shape INPUT=1x3x224x224]... [--library FILE]

Prints the percentiles of the single runs and the versions as one JSON object. This is the peer of `ortscope run`.

The package `onnxruntime` runs models by a module of its own, which is another build of the code than the shared library that
lies beside it. With `--library` the same loop calls that library's C API instead.
"""

import argparse
import ctypes
import functools
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


def measure(run, runs):
    """The time of each run in nanoseconds; nothing else happens between the two readings of the clock."""
    times = np.empty(runs, np.int64)
    for index in range(runs):
        start = perf_counter_ns()
        run()
        times[index] = perf_counter_ns() - start
    return times


def session_run(session, inputs):
    """A run through the package, with everything bound."""
    binding = session.io_binding()
    for name, values in inputs.items():
        # In memory of ONNX Runtime's own, as `ortscope run` has it.
        bound = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(values.shape), values.dtype.type, "cpu")
        bound.update_inplace(values)
        binding.bind_ortvalue_input(name, bound)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return functools.partial(session.run_with_iobinding, binding)


# Places in OrtApi, which only grows, and values of ONNXTensorElementDataType.
GET_ERROR_MESSAGE, CREATE_ENV, CREATE_SESSION, RUN, CREATE_SESSION_OPTIONS = 2, 3, 7, 9, 10
SET_INTRA_OP_NUM_THREADS, CREATE_TENSOR_WITH_DATA, CREATE_CPU_MEMORY_INFO = 24, 49, 69
ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def library_run(library, model, threads, inputs, output_names):
    """A run through the C API of a shared library; inputs and outputs are made once."""
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    get_base = ctypes.CDLL(library).OrtGetApiBase
    get_base.restype = ctypes.POINTER(ctypes.CFUNCTYPE(ctypes.POINTER(pointer), ctypes.c_uint32))
    api = get_base()[0](15)

    def function(place, *arguments):
        call = ctypes.CFUNCTYPE(pointer, *arguments)(api[place])

        def checked(*values):
            status = call(*values)
            if status:
                message = ctypes.CFUNCTYPE(text, pointer)(api[GET_ERROR_MESSAGE])(status)
                raise RuntimeError(message.decode())

        return call, checked

    def made(place, arguments, *values):
        result = pointer()
        function(place, *arguments, ctypes.POINTER(pointer))[1](*values, ctypes.byref(result))
        return result

    errors_only = 3
    environment = made(CREATE_ENV, [ctypes.c_int, text], errors_only, b"python_loop")
    settings = made(CREATE_SESSION_OPTIONS, [])
    function(SET_INTRA_OP_NUM_THREADS, pointer, ctypes.c_int)[1](settings, threads)
    session = made(CREATE_SESSION, [pointer, text, pointer], environment, model.encode(), settings)
    memory = made(CREATE_CPU_MEMORY_INFO, [ctypes.c_int, ctypes.c_int], 0, 0)
    values = []
    for array in inputs.values():
        dimensions = (ctypes.c_int64 * array.ndim)(*array.shape)
        values.append(made(
            CREATE_TENSOR_WITH_DATA,
            [pointer, pointer, size, ctypes.POINTER(ctypes.c_int64), size, ctypes.c_int],
            memory, array.ctypes.data, array.nbytes, dimensions, array.ndim, ELEMENT_TYPES[array.dtype.name],
        ))
    input_names = (text * len(inputs))(*[name.encode() for name in inputs])
    names = (text * len(output_names))(*[name.encode() for name in output_names])
    given = (pointer * len(values))(*[value.value for value in values])
    outputs = (pointer * len(output_names))()
    call, checked = function(
        RUN, pointer, pointer, ctypes.POINTER(text), ctypes.POINTER(pointer), size, ctypes.POINTER(text), size,
        ctypes.POINTER(pointer),
    )
    arguments = (session, None, input_names, given, len(values), names, len(output_names), outputs)
    checked(*arguments)
    return functools.partial(call, *arguments)


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
    parser.add_argument("--library")
    options = parser.parse_args()

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    inputs = {entry.name: make_input(entry, dict(options.shape), random) for entry in session.get_inputs()}
    if options.library:
        output_names = [output.name for output in session.get_outputs()]
        del session
        run = library_run(options.library, options.model, options.threads, inputs, output_names)
    else:
        run = session_run(session, inputs)

    measure(run, options.warmup)
    gc.disable()
    times = measure(run, options.runs)
    print(json.dumps({
        "p50_ms": float(np.percentile(times, 50)) / 1e6,
        "p90_ms": float(np.percentile(times, 90)) / 1e6,
        "runs": options.runs,
        "through": "library" if options.library else "package",
        "shapes": {name: list(values.shape) for name, values in inputs.items()},
        "onnxruntime": onnxruntime.__version__,
        "python": platform.python_version(),
    }))


if __name__ == "__main__":
    main()

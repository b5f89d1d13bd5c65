"""Writes a small model with everything that makes profiles difficult, and records profiles of it.

    make.py model MODEL                    needs onnx
    make.py record MODEL PROFILE [MODE]    needs onnxruntime of the version to record; MODE: parallel, concurrent

The model has nested sub-graphs (If in If, Loop), a node without a name, two nodes with the same name (in two graphs, in
one it is forbidden), and names with a quote, with backslashes and with the suffix that ONNX Runtime adds to the names
of events.
"""

import json
import os
import sys
import threading


def write_model(path):
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node
    value = helper.make_tensor_value_info
    size = [2, 3]

    def constant(name, kind, values, shape=()):
        return helper.make_tensor(name, kind, shape, values)

    def branch(name, nodes, output):
        return helper.make_graph(nodes, name, [], [value(output, TensorProto.FLOAT, size)])

    inner_then = branch("inner_then", [node("Neg", ["x"], ["inner_a"], name="inner_then/Neg")], "inner_a")
    inner_else = branch("inner_else", [node("Abs", ["x"], ["inner_b"], name="inner_else/Abs")], "inner_b")
    outer_then = branch("outer_then", [
        node("Add", ["x", "x"], ["doubled"], name="twice"),
        node("If", ["yes"], ["inner"], name="inner_if", then_branch=inner_then, else_branch=inner_else),
        node("Sub", ["doubled", "inner"], ["outer_a"], name="outer_then/Sub"),
    ], "outer_a")
    outer_else = branch("outer_else", [node("Identity", ["x"], ["outer_b"], name="outer_else/Identity")], "outer_b")
    body = helper.make_graph(
        [
            node("Identity", ["going"], ["still_going"], name="body/Identity"),
            node("Mul", ["carried", "carried"], ["squared"], name="body/Mul"),
        ],
        "body",
        [value("step", TensorProto.INT64, []), value("going", TensorProto.BOOL, []),
         value("carried", TensorProto.FLOAT, size)],
        [value("still_going", TensorProto.BOOL, []), value("squared", TensorProto.FLOAT, size)],
    )
    graph = helper.make_graph(
        [
            node("Add", ["x", "one"], ["a"], name="named_kernel_time"),
            node("Mul", ["a", "one"], ["b"]),
            node("Relu", ["b"], ["c"], name='with "quotes"'),
            node("Exp", ["c"], ["d"], name="models\\net\\Exp_1"),
            node("If", ["yes"], ["e"], name="outer_if", then_branch=outer_then, else_branch=outer_else),
            node("Loop", ["two", "yes", "e"], ["f"], name="repeat", body=body),
            node("Add", ["d", "f"], ["y"], name="twice"),
        ],
        "difficult",
        [value("x", TensorProto.FLOAT, size), value("yes", TensorProto.BOOL, [])],
        [value("y", TensorProto.FLOAT, size)],
        [constant("one", TensorProto.FLOAT, [1.0]), constant("two", TensorProto.INT64, [2])],
    )
    # An old format on purpose: the oldest supported ONNX Runtime must read it.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def record(model, profile, mode):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = profile + ".tmp"
    # As written, so that every version has the same nodes.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 2
    if mode == "parallel":
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = {"x": numpy.ones([2, 3], numpy.float32), "yes": numpy.array(True)}
    if mode == "concurrent":
        barrier = threading.Barrier(2)

        def run():
            barrier.wait()
            session.run(None, inputs)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for _ in range(2):
            session.run(None, inputs)
    written = session.end_profiling()
    if mode == "concurrent" and not overlaps(written):
        os.remove(written)
        return record(model, profile, mode)
    os.replace(written, profile)
    print(profile, "by", onnxruntime.__version__)


def overlaps(path):
    """Whether the two runs of a profile went on at the same time."""
    with open(path, encoding="utf-8") as file:
        runs = [event for event in json.load(file) if event["name"] == "model_run"]
    first, second = sorted(runs, key=lambda run: run["ts"])
    return second["ts"] + 50 < first["ts"] + first["dur"]


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "model":
        write_model(sys.argv[2])
    elif len(sys.argv) in (4, 5) and sys.argv[1] == "record":
        record(sys.argv[2], sys.argv[3], sys.argv[4] if len(sys.argv) == 5 else "")
    else:
        sys.exit(__doc__)

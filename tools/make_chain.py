"""Writes a model of many small nodes, and with --profile the operator profile that ONNX Runtime makes of it.

    make_chain.py OUTPUT.onnx NODES
    make_chain.py OUTPUT.onnx NODES --profile OUTPUT.json RUNS

The nodes are products, sums and activations of two branches that meet again and again, with names of the length that
exporters give. A profile stops at 1,000,000 events, whatever RUNS is: that is ONNX Runtime's limit.
"""

import os
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 16


def make(path, count):
    weight = numpy_helper.from_array(numpy.eye(WIDTH, dtype=numpy.float32), "weight")
    bias = numpy_helper.from_array(numpy.full(WIDTH, 0.01, numpy.float32), "bias")
    nodes, left, right = [], "input", "input"
    while len(nodes) < count:
        number = len(nodes)
        name = f"/encoder/layers.{number // 12}/block.{number % 12}"
        kinds = [
            ("MatMul", [left, "weight"], "left"),
            ("Add", [left, "bias"], "left"),
            ("Sigmoid", [right], "right"),
            ("Mul", [right, left], "right"),
            ("Add", [left, right], "left"),
        ]
        kind, inputs, side = kinds[number % len(kinds)]
        output = f"{name}/{kind}_output_0"
        nodes.append(helper.make_node(kind, inputs, [output], name=f"{name}/{kind}"))
        left, right = (output, right) if side == "left" else (left, output)
    nodes.append(helper.make_node("Add", [left, right], ["output"], name="/head/Add"))
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, WIDTH]) for n in ("input", "output")]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:], [weight, bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)


def profile(model, path, runs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = path
    options.log_severity_level = 4
    # As many events as the file has nodes: nothing is fused.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {"input": numpy.full((4, WIDTH), 0.5, numpy.float32)}
    for _ in range(runs):
        session.run(None, feed)
    os.replace(session.end_profiling(), path)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 6):
        sys.exit(__doc__)
    make(sys.argv[1], int(sys.argv[2]))
    if len(sys.argv) == 6:
        profile(sys.argv[1], sys.argv[4], int(sys.argv[5]))

"""Writes a model of a hundred small nodes, one after another, none of which can be fused with another.

    make_hundred_nodes.py OUTPUT
"""

import sys

import onnx
from onnx import TensorProto, helper

SHAPE = [1, 4]
NODES = 100


def main():
    names = ["x"] + ["t%d" % number for number in range(1, NODES)] + ["y"]
    nodes = [
        helper.make_node("Sin" if number % 2 else "Cos", [names[number]], [names[number + 1]], name="n%d" % number)
        for number in range(NODES)
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

"""Writes a model of one Identity node: what a run of it takes is the cost of the call, nothing else.

    make_identity.py OUTPUT
"""

import sys

import onnx
from onnx import TensorProto, helper

SHAPE = [1, 4]


def main():
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"], name="identity")],
        "identity",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
    )
    # An old format on purpose: the oldest supported ONNX Runtime must read it.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

"""Counts a model's operations with onnx-tool, node by node, for comparison with our own count.

    flops_peer.py MODEL [INPUT=DIMxDIM…[:VALUE]]…

Every input is filled with its VALUE (1 unless given). The model runs once on ONNX Runtime without optimisation, so that
every tensor has the shape of a real run; onnx-tool's own shape inference fails on half of the models. Each node is then
counted by onnx-tool's formula for it, on these shapes. Where onnx-tool's whole pipeline works, its total is printed too.

Output: one JSON document on stdout.
    tensors  name -> {"element": ONNX code, "shape": […], "parameter": bool, "value": small integer tensors}
    nodes    {"output": first output, "op_type": …, "macs": number, or null with "why"}
    whole    {"macs": number} or {"error": text}: onnx-tool's own total, with its own shapes
"""

import contextlib
import io
import json
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import onnx_tool
from onnx_tool.node import FusedBase, NODE_REGISTRY, Node, create_node

SMALL = 8


class Shaped:
    """A tensor as onnx-tool's formulas see it: its shape is all they ask for."""

    def __init__(self, shape):
        self.shape = list(shape)

    def get_shape(self):
        return list(self.shape)


def parse_inputs(arguments):
    inputs = {}
    for argument in arguments:
        name, _, rest = argument.rpartition("=")
        dims, _, value = rest.partition(":")
        inputs[name] = ([int(dim) for dim in dims.split("x") if dim], float(value or 1))
    return inputs


def graph_inputs(graph):
    parameters = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in parameters]


def fill(graph, given):
    """A value for every input; what was not given takes the size from the model and 1 for the unknown."""
    feeds = {}
    for value in graph_inputs(graph):
        tensor = value.type.tensor_type
        shape, number = given.get(value.name, ([dim.dim_value or 1 for dim in tensor.shape.dim], 1))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feeds[value.name] = np.full(shape, number, dtype)
    return feeds


def run_with_every_tensor(model, feeds):
    """All tensors of the main graph from one run of the unoptimised model."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    known = {value.name for value in exposed.graph.output}
    for node in exposed.graph.node:
        for name in node.output:
            if name and name not in known:
                known.add(name)
                exposed.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def describe(array, is_parameter):
    facts = {
        "element": onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
        "shape": list(array.shape),
        "parameter": is_parameter,
    }
    if array.dtype.kind in "iu" and array.size <= SMALL:
        facts["value"] = [int(item) for item in array.reshape(-1)]
    return facts


def count_node(node, tensors):
    """MACs by onnx-tool, or `None` and why it has none."""
    if node.op_type + "Node" not in NODE_REGISTRY:
        return None, "onnx-tool does not know the operator"
    counter = create_node(node)
    if type(counter).profile in (Node.profile, FusedBase.profile):
        return None, "onnx-tool counts nothing for it"
    # Inputs left out are left out here as well: onnx-tool sees them as tensors without a name.
    read = [Shaped(tensors[name]["shape"]) for name in node.input if name in tensors]
    written = [Shaped(tensors[name]["shape"]) for name in node.output if name in tensors]
    try:
        return int(counter.profile(read, written)[0]), None
    except Exception as error:  # whatever the formula stumbles over is what there is to report
        return None, f"onnx-tool fails: {type(error).__name__}: {error}"


def whole(path, feeds):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            graph = onnx_tool.Model(path, {"verbose": False}).graph
            graph.graph_reorder_nodes()
            graph.shape_infer(feeds)
            graph.profile()
        return {"macs": int(graph.macs[0])}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    warnings.simplefilter("ignore")
    path = sys.argv[1]
    model = onnx.load(path)
    feeds = fill(model.graph, parse_inputs(sys.argv[2:]))
    values = run_with_every_tensor(model, feeds)
    tensors = {name: describe(array, False) for name, array in {**feeds, **values}.items() if hasattr(array, "dtype")}
    for tensor in model.graph.initializer:
        tensors[tensor.name] = {
            "element": tensor.data_type,
            "shape": list(tensor.dims),
            "parameter": True,
        }
        if tensor.data_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
            array = onnx.numpy_helper.to_array(tensor)
            if array.size <= SMALL:
                tensors[tensor.name]["value"] = [int(item) for item in array.reshape(-1)]
    nodes = []
    for node in model.graph.node:
        macs, why = count_node(node, tensors)
        entry = {"output": next(iter(node.output), ""), "op_type": node.op_type, "macs": macs}
        nodes.append(entry if why is None else {**entry, "why": why})
    json.dump(
        {
            "tool": f"onnx-tool {onnx_tool.VERSION}",
            "onnxruntime": onnxruntime.__version__,
            "tensors": tensors,
            "nodes": nodes,
            "whole": whole(path, feeds),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()

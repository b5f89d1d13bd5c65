"""Writes a small decoder-only language model, built as exported LLMs are: grouped-query attention with a KV cache,
rotary positions, int4 weights and a gated feed-forward network. The weights are random with a fixed seed: it says
nothing, but it exercises what a profiler must understand (cache in and out, quantised matrices, prefill and decode).

    make_tiny_llm.py OUTPUT

Inputs:  input_ids [batch, seq], attention_mask [batch, total], past.N.key and past.N.value [batch, heads, past, size]
Outputs: logits [batch, seq, vocabulary], present.N.key and present.N.value [batch, heads, total, size]

Needs ONNX Runtime 1.20 or newer to run (GroupQueryAttention on float). After writing, the script decodes one token with
the cache and checks that it agrees with reading the whole prompt at once.
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = 4
HIDDEN = 256
HEADS = 4
KV_HEADS = 2
HEAD_SIZE = HIDDEN // HEADS
FEED_FORWARD = 768
VOCABULARY = 512
MAX_POSITIONS = 512
ROTARY_BASE = 10_000
QUANT_BLOCK = 32
SEED = 20

CONTRIB = "com.microsoft"


def quantise_int4(weights):
    """Symmetric int4 blocks along the input dimension, in the layout that MatMulNBits documents.

    Returns the packed values [outputs, blocks, QUANT_BLOCK / 2], low nibble first and offset by 8, and the scales
    [outputs * blocks].
    """
    inputs, outputs = weights.shape
    blocks = weights.T.reshape(outputs, inputs // QUANT_BLOCK, QUANT_BLOCK)
    scales = np.abs(blocks).max(axis=-1, keepdims=True) / 7
    values = np.clip(np.round(blocks / scales) + 8, 0, 15).astype(np.uint8)
    packed = values[..., 0::2] | (values[..., 1::2] << 4)
    return packed, scales.astype(np.float32).reshape(-1)


class Builder:
    """Collects nodes and constants; each method adds a node and returns the name of its output."""

    def __init__(self):
        self.random = np.random.RandomState(SEED)
        self.nodes = []
        self.constants = []

    def constant(self, name, values):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind, name, inputs, outputs=None, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, outputs or [name], name=name, **attributes))
        return name

    def linear(self, name, x, inputs, outputs):
        weights = (self.random.standard_normal((inputs, outputs)) * 0.05).astype(np.float32)
        packed, scales = quantise_int4(weights)
        operands = [x, self.constant(f"{name}.weight", packed), self.constant(f"{name}.scales", scales)]
        return self.node(
            "MatMulNBits", name, operands, domain=CONTRIB, K=inputs, N=outputs, bits=4, block_size=QUANT_BLOCK,
            accuracy_level=4,
        )

    def norm(self, name, x):
        scale = self.constant(f"{name}.scale", np.ones(HIDDEN, np.float32))
        return self.node("SimplifiedLayerNormalization", name, [x, scale], axis=-1, epsilon=1e-5)

    def sequence_lengths(self):
        """What attention needs to know of the mask: the last position per row, and the total length."""
        count = self.node("ReduceSum", "mask.sum", ["attention_mask", self.constant("axis", np.array([1]))], keepdims=0)
        last = self.node("Sub", "mask.last", [count, self.constant("one", np.array(1))])
        self.node("Cast", "last_positions", [last], to=TensorProto.INT32)
        shape = self.node("Shape", "mask.shape", ["attention_mask"])
        total = self.node("Gather", "mask.total", [shape, self.constant("index", np.array(1))], axis=0)
        self.node("Cast", "total_length", [total], to=TensorProto.INT32)

    def rotary_tables(self):
        frequencies = ROTARY_BASE ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
        angles = np.outer(np.arange(MAX_POSITIONS), frequencies)
        self.constant("rotary.cos", np.cos(angles).astype(np.float32))
        self.constant("rotary.sin", np.sin(angles).astype(np.float32))

    def attention(self, prefix, layer, x):
        kv_size = KV_HEADS * HEAD_SIZE
        query = self.linear(f"{prefix}.query", x, HIDDEN, HIDDEN)
        key = self.linear(f"{prefix}.key", x, HIDDEN, kv_size)
        value = self.linear(f"{prefix}.value", x, HIDDEN, kv_size)
        cache = [f"past.{layer}.key", f"past.{layer}.value"]
        lengths = ["last_positions", "total_length", "rotary.cos", "rotary.sin"]
        attended = f"{prefix}.attention"
        self.node(
            "GroupQueryAttention", attended, [query, key, value, *cache, *lengths],
            [attended, f"present.{layer}.key", f"present.{layer}.value"],
            domain=CONTRIB, num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1,
        )
        return self.linear(f"{prefix}.output", attended, HIDDEN, HIDDEN)

    def feed_forward(self, prefix, x):
        gate = self.linear(f"{prefix}.gate", x, HIDDEN, FEED_FORWARD)
        up = self.linear(f"{prefix}.up", x, HIDDEN, FEED_FORWARD)
        sigmoid = self.node("Sigmoid", f"{prefix}.sigmoid", [gate])
        silu = self.node("Mul", f"{prefix}.silu", [gate, sigmoid])
        gated = self.node("Mul", f"{prefix}.gated", [silu, up])
        return self.linear(f"{prefix}.down", gated, FEED_FORWARD, HIDDEN)

    def layer(self, layer, x):
        prefix = f"layer{layer}"
        attended = self.attention(prefix, layer, self.norm(f"{prefix}.norm1", x))
        x = self.node("Add", f"{prefix}.residual1", [x, attended])
        fed = self.feed_forward(prefix, self.norm(f"{prefix}.norm2", x))
        return self.node("Add", f"{prefix}.residual2", [x, fed])


def build():
    builder = Builder()
    embedding = (builder.random.standard_normal((VOCABULARY, HIDDEN)) * 0.1).astype(np.float32)
    x = builder.node("Gather", "embed", [builder.constant("embedding", embedding), "input_ids"])
    builder.sequence_lengths()
    builder.rotary_tables()
    for layer in range(LAYERS):
        x = builder.layer(layer, x)
    head = builder.linear("lm_head", builder.norm("final_norm", x), HIDDEN, VOCABULARY)
    builder.node("Identity", "output", [head], ["logits"])

    def declare(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    def cache(direction, length):
        shape = ["batch", KV_HEADS, length, HEAD_SIZE]
        return [
            declare(f"{direction}.{layer}.{part}", TensorProto.FLOAT, shape)
            for layer in range(LAYERS) for part in ("key", "value")
        ]

    inputs = [
        declare("input_ids", TensorProto.INT64, ["batch", "seq"]),
        declare("attention_mask", TensorProto.INT64, ["batch", "total"]),
        *cache("past", "past"),
    ]
    outputs = [declare("logits", TensorProto.FLOAT, ["batch", "seq", VOCABULARY]), *cache("present", "total")]
    graph = helper.make_graph(builder.nodes, "tinyllm", inputs, outputs, builder.constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="ortscope")


def verify(path):
    """Decoding with the cache must give what reading the whole prompt gives."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    prompt = np.arange(1, 9, dtype=np.int64).reshape(1, -1)

    def run(tokens, total, cache):
        feed = {"input_ids": tokens, "attention_mask": np.ones((1, total), np.int64), **cache}
        logits, *present = session.run(None, feed)
        names = [output.name.replace("present", "past") for output in session.get_outputs()[1:]]
        return logits, dict(zip(names, present))

    empty = np.zeros((1, KV_HEADS, 0, HEAD_SIZE), np.float32)
    nothing = {entry.name: empty for entry in session.get_inputs()[2:]}
    whole, _ = run(prompt, prompt.shape[1], nothing)
    _, cache = run(prompt[:, :-1], prompt.shape[1] - 1, nothing)
    last, _ = run(prompt[:, -1:], prompt.shape[1], cache)
    difference = float(np.abs(whole[:, -1] - last[:, -1]).max())
    if not difference < 1e-2 * float(np.abs(whole).max()):
        sys.exit(f"error: decoding with the cache differs from reading the prompt at once by {difference}")


def main():
    path = sys.argv[1]
    partial = f"{path}.partial"
    onnx.save(build(), partial)
    verify(partial)
    os.replace(partial, path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

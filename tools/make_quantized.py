"""Quantises an image model to 8 bits with quantise and dequantise nodes, as providers for NPUs want it.

    make_quantized.py MODEL OUTPUT

The ranges come from a few random images: good enough for speed and placement, not for answers.
"""

import os
import sys

import numpy
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.tools.onnx_model_utils import fix_output_shapes, make_dim_param_fixed


class Images(CalibrationDataReader):
    def __init__(self, path, count=4):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        random = numpy.random.default_rng(0)
        self.feeds = iter([
            {
                entry.name: random.random([d if isinstance(d, int) else 1 for d in entry.shape]).astype(numpy.float32)
                for entry in session.get_inputs()
            }
            for _ in range(count)
        ])

    def get_next(self):
        return next(self.feeds, None)


def main(path, output):
    prepared = output + ".prepared"
    model = onnx.load(path)
    # NPUs take fixed sizes only.
    for entry in list(model.graph.input) + list(model.graph.output):
        for size in entry.type.tensor_type.shape.dim:
            if size.dim_param:
                make_dim_param_fixed(model.graph, size.dim_param, 1)
    fix_output_shapes(model)
    onnx.save(model, prepared)
    quant_pre_process(prepared, prepared, skip_symbolic_shape=True)
    quantize_static(
        prepared,
        output,
        Images(path),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QUInt8,
    )
    os.remove(prepared)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

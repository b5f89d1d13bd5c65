"""A decoding loop as language models have it: one prompt, then token by token, as two named functions.

    python decoding_loop.py model.onnx
"""

import sys

import numpy
import onnxruntime
import ortscope

monitor = ortscope.Monitor()


def main(model: str) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    @monitor.monitor_inference("prompt")
    def prompt(tokens):
        return session.run(None, {name: tokens})[0]

    @monitor.monitor_inference("token")
    def step(state):
        return session.run(None, {name: state[-1:]})[0]

    state = prompt(numpy.ones((16, 4), dtype=numpy.float32))
    for _ in range(50):
        state = step(state)
    print(monitor.summary())
    monitor.stop()


if __name__ == "__main__":
    main(sys.argv[1])

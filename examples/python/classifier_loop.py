"""A loop over one model: the smallest thing that is monitored.

    python classifier_loop.py model.onnx [RUNS]
"""

import sys

import numpy
import ortscope


def main(model: str, runs: int = 200) -> None:
    with ortscope.Monitor(name=None) as monitor:
        session = ortscope.MonitoredInferenceSession(model, providers=["CPUExecutionProvider"])
        given = session.get_inputs()[0]
        shape = [dim if isinstance(dim, int) else 1 for dim in given.shape]
        data = numpy.zeros(shape, dtype=numpy.float32)
        for _ in range(runs):
            with monitor.span("preprocess"):
                data += 1
            session.run(None, {given.name: data})
        print(monitor.summary())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)

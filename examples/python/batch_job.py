"""A batch job: requests of different length are padded into batches.

    python batch_job.py model.onnx
"""

import sys

import numpy
import ortscope


def batches(requests, size):
    for start in range(0, len(requests), size):
        yield requests[start : start + size]


def main(model: str) -> None:
    monitor = ortscope.Monitor()
    session = ortscope.MonitoredInferenceSession(model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    requests = [numpy.ones(1 + number % 4, dtype=numpy.float32) for number in range(100)]
    for number, batch in enumerate(batches(requests, 16)):
        padded = numpy.zeros((len(batch), 4), dtype=numpy.float32)
        for row, request in enumerate(batch):
            padded[row, : len(request)] = request
        padding = 1 - sum(len(request) for request in batch) / padded.size
        waiting = max(0, len(requests) - 16 * (number + 1))
        with monitor.monitor_batch(batch_size=len(batch), padding_ratio=padding, queue_depth=waiting):
            session.run(None, {name: padded})
    print(monitor.summary())
    monitor.stop()


if __name__ == "__main__":
    main(sys.argv[1])

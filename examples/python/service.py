"""A service: `MODEL=model.onnx uvicorn service:app`. Every request is a span with its trace id.

Needs fastapi and uvicorn. The model is shared by all requests; the recording ends with the service.
"""

import os
import uuid

import numpy
import ortscope
from fastapi import FastAPI

monitor = ortscope.Monitor()
session = ortscope.MonitoredInferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
app = FastAPI()


@app.post("/predict")
def predict(values: list):
    with monitor.span("request", trace_id=uuid.uuid4().hex):
        data = numpy.array(values, dtype=numpy.float32).reshape(-1, 4)
        return session.run(None, {session.get_inputs()[0].name: data})[0].tolist()


@app.get("/statistics")
def statistics():
    return monitor.summary().to_dict()

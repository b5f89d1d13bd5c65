"""A service: `MODEL=model.onnx uvicorn service:app`. Every request is a span with its trace id.

Needs fastapi and uvicorn. The model is shared by all requests. The recording is finished when the service shuts down; a
service that is killed loses nothing of it.
"""

import os
import uuid
from contextlib import asynccontextmanager
from typing import List

import numpy
import ortscope
from fastapi import Body, FastAPI

monitor = ortscope.Monitor().start()
session = ortscope.MonitoredInferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])


@asynccontextmanager
async def lifespan(app):
    yield
    monitor.stop()


app = FastAPI(lifespan=lifespan)


@app.post("/predict")
def predict(values: List[float] = Body(...)):
    with monitor.span("request", trace_id=uuid.uuid4().hex):
        data = numpy.array(values, dtype=numpy.float32).reshape(-1, 4)
        return session.run(None, {session.get_inputs()[0].name: data})[0].tolist()


@app.get("/statistics")
def statistics():
    return monitor.summary().to_dict()

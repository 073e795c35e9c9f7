"""Answers requests over HTTP with a LiteRT or ONNX export and FastAPI, without TensorFlow, Keras and this library.

    pip install fastapi uvicorn numpy tokenizers ai-edge-litert    # or onnxruntime
    EXPORT=small uvicorn serve_fastapi:app --app-dir examples --workers 2
    curl localhost:8000/predict -H "Content-Type: application/json" -d '{"texts": ["Who wrote Hamlet?"]}'

Each worker is a process with a copy of the model. `predict.py` comes from the folder of the export.
"""

import os
import sys

import pydantic
from fastapi import FastAPI

sys.path.insert(0, os.environ["EXPORT"])
import predict

model = predict.Model(os.environ["EXPORT"], num_threads=1)
app = FastAPI()


class Request(pydantic.BaseModel):
    texts: list[str] = pydantic.Field(max_length=256)


@app.post("/predict")
def answer(request: Request):  # without `async`, so that FastAPI calls it in a thread
    answers = model.predict(request.texts)
    return {name: values.tolist() if hasattr(values, "tolist") else values for name, values in answers.items()}

"""Answers requests over HTTP with a LiteRT or ONNX export and FastAPI, without TensorFlow, Keras and this library.

    pip install fastapi uvicorn numpy tokenizers ai-edge-litert    # or onnxruntime
    EXPORT=small uvicorn serve_fastapi:app --app-dir examples --workers 2
    curl localhost:8000/predict -H "Content-Type: application/json" -d '{"texts": ["Who wrote Hamlet?"]}'

`serving.export(model, "small", format="litert")` in Python makes the folder (docs/production/small_and_fast.md). Each
worker is a process with a copy of the model. `predict.py` comes from the folder of the export. A SavedModel, the
default format, does not contain it: docs/production/serving.md has a server for it.
"""

import importlib
import os
import sys

import pydantic
from fastapi import FastAPI

folder = os.environ.get("EXPORT")
if not folder or not os.path.isfile(os.path.join(folder, "predict.py")):
    raise SystemExit(
        'Set EXPORT to a folder that `serving.export(model, folder, format="litert")` (or "onnx") wrote, with '
        f"predict.py in it. A SavedModel has its own server in docs/production/serving.md. Received: EXPORT={folder!r}"
    )
sys.path.insert(0, folder)
model = importlib.import_module("predict").Model(folder, num_threads=1)
app = FastAPI()


class Request(pydantic.BaseModel):
    texts: list[str] = pydantic.Field(max_length=256)


@app.post("/predict")
def answer(request: Request):  # without `async`, so that FastAPI calls it in a thread
    answers = model.predict(request.texts)
    return {name: values.tolist() if hasattr(values, "tolist") else values for name, values in answers.items()}

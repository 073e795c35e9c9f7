# %% [markdown]
# # Serve a model through TensorFlow Serving's API
#
# A trained task becomes a SavedModel that accepts raw text. TensorFlow Serving answers HTTP and gRPC requests with it,
# without Python, Keras or this library.
#
# **You will learn** to export a model with versions, to see what it expects and returns, to write requests as JSON, and
# to test the answers before you deploy.
#
# **You need** a few minutes on a CPU. The server itself is a binary, which did not run for this page. What it would
# load and compute did: the SavedModel, called with the arrays of the same JSON. The two cells that need a server say
# so.

# %%
import json
import time

import keras
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its operations are in the graph)

import keras_transfer as kt

# %% [markdown]
# ## A model to serve

# %%
keras.utils.set_random_seed(0)
data = kt.datasets.load_demo_questions()
model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
recipe = kt.adaptation.get_recipe("bert", learning_rate=1e-4, epochs=2)
kt.adaptation.fine_tune(model, *data.train, recipe=recipe, validation_data=data.test, verbose=2)

# %% [markdown]
# ## Export it
#
# TensorFlow Serving watches a folder with a subfolder for each version, and serves the highest number. To deploy a new
# model, export it to the next number. To go back, delete that folder.

# %%
kt.serving.export(model, "served/questions/1", overwrite=True)

# %% [markdown]
# The export contains the tokenizer. Its signatures say what it expects and returns:

# %%
served = tf.saved_model.load("served/questions/1")
for name, signature in served.signatures.items():
    inputs = {
        key: (spec.dtype.name, spec.shape.as_list()) for key, spec in signature.structured_input_signature[1].items()
    }
    outputs = {key: (spec.dtype.name, spec.shape.as_list()) for key, spec in signature.structured_outputs.items()}
    print(f"{name}\n    from {inputs}\n    to {outputs}")

# %% [markdown]
# ## The request
#
# The REST API expects a name for the signature and columns of inputs, `inputs`. It also accepts a list of rows,
# `instances`.

# %%
questions = ["Who wrote Hamlet?", "How far is the moon?", "What does CPU stand for?"]
request = json.dumps({"signature_name": "serving_default", "inputs": {"text": questions}}, indent=2)
print(request)

# %% [markdown]
# With a server, these commands start it and ask it. Write the line above into `request.json` first (Docker,
# and a TensorFlow Serving that is at least as new as the TensorFlow of the export):
#
# ```sh
# docker run -p 8501:8501 -v "$PWD/served/questions:/models/questions" -e MODEL_NAME=questions tensorflow/serving
# curl -d @request.json http://localhost:8501/v1/models/questions:predict
# curl http://localhost:8501/v1/models/questions/metadata
# ```
#
# ## The answer
#
# What the server does with a request is short: it reads the JSON, calls the signature, and writes the outputs as JSON.
# This function does the same, so the answer below is what the model computes:


# %%
def answer(request):
    request = json.loads(request)
    signature = served.signatures[request["signature_name"]]
    specs = signature.structured_input_signature[1]
    inputs = {name: tf.constant(values, specs[name].dtype) for name, values in request["inputs"].items()}
    outputs = {name: values.numpy().tolist() for name, values in signature(**inputs).items()}
    return json.dumps({"outputs": outputs}, default=bytes.decode)


def shown(value):
    return (
        round(value, 3)
        if isinstance(value, float)
        else [shown(part) for part in value]
        if isinstance(value, list)
        else value
    )


response = json.loads(answer(request))
for name, values in response["outputs"].items():
    print(f"{name}: {shown(values)}")

# %% [markdown]
# ## Test before you deploy
#
# The export must give the answers of the model that you evaluated. We compare the probabilities of all test questions.

# %%
everything = answer(json.dumps({"signature_name": "serving_default", "inputs": {"text": data.test.texts}}))
probabilities = json.loads(everything)["outputs"]["probabilities"]
difference = abs(model.predict_proba(data.test.texts) - probabilities).max()
print(f"largest difference from the model: {difference:.1e}")

# %%
for count in (1, 32):
    texts = tf.constant(data.test.texts[:1] * count)
    served.signatures["serving_default"](text=texts)
    began = time.perf_counter()
    for _ in range(10):
        served.signatures["serving_default"](text=texts)
    print(f"{count:2d} questions in a request: {(time.perf_counter() - began) / 10 * 1000:.0f} ms")

# %% [markdown]
# The first request of a shape is slower, so send one of each size before real ones arrive. Many questions in one
# request cost less than many requests. TensorFlow Serving can also collect requests into batches (`--enable_batching`).
#
# ## What it means
#
# - Texts are tokenized in the graph, exactly as in training. A client sends strings, and nothing can go out of step.
# - `label` has the names of the classes. `assets.extra/labels.json` lists them all.
# - The server needs the operations of TensorFlow and TensorFlow Text. The image `tensorflow/serving` has both.
# - For a CPU without TensorFlow, [LiteRT and ONNX](../production/small_and_fast.md) are smaller and faster.
#
# ## Exercises
#
# 1. Export a second version to `served/questions/2`, and ask both.
# 2. Send `{"signature_name": "embed", ...}`, and search with the vectors ([search by meaning](search_by_meaning.md)).
# 3. Write the HTTP server yourself. [Serving](../production/serving.md#over-http-without-docker) has one.
#
# ## Next
#
# [Serving](../production/serving.md) lists the signatures of all tasks, adapters by row, and generation.

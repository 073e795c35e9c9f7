# %% [markdown]
# # A TF Hub module in a Keras model
#
# TF Hub has thousands of pretrained text encoders as SavedModels. `hub.KerasLayer` is a Keras 2 layer, which Keras 3
# does not accept. `kt.hub.HubLayer` takes its place: a layer of Keras 3 that can be trained, saved and partly frozen.
#
# **You will learn** to put a module into a `Sequential` model, to use its embeddings as they are, to train a head on
# them, and to fine-tune the module.
#
# **You need** the module [Universal Sentence Encoder
# Lite](https://www.kaggle.com/models/google/universal-sentence-encoder) as a TF2 SavedModel in
# `tfhub/use_lite_tf2_converted`, and the folders `STS-B` and `SST-2` of [GLUE](https://gluebenchmark.com/tasks) in
# `glue`. Any other module from strings to vectors works as well. The page takes a few minutes on a CPU.

# %%
import os
import pathlib

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (the module has operations of it)

import keras_transfer as kt

FOLDER = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA", "."))
MODULE = str(FOLDER / "tfhub" / "use_lite_tf2_converted")

# %% [markdown]
# ## A module is a layer
#
# The module accepts strings and returns a vector of 512 numbers for each. It contains its own tokenizer.

# %%
layer = kt.hub.HubLayer(MODULE)
embed = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.UnitNormalization()])
embed.summary()

# %%
texts = ["A man plays a guitar.", "Somebody makes music.", "The stock market fell."]
vectors = embed.predict(tf.constant(texts), verbose=0)
print((vectors @ vectors.T).round(2))

# %% [markdown]
# Pass texts as tensors: Keras does not accept arrays of strings.
#
# ## How good are the embeddings?
#
# STS-B has pairs of sentences that people scored from 0 to 5 by their similarity. We correlate the scores with cosines.

# %%
pairs = kt.datasets.load_glue(FOLDER / "glue", "STS-B")["validation"]
(first, second), scores = pairs
ours, theirs = (embed.predict(tf.constant(column), verbose=0) for column in (first, second))
print(f"Pearson {np.corrcoef((ours * theirs).sum(axis=1), scores)[0, 1]:.3f} over {len(scores)} pairs")

# %% [markdown]
# ## Train a head, then everything
#
# First the module stays frozen, and a dense layer learns to tell good films from bad ones. Then `trainable=True` lets
# the module learn too, at a thousandth of the rate. Compile again after the change, so that the optimizer knows the new
# weights.

# %%
keras.utils.set_random_seed(0)
data = kt.datasets.load_glue(FOLDER / "glue", "SST-2")
order = np.random.default_rng(0).permutation(len(data["train"][0]))[:2000]
texts, labels = (np.array(column)[order] for column in data["train"])
texts, test = tf.constant(texts), (tf.constant(data["validation"][0]), np.array(data["validation"][1]))

layer = kt.hub.HubLayer(MODULE)
model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(1)])


def train(rate, epochs):
    metric = keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)
    model.compile(keras.optimizers.Adam(rate), keras.losses.BinaryCrossentropy(from_logits=True), metrics=[metric])
    model.fit(texts, labels, batch_size=32, epochs=epochs)
    return model.evaluate(*test, verbose=0, return_dict=True)["accuracy"]


frozen = train(3e-2, epochs=4)

# %%
layer.trainable = True
tuned = train(3e-5, epochs=1)
print(f"SST-2 dev accuracy: {100 * frozen:.1f}% frozen, {100 * tuned:.1f}% fine-tuned")

# %% [markdown]
# One epoch of fine-tuning gets 5 more of the 872 sentences right, which may be chance, and a step takes several
# times as long as with the frozen module.
#
# ## Layer groups, and files
#
# Freezing, discriminative rates and the other methods find the layers of a module by the names of its variables:

# %%
print(kt.adaptation.layer_groups(model))

# %% [markdown]
# The file of a model contains the weights and the path of the module, but not its graph. `load_model` therefore loads
# the module again and runs its graph, and a graph can do anything that your program may do, such as reading and writing
# files. Keras has a safe mode against such surprises: by default, it refuses files whose loading runs code, and so does
# `HubLayer`. Turn it off with `safe_mode=False` if you trust both the file and the module:

# %%
model.save("film_critic.keras")
again = keras.saving.load_model("film_critic.keras", safe_mode=False)
change = again.predict(test[0][:100], verbose=0) - model.predict(test[0][:100], verbose=0)
print(f"largest change of an answer: {abs(change).max():.1e}")

# %% [markdown]
# ## What it means
#
# `examples/hub_module.py` does the same with four epochs each: an accuracy of 78.6% with the frozen module, and a
# Pearson correlation of 0.783 on STS-B ([TF Hub modules](../models/hub.md)). A module is a good choice if you have one
# that was trained for your language or domain, or a Keras 2 model that uses one. For a new project in English, use a
# Transformer: all-MiniLM-L6-v2, fine-tuned on 2,000 phrases of SST-2, has an accuracy of 83.5% (five seeds, [methods
# compared](../benchmarks/methods.md)), and all methods apply to it.
#
# ## Exercises
#
# 1. Fine-tune with `kt.optimizers.LayerwiseOptimizer` and `decay=0.5`.
# 2. Use a module in the TF1 Hub format: pass its folder to `HubLayer`, and print `layer_groups`.
# 3. Give a model of yours that uses `hub.KerasLayer` to Keras 3: replace the class, and load the old weights ([TF Hub
#    modules](../models/hub.md)).
#
# ## Next
#
# [Serve a model](serve_a_model.md) exports a model that accepts raw text.

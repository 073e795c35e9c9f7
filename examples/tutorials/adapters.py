# %% [markdown]
# # Adapters: one encoder, a small file per task
#
# The third exercise of the 2019 NAACL tutorial *Transfer Learning in Natural Language Processing* froze the pretrained
# model and trained small layers between its parts: adapters (Houlsby et al. 2019). This page retells it on today's
# Keras and adds LoRA, which did not exist then.
#
# **You will learn** to add adapters to a pretrained encoder, to see what trains, to save only what is new, and to
# decide between adapters and full fine-tuning.
#
# **You need** a few minutes on a CPU. The page builds on [Adapt a pretrained model to question
# classification](adapt_to_trec.md), which explains the data and the encoder.

# %%
import os

import keras

import keras_transfer as kt

keras.utils.set_random_seed(0)
data = kt.datasets.load_demo_questions()
model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)

# %% [markdown]
# ## Add the adapters
#
# `"houlsby:64"` puts two bottlenecks into each block, one after attention and one after the feed-forward network. Each
# maps the 384 numbers of a token to 64 and back, and adds the result to its input. The bottlenecks begin close to the
# identity, so the model still computes what it was pretrained for. Everything below is frozen.

# %%
kt.adaptation.add_adapters(model, "houlsby:64")
kt.adaptation.trainable_summary(model)

# %% [markdown]
# ## Train them
#
# New layers need a higher learning rate than pretrained ones: 1e-3 instead of 1e-4. A common mistake is to keep the
# rate of full fine-tuning, and to conclude that adapters do not work.

# %%
recipe = kt.adaptation.get_recipe("bert", learning_rate=1e-3, epochs=4, batch_size=32)
kt.adaptation.fine_tune(model, *data.train, recipe=recipe, validation_data=data.test)
houlsby = model.evaluate(*data.test, verbose=0, return_dict=True)["accuracy"]
print(f"test error with Houlsby's adapters: {100 * (1 - houlsby):.1f}%")

# %% [markdown]
# ## Save what is new
#
# The encoder has not changed, so a task is the adapters and the head:

# %%
kt.adaptation.save_adapters(model, "questions.safetensors", overwrite=True)
whole = 4 * sum(group.parameters for group in kt.adaptation.layer_groups(model))
print(f"{os.path.getsize('questions.safetensors') / 1e6:.2f} MB, of {whole / 1e6:.1f} MB of the whole model")

# %% [markdown]
# ## LoRA
#
# LoRA (Hu et al. 2022) adds a product of two thin matrices to the query and value layers. It has no layer of its own
# between the parts, so `merge_adapters` can add it to the weights: the served model is as fast as before.

# %%
keras.utils.set_random_seed(0)
model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
kt.adaptation.add_adapters(model, "lora:r=8")
kt.adaptation.trainable_summary(model)

# %% [markdown]
# A few steps of training show that merging changes the weights and not the answers:

# %%
model.compile(kt.optimizers.FusedAdamW(1e-3))
model.fit(data.train.texts[:64], data.train.labels[:64], epochs=1, verbose=2)
apart = model.predict(data.test.texts, verbose=0)
kt.adaptation.merge_adapters(model)
merged = model.predict(data.test.texts, verbose=0)
print(f"largest difference after merging: {abs(merged - apart).max():.1e}")
print([group.name for group in kt.adaptation.layer_groups(model)])

# %% [markdown]
# ## What it means
#
# After the same 72 steps, full fine-tuning had an error of 8.3% ([the second
# exercise](adapt_to_trec.md#what-pretraining-was-worth)). Adapters start as the identity and need more steps.
#
# On all of TREC-6, with all-MiniLM-L6-v2, the best of three learning rates and five seeds ([methods
# compared](../benchmarks/methods.md)):
#
# | method | weights stored per task | test error | the 2019 tutorial, one seed |
# | --- | ---: | ---: | ---: |
# | full fine-tuning | 90.27 MB | 2.64 ± 0.11% | 3.6% |
# | Houlsby | 2.43 MB | 3.88 ± 0.62% | 4.0% |
# | Pfeiffer | 0.90 MB | 3.76 ± 0.48% | |
# | LoRA | 0.30 MB | 4.04 ± 0.44% | |
#
# Adapters cost about 1.2 points here. The 2019 tutorial saw 0.4 points, from one run each. Use adapters if you serve
# many tasks over one encoder, or if storage or training memory is short (a step takes 0.7 to 0.8 of the time, and 0.80
# to 0.84 of the memory). If you have one task and one model, train all weights.
#
# ## Exercises
#
# 1. Train with `learning_rate=1e-4`. How far do the adapters get in the same number of epochs?
# 2. Replace `"houlsby:64"` by `"pfeiffer:48"`, `"ia3"` and `"bitfit"`, and compare errors and sizes.
# 3. Add a second task over the same encoder: [several adapters](../adaptation/several_adapters.md).
#
# ## Next
#
# [Gradual unfreezing](gradual_unfreezing.md) trains all weights, but not all at once.

# %% [markdown]
# # Gradual unfreezing, and why the original never thawed
#
# A new head starts from random weights. Its first gradients are large and wrong, and they flow into the pretrained
# layers. Gradual unfreezing (Howard and Ruder 2018) trains the head first, and then unfreezes one more layer at a time.
# It was the fourth exercise of the 2019 NAACL tutorial *Transfer Learning in Natural Language Processing*.
#
# **You will learn** to plan what trains when, to draw the plan before you train, and to check that layers really thaw.
#
# **You need** a few minutes on a CPU. The page builds on [Adapt a pretrained model to question
# classification](adapt_to_trec.md), which explains the data and the encoder.

# %%
import keras
import numpy as np

import keras_transfer as kt

keras.utils.set_random_seed(0)
data = kt.datasets.load_demo_questions()
model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)

# %% [markdown]
# ## The plan
#
# `GradualUnfreezing` is a callback. By default, it unfreezes evenly over the first half of the run. Before we train, we
# draw what it would do in 4 epochs, with a constant learning rate:

# %%
EPOCHS, BATCH = 4, 32
steps = -(-len(data.train.texts) // BATCH)
unfreezing = kt.callbacks.GradualUnfreezing()
model.compile(kt.optimizers.LayerwiseOptimizer(kt.optimizers.FusedAdamW(3e-4, global_clipnorm=1.0), model))
unfreezing.plot(model, steps_per_epoch=steps, epochs=EPOCHS)

# %% [markdown]
# `LayerwiseOptimizer` is there for its step counts. Adam corrects the bias of its first steps, and a layer that starts
# at step 30 has its first step then. With one count for all layers, as Keras's optimizers have, late layers would jump.
#
# ## Train, and look at what thawed
#
# We keep the initial weights, to see afterwards how far each layer group has moved.

# %%
groups = kt.adaptation.layer_groups(model)
start = {group.name: [keras.ops.convert_to_numpy(weight) for weight in group.variables] for group in groups}
history = model.fit(*data.train, batch_size=BATCH, epochs=EPOCHS, callbacks=[unfreezing], validation_data=data.test)

# %%
for step, names in unfreezing.schedule:
    print(f"from step {step:2d}: {', '.join(names)}")

# %%
for group in reversed(groups):
    now = [keras.ops.convert_to_numpy(weight) for weight in group.variables]
    moved = np.sqrt(sum(np.sum((after - before) ** 2) for after, before in zip(now, start[group.name])))
    size = np.sqrt(sum(np.sum(before**2) for before in start[group.name]))
    print(f"{group.name:<12} moved {moved:6.3f}, {100 * moved / size:5.2f}% of its norm")

# %% [markdown]
# Every group has moved, and those that thawed later have moved less. This check takes three lines and finds the mistake
# of the next section.
#
# ## Why the original never thawed
#
# The code of the 2019 exercise unfroze a layer with a line like this one, in PyTorch:
#
# <!-- not run: PyTorch, with the mistake -->
# ```python
# for name, parameter in model.named_parameters():
#     if name.startswith(layer):
#         parameter.require_grad = True  # The attribute is `requires_grad`.
# ```
#
# Python accepts any attribute, so nothing failed. The layers stayed frozen, and the error of 5.2% that the exercise
# printed says nothing about gradual unfreezing. Here, a selection of layers that matches nothing is an error:

# %%
try:
    kt.adaptation.unfreeze(model, "blok_5")
except ValueError as error:
    print(error)

# %%
error = 1 - model.evaluate(*data.test, verbose=0, return_dict=True)["accuracy"]
print(f"test error {100 * error:.1f}%")

# %% [markdown]
# ## What it means
#
# With all weights from the beginning, the same number of epochs gave 8.3% ([the second
# exercise](adapt_to_trec.md#what-pretraining-was-worth)). On all of TREC-6, with all-MiniLM-L6-v2, five
# seeds and the best of three rates ([methods compared](../benchmarks/methods.md)):
#
# | method | test error | the 2019 tutorial, one seed |
# | --- | ---: | ---: |
# | full fine-tuning | 2.64 ± 0.11% | 3.6% |
# | gradual unfreezing | 3.84 ± 0.41% | 5.2% (nothing thawed) |
# | head, then body, then all (`SequentialUnfreezing`) | 3.68 ± 0.76% | |
# | chain-thaw | 9.16 ± 1.38% | |
#
# For a Transformer with warm-up and clipped gradients, gradual unfreezing brings nothing: it costs a point on TREC-6,
# and on 2,000 phrases of SST-2 it is as good as full fine-tuning. It was made for LSTM language models, whose lower
# layers forget easily: see [ULMFiT today](../pretraining/ulmfit.md). Use it for such a model, or when you want to save
# time in the first epochs, since frozen layers below need no backward pass.
#
# ## Exercises
#
# 1. Draw `kt.callbacks.ChainThaw()` and `kt.callbacks.SequentialUnfreezing()` in the same way.
# 2. Pass `below="block_3"`, so that the lower half never trains. What happens to the error, and to the time of an
#    epoch?
# 3. Freeze everything below the head with `kt.adaptation.freeze(model, below="head")`. How much worse is a model that
#    never thaws?
#
# ## Next
#
# [Discriminative learning rates](discriminative_rates.md) are the other two thirds of the recipe of 2018.

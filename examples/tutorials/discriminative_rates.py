# %% [markdown]
# # Discriminative learning rates and slanted triangles
#
# Lower layers know general things about language and should change little. Discriminative learning rates give each
# layer a lower rate than the one above it. The slanted triangle raises the rate quickly and lowers it slowly. Both come
# from ULMFiT (Howard and Ruder 2018), and were the fifth exercise of the 2019 NAACL tutorial *Transfer Learning in
# Natural Language Processing*.
#
# **You will learn** to give layer groups their own rates, to use and draw a schedule, and to see what the recipes of
# 2018 do for a BERT and for the LSTM that they were made for.
#
# **You need** a few minutes on a CPU. The page builds on [gradual unfreezing](gradual_unfreezing.md).

# %%
import keras

import keras_transfer as kt

EPOCHS, BATCH = 4, 32
data = kt.datasets.load_demo_questions()
total = EPOCHS * -(-len(data.train.texts) // BATCH)
keras.utils.set_random_seed(0)
model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)

# %% [markdown]
# ## The slanted triangle
#
# The rate rises over a tenth of the run and falls over the rest, from a 32nd of the peak and back:

# %%
schedule = kt.optimizers.schedules.SlantedTriangular(2e-4, total_steps=total)
schedule.plot()

# %% [markdown]
# ## A rate for each layer group
#
# With `decay=1 / 2.6`, the factor of the paper, each layer group has the rate of the group above it divided by 2.6.

# %%
optimizer = kt.optimizers.LayerwiseOptimizer(
    kt.optimizers.FusedAdamW(schedule, weight_decay=0.01, global_clipnorm=1.0), model, decay=1 / 2.6
)
for name, rate in reversed(optimizer.rates.items()):
    print(f"{name:<12} {rate:.5f} times the rate")

# %% [markdown]
# The embeddings train at an 800th of the rate of the head. With a peak of 2e-4, that is 2.5e-7: they hardly move. Eight
# layer groups are many for a factor that was chosen for the five of an LSTM language model with its head.
# `rates={"embeddings": 0.0, "block_.*": 0.5}` sets single rates instead.
#
# ## Train with both
#
# The picture shows what would train when, and how fast, if we added gradual unfreezing. All three together are ULMFiT's
# recipe for classifiers, `get_recipe("ulmfit_classifier")`. We train with the rates and the triangle alone.

# %%
model.compile(optimizer)
kt.callbacks.GradualUnfreezing().plot(model, steps_per_epoch=total // EPOCHS, epochs=EPOCHS)

# %%
model.fit(*data.train, batch_size=BATCH, epochs=EPOCHS, validation_data=data.test)

# %%
error = 1 - model.evaluate(*data.test, verbose=0, return_dict=True)["accuracy"]
print(f"test error with discriminative rates: {100 * error:.1f}%")

# %% [markdown]
# ## What it means
#
# One rate of 1e-4 for all weights gave an error of 8.3% in as many steps ([the second
# exercise](adapt_to_trec.md#what-pretraining-was-worth)). With the steep rates, the loss is still above 1: the lower
# three blocks train at less than 5e-6, and 72 steps are too few for that. A higher peak helps, and so do more steps.
#
# On all of TREC-6 with all-MiniLM-L6-v2, five seeds, and the best of three rates ([methods
# compared](../benchmarks/methods.md)):
#
# | method | test error | difference from full fine-tuning |
# | --- | ---: | ---: |
# | full fine-tuning | 2.64 ± 0.11% | |
# | slanted triangular | 2.44 ± 0.27% | -0.20, p = 0.089 |
# | discriminative rates, `1 / 2.6` | 4.16 ± 0.32% | +1.52, p < 0.001 |
# | the three together | 3.76 ± 0.27% | +1.12, p < 0.001 |
#
# The triangle is as good as BERT's linear warm-up and decay. The steep rates cost a BERT 1.5 points: six blocks divide
# the rate by 2.6 six times, and the lower layers do not learn.
#
# An LSTM language model is another matter. It has three LSTMs, and fine-tuning it on few texts destroys what
# pretraining has learned. The recipes were made for it, and [ULMFiT today](../pretraining/ulmfit.md) uses all three.
#
# For a Transformer, use one rate, or a mild decay such as `decay=0.95`.
#
# ## Exercises
#
# 1. Repeat the run with `decay=0.95` and with `decay=0.8`, at the rate 1e-4.
# 2. Find the peak at which `decay=1 / 2.6` is best. On TREC-6, it was 6e-4, six times the rate of full fine-tuning.
# 3. Compare the methods with several seeds: `kt.experiments.compare` ([comparing methods](../adaptation/compare.md)).
#
# ## Next
#
# [Methods compared](../benchmarks/methods.md) has 23 methods in one table. The [other tutorials](index.md) are on tasks
# and kinds of pretrained models.

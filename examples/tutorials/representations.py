# %% [markdown]
# # What is in a representation?
#
# An encoder gives a vector to each word in each of its layers. What do these vectors know about the word, in which
# layer, and what does fine-tuning do to them? This page asks all-MiniLM-L6-v2, with the controls without which the
# answers mean little.
#
# **You will learn** to probe all layers at once, to tell what an encoder knows from what a probe learns, to find syntax
# trees in vectors, to see what fine-tuning changed, and to put everything on one page.
#
# **You need** the treebank [UD English EWT](https://github.com/UniversalDependencies/UD_English-EWT) in a folder
# `ud_english_ewt`, and about four minutes on a CPU.

# %%
import os
import pathlib

import keras

import keras_transfer as kt

FOLDER = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA", ".")) / "ud_english_ewt"
SENTENCES = 600  # of 12,544, to save time
data = kt.datasets.load_universal_dependencies(FOLDER, field="upos")
train, test = ([column[:count] for column in part] for part, count in ((data.train, SENTENCES), (data.test, 200)))
print(list(zip(*(column[3] for column in train)))[:8])

# %% [markdown]
# ## Probes of all layers
#
# A probe is a small classifier on the frozen vectors of one layer. If it predicts the parts of speech of new words,
# they can be read from that layer. The probes of all layers and seeds are trained in one go.

# %%
encoder = kt.encoders.Encoder.from_pretrained("minilm-l6")
preprocessor = kt.checkpoints.load_preprocessor("minilm-l6")
sweep = kt.analysis.Probe("token").sweep(encoder, train, test=test, preprocessor=preprocessor, verbose=0)
print(sweep)

# %%
sweep.plot()

# %% [markdown]
# ## What the controls say
#
# The parts of speech are easiest to read in `block_1`: 93%. That alone would prove little, hence the other columns:
#
# - The most frequent tag of each word, below the table, needs no model and has 79%. What is above it comes from the
#   likeness of words, since the embeddings know no context and have 87%, or from the context, in the layers above.
# - `random`: the same encoder with random weights has 65%, less than the words alone. The `gain` is what pretraining
#   gave.
# - `control`: with a random tag for each word, which a probe can only remember, it has 42% to 64%. The difference is
#   the `selectivity` ([Hewitt and Liang 2019](https://arxiv.org/abs/1909.03368)).
# - `bits`: how long the tags are if sent with the help of the vectors. It agrees with the accuracy here, also about the
#   top: `block_5` needs more than twice the bits of `block_1`.
#
# The top layers of this model know less about parts of speech, because it was tuned for the meaning of sentences. A
# probe says that the tags *can* be read. Whether the model uses them is another question, which
# [ablation](../evaluation/why.md) asks.

# %% [markdown]
# ## Trees
#
# The structural probe asks for more than a label: a linear map after which the distance of two words is their distance
# in the syntax tree of the sentence. The spanning tree of these distances is compared with the tree of the treebank.

# %%
trees, test_trees = (kt.datasets.read_trees(FOLDER / f"en_ewt-ud-{part}.conllu") for part in ("dev", "test"))
trees, test_trees = (
    type(part)(*(column[:count] for column in part)) for part, count in ((trees, SENTENCES), (test_trees, 200))
)
probe = kt.analysis.StructuralProbe("distance", epochs=5, layers=["embeddings", "block_2", "block_5"])
structure = probe.sweep(encoder, trees, test=test_trees, preprocessor=preprocessor, verbose=0)
print(structure)

# %% [markdown]
# `block_2` has a third of the edges, and both ends of the encoder have less. But the last line is the control: joining
# each word with its neighbor has more. From 600 sentences and five epochs, this probe has not shown that trees are in
# these vectors. Without the control, one would have believed it. More sentences and epochs are needed, and [Hewitt and
# Manning](https://aclanthology.org/N19-1419/) read 40,000.

# %% [markdown]
# ## What fine-tuning changes
#
# Now the encoder learns another task, which of six kinds of answers a question expects, and is then compared with what
# it was.

# %%
keras.utils.set_random_seed(0)
questions = kt.datasets.load_demo_questions()
model = kt.tasks.TextClassifier(encoder, preprocessor, label_names=questions.label_names, pooling="mean")
recipe = kt.adaptation.get_recipe("bert", learning_rate=2e-4, epochs=2)
kt.adaptation.fine_tune(model, *questions.train, recipe=recipe)
start = kt.encoders.Encoder.from_pretrained("minilm-l6")
moved = kt.analysis.moved_layers(start, model, questions.test.texts, preprocessor=preprocessor, verbose=0)
print(moved)

# %% [markdown]
# Both columns grow from bottom to top, the weights slowly and the vectors fast: after fine-tuning, 63% of the
# geometry of `block_5` is new. The learning rate was the same everywhere, so this is no effect of the rates. The
# vectors of a layer also contain all that happened below it.

# %% [markdown]
# ## One page
#
# `inspect` asks all of these questions about a trained model at once, next to its start: scores, probes, layers,
# attention heads, the words that decide its mistakes, and typing errors.

# %%
inspection = kt.analysis.inspect(model, questions.test, start, verbose=0)
inspection.to_html("inspection.html")
print("\n\n".join(inspection.sections[name].text for name in ("words", "behavior")))

# %% [markdown]
# Blue words, here with a plus, speak for the answer. Swapped letters in every other long word cost it a good part of
# its accuracy, since WordPiece cuts a word that it has not seen into pieces. The page `inspection.html` has all
# sections with pictures, and opens without a connection.
#
# ## Exercises
#
# 1. Probe for `field="deprel"` instead of the parts of speech. Which layer has the highest score now?
# 2. Pass `hidden_dim=256` to the probe. Its accuracy rises. What happens to the selectivity?
# 3. Fine-tune with [a recipe that freezes lower layers](../adaptation/recipes.md), and look at `moved_layers` again.
#
# ## Next
#
# [Answer questions](answer_questions.md) finds spans of words instead of labeling each.

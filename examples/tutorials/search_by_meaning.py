# %% [markdown]
# # Search by meaning: sentence embeddings
#
# A sentence embedding is one vector for a text. Texts with similar meanings have similar vectors, so a search compares
# vectors instead of words. It finds "Which physicist discovered it?" near "found by Marie Curie".
#
# **You will learn** to embed texts, to search them, to measure the search, and to adapt the embeddings to your own idea
# of similar.
#
# **You need** a few minutes on a CPU. The last sections use the questions that ship with the library. The search of
# paragraphs needs `dev-v1.1.json` of [SQuAD](https://rajpurkar.github.io/SQuAD-explorer) in a folder `squad1.1`.

# %%
import os
import pathlib

import keras
import numpy as np

import keras_transfer as kt

keras.utils.set_random_seed(0)
model = kt.tasks.TextEmbedder.from_pretrained("minilm-l6")
print(model.similarity("A man plays a guitar.", ["Somebody makes music.", "The stock market fell."]).round(2))

# %% [markdown]
# all-MiniLM-L6-v2 was trained on a billion pairs of texts that belong together. `from_pretrained` reads how it pools
# and that it scales vectors to length 1.
#
# ## Search paragraphs
#
# The corpus has the paragraphs of six articles of Wikipedia, and each question belongs to one of them. We embed the
# corpus once. A search is then a product of matrices.

# %%
FOLDER = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA", ".")) / "squad1.1"
data = kt.datasets.load_squad(FOLDER / "dev-v1.1.json")
chosen = set(sorted(set(data.titles))[::8])
rows = [row for row, title in enumerate(data.titles) if title in chosen]
corpus = list(dict.fromkeys(data.contexts[row] for row in rows))
rows = rows[::5]
questions = [data.questions[row] for row in rows]
right = np.array([corpus.index(data.contexts[row]) for row in rows])
print(len(questions), "questions on", len(corpus), "paragraphs")

# %%
vectors = model.embed(corpus)
scores, found = model.search(questions, vectors, k=5)
print(questions[0])
for score, index in zip(scores[0], found[0]):
    print(f"{score:.2f} {'*' if index == right[0] else ' '} {corpus[index][:90]}...")


# %% [markdown]
# ## Measure it
#
# Recall at k is the fraction of questions whose paragraph is among the first k. The baseline counts words, weighted by
# how rare they are (TF-IDF), with a layer of Keras:


# %%
def recall(found, k):
    return 100 * np.mean([answer in row[:k] for answer, row in zip(right, found)])


counter = keras.layers.TextVectorization(output_mode="tf_idf", max_tokens=30_000)
counter.adapt(corpus)
by_words, of_questions = (
    np.asarray(keras.ops.convert_to_numpy(counter(texts)), "float32") for texts in (corpus, questions)
)
by_words /= np.linalg.norm(by_words, axis=1, keepdims=True)
counted = np.argsort(-of_questions @ by_words.T, axis=1)[:, :5]
for name, result in (("TF-IDF", counted), ("embeddings", found)):
    print(f"{name:<10} recall at 1: {recall(result, 1):.1f}%, at 5: {recall(result, 5):.1f}%")

# %% [markdown]
# ## Your own idea of similar
#
# To this model, two questions are similar if they are about the same topic. For an assistant, they may be similar if
# they ask for the same kind of thing. The questions of the library have six kinds. How often is the most similar
# training question of the same kind?

# %%
demo = kt.datasets.load_demo_questions()
labels = np.array(demo.train.labels)


def same_kind():
    _, nearest = model.search(demo.test.texts, demo.train.texts, k=1)
    return 100 * np.mean(labels[nearest[:, 0]] == demo.test.labels)


before = same_kind()
print(f"same kind before training: {before:.1f}%")

# %% [markdown]
# `TripletLoss` learns from triples: a text, one like it, one unlike it. We draw them from the labels.

# %%
draw = np.random.default_rng(0)
by_label = {label: np.flatnonzero(labels == label) for label in set(labels)}
triples = [
    (row, draw.choice(by_label[label]), draw.choice(np.flatnonzero(labels != label)))
    for label, members in by_label.items()
    for row in members
]
draw.shuffle(triples)
columns = tuple([demo.train.texts[row[place]] for row in triples] for place in range(3))
model.compile(kt.adaptation.FusedAdamW(1e-4), loss=kt.losses.TripletLoss(margin=0.5))
model.fit(columns, batch_size=32, epochs=1)
print(f"same kind: {before:.1f}% before, {same_kind():.1f}% after training")

# %%
print(model.similarity("Who wrote Hamlet?", ["Who painted the Mona Lisa?", "When was Hamlet written?"]).round(2))

# %% [markdown]
# ## What it means
#
# On these paragraphs, embeddings find 68.4% of the answers at once, and TF-IDF 64.6%. Questions about articles share
# many rare words with them, which is what counting is good at, and embeddings lead nevertheless. Many search engines
# add both scores.
#
# Fine-tuned on STS-B for two epochs, the Spearman correlation with human judgments is 89.39 ± 0.01 here, and 89.41 ±
# 0.01 with sentence-transformers ([quality](../benchmarks/quality.md)).
#
# One epoch of triples has turned topics into kinds: "Who painted the Mona Lisa?" is now close to "Who wrote Hamlet?",
# and "When was Hamlet written?" is not. Adapt embeddings only if your idea of similar differs from that of the
# pretrained model, and measure on queries that were not in the triples, as above.
#
# ## Exercises
#
# 1. Add the scores of both searches. Is the sum better than either?
# 2. Train with `kt.losses.MatryoshkaLoss(kt.losses.TripletLoss(margin=0.5), dims=[384, 64])`, and search with the first
#    64 numbers of each vector.
# 3. Train a classifier on eight questions of each kind with `kt.adaptation.set_fit`
#    ([embeddings](../tasks/embeddings.md)).
#
# ## Next
#
# [A TF Hub module in a Keras model](hub_module.md) embeds sentences too, with an encoder that Google trained.

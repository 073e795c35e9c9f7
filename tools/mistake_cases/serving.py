"""Exports and files of models."""

import keras

import keras_transfer as kt
from mistake_cases.models import LABELS, NAMES, TEXTS, Mistake

export = kt.serving.export


def out(models):
    return models.folder / "served"


def paired(models):
    model = models.bert_classifier()
    model.fit((TEXTS, TEXTS), LABELS, verbose=0)
    models.forget()
    return models.watch(model, None)


def reloaded(models):
    """A classifier that was fitted on pairs, from its file."""
    path = models.folder / "pairs.keras"
    paired(models).save(path)
    return keras.saving.load_model(path)


MISTAKES = [
    Mistake(
        "labels in another order than label_names",
        lambda m: export(m.classifier(label_names=NAMES), out(m), label_names=NAMES[::-1]),
        "order",
    ),
    Mistake("too few labels", lambda m: export(m.classifier(), out(m), label_names=["a"]), "2 different names"),
    Mistake("a label twice", lambda m: export(m.classifier(), out(m), label_names=["a", "a"]), "2 different names"),
    Mistake("labels of a regressor", lambda m: export(m.regressor(), out(m), label_names=["a"]), "label"),
    Mistake("a model that is not a number", lambda m: export(m.nan(), out(m)), "NaN|not finite|nan"),
    Mistake("a folder that exists", lambda m: export(m.classifier(), m.saved_encoder()), "overwrite"),
    Mistake("a model of pairs without pairs=True", lambda m: export(paired(m), out(m)), "pairs"),
    Mistake("a model of pairs from its file without pairs=True", lambda m: export(reloaded(m), out(m)), "pairs"),
    Mistake("pairs=True for word vectors", lambda m: export(m.classifier(), out(m), pairs=True), "pair"),
    Mistake("pairs=True for a tagger", lambda m: export(m.tagger(), out(m), pairs=True), "pair"),
    Mistake(
        "a model without a preprocessor",
        lambda m: export(kt.tasks.TextClassifier(m.bert(), num_classes=2), out(m)),
        "preprocessor",
    ),
    Mistake(
        "a plain Keras model",
        lambda m: export(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), out(m)),
        "task|Task|export",
    ),
    Mistake(
        "adapters that the model does not have",
        lambda m: export(m.bert_classifier(), out(m), adapters=["a"]),
        "adapter",
    ),
    Mistake("a file instead of a folder", lambda m: export(m.classifier(), m.table()), "folder|exists|directory"),
]

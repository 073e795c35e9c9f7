"""Mistakes with layer groups, adapters, schedules, recipes and training checkpoints."""

import keras
import numpy as np

import keras_transfer as kt
from mistake_cases.models import LABELS, NAMES, TEXTS, Mistake

adapt = kt.adaptation


def fit(model, **options):
    return model.fit(TEXTS, LABELS, verbose=0, **options)


def adapted(models, spec="lora:r=2", **options):
    model = adapt.add_adapters(models.bert_classifier(**options), spec)
    return models.watch(model)


def saved_adapters(models, **options):
    path = models.folder / "adapters"
    adapt.save_adapters(adapted(models, **options), path)
    return path


def other(models, **sizes):
    """A classifier with another encoder, with adapters of the same kind."""
    return models.watch(kt.tasks.TextClassifier(models.bert(**sizes), models.pieces(), num_classes=2))


def two_tasks(models):
    """Two tasks over one encoder."""
    encoder = models.bert()
    first = models.watch(kt.tasks.TextClassifier(encoder, models.pieces(), num_classes=2))
    second = models.watch(kt.tasks.TextClassifier(encoder, models.pieces(), num_classes=3))
    return first, second


def changed_by_the_other(models):
    """Whether a task answers with the adapters that its sibling was given, as it does when it is run again."""
    first, second = two_tasks(models)
    second.predict(TEXTS, verbose=0)
    adapt.add_adapters(first, "houlsby:size=4")
    for weight in first.weights:
        if "adapter" in weight.path or "up" in weight.path:
            weight.assign(np.full(weight.shape, 0.3))
    found = second.predict(TEXTS, verbose=0)
    second.make_predict_function(force=True)
    return float(np.abs(found - second.predict(TEXTS, verbose=0)).max())


def resumed(models, **changes):
    """A run that goes on with a changed encoder."""
    folder = models.folder / "run"
    fit(other(models, dropout=0.0), callbacks=[kt.callbacks.TrainingCheckpoint(folder)], epochs=1)
    models.forget()
    return fit(other(models, **changes), callbacks=[kt.callbacks.TrainingCheckpoint(folder)], epochs=2)


MISTAKES = [
    # === Layer groups ===
    Mistake("a group that does not exist", lambda m: adapt.freeze(m.bert_classifier(), "block_7"), "block_0"),
    Mistake("a path that matches nothing", lambda m: adapt.freeze(m.bert_classifier(), paths="qeury"), "qeury"),
    Mistake("freeze_to beyond the groups", lambda m: adapt.freeze_to(m.bert_classifier(), 12), "12"),
    Mistake("freeze of everything", lambda m: fit(adapt.freeze(m.bert_classifier())), "train|frozen"),
    Mistake(
        "freeze after compile",
        lambda m: fit(adapt.freeze(m.bert_classifier(), below="head")),
        "compile",
        lambda history: len(history.history["loss"]) == 1,
    ),
    Mistake(
        "an optimizer for another model",
        lambda m: fit_with(m.bert_classifier(), kt.optimizers.LayerwiseOptimizer("sgd", m.classifier(), decay=0.9)),
        "model|group|weight",
    ),
    Mistake("decay=2.6", lambda m: kt.optimizers.LayerwiseOptimizer("sgd", m.bert_classifier(), decay=2.6), "decay"),
    Mistake(
        "a rate for a group that does not exist",
        lambda m: kt.optimizers.LayerwiseOptimizer("sgd", m.bert_classifier(), rates={"hed": 0.1}),
        "hed",
    ),
    Mistake(
        "a schedule of no steps",
        lambda m: kt.optimizers.schedules.SlantedTriangular(1e-3, total_steps=0),
        "total_steps",
    ),
    Mistake(
        "more warm-up than steps",
        lambda m: kt.optimizers.schedules.LinearWarmupDecay(1e-3, total_steps=10, warmup_steps=20),
        "warmup_steps",
    ),
    Mistake(
        "a negative learning rate", lambda m: kt.optimizers.schedules.SlantedTriangular(-1e-3, total_steps=10), "-0.001"
    ),
    Mistake(
        "unfreezing with fewer epochs than stages",
        lambda m: fit(m.bert_classifier(), callbacks=[kt.callbacks.GradualUnfreezing()], epochs=1),
        "stage",
    ),
    Mistake(
        "two plans in one fit",
        lambda m: fit(
            m.bert_classifier(),
            callbacks=[kt.callbacks.GradualUnfreezing(), kt.callbacks.ChainThaw()],
            batch_size=1,
            epochs=3,
        ),
        "Only one callback",
    ),
    Mistake("L2SP of a strength below 0", lambda m: adapt.L2SP(-1.0), "`strength`.*-1"),
    Mistake("an unknown recipe", lambda m: adapt.fine_tune(m.bert_classifier(), TEXTS, LABELS, recipe="brt"), "bert"),
    Mistake("Adafactor at AdamW's rate", lambda m: adapt.Recipe(optimizer="adafactor"), "learning_rate.*1e-3"),
    Mistake("a recipe with epochs and steps", lambda m: adapt.get_recipe("bert", epochs=2, steps=9), "epochs.*steps"),
    Mistake(
        "an unknown option of a recipe",
        lambda m: adapt.fine_tune(m.bert_classifier(), TEXTS, LABELS, learnig_rate=1e-3),
        "learning_rate",
    ),
    Mistake("fine_tune without labels", lambda m: adapt.fine_tune(m.bert_classifier(), TEXTS), r"x, y\)"),
    Mistake("the policy bfloat16, which is not mixed", lambda m: bfloat16(m), "mixed_bfloat16"),
    # === Adapters ===
    Mistake("an unknown kind of adapter", lambda m: adapt.add_adapters(m.bert_classifier(), "lorra"), "lora"),
    Mistake(
        "an unknown option of an adapter",
        lambda m: adapt.add_adapters(m.bert_classifier(), "lora:q=8"),
        "'rank'.*lora:q=8",
    ),
    Mistake(
        "a target that matches nothing",
        lambda m: adapt.add_adapters(m.bert_classifier(), adapt.LoRA(2, targets=["q_proj"])),
        "q_proj",
    ),
    Mistake("rank 0", lambda m: adapt.add_adapters(m.bert_classifier(), "lora:r=0"), "`rank`.*rank=0"),
    Mistake("adapters of one name twice", lambda m: adapt.add_adapters(adapted(m), "lora:r=2"), "default"),
    Mistake("an adapter that does not exist", lambda m: adapt.set_active_adapter(adapted(m), "other"), "default"),
    Mistake(
        "remove_adapters without adapters",
        lambda m: adapt.remove_adapters(m.bert_classifier()),
        "add_adapters|no adapters",
    ),
    Mistake(
        "merge_adapters without adapters",
        lambda m: adapt.merge_adapters(m.bert_classifier()),
        "add_adapters|no adapters",
    ),
    Mistake(
        "merge_adapters of Houlsby's",
        lambda m: adapt.merge_adapters(adapted(m, "houlsby:size=2")),
        "merge|Houlsby|LoRA",
    ),
    Mistake(
        "fit after add_adapters without compile",
        lambda m: fit(adapt.add_adapters(m.bert_classifier(), "lora:r=2")),
        "add_adapters.*compile|compile.*adapters",
    ),
    Mistake(
        "save_adapters without adapters",
        lambda m: adapt.save_adapters(m.bert_classifier(), m.folder / "a"),
        "add_adapters",
    ),
    Mistake(
        "adapters of another size",
        lambda m: adapt.load_adapters(other(m, hidden_dim=16), saved_adapters(m)),
        "hidden_dim|different weights",
    ),
    Mistake(
        "adapters of an encoder with other num_heads",
        lambda m: adapt.load_adapters(other(m, num_heads=4), saved_adapters(m)),
        "num_heads",
    ),
    Mistake(
        "adapters of an encoder with another activation",
        lambda m: adapt.load_adapters(other(m, activation="relu"), saved_adapters(m)),
        "activation",
    ),
    Mistake(
        "adapters of a task with label_names in another order",
        lambda m: adapt.load_adapters(
            m.bert_classifier(num_classes=None, label_names=NAMES[::-1]),
            saved_adapters(m, num_classes=None, label_names=NAMES),
        ),
        "label_names|names",
    ),
    Mistake(
        "a file that is no adapter",
        lambda m: adapt.load_adapters(m.bert_classifier(), m.table()),
        "cannot be read",
    ),
    Mistake(
        "an answer after the sibling got adapters",
        changed_by_the_other,
        "adapter",
        lambda difference: difference < 1e-6,
    ),
    Mistake(
        "LoRA of word vectors",
        lambda m: adapt.add_adapters(m.classifier(), "lora:r=2"),
        "WordVector|attention|target|match",
    ),
    # === Features ===
    Mistake(
        "cached features of a group that does not exist",
        lambda m: adapt.cache_features(m.bert_classifier(), TEXTS, LABELS, below="block_9"),
        "block_0",
    ),
    Mistake(
        "a file of cached features that is cut off",
        lambda m: damaged(m, lambda data: data[: len(data) // 2]),
        "cache|size|bytes|folder",
    ),
    Mistake(
        "a flipped bit in cached features",
        lambda m: damaged(m, lambda data: data[:-1] + bytes([data[-1] ^ 64])),
        "checksum|damaged|changed",
    ),
    Mistake("an emptied file of cached features", lambda m: damaged(m, lambda data: b""), "empty|size|bytes|damaged"),
    # === Training checkpoints ===
    Mistake("a run that goes on with other num_heads", lambda m: resumed(m, num_heads=4, dropout=0.0), "num_heads"),
    Mistake("a run that goes on with other dropout", lambda m: resumed(m, dropout=0.3), "dropout|same model"),
    Mistake(
        "a run that goes on with another activation", lambda m: resumed(m, dropout=0.0, activation="relu"), "activation"
    ),
    Mistake(
        "a run that goes on with another size", lambda m: resumed(m, dropout=0.0, hidden_dim=16), "shape|hidden_dim|16"
    ),
    Mistake(
        "a file as the folder of a checkpoint",
        lambda m: fit(m.classifier(), callbacks=[kt.callbacks.TrainingCheckpoint(m.table())]),
        "is a file",
    ),
    # === Comparison and Fisher ===
    Mistake(
        "compare with one seed that is no number",
        lambda m: kt.experiments.compare(m.classifier, {"train": (TEXTS, LABELS)}, ["bert"], seeds="5"),
        "seeds",
    ),
    Mistake(
        "compare without training texts",
        lambda m: kt.experiments.compare(m.classifier, {"test": (TEXTS, LABELS)}, ["bert"]),
        "train",
    ),
    Mistake(
        "Fisher's empirical='true'",
        lambda m: adapt.estimate_fisher(m.classifier(), TEXTS, LABELS, empirical="true"),
        "empirical",
    ),
    Mistake(
        "a language-model loss of infinite weight",
        lambda m: adapt.with_language_model_loss(m.bert_classifier(), float("inf")),
        "finite",
    ),
    Mistake("EWC without a Fisher matrix", lambda m: adapt.EWC(1.0), "fisher"),
    Mistake("setfit without two classes", lambda m: adapt.setfit(m.classifier(), TEXTS, [1, 1, 1, 1]), "two classes"),
    Mistake("pairs of too few texts", lambda m: adapt.sample_pairs([0]), "two classes"),
]


def fit_with(model, optimizer):
    model.compile(optimizer)
    return fit(model)


def bfloat16(models):
    keras.config.set_dtype_policy("bfloat16")
    try:
        model = models.bert_classifier(optimizer=None)
        model.compile()
        return fit(model)
    finally:
        keras.config.set_dtype_policy("float32")


def damaged(models, change):
    """Trains on cached features whose largest file was changed."""
    folder = models.folder / "features"
    model = adapt.freeze(models.bert_classifier(), below="head")
    adapt.cache_features(model, TEXTS, LABELS, below="head", folder=folder, verbose=0)
    largest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    largest.write_bytes(change(largest.read_bytes()))
    return adapt.cache_features(model, TEXTS, LABELS, below="head", folder=folder, verbose=0)

"""Texts that a model writes after each epoch are compared with references, and other callbacks see the results."""

import functools

import keras
import numpy as np

from keras_transfer.callbacks import GenerationMetrics, TrainingCheckpoint
from keras_transfer.encoders import T5, TransformerEncoder
from keras_transfer.generation import TopK
from keras_transfer.metrics import Chrf, Rouge, Squad, Ter
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import CausalLM, Seq2SeqLM, TextClassifier
from tests.errors import check_errors
from tests.tasks.tiny import VOCABULARY, preprocessor

SOURCES = ["a b c", "d e", "f g h i", "b a"]
TARGETS = ["a", ["d", "e"], "f g", "b"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "dropout": 0.1}


def model():
    keras.utils.set_random_seed(0)
    found = Seq2SeqLM(T5(len(VOCABULARY), **SIZES, head_dim=4), preprocessor(sequence_length=16), max_new_tokens=2)
    found.compile(FusedAdamW(1e-2))
    return found


def fit(found, *callbacks, epochs=2):
    targets = [target if isinstance(target, str) else target[0] for target in TARGETS]
    return found.fit(SOURCES, targets, epochs=epochs, batch_size=2, callbacks=[*callbacks], verbose=0).history


def test_the_results_of_each_epoch_are_in_the_logs_and_training_is_the_same(eagerly):
    found, metrics = model(), [Rouge(["rouge1"]), Chrf(), Squad()]
    callback = GenerationMetrics(SOURCES, TARGETS, metrics, batch_size=4)
    early = keras.callbacks.EarlyStopping("val_chrf", mode="max", patience=5)
    history = fit(found, callback, early)
    names = ["rouge1", "chrf", "exact_match", "f1"]
    assert all(len(history[f"val_{name}"]) == 2 for name in names)
    assert callback.texts == found.generate(SOURCES)
    assert history["val_chrf"][-1] == Chrf()(TARGETS, callback.texts)
    assert early.best == max(history["val_chrf"])
    assert history["loss"] == fit(model())["loss"]


def test_a_resumed_run_has_the_same_results_and_a_checkpoint_keeps_the_best_epoch(tmp_path, eagerly):
    def callbacks(folder):
        metric = GenerationMetrics(
            SOURCES, TARGETS, Chrf(), limit=2, batch_size=2, sampler=TopK(5), max_new_tokens=2, prefix="val_random_"
        )
        best = keras.callbacks.ModelCheckpoint(
            tmp_path / f"{folder}.weights.h5",
            "val_random_chrf",
            mode="max",
            save_weights_only=True,
            save_best_only=True,
        )
        return best, [metric, best, TrainingCheckpoint(tmp_path / folder)]

    _, straight = callbacks("straight")
    whole = fit(model(), *straight)
    _, first = callbacks("cut")
    part = fit(model(), *first, epochs=1)
    best, rest = callbacks("cut")
    resumed = fit(model(), *rest)
    assert [*part["val_random_chrf"], *resumed["val_random_chrf"]] == whole["val_random_chrf"]
    assert best.best == max(whole["val_random_chrf"]) and len(rest[0].texts) == 2


def test_continuations_of_prompts_are_compared_without_the_prompts(traced):
    decoder = TransformerEncoder(len(VOCABULARY), **SIZES, norm="pre", causal=True)
    found = CausalLM(decoder, preprocessor(sequence_length=16))
    found.compile("sgd")
    callback = GenerationMetrics(["a b", "c"], ["c", "d"], Ter(), max_new_tokens=2, prefix="")
    history = found.fit(["a b c", "c d"], verbose=0, callbacks=[callback]).history
    assert history["ter"] == [Ter()(["c", "d"], found.generate(["a b", "c"], max_new_tokens=2))]


def test_the_callback_can_be_made_again_from_its_config():
    callback = GenerationMetrics(
        SOURCES, TARGETS, [Chrf(word_order=2), Ter()], limit=3, sampler=TopK(3), stop=["a", "b"], num_beams=None
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(callback))
    assert again.get_config() == callback.get_config()
    assert again.targets == [["a"], ["d", "e"], ["f g"]] and again.generation["stop"] == ["a", "b"]
    assert again.metrics[0].get_config() == callback.metrics[0].get_config()


untrained = functools.cache(model)


def run(callback=None, *, before=(), after=(), **options):
    callback = GenerationMetrics(["a"], ["b"], Chrf(), **options) if callback is None else callback
    return fit(untrained(), *before, callback, *after)


def classifier():
    encoder = TransformerEncoder(len(VOCABULARY), **SIZES)
    found = TextClassifier(encoder, preprocessor(), num_classes=2)
    found.compile()
    return found.fit(["a", "b"], [0, 1], callbacks=[GenerationMetrics(["a"], ["b"], Chrf())])


def without_preprocessor():
    found = Seq2SeqLM(T5(len(VOCABULARY), **SIZES))
    found.compile()
    ids = {name: np.ones((2, 3), "int32") for name in found.input}
    return found.fit(ids, np.ones((2, 3), "int32"), callbacks=[GenerationMetrics(["a"], ["b"], Chrf())])


test_mistakes_are_errors_before_the_first_step = check_errors(
    (lambda: GenerationMetrics(["a", "b"], ["c"], Chrf()), "`sources` and `targets` ... Received: 2 and 1"),
    (lambda: GenerationMetrics("a", ["b"], Chrf()), "`sources` must be a list with one row for each text"),
    (lambda: GenerationMetrics([[1, 2]], ["b"], Chrf()), "`sources` must be a list of strings. Received: [1, 2]"),
    (lambda: GenerationMetrics(["a"], [[]], [Squad(), Chrf()]), "at least one string ... Received: [] at position 0"),
    (lambda: GenerationMetrics(["a"], ["b"], [Chrf(), "bleu"]), "or a list of them. Received: 'bleu'"),
    (lambda: run(max_tokens=3), TypeError, "`Seq2SeqLM.generate` has no argument `max_tokens`"),
    (lambda: run(sampler="best"), "best"),
    (classifier, "requires a `Seq2SeqLM` or `CausalLM` with a preprocessor. Received: TextClassifier"),
    (without_preprocessor, "Received: Seq2SeqLM without a preprocessor"),
    (
        lambda: run(before=[keras.callbacks.EarlyStopping("val_chrf", mode="max")]),
        "must come before the callbacks that monitor its results. Received: EarlyStopping with monitor='val_chrf'",
    ),
    (
        lambda: run(after=[keras.callbacks.EarlyStopping("val_chrf")]),
        "whether 'val_chrf' should rise or fall. Pass `mode='max'` to `EarlyStopping`. Received: mode='auto'",
    ),
    (
        lambda: run(GenerationMetrics(["a"], ["b"], Ter()), after=[keras.callbacks.EarlyStopping("val_ter")]),
        "Pass `mode='min'` to `EarlyStopping`",
    ),
)

"""On TensorFlow, `fit`, `evaluate` and `predict` are traced once for all lengths and for the short last batch."""

import logging

import keras
import numpy as np
import pytest

from keras_transfer.analysis import attribute
from keras_transfer.callbacks import Stage, StagedTraining
from keras_transfer.encoders import Bart, TransformerEncoder
from keras_transfer.keras_internals import graph_passes, with_few_passes
from keras_transfer.keras_internals.tracing import trace_predict
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.tasks import CausalLM, MaskedLM, Seq2SeqLM, TextClassifier, TextEmbedder
from keras_transfer.tasks.task import Task
from keras_transfer.text import batches, part_batches
from tests.tasks.tagging.taggers import examples as tagged_examples
from tests.tasks.tagging.taggers import tagger
from tests.tasks.tiny import classifier, encoder, examples, of_vectors, preprocessor

pytest.importorskip("tensorflow")
TEXTS, LABELS = examples(21)
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}


@pytest.fixture
def traces(monkeypatch):
    """The list of the steps that were traced, each as the shape of its token ids."""
    found = []

    def record(name):
        step = getattr(Task, name)

        def recorded(self, data):
            inputs = data[0] if isinstance(data, tuple) else data
            found.append((name, tuple(inputs["token_ids"].shape)))
            return step(self, data)

        monkeypatch.setattr(Task, name, recorded)

    for name in ("train_step", "test_step", "predict_step"):
        record(name)
    return found


def test_fit_with_validation_is_traced_once_for_each_of_the_two(traces):
    model = classifier()
    model.compile("adamw", metrics=["accuracy"])
    train = batches(TEXTS, LABELS, preprocessor=model.preprocessor, batch_size=4, seed=0)
    assert len(train.options.lengths) > 1 and len({len(train[i][1]) for i in range(len(train))}) == 2
    model.fit(train, validation_data=(TEXTS[:9], LABELS[:9]), batch_size=4, verbose=0)
    model.fit(TEXTS, LABELS, batch_size=8, verbose=0)
    model.evaluate(TEXTS, LABELS, batch_size=8, verbose=0)
    assert sorted(traces) == [("test_step", (None, None)), ("train_step", (None, None))]


def test_rows_of_several_texts_are_traced_once_for_all_lengths(traces):
    model = TextEmbedder(encoder(), preprocessor())
    model.compile("adamw")
    rows = TEXTS[:-1], TEXTS[1:]
    model.fit(part_batches(rows, None, preprocessor=model.preprocessor, batch_size=3, seed=0), verbose=0)
    assert model.predict(rows, batch_size=8, verbose=0).shape == (20, 2, 16)
    assert sorted(traces) == [("predict_step", (None, 2, None)), ("train_step", (None, 2, None))]


@pytest.mark.parametrize("listed", [False, True])
def test_an_input_of_one_length_keeps_it(listed):
    found = []

    def inputs(values):
        return [values] if listed else {"values": values}

    class Recorded(keras.Model):
        def predict_step(self, data):
            found.extend(tuple(each.shape) for each in keras.tree.flatten(data))
            return super().predict_step(data)

    values = keras.Input([3], name="values")
    model = Recorded(inputs(values), keras.layers.Dense(1)(values))
    model.compile()
    trace_predict(model, (inputs(np.ones((2, 3), "float32")),))
    assert found == [(None, 3)]


@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_each_stage_adds_one_trace_and_validation_one_for_the_whole_run(kind, traces, caplog):
    if kind == "classifier":
        model, (x, y) = of_vectors(), (TEXTS, LABELS)
    else:
        model, (x, y) = tagger("vectors"), tagged_examples(21, 20)
    rates = LayerwiseOptimizer(keras.optimizers.AdamW(1e-3), model, decay=0.5)
    model.compile(rates if kind == "tagger" else "auto")
    stages = StagedTraining([Stage("head", epochs=1), Stage("all")])
    with caplog.at_level(logging.WARNING, "tensorflow"):
        options = {"validation_data": (x[:9], y[:9]), "batch_size": 4, "epochs": 3, "verbose": 0}
        model.fit(x, y, callbacks=[stages], **options)
        model.predict(x, batch_size=4, verbose=0)
    names = [name for name, _ in traces]
    assert names == ["train_step", "test_step", "train_step", "predict_step"]
    assert "retracing" not in caplog.text


def test_the_metrics_of_a_stream_are_created_before_it_is_traced(traces):
    import tensorflow as tf

    model = classifier()
    model.compile("sgd", metrics=["accuracy"], weighted_metrics=["accuracy"])
    model.evaluate(tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(16), verbose=0)
    assert traces == [("test_step", (None, None))]


def test_predict_is_traced_once_for_all_lengths_and_numbers_of_texts(traces, caplog):
    model = classifier()
    with caplog.at_level(logging.WARNING, "tensorflow"):
        model.predict(TEXTS, batch_size=4, verbose=0)
        for count in range(1, 6):
            model.predict([" ".join(TEXTS[:count])] * count, verbose=0)
    assert traces == [("predict_step", (None, None))]
    assert "retracing" not in caplog.text


def count_of_traces(model):
    """The number of traces of each model that was derived from a task and used."""
    functions = [each.predict_function for each in model.derived_models.values()]
    return [each.experimental_get_tracing_count() for each in functions if each is not None]


@pytest.mark.parametrize("method", ["integrated_gradients", "smoothgrad", "occlusion"])
def test_attribution_is_traced_once_for_five_lengths_and_for_later_calls(method):
    model = classifier()
    for texts in (["a", "a b", "a b c", "a b c d", "a b c d e"], ["good " * 7]):
        attribute(model, texts, method=method, target=0, steps=3, samples=4, batch_size=3, verbose=0)
    assert count_of_traces(model) == [1]


def test_likelihoods_are_traced_once_for_all_lengths():
    lengths = ["a b", "a b c", "a b c d", "a b c d e", "a b c d e f"]
    masked = MaskedLM(encoder(), preprocessor())
    masked.score(lengths, batch_size=1)
    masked.score(["a good bad", "a bad bad"])  # Two candidates for one place.
    causal = CausalLM(TransformerEncoder(17, causal=True, **SIZES), preprocessor())
    causal.score(lengths, batch_size=1)
    writer = Seq2SeqLM(Bart(17, **SIZES), preprocessor())
    writer.score(lengths, lengths, batch_size=1)
    assert [*map(count_of_traces, (masked, causal, writer))] == [[1, 1]] * 3


def test_masks_are_filled_with_one_trace_for_all_lengths(traces):
    model = MaskedLM(encoder(), preprocessor())
    model.fill_mask(["[MASK]", "a [MASK]", "a [MASK] [MASK]", "a b c [MASK]"], batch_size=1)
    assert traces == [("predict_step", (None, None))]


def test_predict_is_not_traced_if_all_functions_run_eagerly(traces, eagerly):
    classifier().predict(TEXTS[:2], verbose=0)
    [(_, (rows, length))] = traces
    assert rows == 2 and length is not None


def test_predict_is_traced_once_for_words(traces):
    model, (words, _) = tagger(), tagged_examples(9, 20)
    assert len(model.predict(words, batch_size=4, verbose=0)) == 9
    model.predict(words[:1], verbose=0)
    assert traces == [("predict_step", (None, None))]


def test_each_of_several_models_that_predict_one_text_is_traced_once_and_without_a_warning(traces, caplog):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        for _ in range(5):
            inputs = keras.Input((None,), name="token_ids", dtype="int32")
            pooled = keras.layers.Embedding(9, 4)(inputs)[:, 0]
            model = TextClassifier(keras.Model({"token_ids": inputs}, {"pooled_output": pooled}), num_classes=2)
            model.predict({"token_ids": [[1, 2, 3]]}, verbose=0)
            model.predict({"token_ids": [[1, 2], [3, 4]]}, verbose=0)
    assert traces == [("predict_step", (None, None))] * 5
    assert "retracing" not in caplog.text


def passes_are_few():
    import tensorflow as tf
    from tensorflow.python.eager import context

    options = tf.compat.v1.ConfigProto.FromString(context.context().function_call_options.config_proto_serialized)
    rewrite = options.graph_options.rewrite_options
    return rewrite.meta_optimizer_iterations == rewrite.ONE


@pytest.mark.parametrize(
    ("on_gpu", "eagerly", "few"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_only_the_graph_of_the_training_step_is_optimized_with_few_passes(monkeypatch, on_gpu, eagerly, few):
    found = []
    monkeypatch.setattr("keras_transfer.tasks.task.compiles_each_length", lambda: on_gpu)

    def record(name):
        step = getattr(Task, name)
        monkeypatch.setattr(Task, name, lambda self, data: found.append((name, passes_are_few())) or step(self, data))

    for name in ("train_step", "test_step"):
        record(name)
    model = classifier()
    model.compile("adamw", run_eagerly=eagerly)
    model.fit(TEXTS, LABELS, validation_data=(TEXTS, LABELS), verbose=0)
    made = model.train_function
    model.make_train_function()
    assert model.train_function is made
    assert {*found} == {("train_step", few), ("test_step", False)}


def test_weights_after_steps_with_few_passes_are_those_with_all(monkeypatch):
    def trained():
        keras.utils.set_random_seed(0)
        model = classifier()
        model.compile("adamw")
        model.fit(TEXTS, LABELS, epochs=3, verbose=0)
        return model.get_weights()

    found = trained()
    monkeypatch.setattr("keras_transfer.tasks.task.with_few_passes", lambda function: function)
    for weight, expected in zip(found, trained(), strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)


def test_a_call_with_few_passes_puts_the_options_back_if_it_fails():
    def fails():
        assert passes_are_few()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        with_few_passes(fails)()
    assert not passes_are_few()


def test_few_passes_leave_what_the_user_has_chosen():
    import tensorflow as tf

    given = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1)
    rewrite = given.graph_options.rewrite_options
    rewrite.layout_optimizer, rewrite.constant_folding = rewrite.ON, rewrite.OFF
    found = graph_passes._with_few_passes(given.SerializeToString())
    rewrite.meta_optimizer_iterations, rewrite.memory_optimization = rewrite.ONE, rewrite.NO_MEM_OPT
    assert found == given

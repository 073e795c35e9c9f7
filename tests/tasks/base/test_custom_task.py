"""A subclass of `Task` of a user's own."""

import keras
import numpy as np
import pytest

from keras_transfer.tasks import ClassNames, Head, Labels, Numbers, Reader, Task, TextClassifier
from keras_transfer.tasks.labels import JointLabels
from keras_transfer.tasks.token_classifier import WordTags
from keras_transfer.tasks.token_targets import NextTokens
from tests.tasks.tiny import difference, encoder, preprocessor

TEXTS = ["a b", "good", "bad"]


@keras.saving.register_keras_serializable("mine")
class Mine(Task):
    """A head with arguments of its own, one of which is an object of Keras."""

    def __init__(self, encoder, preprocessor=None, *, schedule=None, activation=None, name=None):
        outputs = keras.layers.Dense(2, activation)(encoder.output["pooled_output"])
        super().__init__(encoder, Reader(preprocessor), Head(outputs, Labels()), name=name)
        self.schedule = schedule


def test_a_custom_task_is_saved_and_loaded_with_its_preprocessor(tmp_path, eagerly):
    rate = keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.9)
    model = Mine(encoder(), preprocessor(), schedule=rate, activation=keras.activations.tanh)
    model.save(tmp_path / "mine.keras")
    same = keras.saving.load_model(tmp_path / "mine.keras")
    assert type(same.schedule) is type(rate) and same.schedule.get_config() == rate.get_config()
    np.testing.assert_array_equal(same.predict(["a b"], verbose=0), model.predict(["a b"], verbose=0))


@keras.saving.register_keras_serializable("mine")
class Named(Task):
    """A task with arguments that every task has as attributes."""

    def __init__(self, encoder, preprocessor=None, *, heads=2, labels=("no", "yes"), name=None):
        outputs = keras.layers.Dense(len(labels))(encoder.output["pooled_output"])
        super().__init__(encoder, Reader(preprocessor), Head(outputs, ClassNames(list(labels))), name=name)


def test_an_argument_may_have_the_name_of_an_attribute_of_all_tasks(tmp_path):
    Named(encoder(), heads=3, labels=["a", "b", "c"]).save(tmp_path / "named.keras")
    same = keras.saving.load_model(tmp_path / "named.keras")
    assert same.arguments["heads"] == 3 and same.label_names == ["a", "b", "c"]


class Two(Task):
    """A class and a number for each text."""

    def __init__(self, encoder, preprocessor, label_names, name=None):
        pooled = encoder.output["pooled_output"]
        heads = {"topic": Head(keras.layers.Dense(len(label_names), name="topic")(pooled), ClassNames(label_names))}
        heads["length"] = Head(keras.layers.Dense(1, name="length")(pooled), Numbers())
        super().__init__(encoder, Reader(preprocessor), heads, name=name)


@pytest.mark.core
def test_a_task_with_two_heads_trains_on_named_labels_and_answers_in_their_terms():
    keras.utils.set_random_seed(0)
    model = Two(encoder(), preprocessor(), ["bad", "good"])
    model.compile("sgd")
    labels = {"topic": ["good", "bad", "good"], "length": [2.0, 1.0, 1.0]}
    before = model.get_weights()
    history = model.fit(TEXTS, labels, batch_size=2, validation_data=(TEXTS, labels), verbose=0).history
    assert {"topic_accuracy", "length_mean_absolute_error", "val_loss"} <= history.keys()
    assert all(difference([now], [then]) > 0 for now, then in zip(model.get_weights()[-4:], before[-4:]))
    outputs = model.predict(TEXTS, batch_size=2, verbose=0)
    alone = model.predict(TEXTS[1:2], verbose=0)
    assert difference([outputs["topic"][1:2], outputs["length"][1:2]], [alone["topic"], alone["length"]]) < 1e-6
    answers = model.labels.decode(outputs)
    assert set(answers["topic"]) <= {"bad", "good"} and len(answers["length"]) == 3


class Student(Task):
    """Logits that learn from classes and from the logits of another model."""

    def __init__(self, encoder, preprocessor, name=None):
        logits = keras.layers.Dense(2, name="logits")(encoder.output["pooled_output"])
        heads = {"label": Head(logits, ClassNames(["bad", "good"])), "teacher": Head(logits, Numbers(2), weight=0.5)}
        super().__init__(encoder, Reader(preprocessor), heads, name=name)


def test_two_heads_over_one_tensor_have_their_weights_unless_compile_receives_others(eagerly):
    model = Student(encoder(), preprocessor())
    labels = {"label": ["good", "bad", "good"], "teacher": [[1.0, 2.0], [0.0, 1.0], [0.5, 0.5]]}
    for given, own, others in ((None, 1.0, 0.5), ({"label": 0.25, "teacher": 2.0}, 0.25, 2.0)):
        model.compile("sgd", loss_weights=given)
        found = model.evaluate(TEXTS, labels, verbose=0, return_dict=True)
        expected = own * found["label_loss"] + others * found["teacher_loss"]
        assert found["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_loss_of_several_heads_needs_no_inputs(eagerly):
    model = Student(encoder(), preprocessor())
    model.compile("sgd")
    outputs, labels = model(model.reader.inputs(TEXTS)), {"label": np.array([1, 0, 1]), "teacher": np.zeros((3, 2))}
    found = float(model.compute_loss(y=labels, y_pred=outputs))
    assert found == pytest.approx(model.evaluate(TEXTS, labels, verbose=0, return_dict=True)["loss"], rel=1e-5)


def test_a_task_with_further_heads_trains_the_layers_of_the_task(eagerly):
    task = TextClassifier(encoder(), preprocessor(), label_names=["bad", "good"])
    length = keras.layers.Dense(1, name="length")(task.encoder.output["pooled_output"])
    both = task.with_heads({"label": task.heads["head"], "length": Head(length, Numbers(), weight=0.1)})
    both.compile("sgd")
    before = task.predict(TEXTS, verbose=0)
    both.fit(TEXTS, {"label": ["good", "bad", "good"], "length": [2.0, 1.0, 1.0]}, verbose=0)
    outputs = both.predict(TEXTS, verbose=0)
    assert difference([task.predict(TEXTS, verbose=0)], [outputs["label"]]) < 1e-6
    assert difference([before], [outputs["label"]]) > 1e-6 and task.fitted_on == "texts"
    assert set(task.predict_labels(TEXTS)) <= {"bad", "good"}
    with pytest.raises(ValueError, match="cannot be loaded from it"):
        both.get_config()
    windows = TextClassifier(encoder(), preprocessor(sequence_length=8), num_classes=2, windows="mean")
    with pytest.raises(ValueError, match="cuts texts into `windows` cannot have further heads"):
        windows.with_heads({"label": windows.heads["head"]})


class Tagger(Task):
    """A label for each token, and a class for each text."""

    def __init__(self, encoder):
        tags = keras.layers.Dense(3, name="tags")(encoder.output["sequence_output"])
        topic = keras.layers.Dense(2, name="topic")(encoder.output["pooled_output"])
        heads = {"tags": Head(tags, WordTags(["a", "b", "c"])), "topic": Head(topic, ClassNames(["bad", "good"]))}
        super().__init__(encoder, Reader(None), heads)


def test_a_head_whose_targets_nothing_draws_needs_labels():
    made = encoder()
    heads = {name: Head(made.output["sequence_output"], NextTokens(8)) for name in ("first", "second")}
    model = Task(made, Reader(preprocessor()), heads)
    model.compile("sgd")
    with pytest.raises(ValueError, match="`fit` requires labels"):
        model.fit(TEXTS, verbose=0)


def test_each_of_several_heads_has_its_own_form_of_labels_and_weights(eagerly):
    model = Tagger(encoder())
    ids = {name: np.ones((2, 3), "int32") for name in model.input}
    ignored, weights = -100, np.array([1.0, 0.0])
    labels = {"tags": np.array([[0, 2, ignored], [1, ignored, ignored]]), "topic": np.array([0, 1])}
    own = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile("sgd", loss={"tags": own})
    expected = model.evaluate(ids, labels, sample_weight=weights, verbose=0, return_dict=True)
    assert np.isfinite(expected["loss"]) and expected["tags_loss"] > 0
    both = model.evaluate(ids, labels, sample_weight={"tags": weights, "topic": weights}, verbose=0, return_dict=True)
    assert both["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    for wrong, message in (
        ({"tags": weights}, r"of each of several heads, \['tags', 'topic'\]. Received: keys=\['tags'\]"),
        ({"tags": weights[:1], "topic": weights}, "same number of rows"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(ids, labels, sample_weight=wrong, verbose=0)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda outputs: Head(outputs, Numbers(), weight=-1), "`weight` must be a number at least 0"),
        (lambda outputs: Head(outputs, Numbers(), weight=0.5), "A single one has none. Received: weight=0.5"),
        (lambda outputs: {"a": Head(outputs, JointLabels())}, r"only head must have them. Received: heads=\['a'\]"),
    ],
)
def test_what_would_be_ignored_in_heads_is_an_error(make, message):
    made = encoder()
    with pytest.raises(ValueError, match=message):
        Task(made, Reader(None), make(made.output["pooled_output"]))


@keras.saving.register_keras_serializable("mine")
class Fixed(TextClassifier):
    """A classifier with some arguments that are fixed, one that is passed on, and one of its own."""

    def __init__(self, encoder, preprocessor=None, *, rate=0.1, **options):
        super().__init__(encoder, preprocessor, num_classes=3, pooling="max", **options)
        self.rate = rate


def test_files_keep_the_arguments_of_any_constructor(tmp_path):
    two = Two(encoder(), preprocessor(), ["bad", "good"])
    same = Two.from_config(two.get_config())
    assert same.labels.labels["topic"].names == ["bad", "good"] and same.name == two.name
    fixed = Fixed(encoder(), rate=np.float32(0.5), dropout=0.25)
    fixed.rate = 0.75
    fixed.save(tmp_path / "fixed.keras")
    same = keras.saving.load_model(tmp_path / "fixed.keras")
    assert (same.rate, same.dropout, same.pooling, same.num_classes, same.hidden_dim) == (0.75, 0.25, "max", 3, None)


def test_a_task_without_a_class_of_its_own_cannot_be_saved():
    model = Two(encoder(), preprocessor(), ["bad", "good"])
    plain = Task(model.encoder, model.reader, model.heads)
    with pytest.raises(ValueError, match="Write a subclass whose constructor makes them"):
        plain.get_config()


def test_labels_that_answer_only_with_their_task_say_so():
    with pytest.raises(NotImplementedError, match="Labels does not implement `decode`. Use the method of the task"):
        Labels().decode(np.zeros((1, 2)))


def test_wrong_labels_of_one_head_name_the_head():
    model = Two(encoder(), preprocessor(), ["bad", "good"])
    model.compile()
    for labels, message in (
        ({"topic": ["good", "odd", "bad"], "length": [1.0, 2.0, 3.0]}, "Labels of 'topic': .*'odd' at position 1"),
        ({"topic": ["good", "bad", "bad"]}, r"a dict with the keys \['topic', 'length'\]. Received: .*\['topic'\]"),
        (["good", "bad", "bad"], "a dict with the keys"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(TEXTS, labels, verbose=0)

"""A subclass of `Task` of a user's own."""

import re

import keras
import numpy as np
import pytest

from keras_transfer.tasks import Task
from keras_transfer.tasks.class_labels import ClassNames
from keras_transfer.tasks.labels import Labels
from keras_transfer.tasks.named_labels import NamedLabels
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.text_regressor import Numbers
from tests.tasks.tiny import difference, encoder, preprocessor

TEXTS = ["a b", "good", "bad"]


@keras.saving.register_keras_serializable("mine")
class Mine(Task):
    """A head with settings of its own, one of which is an object of Keras."""

    def __init__(self, encoder, preprocessor=None, *, schedule=None, activation=None, name=None):
        outputs = keras.layers.Dense(2, activation)(encoder.output["pooled_output"])
        settings = {"schedule": schedule, "activation": activation}
        super().__init__(encoder, outputs, Reader(preprocessor), Labels(), settings=settings, name=name)


def test_a_custom_task_is_saved_and_loaded_with_its_preprocessor(tmp_path):
    rate = keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.9)
    model = Mine(encoder(), preprocessor(), schedule=rate, activation=keras.activations.tanh)
    model.save(tmp_path / "mine.keras")
    same = keras.saving.load_model(tmp_path / "mine.keras")
    assert type(same.schedule) is type(rate) and same.schedule.get_config() == rate.get_config()
    np.testing.assert_array_equal(same.predict(["a b"], verbose=0), model.predict(["a b"], verbose=0))


class Two(Task):
    """A class and a number for each text."""

    def __init__(self, encoder, preprocessor, label_names, name=None):
        labels = NamedLabels(topic=ClassNames(label_names), length=Numbers())
        pooled = encoder.output["pooled_output"]
        outputs = {"topic": keras.layers.Dense(len(label_names), name="topic")(pooled)}
        outputs["length"] = keras.layers.Dense(1, name="length")(pooled)
        super().__init__(encoder, outputs, Reader(preprocessor), labels, name=name)


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


class Forgetful(Task):
    """A task that loses its arguments, and whose constructor does not accept a name."""

    def __init__(self, encoder, preprocessor=None, rate=0.1):
        outputs = keras.layers.Dense(2)(encoder.output["pooled_output"])
        super().__init__(encoder, outputs, Reader(preprocessor), Labels())


def test_a_task_that_could_not_be_loaded_is_an_error_when_it_is_saved(tmp_path):
    model = Two(encoder(), preprocessor(), ["bad", "good"])
    step = "also requires `label_names`. Pass `settings={'label_names': label_names}` to `Task.__init__`"
    with pytest.raises(ValueError, match=re.escape(step) + r".*Received: settings=\[\]"):
        model.save(tmp_path / "two.keras")
    model.save_weights(tmp_path / "two.weights.h5")
    with pytest.raises(ValueError, match="A file of this `Forgetful` could not be.*has no argument `name`. Add it"):
        Forgetful(encoder()).get_config()
    plain = Task(model.encoder, model.output, model.reader, model.labels)
    with pytest.raises(ValueError, match="requires `outputs`. Write a subclass whose constructor makes them"):
        plain.get_config()


def test_an_argument_that_a_file_would_lose_is_a_warning_unless_it_is_the_default(caplog):
    class Lossy(Forgetful):
        def __init__(self, encoder, preprocessor=None, rate=0.1, name=None):
            super().__init__(encoder, preprocessor, rate)

    Lossy(encoder(), rate=0.1).get_config()
    assert not caplog.text
    Lossy(encoder(), None, 0.2).get_config()
    assert "`Lossy` does not contain the arguments ['rate'] of its constructor" in caplog.text


class Whole(Two):
    """The same task with a config of its own."""

    def get_config(self):
        return {**super().get_config(), "label_names": self.labels.labels["topic"].names}


class Completed(Two):
    """The same task, whose config is completed when it is loaded."""

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return super().from_config({**config, "label_names": ["bad", "good"]}, custom_objects)


@pytest.mark.parametrize("made", [Whole, Completed])
def test_a_task_with_a_config_of_its_own_needs_no_settings(made):
    model = made(encoder(), preprocessor(), ["bad", "good"])
    assert made.from_config(model.get_config()).labels.labels["topic"].names == ["bad", "good"]


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

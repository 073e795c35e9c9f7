"""Two replicas of `tf.distribute.MirroredStrategy` train a module like one device, from strings and from numbers."""

import inspect
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.distribute import StringInputs
from keras_transfer.hub import HubEncoder, HubLayer
from keras_transfer.tasks import TextClassifier
from tests.hub import saved_modules as modules
from tests.hub import tf1_modules
from tests.hub.saved_modules import LABELS
from tests.strategies import two_replicas


class Functional(StringInputs, keras.Model):
    pass


class Sequential(StringInputs, keras.Sequential):
    pass


class Subclassed(StringInputs, keras.Model):
    def __init__(self, layer, head):
        super().__init__()
        self.layer, self.head = layer, head

    def call(self, inputs, training=None):
        return self.head(self.layer(inputs))


def functional(layer, head):
    inputs = keras.Input((), dtype="string")
    return Functional(inputs, head(layer(inputs)))


def functional_of_numbers(layer, head):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in modules.BERT_INPUTS}
    return Functional(inputs, head(layer(inputs)["pooled_output"]))


def sequential(layer, head):
    return Sequential([layer, head])


def compiled(build, layer):
    model = build(layer, keras.layers.Dense(2, kernel_initializer=keras.initializers.GlorotUniform(seed=0)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"], run_eagerly=is_alone())
    return model


def trained(build, module, inputs):
    """Returns the model and the weights of its layer after five steps on all inputs at once."""
    layer = HubLayer(module, trainable=True)
    model = compiled(build, layer)
    model.fit(inputs, LABELS, batch_size=4, epochs=5, shuffle=False, verbose=0)
    return model, layer.get_weights()


def task(module):
    model = TextClassifier(HubEncoder(module), num_classes=2, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=is_alone())
    return model


def is_alone():
    """Whether there is one device. There, few steps are cheaper without a graph."""
    return tf.distribute.get_strategy().num_replicas_in_sync == 1


class WithMean:
    """A callable with a statistic that training changes by one in the first replica and by three in the second."""

    def __init__(self, **options):
        self.weight = tf.Variable([1.0], name="weight")
        self.mean = tf.Variable([0.0], name="mean", trainable=False, **options)
        self.variables, self.trainable_variables = [self.weight, self.mean], [self.weight]

    def __call__(self, x, training=False):
        if training:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            self.mean.assign_add([1.0 + 2.0 * tf.cast(replica, tf.float32)])
        return x * self.weight


def message(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def distance(weights, others):
    """Returns the smallest and the largest difference between two weights."""
    distances = [np.abs(a - b).max() for a, b in zip(weights, others, strict=True)]
    return min(distances), max(distances)


def main(folder):
    folder = pathlib.Path(folder)
    strategy = two_replicas()
    report = {"replicas": strategy.num_replicas_in_sync}
    text = modules.save_text_module(folder / "text" / "module", dropout=0.0)
    bert = modules.save_bert_module(folder / "bert", dropout=0.0, layers=1)
    texts, ids = tf.constant(modules.TEXTS), modules.bert_inputs()

    # One device and two replicas
    _, alone = trained(functional, text, texts)
    report["moved"] = distance(alone, HubLayer(text).get_weights())
    for build in (functional, Subclassed):
        with strategy.scope():
            model, together = trained(build, text, texts)
        report[build.__name__] = distance(alone, together)
    report["evaluated"] = model.evaluate(texts, LABELS, batch_size=4, verbose=0)
    _, alone = trained(functional_of_numbers, bert, ids)
    with strategy.scope():
        _, together = trained(functional_of_numbers, bert, ids)
    report["numbers"] = distance(alone, together)

    # A task, with batches that two replicas cannot split evenly
    keras.utils.set_random_seed(0)
    one = task(text)
    with strategy.scope():
        keras.utils.set_random_seed(0)
        two = task(text)
    several = modules.TEXTS * 5
    for model in (one, two):
        model.fit(several[:16], [*LABELS] * 4, batch_size=8, epochs=3, shuffle=False, verbose=0)
    report["task"] = distance(one.get_weights(), two.get_weights())
    report["task, predicted"] = distance(*([model.predict(several[:19], verbose=0)] for model in (one, two)))

    # Modules created outside the scope
    outside = HubLayer(text)
    before = outside.get_weights()
    with strategy.scope():
        model = compiled(sequential, outside)  # the first batch builds it
    model.fit(texts, LABELS, verbose=0)
    report["frozen, made outside"] = distance(before, outside.get_weights())
    outside.trainable = True
    with strategy.scope():
        report["made outside"] = message(compiled, functional, outside)
        plain = compiled(lambda *layers: keras.Sequential(layers), HubLayer(text))

    # Loaded objects
    loaded = tf.saved_model.load(str(text))
    with strategy.scope():
        report["loaded outside"] = message(lambda: HubLayer(loaded, trainable=True))
        loaded = tf.saved_model.load(str(text))
        report["loaded with statistics"] = message(lambda: HubLayer(loaded, trainable=True))
        report["callable with statistics"] = message(lambda: HubLayer(WithMean(), trainable=True))
        own = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.MEAN}
        layer = HubLayer(WithMean(**own), trainable=True)
        strategy.run(lambda: layer(tf.ones([1, 1]), training=True))
        report["callable with shared statistics"] = layer.non_trainable_weights[0].numpy().tolist()
        tf1 = tf.saved_model.load(tf1_modules.folder("vocabulary"), tags=[])
        report["loaded from TF1"] = message(lambda: HubLayer(tf1))
        loaded = tf.saved_model.load(str(bert))
        loaded_ids = HubLayer(loaded, trainable=True)
        model = compiled(functional_of_numbers, loaded_ids)
    model.fit(ids, LABELS, batch_size=4, epochs=5, shuffle=False, verbose=0)
    report["loaded"] = distance(alone, loaded_ids.get_weights())
    report["without StringInputs"] = message(plain.fit, texts, LABELS)
    return report


@pytest.fixture(scope="module")
def report(tensorflow_process, tmp_path_factory):
    """The results of one device and of two replicas, from a process with two CPU devices."""
    found = tensorflow_process("tests.hub.test_strategy:main", tmp_path_factory.mktemp("mirrored"))
    assert found["replicas"] == 2
    return found


@pytest.mark.parametrize("model", ["functional", "Subclassed"])
def test_two_replicas_train_a_module_of_strings_like_one_device(report, model):
    assert report[model][1] < 1e-6 < 1e-2 < report["moved"][0]


def test_a_model_with_string_inputs_also_takes_numbers(report):
    assert report["numbers"][1] < 1e-6


def test_a_task_with_a_module_trains_and_predicts_as_on_one_device(report):
    assert report["task"][1] < 1e-6
    assert report["task, predicted"][1] < 1e-6


def test_evaluate_also_takes_strings(report):
    loss, accuracy = report["evaluated"]
    assert loss < 0.6 and accuracy == 1


def test_a_trainable_module_created_outside_the_scope_is_an_error_inside(report):
    assert report["made outside"].startswith("HubError: To train a module on several replicas, create the layer")


def test_a_loaded_object_trains_like_its_handle(report):
    assert report["loaded"][1] < 1e-6


def test_a_loaded_object_that_replicas_cannot_share_is_an_error(report):
    assert "Received: 'hub_layer" in report["loaded outside"]
    assert "Pass the handle instead of the loaded object, or" in report["loaded with statistics"]
    assert "with ['layer_0/norm/moving_mean" in report["loaded with statistics"]
    assert "A loaded TensorFlow 1 module cannot be used under tf.distribute" in report["loaded from TF1"]


def test_a_callable_whose_statistics_replicas_cannot_share_is_an_error_that_says_how_to_create_them(report):
    assert "synchronization=tf.VariableSynchronization.ON_READ" in report["callable with statistics"]
    assert "with ['mean" in report["callable with statistics"]
    assert report["callable with shared statistics"] == [2.0]


def test_a_frozen_module_may_be_created_outside_the_scope(report):
    assert report["frozen, made outside"] == [0, 0]


def test_keras_itself_still_fails_on_strings(report):
    # If this fails, `StringInputs` is no longer needed.
    assert "Value for attr 'T' of string is not in the list of allowed values" in report["without StringInputs"]


def test_the_private_method_that_string_inputs_overrides_still_exists():
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    assert list(inspect.signature(TensorFlowTrainer._maybe_symbolic_build).parameters) == [
        "self",
        "iterator",
        "data_batch",
    ]
    for method in ("fit", "evaluate"):
        assert "self._maybe_symbolic_build(iterator=epoch_iterator)" in inspect.getsource(
            getattr(TensorFlowTrainer, method)
        )

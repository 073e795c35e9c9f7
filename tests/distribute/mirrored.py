"""Run by test_mirrored.py in the process with two CPU devices: compares one device with two replicas."""

import contextlib
import io
import pathlib
import runpy
import sys
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from keras_transfer.adaptation import with_language_model_loss
from keras_transfer.encoders import AWDLSTMEncoder, EncoderDecoder, GPT2Encoder, TransformerEncoder
from keras_transfer.layers import SampleTokens
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.tasks import (
    BertPretraining,
    CausalLM,
    DialogueModel,
    MaskedLM,
    MultiTask,
    ReplacedTokenDetection,
    Seq2SeqLM,
    TextClassifier,
    TextRegressor,
)
from keras_transfer.text import batches
from tests.distribute.examples import examples
from tests.strategies import two_replicas
from tests.tasks import tiny
from tests.tasks.dialogue import test_dialogue_model as dialogue
from tests.tasks.tagging import taggers

TEXTS, LABELS = examples(128)


def main(folder):
    folder = pathlib.Path(folder)
    strategy = two_replicas()
    report = {"replicas": strategy.num_replicas_in_sync, "steps": {}}
    one = tiny.for_replicas()
    with strategy.scope():
        two = tiny.for_replicas()
    one.run_eagerly = True  # few steps are cheaper without a graph
    report["steps"]["texts"] = steps((one, two), one.get_weights(), text_batches)
    report["errors"] = errors(two, strategy)
    small = [vectors()]
    with strategy.scope():
        small.append(vectors())
    small[0].run_eagerly, start = True, small[0].get_weights()
    report["steps"]["tf.data"] = steps(small, start, stream)
    report["saved"] = saved(strategy, folder / "two.keras")
    report["short"] = {count: short(small, start, count) for count in (1, 33, 35)}
    report["validation"] = validation(small[1])
    report["words"] = words(strategy)
    return report


def vectors():
    """A classifier over word vectors, whose steps are traced quickly."""
    model = tiny.of_vectors()
    model.encoder.trainable = True
    model.compile(keras.optimizers.SGD(0.5))
    return model


def words(strategy):
    """Taggers on one device and two replicas: the difference of their predictions, evaluations and weights."""
    models = [taggers.tagger("vectors")]
    with strategy.scope():
        models.append(taggers.tagger("vectors"))
        models[1].compile(keras.optimizers.SGD(0.5))
    models[0].compile(keras.optimizers.SGD(0.5), run_eagerly=True)
    sentences, tags = taggers.examples(64)
    found = []
    for model in models:
        before = [*model.predict(sentences[:7], verbose=0), *model.evaluate(sentences[:7], tags[:7], verbose=0)]
        model.fit(sentences[:32], tags[:32], batch_size=8, shuffle=False, verbose=0)
        found.append([*before, *model.get_weights()])
    return tiny.difference(*found)


def several_tasks():
    """For one device and two replicas of a `MultiTask`: differences of weights, logs, and how far the weights moved."""
    models = []
    for scope in (contextlib.nullcontext(), two_replicas().scope()):
        with scope:
            mood = vectors()
            length = TextRegressor(mood.encoder, mood.preprocessor, num_targets=1, dropout=0.0)
            models.append(MultiTask(mood.encoder, {"mood": mood, "length": length}, loss_weights="uncertainty"))
            models[-1].compile(keras.optimizers.SGD(0.5))
    models[0].run_eagerly = True  # Its batches have the lengths of compiled steps.
    start, logs = models[0].get_weights(), []
    models[1].set_weights(start)
    # The last batch of the first task has one row, which both replicas read, and the loader has another number of rows.
    loader = tf.data.Dataset.from_tensor_slices((TEXTS[:12], np.ones(12, "float32"))).batch(6, drop_remainder=True)
    data = {"mood": (TEXTS[:9], LABELS[:9]), "length": loader}
    for model in models:
        keras.utils.set_random_seed(0)
        options = {"batch_size": 4, "epochs": 2, "validation_data": {"length": (TEXTS[:5], np.ones(5))}, "verbose": 0}
        logs.append(model.fit(data, **options).history)
    ends = [model.get_weights() for model in models]
    return [tiny.difference(*ends), logs, tiny.difference(ends[1], start)]


# Parts of a batch with different numbers of tokens


def language_models(*names):
    """For these models, how far one device and two replicas differ in weights, metrics, and how far they moved."""
    found, strategy = {}, two_replicas()
    texts, labels = ["a", "b c d e f g h i j a b c", "c d", "a b c d e f g", "e"], [0, 1, 1, 0, 1]
    data = {
        **dict.fromkeys((MaskedLM, CausalLM, ReplacedTokenDetection, penalized_lstm), (texts,)),
        DialogueModel: ([dialogue.EXAMPLES[i] for i in (0, 0, 1)],),
        BertPretraining: ((texts, texts[::-1]), labels),
        Seq2SeqLM: (texts, ["a b c", "d", "e f", "g h i j a b c d", "b"]),
        with_language_model_loss: (texts, labels),
    }
    for make, rows in ((make, rows) for make, rows in data.items() if make.__name__ in names):
        # In graphs, Keras weights the losses of heads equally in batches of different sizes.
        batch_size = 6 if make is BertPretraining else 2
        models = [language_model(make)]
        with strategy.scope():
            models.append(language_model(make))
        models[0].run_eagerly, start = True, models[0].get_weights()
        models[1].set_weights(start)
        # The last batch of four of five rows has one row, which both replicas read.
        size, losses = 4 if make in (MaskedLM, CausalLM, Seq2SeqLM) else 6, []
        for model in models:
            np.random.seed(0)
            losses += np.ravel([*model.fit(*rows, batch_size=size, shuffle=False, verbose=0).history.values()]).tolist()
            np.random.seed(0)
            losses += np.ravel(model.evaluate(*rows, batch_size=batch_size, verbose=0)).tolist()
        ends = [model.get_weights() for model in models]
        metrics = losses[: len(losses) // 2], losses[len(losses) // 2 :]
        found[make.__name__] = [tiny.difference(*ends), metrics, tiny.difference(ends[0][:1], start[:1])]
    return found


def language_model(make):
    if make is DialogueModel:
        model = dialogue.model()
        model.compile(keras.optimizers.SGD(0.5))
        return model
    keras.utils.set_random_seed(0)
    if make is penalized_lstm:
        return make()
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8, "dropout": 0.0}
    causal = make in (CausalLM, with_language_model_loss)
    encoder = TransformerEncoder(len(tiny.VOCABULARY), **sizes, causal=causal)
    if make is BertPretraining:
        model = make(tiny.encoder(), tiny.preprocessor())
    elif make is Seq2SeqLM:
        both = EncoderDecoder.from_encoders(*(GPT2Encoder(len(tiny.VOCABULARY), **sizes) for _ in range(2)))
        model = make(both, tiny.preprocessor(), language_model_weight=0.5)
    elif make is with_language_model_loss:
        weight = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
        model = make(TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), dropout=0.0), weight)
    else:
        model = make(encoder, tiny.preprocessor())
    if make is ReplacedTokenDetection:
        generator = MaskedLM(TransformerEncoder(len(tiny.VOCABULARY), **sizes), tiny.preprocessor())
        model = make(model.encoder, tiny.preprocessor(), generator=generator, discriminator_weight=2.0)
        model.sample_tokens = MostLikely()
    model.compile(keras.optimizers.SGD(0.5))
    return model


def penalized_lstm():
    """A language model with penalties of its outputs, each of which is a mean over something else."""
    rates = dict.fromkeys(
        ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_dropout"), 0
    )
    sizes = {"embedding_dim": 8, "units": 8, "num_layers": 1, "activation_penalty": 20.0, "temporal_penalty": 10.0}
    model = CausalLM(AWDLSTMEncoder(len(tiny.VOCABULARY), **sizes, **rates), tiny.preprocessor())
    model.compile(keras.optimizers.SGD(0.5))
    return model


class MostLikely(SampleTokens):
    """Replaces tokens by the most likely ones, since each replica would draw others."""

    def call(self, token_ids, positions, logits):
        return super().call(token_ids, positions, 1e9 * logits)


# The same 20 steps on one device and on two replicas


def text_batches(model):
    return batches(TEXTS, LABELS, preprocessor=model.preprocessor, batch_size=32, seed=0, drop_remainder=True)


def stream(model):
    inputs = {name: ids.numpy() for name, ids in model.preprocessor(TEXTS).items()}
    return tf.data.Dataset.from_tensor_slices((inputs, LABELS)).batch(32, drop_remainder=True)


def steps(models, start, data):
    weights = []
    for model in models:
        model.set_weights(start)
        model.optimizer.iterations.assign(0)
        model.fit(data(model), epochs=5, verbose=0)
        weights.append(model.get_weights())
    count = int(models[1].optimizer.iterations.numpy())
    return {"count": count, "difference": tiny.difference(*weights), "moved": tiny.difference(weights[0], start)}


# Tokens that occur several times in a batch


def repeated_tokens():
    """For each optimizer, how far the weights of one device and of two replicas differ, and how far they moved."""
    texts, report = ["good good a a a b", "bad bad bad c c a", "a b good a a good", "c bad a a c c"], {}
    optimizers = {
        "AdamW": lambda model: keras.optimizers.AdamW(0.01, epsilon=1e-3),
        "layer-wise": lambda model: LayerwiseOptimizer(keras.optimizers.AdamW(0.01, epsilon=1e-3), model, decay=0.5),
    }
    for name, make in optimizers.items():
        models = []
        for scope in (contextlib.nullcontext(), two_replicas().scope()):
            with scope:
                model = tiny.of_vectors()
                model.encoder.trainable = True
                start = model.get_weights()
                model.compile(make(model), run_eagerly=not models)  # few steps are cheaper without a graph
            model.fit(texts, [1, 0, 1, 0], batch_size=4, epochs=4, shuffle=False, verbose=0)
            models.append(model.get_weights())
        report[name] = tiny.difference(*models), tiny.difference(models[0][:1], start[:1])
    return report


def accumulation():
    """The errors of a task and of one with layer-wise rates that accumulate gradients."""
    messages = []
    with two_replicas().scope():
        model = tiny.of_vectors()
        optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
        for each in (optimizer, LayerwiseOptimizer(optimizer, model)):
            messages.append(tiny.message(lambda each=each: model.compile(each)))
    return messages


# Saving


def saved(strategy, path):
    """Differences of weights and outputs after loading outside and inside the scope, and of weights after training."""
    with strategy.scope():
        model = tiny.of_vectors()  # whose steps are traced quickly
        model.compile(keras.optimizers.SGD(0.5, momentum=0.9))
    model.fit(stream(model), verbose=0)
    model.save(path)
    weights, expected = model.get_weights(), model.predict(TEXTS, verbose=0)
    outside = keras.saving.load_model(path)
    outside.run_eagerly = True
    with strategy.scope():
        inside = keras.saving.load_model(path)
    report = {}
    for name, loaded in {"outside": outside, "inside": inside}.items():
        report[name] = {
            "replicas": loaded.distribute_strategy.num_replicas_in_sync,
            "weights": tiny.difference(loaded.get_weights(), weights),
            "outputs": tiny.difference([loaded.predict(TEXTS, verbose=0)], [expected]),
        }
    for each in (model, inside):
        each.fit(stream(each), verbose=0)
    return {**report, "trained": tiny.difference(model.get_weights(), inside.get_weights())}


# Batches that two replicas cannot split evenly


def short(models, start, count):
    """Compares one device with two replicas on a few texts: logits, and weights after an epoch."""
    one, two = models
    texts, labels = TEXTS[:count], LABELS[:count]
    set_weights(models, start)
    report = {"logits": tiny.difference(*([model.predict(texts, verbose=0)] for model in models))}
    if count > 1:
        report["evaluate"] = [model.evaluate(texts, labels, verbose=0) for model in models]
    losses = [model.fit(texts, labels, shuffle=False, verbose=0).history["loss"][0] for model in models]
    report["losses"] = losses
    report["difference"] = tiny.difference(one.get_weights(), two.get_weights())
    report["moved"] = tiny.difference(one.get_weights(), start)
    return report


def validation(model):
    """The loss of 35 texts as validation data, and as `evaluate` has it."""
    few = TEXTS[:35], LABELS[:35]
    history = model.fit(TEXTS[:32], LABELS[:32], validation_data=few, verbose=0).history
    return [history["val_loss"][0], model.evaluate(*few, verbose=0)[0]]


def set_weights(models, weights):
    for model in models:
        model.set_weights(weights)


# Mistakes


def errors(two, strategy):
    apart = tiny.for_replicas()
    encoder = tiny.encoder()
    uneven = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(32)
    with strategy.scope():
        half = TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor())
        shared = tiny.encoder()

    def inside(function, *arguments, **options):
        def call():
            with strategy.scope():
                function(*arguments, **options)

        return call

    return {
        "compiled inside": tiny.message(inside(apart.compile, keras.optimizers.SGD(0.1))),
        "fitted inside": tiny.message(inside(apart.fit, TEXTS, LABELS, verbose=0)),
        "encoder inside, model outside": tiny.message(lambda: TextClassifier(shared, num_classes=2).compile()),
        "encoder outside": tiny.message(inside(half.compile)),
        "batch size": tiny.message(lambda: two.fit(TEXTS, LABELS, batch_size=33, verbose=0)),
        "batches": tiny.message(
            lambda: two.fit(batches(TEXTS, LABELS, preprocessor=two.preprocessor, batch_size=15), verbose=0)
        ),
        "evaluate": tiny.message(lambda: two.evaluate(TEXTS[:1], LABELS[:1], verbose=0)),
        "stream": tiny.message(lambda: two.fit(uneven, verbose=0)),
    }


def run_script(package, script, *arguments):
    """Runs a script with arguments and a package for "minilm-l6", and returns what it prints."""
    policy, path, given = keras.config.dtype_policy(), list(sys.path), sys.argv
    strategy = two_replicas()
    sys.path.insert(0, package)
    sys.argv = [script, *arguments]
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) as printed,
            mock.patch.object(tf.distribute, "MirroredStrategy", lambda devices: strategy),
        ):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.path[:], sys.argv = path, given
        keras.config.set_dtype_policy(policy)
    return printed.getvalue()


def keras_hub_losses():
    import keras_hub

    with two_replicas().scope():
        keras.utils.set_random_seed(0)
        backbone = keras_hub.models.BertBackbone(
            vocabulary_size=len(tiny.VOCABULARY),
            num_layers=1,
            num_heads=2,
            hidden_dim=16,
            intermediate_dim=32,
            max_sequence_length=32,
        )
        model = TextClassifier(backbone, num_classes=2, preprocessor=tiny.preprocessor())
        model.compile(keras.optimizers.Adam(0.01))
    data = batches(TEXTS, LABELS, preprocessor=model.preprocessor, batch_size=32, seed=0)
    return model.fit(data, epochs=10, verbose=0).history["loss"]

"""What a process with eight devices reports: models whose weights are divided, and the same on one device."""

import keras

from keras_transfer.adaptation import add_adapters
from keras_transfer.distribute import ModelParallel
from keras_transfer.encoders import BertEncoder, GPT2Encoder
from keras_transfer.tasks import CausalLM, TextClassifier
from tests.distribute.examples import examples
from tests.tasks import tiny

SIZES = {"num_layers": 1, "num_heads": 8, "hidden_dim": 64, "intermediate_dim": 256, "max_sequence_length": 32}
TEXTS, LABELS = examples(24)


def classifier():
    encoder = BertEncoder(24, pooler=False, dropout=0.0, **SIZES)
    return TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), dropout=0.0, pooling="mean")


def language_model():
    encoder = GPT2Encoder(24, dropout=0.0, **SIZES)
    return CausalLM(encoder, preprocessor=tiny.preprocessor())


def with_lora():
    return add_adapters(classifier(), "lora:4")


MODELS = {"classifier": classifier, "language_model": language_model, "lora": with_lora}


def made(name, start=None):
    model = MODELS[name]()
    if start is not None:
        model.set_weights(start)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    return model


def run(model):
    """Trains for six steps. Returns the weights, losses, and results of `evaluate` and `predict`."""
    data = (TEXTS,) if isinstance(model, CausalLM) else (TEXTS, LABELS)
    losses = model.fit(*data, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    found = model.evaluate(*(values[:13] for values in data), batch_size=8, verbose=0)
    outputs = [] if isinstance(model, CausalLM) else [model.predict(TEXTS[:13], batch_size=8, verbose=0)]
    return [*model.get_weights(), losses, found, *outputs]


def memory(model):
    """The fraction of the bytes of weights and optimizer that the first device has."""
    values = [variable.value for variable in (*model.weights, *model.optimizer.variables)]
    first = [value.addressable_shards[0].data.nbytes for value in values]
    return sum(first) / sum(value.nbytes for value in values)


def compare(name, shape, fsdp):
    """Returns how much training on eight devices differs from one, how far it went, and the share of memory."""
    keras.utils.set_random_seed(0)
    one = made(name)
    start = one.get_weights()
    expected = run(one)
    mesh = keras.distribution.DeviceMesh(tuple(shape), ["batch", "model"][: len(shape)])
    with ModelParallel(mesh, fsdp=fsdp).scope():
        model = made(name, start)
        found = run(model)
    return {
        "difference": tiny.difference(found, expected),
        "moved": tiny.difference(expected[: len(start)], start),
        "memory": memory(model),
    }

"""What a process with eight devices reports: models whose weights are divided, and the same on one device."""

import keras

from keras_transfer.adaptation import add_adapters
from keras_transfer.distribute import ModelParallel
from keras_transfer.encoders import T5, BertEncoder, DebertaV2Encoder, GPT2Encoder
from keras_transfer.tasks import CausalLM, Seq2SeqLM, TextClassifier
from tests.distribute.examples import examples
from tests.tasks import tiny

SIZES = {"num_layers": 1, "num_heads": 8, "hidden_dim": 64, "intermediate_dim": 256, "max_sequence_length": 32}
TEXTS, LABELS = examples(24)
REVERSED = [" ".join(reversed(text.split())) for text in TEXTS]


def classifier():
    encoder = BertEncoder(24, pooler=False, dropout=0.0, **SIZES)
    return TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), dropout=0.0, pooling="mean")


def deberta():
    encoder = DebertaV2Encoder(24, num_buckets=16, dropout=0.0, **SIZES)
    return TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), dropout=0.0, pooling="mean")


def sequence_to_sequence():
    sizes = {name: size for name, size in SIZES.items() if name != "max_sequence_length"}
    return Seq2SeqLM(T5(24, gated=True, head_dim=8, dropout=0.0, **sizes), preprocessor=tiny.preprocessor())


def language_model():
    encoder = GPT2Encoder(24, dropout=0.0, **SIZES)
    return CausalLM(encoder, preprocessor=tiny.preprocessor())


def with_lora():
    return add_adapters(classifier(), "lora:4")


MODELS = {"classifier": classifier, "deberta": deberta, "language_model": language_model, "lora": with_lora}
MODELS["sequence_to_sequence"] = sequence_to_sequence


def made(name, start=None):
    model = MODELS[name]()
    if start is not None:
        model.set_weights(start)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
    return model


def run(model):
    """Trains for six steps. Returns the weights, losses, and results of `evaluate` and `predict`."""
    data = {CausalLM: (TEXTS,), Seq2SeqLM: (TEXTS, REVERSED)}.get(type(model), (TEXTS, LABELS))
    losses = model.fit(*data, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    found = model.evaluate(*(values[:13] for values in data), batch_size=8, verbose=0)
    classifies = isinstance(model, TextClassifier)
    outputs = [model.predict(TEXTS[:13], batch_size=8, verbose=0)] if classifies else []
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

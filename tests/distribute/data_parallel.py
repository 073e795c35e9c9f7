"""Run by test_data_parallel.py in a process of its own, on JAX with two CPU devices: one device beside two.

KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=2 python -m tests.distribute.data_parallel
"""

import json

import keras

from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches
from tests.tasks import tiny

TEXTS, LABELS = tiny.examples(320)


def main():
    one = tiny.for_replicas()
    start = one.get_weights()
    one.fit(whole_batches(one), epochs=5, verbose=0)
    expected = one.get_weights()
    one.set_weights(start)
    logits = one.predict(TEXTS[:33], verbose=0)
    evaluated = one.evaluate(TEXTS[:34], LABELS[:34], verbose=0)
    one.fit(batches(TEXTS[:37], LABELS[:37], one.preprocessor, shuffle=False).for_replicas(2, repeat=True), verbose=0)

    keras.distribution.set_distribution(keras.distribution.DataParallel())
    two = tiny.for_replicas()
    two.fit(whole_batches(two), epochs=5, verbose=0)
    report = {
        "backend": keras.backend.backend(),
        "devices": len(two.weights[0].value.sharding.device_set),
        "steps": int(two.optimizer.iterations.numpy()),
        "difference": tiny.difference(two.get_weights(), expected),
        "moved": tiny.difference(expected, start),
    }
    two.set_weights(start)
    report["logits"] = tiny.difference([two.predict(TEXTS[:33], verbose=0)], [logits])
    report["evaluated"] = tiny.difference(two.evaluate(TEXTS[:34], LABELS[:34], verbose=0), evaluated)
    report["error"] = tiny.message(lambda: two.evaluate(TEXTS[:33], LABELS[:33], verbose=0))
    two.fit(TEXTS[:37], LABELS[:37], shuffle=False, verbose=0)
    report["short"] = tiny.difference(two.get_weights(), one.get_weights())
    report["float16"] = in_float16()
    keras.distribution.set_distribution(None)
    texts = TEXTS[:32], LABELS[:32]
    report["gone"] = {
        "fit": tiny.message(lambda: two.fit(*texts, verbose=0)),
        "evaluate": tiny.message(lambda: two.evaluate(*texts, verbose=0)),
        "predict": tiny.message(lambda: two.predict(texts[0], verbose=0)),
    }
    print(json.dumps(report))


def in_float16():
    """What a classifier learns under a global policy of mixed precision."""
    keras.config.set_dtype_policy("mixed_float16")
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(num_layers=1, initializer_range=0.2)
    model = TextClassifier(encoder, 2, preprocessor=tiny.preprocessor(), pooling="mean")
    model.compile(keras.optimizers.Adam(0.01))
    losses = model.fit(whole_batches(model), epochs=4, verbose=0).history["loss"]
    return {
        "losses": losses,
        "optimizer": type(model.optimizer).__name__,
        "block": model.get_layer("block_0").compute_dtype,
        "weights": sorted({weight.dtype for weight in model.weights}),
        "logits": model.predict(TEXTS[:32], verbose=0).dtype.name,
    }


def whole_batches(model):
    return batches(TEXTS, LABELS, model.preprocessor, 32, seed=0, lengths=[24], drop_remainder=True)


if __name__ == "__main__":
    main()

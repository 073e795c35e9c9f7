"""What two processes report that run a script together, and the one process with which they are compared."""

import json
import os
import sys

import numpy as np


def error_of_keras(devices):
    """What Keras says if a model without `reducible` trains in several processes of TensorFlow."""
    import keras

    from keras_transfer.keras_internals.trainer import BuildsFromOneReplica

    class Model(BuildsFromOneReplica, keras.Sequential):
        pass

    with devices.scope():
        model = Model([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    try:
        model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0)
    except ValueError as error:
        return str(error)


def main(folder):
    """Trains, evaluates, predicts and saves, and prints what came out."""
    import keras

    import keras_transfer as kt
    from tests.distribute.examples import examples
    from tests.tasks import tiny

    devices = kt.distribute.initialize(seed=0)
    index, count = kt.distribute.processes_of()
    np.random.seed(index)  # Each process may have drawn something else before.
    if index:  # `fit` shuffles alike.
        np.random.random(7)
    texts, labels = examples(101)
    # Rows added in another order differ by rounding. Where a gradient is little more, Adam without `epsilon` would make
    # a whole step of the difference.
    optimizer = {"learning_rate": 0.01, "epsilon": 1e-3}
    with devices.scope():
        model = tiny.classifier()
        model.compile(keras.optimizers.Adam(**optimizer))
    found = {"index": index, "count": count, "gathered": kt.distribute.gather(np.arange(2) + 10 * index).tolist()}
    few = texts[:21], labels[:21]  # which processes cannot share evenly
    history = model.fit(texts, labels, batch_size=8, epochs=2, verbose=0, validation_data=few).history
    found["history"] = {name: [float(value) for value in values] for name, values in history.items()}
    found["weights"] = [float(np.abs(np.asarray(weight)).sum()) for weight in model.get_weights()]
    found["evaluate"] = [float(value) for value in model.evaluate(*few, batch_size=8, verbose=0)]
    found["logits"] = model.predict(texts[:21], batch_size=8, verbose=0).tolist()
    model.save(os.path.join(folder, "model.keras"))
    kt.serving.export(model, os.path.join(folder, "served"), label_names=["a", "b"])
    model.save_pretrained(os.path.join(folder, "checkpoint"))
    checkpoint = kt.callbacks.TrainingCheckpoint(os.path.join(folder, "run"), save_every=5, signals=())
    model.fit(texts[:96], labels[:96], batch_size=8, epochs=1, verbose=0, callbacks=[checkpoint])
    with devices.scope():
        sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8, "dropout": 0.0}
        encoder = kt.encoders.TransformerEncoder(len(tiny.VOCABULARY), **sizes, causal=True)
        language_model = kt.tasks.CausalLM(encoder, tiny.preprocessor())
        language_model.compile(keras.optimizers.Adam(**optimizer))
        adapted = tiny.classifier()
        kt.adaptation.add_adapters(adapted, "lora:2")
    language_model.fit(texts[:40], batch_size=8, verbose=0)
    recipe = kt.adaptation.get_recipe("ulmfit_classifier", epochs=2, batch_size=8)
    kt.adaptation.fine_tune(adapted, texts[:40], labels[:40], recipe=recipe, verbose=0)
    found["others"] = [float(np.abs(np.asarray(w)).sum()) for m in (language_model, adapted) for w in m.get_weights()]
    found["texts"] = language_model.generate(texts[:2], max_new_tokens=4, sampler="greedy")
    try:
        model.fit(texts[:16], [index, *labels[1:16]], batch_size=8, verbose=0)
    except ValueError as error:
        found["error"] = str(error)
    if keras.backend.backend() == "tensorflow" and count > 1:
        found["plain"] = error_of_keras(devices)
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

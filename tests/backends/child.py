"""Run by test_backends.py in a process with another backend: loads what TensorFlow saved, and trains it.

KERAS_BACKEND=jax python child.py FOLDER
"""

import json
import pathlib
import sys

import keras
import numpy as np

import keras_transfer as kt
from keras_transfer.encoders import encode


def main(folder):
    inputs = dict(np.load(folder / "inputs.npz"))
    labels = inputs.pop("labels")
    outputs = {}
    for path in sorted(folder.glob("encoder_*.keras")):
        encoder = keras.saving.load_model(path)
        ids = {name: keras.ops.convert_to_tensor(inputs[name]) for name in encoder.input}
        for i, state in enumerate(encode(encoder, ids, hidden_states=True).hidden_states):
            outputs[f"{path.stem}/{i}"] = keras.ops.convert_to_numpy(state)

    model = keras.saving.load_model(folder / "task.keras")
    outputs["task"] = model.predict(inputs, verbose=0)
    losses = model.fit(inputs, labels, batch_size=8, epochs=8, verbose=0).history["loss"]
    # Without text nothing of this needs TensorFlow. (Keras's own `save` looks whether there is one.)
    tensorflow = sorted({"tensorflow", "tensorflow_text", "keras_hub"} & set(sys.modules))
    model.save(folder / "again.keras")
    again = keras.saving.load_model(folder / "again.keras")
    same = np.array_equal(again.predict(inputs, verbose=0), model.predict(inputs, verbose=0))

    texts = (folder / "texts.txt").read_text().splitlines()
    model = keras.saving.load_model(folder / "task.keras")
    outputs["texts"] = model.predict(texts, verbose=0)
    assert model.predict([], verbose=0).shape == (0, 2)
    text_losses = model.fit(texts, labels, batch_size=8, epochs=8, verbose=0).history["loss"]
    gone = (
        keras.ops.convert_to_numpy(kt.layers.Dropout(0.25, seed=1)(np.ones((800, 500), "float32"), training=True)) == 0
    )
    first, second = gone[:, :250], gone[:, 250:]
    dropped = [float(share) for share in (first.mean(), second.mean(), (first & second).mean())]
    ladder = [group.name for group in kt.adaptation.layer_groups(model)]
    np.savez(folder / "outputs.npz", **outputs)
    report = {"backend": keras.backend.backend(), "losses": losses, "same": bool(same), "tensorflow": tensorflow}
    print(json.dumps({**report, "text_losses": text_losses, "ladder": ladder, "dropped": dropped}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

"""Time of `ProjectedLSTM` against torch's `LSTM(proj_size=...)`, and of turning words into ELMo's ids.

    pip install -e '.[benchmarks]' && python -m benchmarks.steps.recurrent

512 cells projected to 128, 16 texts of 64 words, float32, two threads. A training step is the mean square of the
outputs, its gradients and plain SGD. torch's kernels do not support clipping, so the layer is also measured without.
"""

import numpy as np

from benchmarks import harness

UNITS, DIM, BATCH, LENGTH, RATE = 512, 128, 16, 64, 1e-3
X = np.random.default_rng(0).normal(size=(BATCH, LENGTH, DIM)).astype("float32")


def ours(**clips):
    import tensorflow as tf

    import keras_transfer as kt

    layer, inputs = kt.layers.ProjectedLSTM(UNITS, projection_dim=DIM, **clips), tf.constant(X)
    layer.build(X.shape)

    @tf.function
    def forward():
        return layer(inputs)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(layer(inputs, training=True)))
        weights = [weight.value for weight in layer.trainable_weights]
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(RATE * gradient)
        return loss

    preprocessor = kt.text.ElmoPreprocessor(sequence_length=LENGTH)
    texts = tf.constant([" ".join(f"word{i + j}" for j in range(LENGTH)) for i in range(256)])
    ids = tf.function(lambda: preprocessor(texts, sequence_length=LENGTH)["character_ids"])
    return {
        "forward": lambda: forward().numpy(),
        "training step": lambda: step().numpy(),
        "character ids of 16,384 words": lambda: ids().numpy(),
    }


def torch_lstm():
    import torch

    torch.set_num_threads(2)
    layer, inputs = torch.nn.LSTM(DIM, UNITS, proj_size=DIM, batch_first=True), torch.tensor(X)
    descent = torch.optim.SGD(layer.parameters(), RATE)

    def forward():
        with torch.no_grad():
            layer(inputs)

    def step():
        descent.zero_grad()
        layer(inputs)[0].square().mean().backward()
        descent.step()

    return {"forward": forward, "training step": step}


CONTENDERS = {"ours": ours, "ours, clipped": lambda: ours(cell_clip=3.0, projection_clip=3.0), "torch": torch_lstm}


if __name__ == "__main__":
    harness.main(__doc__, CONTENDERS, ("forward", "training step", "character ids of 16,384 words"))

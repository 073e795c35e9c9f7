"""Overhead of `HubLayer`: a Keras model with the layer, against calling the module directly.

    pip install -e . && python -m benchmarks.inference.hub_overhead

Two modules, written here with random weights: `text` turns 32 strings of 20 words into vectors of 128 numbers, with a
vocabulary of 10,000; `bert` has 4 blocks, 128 wide, 2 heads, and takes 16 texts of 64 tokens. A dense layer follows
each. `training step` and `forward` are the same `tf.function`s on both sides, with the same loss and SGD. `fit` of 20
steps is compared with a loop over the same dataset, so it includes the overhead that `fit` has with any layer.
"""

import tempfile

import numpy as np

from benchmarks import harness

LAYERS, HEADS, DIM, VOCABULARY, STEPS = 4, 2, 128, 10_000, 20
IDS = ("input_word_ids", "input_mask", "input_type_ids")


def save_text_module(folder):
    import tensorflow as tf

    keys, values = tf.constant([f"w{i}" for i in range(VOCABULARY)]), tf.range(VOCABULARY, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default_value=0)
    embeddings, kernel = weights((VOCABULARY, DIM), (DIM, DIM))

    def call(texts, training=False):
        words = tf.strings.split(texts)
        vectors = words.with_values(tf.gather(embeddings, table.lookup(words.values)))
        return tf.tanh(tf.ensure_shape(tf.reduce_mean(vectors, 1), [None, DIM]) @ kernel)

    save(folder, call, tf.TensorSpec([None], tf.string), [embeddings, kernel], table)


def save_bert_module(folder):
    import tensorflow as tf

    blocks = [(DIM, 3 * DIM), (DIM, DIM), (DIM, 4 * DIM), (4 * DIM, DIM)] * LAYERS
    embeddings, pooler, *kernels = weights((VOCABULARY, DIM), (DIM, DIM), *blocks)

    def normalized(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-12)

    def call(inputs, training=False):
        length = tf.shape(inputs["input_mask"])[1]
        bias = 1e9 * (tf.cast(inputs["input_mask"], tf.float32)[:, None, None] - 1.0)
        x = tf.gather(embeddings, inputs["input_word_ids"])
        for i in range(0, len(kernels), 4):
            qkv, output, up, down = kernels[i : i + 4]
            heads = tf.reshape(tf.tensordot(x, qkv, 1), [-1, length, 3, HEADS, DIM // HEADS])
            query, key, value = tf.unstack(tf.transpose(heads, [2, 0, 3, 1, 4]))
            scores = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / (DIM // HEADS) ** 0.5 + bias)
            mixed = tf.reshape(tf.transpose(scores @ value, [0, 2, 1, 3]), [-1, length, DIM])
            x = normalized(x + tf.tensordot(mixed, output, 1))
            x = normalized(x + tf.tensordot(tf.nn.gelu(tf.tensordot(x, up, 1)), down, 1))
        return {"sequence_output": x, "pooled_output": tf.tanh(x[:, 0] @ pooler)}

    save(folder, call, {name: tf.TensorSpec([None, None], tf.int32) for name in IDS}, [embeddings, pooler, *kernels])


def weights(*shapes):
    import tensorflow as tf

    random = np.random.default_rng(0)
    return [tf.Variable(random.normal(0.0, 0.05, shape).astype("float32")) for shape in shapes]


def save(folder, call, spec, variables, table=None):
    import tensorflow as tf

    module = tf.train.Checkpoint(table=table) if table else tf.train.Checkpoint()
    module.trainable_variables = variables
    module.__call__ = tf.function(call)
    for training in (True, False):
        module.__call__.get_concrete_function(spec, training=training)
    tf.saved_model.save(module, folder)


def data(name):
    """Returns a batch of inputs and labels as tensors."""
    import tensorflow as tf

    random = np.random.default_rng(0)
    if name == "text":
        inputs = tf.constant([" ".join(f"w{i}" for i in row) for row in random.integers(0, VOCABULARY, (32, 20))])
        return inputs, tf.constant(random.integers(0, 2, 32))
    mask = (np.arange(64) < random.integers(32, 65, (16, 1))).astype("int32")
    ids = random.integers(1, VOCABULARY, mask.shape).astype("int32") * mask
    inputs = {key: tf.constant(value) for key, value in zip(IDS, (ids, mask, 0 * ids))}
    return inputs, tf.constant(random.integers(0, 2, 16))


def hub_layer(folder, name):
    import keras

    import keras_transfer as kt

    layer = kt.hub.HubLayer(folder, trainable=True, output_key="pooled_output" if name == "bert" else None)
    if name == "text":
        inputs = keras.Input((), dtype="string")
    else:
        inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in IDS}
    model = keras.Model(inputs, keras.layers.Dense(2)(layer(inputs)))
    model.compile(keras.optimizers.SGD(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, model.trainable_weights, lambda dataset, step: model.fit(dataset, shuffle=False, verbose=0)


def raw_module(folder, name):
    import keras
    import tensorflow as tf

    module, dense = tf.saved_model.load(folder), keras.layers.Dense(2)
    dense.build((None, DIM))

    def call(inputs, training):
        outputs = module(inputs, training=training)
        return dense(outputs["pooled_output"] if name == "bert" else outputs)

    def loop(dataset, step):
        for batch in dataset:
            step(*batch)

    return call, [*map(keras.Variable, module.trainable_variables), *dense.trainable_weights], loop


def measures(contender):
    """Returns the measures of both modules. Both contenders use this function."""
    functions = {}
    for name, write in (("text", save_text_module), ("bert", save_bert_module)):
        with tempfile.TemporaryDirectory() as folder:
            write(folder)
            functions |= {f"{name}, {measure}": f for measure, f in of_module(name, *contender(folder, name)).items()}
    return functions


def of_module(name, call, variables, fit):
    import keras
    import tensorflow as tf

    inputs, labels = data(name)
    dataset = tf.data.Dataset.from_tensors((inputs, labels)).repeat(STEPS)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD()
    optimizer.build(variables)

    @tf.function
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, call(inputs, training=True))
        gradients = tape.gradient(value, [variable.value for variable in variables])
        optimizer.apply(gradients, variables)
        return value

    forward = tf.function(lambda inputs: call(inputs, training=False))
    return {
        "training step": lambda: step(inputs, labels),
        "forward": lambda: forward(inputs),
        f"fit, {STEPS} steps": lambda: fit(dataset, step),
    }


if __name__ == "__main__":
    contenders = {"HubLayer": lambda: measures(hub_layer), "raw module": lambda: measures(raw_module)}
    harness.main(__doc__, contenders)

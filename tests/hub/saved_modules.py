"""Small TF2 modules (reusable SavedModels) like those on TF Hub: for strings, BERT-like, with batch norm."""

import numpy as np
import tensorflow as tf

WORDS = ["the", "film", "was", "good", "bad", "fine", "dull", "a", "plot"]
TEXTS = ["the film was good", "a dull plot", "fine", "the plot was bad bad"]
LABELS = np.array([1, 0, 1, 0])
BERT_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


def save(folder, call, spec, trainable=(), others=(), losses=(), tracked=(), options=({},), signatures=None):
    """Writes a module and returns its folder.

    Args:
        folder: path to make.
        call: function of inputs.
        spec: nest of `tf.TensorSpec`, the inputs.
        trainable, others: lists of `tf.Variable`.
        losses: list of functions without arguments, the regularization losses.
        tracked: list of what else belongs to it: tables, files.
        options: dicts of further arguments of `call`, to trace with each.
        signatures: as for `tf.saved_model.save`.
    """
    tf.random.set_seed(0)  # saved in the graph, so that dropout does not depend on earlier ops
    module = tf.train.Checkpoint(tracked=list(tracked))
    module.__call__ = tf.function(call)
    for each in options:
        module.__call__.get_concrete_function(spec, **each)
    module.trainable_variables, module.variables = list(trainable), [*trainable, *others]
    module.regularization_losses = [tf.function(loss, input_signature=[]) for loss in losses]
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder


def variable(name, *shape, trainable=True):
    """Returns a variable with random values, the same for the same name."""
    values = np.random.default_rng(sum(map(ord, name))).normal(size=shape)
    return tf.Variable(values.astype("float32"), trainable=trainable, name=name)


def save_text_module(folder, dropout=0.5):
    """Strings [batch] to [batch, 4], with a vocabulary file, dropout, a moving mean, a penalty and a signature.

    The signature has two outputs, `vector` and `length`.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    vocabulary = folder.parent / "vocabulary.txt"
    vocabulary.write_text("\n".join(WORDS) + "\n")
    lines = tf.lookup.TextFileIndex
    types = (tf.string, lines.WHOLE_LINE, tf.int64, lines.LINE_NUMBER)
    table = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(str(vocabulary), *types), 1)
    embeddings = variable("embeddings/words", len(WORDS) + 1, 4)
    kernel = variable("layer_0/dense/kernel", 4, 4)
    moving_mean = tf.Variable(tf.zeros([4]), trainable=False, name="layer_0/norm/moving_mean")

    def call(texts, training=False):
        words = tf.strings.split(texts)
        vectors = words.with_values(tf.gather(embeddings, table.lookup(words.values)))
        outputs = tf.ensure_shape(tf.reduce_mean(vectors, 1), [None, 4]) @ kernel
        if not training:
            return outputs - moving_mean
        moving_mean.assign(0.9 * moving_mean + 0.1 * tf.reduce_mean(outputs, 0))
        return tf.nn.dropout(outputs, dropout)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def signature(text):
        return {"vector": call(text), "length": tf.norm(call(text), axis=-1)}

    save(
        folder,
        call,
        tf.TensorSpec([None], tf.string),
        trainable=[embeddings, kernel],
        others=[moving_mean],
        losses=[lambda: 0.01 * tf.reduce_sum(kernel**2)],
        tracked=[table],
        options=[{"training": True}, {"training": False}],
        signatures={"serving_default": signature},
    )
    vocabulary.unlink()  # the module contains a copy
    return folder


def save_bert_module(folder, layers=2, vocabulary=20, dim=8, dropout=0.1):
    """Token ids to vectors and hidden states, named as in TF Hub's BERT. Attention is a mean over real tokens."""
    words = variable("word_embeddings/embeddings", vocabulary, dim)
    types = variable("type_embeddings/embeddings", 2, dim)
    kernels = [variable(f"transformer/layer_{i}/dense/kernel", dim, dim) for i in range(layers)]
    pooler = variable("pooler_transform/kernel", dim, dim)

    def call(inputs, training=False):
        real = tf.cast(inputs["input_mask"], tf.float32)[..., None]
        x, states = tf.gather(words, inputs["input_word_ids"]) + tf.gather(types, inputs["input_type_ids"]), []
        for kernel in kernels:
            mean = tf.reduce_sum(x * real, 1, keepdims=True) / tf.maximum(tf.reduce_sum(real, 1, keepdims=True), 1.0)
            x = tf.tanh(x + tf.tensordot(tf.nn.dropout(mean, dropout) if training else mean, kernel, 1))
            states.append(x)
        pooled = tf.tanh(x[:, 0] @ pooler)
        return {"sequence_output": x, "pooled_output": pooled, "default": pooled, "encoder_outputs": states}

    return save(
        folder,
        call,
        {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in BERT_INPUTS},
        trainable=[words, types, *kernels, pooler],
        options=[{"training": True}, {"training": False}],
    )


def bert_inputs(batch=4, length=5):
    """Returns random token ids, with a mask, as the BERT-like module takes them."""
    random = np.random.default_rng(0)
    mask = (np.arange(length) < random.integers(2, length + 1, (batch, 1))).astype("int32")
    ids = random.integers(1, 20, (batch, length)).astype("int32") * mask
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}


def save_linear_module(folder):
    """y = w x + b for x [batch, 1], with a trainable, penalized w = 0.5 and a non-trainable b = 1."""
    kernel, bias = tf.Variable([[0.5]], name="kernel"), tf.Variable([1.0], name="bias")
    return save(
        folder,
        lambda x: x @ kernel + bias,
        tf.TensorSpec([None, 1]),
        trainable=[kernel],
        others=[bias],
        losses=[lambda: 0.01 * tf.reduce_sum(kernel**2)],
        signatures=tf.function(lambda x: {"y": x @ kernel + bias}, [tf.TensorSpec([None, 1], name="x")]),
    )


def save_norm_module(folder):
    """Batch normalization of x [batch, 1] with momentum 0.8."""
    beta, gamma = tf.Variable([0.0], name="beta"), tf.Variable([1.0], name="gamma")
    mean = tf.Variable([0.0], trainable=False, name="moving_mean")
    variance = tf.Variable([1.0], trainable=False, name="moving_variance")

    def call(x, training=False):
        if not training:
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
        of_batch = tf.nn.moments(x, [0])
        for moving, value in zip((mean, variance), of_batch):
            moving.assign(0.8 * moving + 0.2 * value)
        return tf.nn.batch_normalization(x, *of_batch, beta, gamma, 1e-3)

    return save(
        folder,
        call,
        tf.TensorSpec([None, 1]),
        trainable=[beta, gamma],
        others=[mean, variance],
        options=[{"training": True}, {"training": False}],
    )


def save_shapes_module(folder):
    """x [batch, 1] to three tensors of rank 2, 3 and 4, with sizes unknown to the graph."""

    def call(x):
        def size(i):  # prevents shape inference
            return tf.cast(tf.cast(i, tf.float32) + 0.1 * tf.sin(tf.random.uniform([])), tf.int32)

        batch = tf.shape(x)[:1]
        return [
            tf.broadcast_to(tf.reshape(i * x, tf.concat([batch, [1] * i], 0)), tf.concat([batch, [size(i)] * i], 0))
            for i in (1, 2, 3)
        ]

    return save(folder, call, tf.TensorSpec([None, 1]))


def save_sums_module(folder):
    """A dict x, y [batch, 1] to x + y, or with the argument `return_dict` to a dict that also has x - y."""

    def call(inputs, return_dict=False):
        x, y = inputs["x"], inputs["y"]
        return {"sum": tf.concat([x + y, x + 2.0 * y], 1), "difference": x - y} if return_dict else x + y

    spec = {name: tf.TensorSpec([None, 1], name=name) for name in "xy"}
    return save(folder, call, spec, options=[{"return_dict": True}, {"return_dict": False}])


LENGTH, FIRST, SEPARATOR = 8, 1, 2


def save_preprocessing_module(folder):
    """Saves the module: strings [batch] to ids [batch, 8], `tokenize`, and `bert_pack_inputs` with `seq_length`."""
    module = tf.Module()
    folder.parent.mkdir(parents=True, exist_ok=True)
    vocabulary = folder.parent / "words.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[CLS]", "[SEP]", *WORDS]) + "\n")
    source = tf.lookup.TextFileInitializer(
        str(vocabulary),
        *(tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
    )
    module.table = tf.lookup.StaticHashTable(source, default_value=0)
    strings = tf.TensorSpec([None], tf.string)
    ragged = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)

    def tokenize(texts):
        words = tf.strings.split(texts)
        return tf.cast(words.with_values(module.table.lookup(words.values)), tf.int32)

    def padded(codes, length):
        codes = codes[:, :length].to_tensor(-1)
        codes = tf.pad(codes, [[0, 0], [0, length - tf.shape(codes)[1]]], constant_values=-1)
        return tf.ensure_shape(codes, [None, length if isinstance(length, int) else None])

    def pack(segments, seq_length=LENGTH):
        rows = segments[0].nrows()
        first, separator = (tf.RaggedTensor.from_tensor(tf.fill([rows, 1], mark)) for mark in (FIRST, SEPARATOR))
        parts = [[first, segments[0], separator], *([segment, separator] for segment in segments[1:])]
        # The id and the segment of each token as one number: tracing operations on ragged tensors takes long.
        codes = [part.with_values(2 * part.values + i) for i, group in enumerate(parts) for part in group]
        codes = padded(tf.concat(codes, 1), seq_length)
        mask = tf.cast(codes >= 0, tf.int32)
        return {"input_word_ids": mask * (codes // 2), "input_mask": mask, "input_type_ids": mask * (codes % 2)}

    module.tokenize = tf.function(tokenize, input_signature=[strings], autograph=False)
    module.bert_pack_inputs = tf.function(pack, autograph=False)
    for count in (1, 2):
        module.bert_pack_inputs.get_concrete_function([ragged] * count, seq_length=tf.TensorSpec([], tf.int32))
        module.bert_pack_inputs.get_concrete_function([ragged] * count)
    module.__call__ = tf.function(lambda texts: pack([tokenize(texts)]), input_signature=[strings], autograph=False)
    tf.saved_model.save(module, str(folder))
    vocabulary.unlink()  # the module contains a copy
    return folder

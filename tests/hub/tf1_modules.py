"""Small modules in the TF1 Hub format of 2019: ELMo-like, BERT-like, with batch norm, with a table, and more."""

import contextlib
import functools
import pathlib
import tempfile

import tensorflow as tf
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import saved_model_pb2

v1 = tf.compat.v1

TEXTS = ["a good film", "bad", "a very long and dull film", "good good film"]
TOKENS = [["a", "good", "film", ""], ["bad", "", "", ""], ["a", "very", "dull", "film"], ["good", "film", "", ""]]


def write(folder, signatures, variants=((), ("train",))):
    """Writes a module and returns its folder as a string.

    Args:
        folder: path to make.
        signatures: function of `train`, whether it builds the variant for training, that returns
            `{signature: (inputs, outputs)}`, both dicts of tensors.
        variants: tuple of tuples of tags; the variables of the first are saved.
    """
    builder = v1.saved_model.Builder(str(folder))
    for tags in variants:
        with tf.Graph().as_default(), _control_flow_of_tf1(), v1.Session() as session:
            definitions = {
                name: v1.saved_model.predict_signature_def(inputs, outputs)
                for name, (inputs, outputs) in signatures("train" in tags).items()
            }
            session.run(v1.global_variables_initializer())
            options = {
                "signature_def_map": definitions,
                "assets_collection": v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
                "main_op": v1.tables_initializer(),
            }
            if tags == variants[0]:
                builder.add_meta_graph_and_variables(session, tags, **options)
            else:
                builder.add_meta_graph(tags, **options)
    builder.save()
    (pathlib.Path(folder) / "tfhub_module.pb").write_bytes(b"\x08\x03")
    return str(folder)


def make_older(folder):
    """Removes what TensorFlow before 1.11 did not write: the trainable flags, which only a collection contains."""
    file = pathlib.Path(folder) / "saved_model.pb"
    stored = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for graph in stored.meta_graphs:
        for name in ("variables", "trainable_variables"):
            values = graph.collection_def[name].bytes_list.value
            for number, value in enumerate(values):
                variable = variable_pb2.VariableDef.FromString(value)
                variable.ClearField("trainable")
                values[number] = variable.SerializeToString()
    file.write_bytes(stored.SerializeToString())


@contextlib.contextmanager
def _control_flow_of_tf1():
    """Builds loops and conditions with the ops of TensorFlow 1: Enter, Switch, Merge, Exit."""
    enabled = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        if enabled:
            v1.enable_control_flow_v2()


def _variable(name, shape, dtype=tf.float32, seed=None, **options):
    initializer = v1.zeros_initializer() if seed is None else v1.random_normal_initializer(stddev=0.5, seed=seed)
    options = {"use_resource": True, **options}
    return v1.get_variable(name, shape, dtype, initializer=initializer, **options)


def elmo(dtype=tf.float32, dropout_in_loop=False, trained=True):
    """Embeddings of hashed words, a recurrent layer in a while loop, and a mix of both, which is always trainable."""

    def signatures(train):
        text = v1.placeholder(tf.string, [None], name="text")
        tokens = v1.placeholder(tf.string, [None, None], name="tokens")
        lengths = v1.placeholder(tf.int32, [None], name="sequence_len")
        with v1.variable_scope("module"):
            embeddings = _variable("embeddings", [31, 4], dtype, seed=1, trainable=trained)
            kernel = _variable("rnn/kernel", [8, 4], dtype, seed=2, trainable=trained)
            weights = _variable(
                "aggregation/weights", [2], dtype, seed=3, regularizer=lambda w: 0.1 * tf.reduce_sum(w**2)
            )
            scaling = _variable("aggregation/scaling", [], dtype, seed=4)

        def encode(tokens, lengths):
            words = tf.gather(embeddings, tf.strings.to_hash_bucket_fast(tokens, 31))
            if train:
                words = v1.nn.dropout(words, rate=0.5, seed=5)
            hidden, last = _recurrent(words, kernel, rate=0.5 if train and dropout_in_loop else 0.0)
            mixture = scaling * (weights[0] * words + weights[1] * hidden)
            mask = tf.sequence_mask(lengths, tf.shape(tokens)[1], dtype=dtype)[..., None]
            mean = tf.reduce_sum(mixture * mask, 1) / tf.reduce_sum(mask, 1)
            last = scaling * weights[1] * last
            return {"elmo": mixture, "word_emb": words, "default": mean + last, "lengths": lengths}

        split = tf.sparse.to_dense(v1.string_split(text), default_value="")
        found = tf.reduce_sum(tf.cast(tf.not_equal(split, ""), tf.int32), 1)
        return {
            "default": ({"text": text}, encode(split, found)),
            "tokens": ({"tokens": tokens, "sequence_len": lengths}, encode(tokens, lengths)),
        }

    return signatures


def _recurrent(inputs, kernel, rate):
    """A while loop like that of `dynamic_rnn`, which reads one TensorArray and writes another, and its last state."""
    length = tf.shape(inputs)[1]
    steps = tf.TensorArray(inputs.dtype, length, element_shape=[None, 4]).unstack(tf.transpose(inputs, [1, 0, 2]))

    def step(time, state, outputs):
        state = tf.tanh(tf.matmul(tf.concat([steps.read(time), state], 1), kernel))
        if rate:
            state = v1.nn.dropout(state, rate=rate, seed=6)
        return time + 1, state, outputs.write(time, state)

    outputs = tf.TensorArray(inputs.dtype, length, element_shape=[None, 4])
    start = (tf.constant(0), tf.zeros([tf.shape(inputs)[0], 4], inputs.dtype), outputs)
    _, state, outputs = v1.while_loop(lambda time, *_: time < length, step, start)
    return tf.transpose(outputs.stack(), [1, 0, 2]), state


def bert(train):
    """Embeddings, a dense layer and a pooler with the names of BERT/1: a dict of ids, no signature `default`."""
    inputs = {name: v1.placeholder(tf.int32, [None, None], name) for name in ("input_ids", "input_mask", "segment_ids")}
    positions = v1.placeholder(tf.int32, [None, None], "mlm_positions")
    with v1.variable_scope("bert"):
        words = _variable("embeddings/word_embeddings", [50, 8], seed=1)
        segments = _variable("embeddings/token_type_embeddings", [2, 8], seed=2)
        kernel = _variable("encoder/layer_0/output/dense/kernel", [8, 8], seed=3)
        pooler = _variable("pooler/dense/kernel", [8, 8], seed=4)
    hidden = tf.gather(words, inputs["input_ids"]) + tf.gather(segments, inputs["segment_ids"])
    if train:
        hidden = v1.nn.dropout(hidden, rate=0.5, seed=5)
    hidden = tf.tanh(tf.tensordot(hidden, kernel, 1)) * tf.cast(inputs["input_mask"], tf.float32)[..., None]
    outputs = {"sequence_output": hidden, "pooled_output": tf.tanh(tf.matmul(hidden[:, 0], pooler))}
    logits = tf.tensordot(tf.gather(hidden, positions, batch_dims=1), words, [[2], [1]])
    return {
        "tokens": (inputs, outputs),
        "mlm": ({**inputs, "mlm_positions": positions}, {**outputs, "mlm_logits": logits}),
    }


def batch_norm(train):
    """A dense layer and batch normalization with update operations for its statistics, and three signatures.

    Its graph for training counts the steps in a variable that its graph for prediction lacks.
    """
    with v1.variable_scope("module"):
        kernel = _variable("kernel", [3, 2], seed=1)
        mean = _variable("bn/moving_mean", [2], trainable=False)
        variance = _variable("bn/moving_variance", [2], seed=2, trainable=False)

    def normalized(inputs):
        outputs = tf.matmul(inputs, kernel)
        if not train:
            return (outputs - mean) / tf.sqrt(variance**2 + 0.1)
        of_batch = tf.nn.moments(outputs, [0])
        for variable, value in zip((mean, variance), of_batch):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(variable, 0.1 * (variable - value)))
        return (outputs - of_batch[0]) / tf.sqrt(of_batch[1] + 0.1)

    one, two = (v1.placeholder(tf.float32, [None, 3], name) for name in ("one", "two"))
    sparse = v1.sparse_placeholder(tf.float32, [None, 3], name="sparse")
    signatures = {
        "default": ({"x": one}, {"default": normalized(one)}),
        "doubled": ({"x": two}, {"default": normalized(2.0 * two)}),
        "sparse": ({"x": sparse}, {"default": normalized(tf.sparse.to_dense(sparse))}),
    }
    if train:
        with v1.variable_scope("module"):
            steps = v1.get_variable("steps", dtype=tf.int64, initializer=tf.constant(7, tf.int64), trainable=False)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(steps, 1).op)
    return signatures


def branching(train):
    """A condition of TensorFlow 1 between the weights and the output."""
    inputs = v1.placeholder(tf.float32, [None, 3], "x")
    with v1.variable_scope("module"):
        positive, negative = (_variable(name, [3, 2], seed=seed) for seed, name in enumerate(("positive", "negative")))
    taken = v1.cond(
        tf.reduce_sum(inputs) > 0.0,
        lambda: tf.tanh(tf.matmul(inputs, positive)),
        lambda: tf.matmul(inputs, negative) ** 2,
    )
    return {"default": ({"x": inputs}, {"default": taken})}


def nested(train):
    """A loop of three rounds in a condition in a loop: in the first and the last round two steps, else a product."""
    inputs = v1.placeholder(tf.float32, [None, 3], "x")
    kernel = _variable("kernel", [3, 3], seed=1)

    def steps(state):
        return v1.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, tf.tanh(tf.matmul(x, kernel))), (0, state))[1]

    def body(i, state):
        return i + 1, v1.cond(tf.equal(i, 1), lambda: 2.0 * state**2, lambda: steps(state))

    return {"default": ({"x": inputs}, {"default": v1.while_loop(lambda i, _: i < 3, body, (0, inputs))[1]})}


def reference(train):
    """A dense layer with reference variables."""
    inputs = v1.placeholder(tf.float32, [None, 3], "x")
    with v1.variable_scope("module"):
        kernel = _variable("kernel", [3, 2], seed=1, use_resource=False)
    return {"default": ({"x": inputs}, {"default": tf.matmul(inputs, kernel)})}


def vocabulary(file, rows=5):
    """The sum of the embeddings of a text's words. A table maps four words from a file to ids; `rows` embeddings."""

    def signatures(train):
        text = v1.placeholder(tf.string, [None], name="text")
        name = v1.constant(str(file), name="vocabulary")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, name)
        lines = tf.lookup.TextFileIndex
        initializer = tf.lookup.TextFileInitializer(name, tf.string, lines.WHOLE_LINE, tf.int64, lines.LINE_NUMBER)
        table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=1)
        with v1.variable_scope("module"):
            embeddings = _variable("embeddings", [rows, 4], seed=1)
        words = table.lookup(tf.sparse.to_dense(v1.string_split(text), default_value=""))
        return {"default": ({"text": text}, {"default": tf.reduce_sum(tf.gather(embeddings, words), 1)})}

    return signatures


def penalized_outputs(train):
    """A dense layer with a penalty on its outputs."""
    inputs = v1.placeholder(tf.float32, [None, 3], "x")
    outputs = tf.matmul(inputs, _variable("kernel", [3, 2], seed=1))
    v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, tf.reduce_sum(outputs**2))
    return {"default": ({"x": inputs}, {"default": outputs})}


_WRITTEN = {
    "elmo": elmo(),
    "elmo in float64": elmo(tf.float64),
    "elmo, dropout in its loop": elmo(dropout_in_loop=True),
    "elmo, only its mixture trains": elmo(dropout_in_loop=True, trained=False),
    "bert": bert,
    "batch norm": batch_norm,
    "branching": branching,
    "nested": nested,
    "reference variables": reference,
    "penalized outputs": penalized_outputs,
    "vocabulary": vocabulary,
}


@functools.cache
def folder(name):
    """Returns the folder of a module, which is written once per process and deleted with it."""
    path = pathlib.Path(_root().name) / name
    signatures = _WRITTEN[name]
    if signatures is vocabulary:
        (words := path.with_suffix(".txt")).write_text("a\ngood\nfilm\nbad\n")
        signatures = vocabulary(words)
    variants = (("train",), ()) if signatures is batch_norm else ((), ("train",))
    return write(path, signatures, variants)


@functools.cache
def _root():
    return tempfile.TemporaryDirectory()

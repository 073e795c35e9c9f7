"""`check_tpu_ready` finds each planted fault and nothing else, and finds nothing in models that suit a TPU."""

import keras
import numpy as np
import pytest

from keras_transfer.distribute import check_tpu_ready
from keras_transfer.tasks import TextClassifier
from tests.distribute.examples import examples, two_devices
from tests.tasks import tiny

pytestmark = pytest.mark.core
BACKEND = keras.backend.backend()
ROWS = 16
X, Y = np.ones((ROWS, 4), "float32"), np.zeros((ROWS, 2), "float32")


class Between(keras.layers.Layer):
    """A layer that computes a function."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def call(self, inputs):
        return self.function(inputs)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def model_of(function=None, dtype="mixed_bfloat16", **options):
    layers = [] if function is None else [Between(function, dtype=dtype, name="between")]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(2, dtype=dtype)])
    model.compile("adam", "mse", **{"steps_per_execution": 8, **options})
    return model


def numbers():
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((np.ones((40, 4), "float32"), np.zeros((40, 2), "float32")))


def py_function(x):
    import tensorflow as tf

    return tf.ensure_shape(tf.py_function(lambda value: value, [x], x.dtype), x.shape)


def lookup(x):
    import tensorflow as tf

    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    return x + tf.cast(table.lookup(tf.cast(x, tf.int64)), x.dtype)


def strings_in_the_step(x):
    import tensorflow as tf

    return x + tf.cast(tf.strings.length(tf.as_string(tf.cast(x, tf.float32))), x.dtype)


def without_a_kernel(x):
    import tensorflow as tf

    values = tf.linalg.eigvals(tf.stop_gradient(tf.cast(x[:4], tf.float32)))
    return x + tf.cast(tf.math.real(values)[0], x.dtype)


def printed(x):
    import tensorflow as tf

    tf.print(x[0, 0])
    return x


def selected(x):
    return x + keras.ops.mean(x[keras.ops.sum(x, axis=-1) > 0])


def branched(x):
    return x if keras.ops.sum(x) > 0 else -x


def with_numpy(x):
    return x + np.mean(np.asarray(x))


def with_numpy_after_another_error(x):
    try:
        return {}["unknown"]
    except KeyError:
        return with_numpy(x)


def eigenvalues(x):
    import jax.numpy as jnp

    matrix = jnp.asarray(x[:4], "float32")
    return x + keras.ops.cast(keras.ops.real(jnp.linalg.eigvals(keras.ops.stop_gradient(matrix)))[0], x.dtype)


def of_strings():
    lengths = keras.layers.Lambda(lambda x: keras.ops.ones((ROWS, 4)), output_shape=(4,))
    inputs = keras.Input((1,), dtype="string")
    model = keras.Sequential([inputs, lengths, keras.layers.Dense(2, dtype="mixed_bfloat16")])
    model.compile("adam", "mse", steps_per_execution=8)
    return model


ANY, TF, JAX = ("tensorflow", "jax"), ("tensorflow",), ("jax",)
FAULTS = {  # name -> (backends, model and batch, kind of the only finding)
    "rows that cores cannot share": (ANY, lambda: (model_of(), (X[:12], Y[:12])), "replicas"),
    "float32": (ANY, lambda: (model_of(dtype="float32"), (X, Y)), "precision"),
    "float16": (ANY, lambda: (model_of(dtype="mixed_float16", auto_scale_loss=False), (X, Y)), "precision"),
    "float64 in a policy": (ANY, lambda: (model_of(dtype="float64"), (X, Y)), "precision"),
    "float64 in the batch": (TF, lambda: (model_of(), (X.astype("float64"), Y)), "precision"),
    "an eager model": (ANY, lambda: (model_of(run_eagerly=True), (X, Y)), "eager"),
    "a call for each step": (ANY, lambda: (model_of(steps_per_execution=1), (X, Y)), "dispatch"),
    "a shorter last batch": (ANY, lambda: (model_of(), Batches([ROWS, ROWS, 8])), "shapes"),
    "an unknown number of rows": (TF, lambda: (model_of(), numbers().batch(ROWS)), "shapes"),
    "strings in the batch": (TF, lambda: (of_strings(), (np.array([["a"]] * ROWS), Y)), "strings"),
    "strings in the step": (TF, lambda: (model_of(strings_in_the_step), (X, Y)), "xla"),
    "py_function": (TF, lambda: (model_of(py_function), (X, Y)), "xla"),
    "a lookup table": (TF, lambda: (model_of(lookup), (X, Y)), "xla"),
    "printing": (TF, lambda: (model_of(printed), (X, Y)), "xla"),
    "NumPy in the step": (ANY, lambda: (model_of(with_numpy), (X, Y)), "xla"),
    "NumPy after another error": (ANY, lambda: (model_of(with_numpy_after_another_error), (X, Y)), "xla"),
    "selected rows": (JAX, lambda: (model_of(selected), (X, Y)), "xla"),
    "a branch on a value": (JAX, lambda: (model_of(branched), (X, Y)), "xla"),
    "an operation that XLA lacks": (TF, lambda: (model_of(without_a_kernel), (X, Y)), "xla"),
    "an operation that TPUs lack": (JAX, lambda: (model_of(eigenvalues), (X, Y)), "xla"),
}


class Batches(keras.utils.PyDataset):
    """Batches of these numbers of rows."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return np.ones((self.rows[index], 4), "float32"), np.zeros((self.rows[index], 2), "float32")


@pytest.mark.parametrize("name", [name for name, (backends, *_) in FAULTS.items() if BACKEND in backends])
def test_a_planted_fault_is_the_only_finding(name):
    _, make, kind = FAULTS[name]
    report = check_tpu_ready(*make())
    assert [finding.kind for finding in report.findings] == [kind], str(report)
    assert not report.ok and not report and report.findings[0].remedy in str(report)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="the operations of TensorFlow")
@pytest.mark.parametrize(("function", "name"), [(py_function, "EagerPyFunc"), (lookup, "HashTable")])
def test_the_operation_that_cannot_be_compiled_is_named(function, name):
    (finding,) = check_tpu_ready(model_of(function), (X, Y)).findings
    assert name in finding.message


@pytest.mark.skipif(BACKEND == "torch", reason="torch is refused")
def test_an_array_of_a_dict_is_named():
    inputs = keras.Input((4,), name="numbers")
    model = keras.Model({"numbers": inputs}, keras.layers.Dense(2, dtype="mixed_bfloat16")(inputs))
    model.compile("adam", "mse", steps_per_execution=8)
    batch = {"numbers": np.array([["a"] * 4] * ROWS)}, Y
    assert "strings in x['numbers']." in str(check_tpu_ready(model, batch))


@pytest.mark.skipif(BACKEND == "torch", reason="torch is refused")
def test_a_classifier_is_ready_and_its_weights_stay():
    texts, labels = examples(ROWS)
    encoder = tiny.encoder(dtype="mixed_bfloat16", dropout=0.1)
    model = TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor())
    model.compile(steps_per_execution=8)
    before = model.get_weights()
    report = check_tpu_ready(model, (texts, labels), replicas=4)
    assert report.ok and report and not report.findings, str(report)
    assert str(report) == "Nothing against 16 rows on 4 TPU cores (checked without a TPU)."
    assert tiny.difference(before, model.get_weights()) == 0.0
    assert np.isfinite(model.train_on_batch(texts, labels)).all()  # The check leaves the model as it was.


def test_what_cannot_be_checked_is_an_error():
    if BACKEND == "torch":
        with pytest.raises(ValueError, match="Only TensorFlow and JAX run on TPUs. Received: backend='torch'"):
            check_tpu_ready(model_of(), (X, Y))
        return
    with pytest.raises(ValueError, match="Call `compile` before `check_tpu_ready`"):
        check_tpu_ready(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]), (X, Y))
    with pytest.raises(ValueError, match="`replicas` must be an integer of at least 1. Received: replicas=0"):
        check_tpu_ready(model_of(), (X, Y), replicas=0)
    with pytest.raises(ValueError, match="`batch` must be a tuple.*Received: str"):
        check_tpu_ready(model_of(), "texts")


@pytest.mark.skipif(BACKEND == "torch", reason="torch is refused")
@pytest.mark.parametrize("built", [False, True])
def test_labels_of_a_wrong_shape_raise_the_error_of_the_loss(built):
    model = model_of()
    if built:
        assert check_tpu_ready(model, (X, Y)).ok
    with pytest.raises((ValueError, TypeError), match="(must be equal|incompatible shapes).*3.*2"):
        check_tpu_ready(model, (X, np.zeros((ROWS, 3), "float32")))


@pytest.mark.skipif(BACKEND == "torch", reason="torch is refused")
def test_a_batch_must_have_rows_and_texts_must_have_labels():
    task = TextClassifier(tiny.encoder(), num_classes=2, preprocessor=tiny.preprocessor())
    task.compile()
    for model, batch in (
        (model_of(), (X[:0], Y[:0])),
        (model_of(), ([], [])),
        (model_of(), Batches([])),
        (task, ([], [])),
    ):
        with pytest.raises(ValueError, match="`batch` must have at least one row. Received: rows=0"):
            check_tpu_ready(model, batch)
    with pytest.raises(ValueError, match="`batch` must have labels.*Received: y=None"):
        check_tpu_ready(task, (["a good b", "bad"],))


@pytest.mark.skipif(BACKEND != "jax", reason="a distribution of JAX")
def test_a_distribution_is_named():
    model = model_of()
    with two_devices(), pytest.raises(ValueError, match=r"Received: a model .* \(the distribution DataParallel\)"):
        check_tpu_ready(model, (X, Y))

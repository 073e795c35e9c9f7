"""The Fisher information of a model's weights: how much what a model says of a dataset depends on each of them."""

import os
import pathlib
from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_transfer.distribute.replicas import replicas_of
from keras_transfer.files import file_written_whole
from keras_transfer.tasks.token_classifier import TokenClassifier
from keras_transfer.text import batches, is_text, to_columns


class Fisher(dict):
    """A dict from the paths of weights to their Fisher information, float32 arrays of the weights' shapes.

    `estimate_fisher` makes it, and `EWC` takes it. It is plain data: files of it are read by any backend, and for
    several earlier tasks their arrays can be added. A path is made of the names of layers: give names to those of a
    model that another process builds anew, since Keras numbers those without.

    Example:
    ```python
    fisher = keras_transfer.adaptation.Fisher({"dense/kernel": np.ones((4, 2), "float32")})
    fisher.save("fisher.npz")
    fisher = keras_transfer.adaptation.Fisher.load("fisher.npz")
    ```
    """

    def save(self, path, overwrite=False):
        """Writes the arrays to a `.npz` file, whole or not at all.

        Args:
            path: the file.
            overwrite: bool, replace what is there.

        Raises:
            FileExistsError: `path` exists and `overwrite` is False.
        """
        path = pathlib.Path(path)
        if os.path.lexists(path) and not overwrite:
            raise FileExistsError(
                f"the file must not exist yet: choose another one, or pass overwrite=True. Received: {str(path)!r}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        # Paths are not the names of numpy's arrays: one of them may be `file`, numpy's own argument.
        arrays = {f"weight_{i}": values for i, values in enumerate(self.values())}
        with file_written_whole(path) as file:
            np.savez(file, paths=np.array(list(self), str), **arrays)

    @classmethod
    def load(cls, path):
        """Returns what `save` wrote.

        Raises:
            ValueError: the file is no such file.
        """
        with open(path, "rb") as file:
            try:
                arrays = dict(np.load(file, allow_pickle=False))
                return cls({str(name): arrays[f"weight_{i}"] for i, name in enumerate(arrays["paths"])})
            except Exception as error:  # whatever zip files and numpy say of a file that is neither
                raise ValueError(f"a file is needed that `Fisher.save` wrote. Received: {str(path)!r}") from error


def estimate_fisher(model, x, y=None, labels="model", samples=None, loss=None, seed=None):
    """Returns the diagonal of the Fisher information of a model's trainable weights on a dataset.

    It is the mean over examples of the squared gradient of log p(label | example), without dropout and without
    regularisation. With `labels="model"` each example's label is drawn from what the model itself predicts: the Fisher
    information proper. With `labels="data"` it is the one in the data: the empirical Fisher information, which is next
    to zero where the model is sure and right.

    An example's gradient is computed by itself, so that this takes about as long as an epoch of `fit` with batches of
    one; a few hundred examples are usual. The model is left as it was. Under the policy `mixed_float16` small gradients
    vanish: estimate with a model in float32 or bfloat16.

    Args:
        model: a built `keras.Model`. By default its only output is logits [batch, ..., classes].
        x: examples as `fit` takes them: arrays, a dict or list of them, a dataset of batches of any size
            (`text.batches`, `PyDataset`, tf.data, an iterable); with a task also what its `fit` takes: raw text, and
            sentences of words, of which an example is a row and labels below 0 do not count. An example with sample
            weight n counts as n examples; weights of positions [batch, length] weigh their log-likelihoods, whose sum
            is the example's: give padding 0.
        y: labels of `x` for `labels="data"`, whole numbers; None for a dataset, which has them.
        labels: `"model"` or `"data"`. With `"model"` labels in a dataset are not looked at.
        samples: int, at most so many examples: drawn at random from data in memory, the batches of a `PyDataset` in
            random order, the first ones of a stream. None for all.
        loss: what `compile` takes as `loss`, minus the log-likelihood of one example, for `labels="data"` and other
            outputs or labels. None for the cross-entropy of whole numbers, whatever the model is compiled with.
        seed: int, for the same labels and examples every time, on every backend. None to follow
            `keras.utils.set_random_seed`.

    Returns:
        A `Fisher`: for each trainable weight's path an array of its shape.

    Raises:
        ValueError: the model is not built, nothing in it trains, or two of its weights share a path; there are no data
            or no labels, or labels are out of range; the outputs are no logits; a gradient is not finite; several
            replicas share the model.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    x = np.random.default_rng(0).normal(size=(16, 4))
    fisher = keras_transfer.adaptation.estimate_fisher(model, x, seed=0)
    ```

    Source: https://arxiv.org/abs/1612.00796, section 2; the two kinds of labels, https://arxiv.org/abs/1905.12558.
    """
    _check_model(model)
    _check_options(y, labels, samples, loss)
    random = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
    optimizer = _SquaredGradients()
    scorer = _Scorer(model)
    optimizer.build(scorer.trainable_variables)
    default = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    scorer.compile(optimizer, default if loss is None else loss, auto_scale_loss=False)
    own = {id(weight) for weight in model.weights}
    others = [variable for variable in [*model.variables, *model.metrics_variables] if id(variable) not in own]
    before = [ops.convert_to_numpy(variable).copy() for variable in others]
    count, total, shape = 0, 0.0, None
    try:
        for inputs, targets, weights in _batches(model, x, y, samples, random):
            if isinstance(model, TokenClassifier):
                targets, weights = _of_words(targets, weights)
            if labels == "model" or (loss is None and shape is None):
                logits = scorer.predict_on_batch(_tensors(inputs))
                shape = shape or _check_logits(logits)
            if labels == "model":
                targets = _draw(logits, random)
            elif targets is None:
                raise ValueError("labels='data' needs labels: `y`, or a dataset of `(x, y)`. Received: none")
            elif loss is None:
                _check_labels(targets, shape)
            for i in range(len(keras.tree.flatten(inputs)[0])):
                if count == samples:
                    break
                one, target, weight = (_take(part, slice(i, i + 1)) for part in (inputs, targets, weights))
                count += 1
                times, weight = _times(weight, isinstance(model, TokenClassifier))
                if times > 0:
                    scorer.train_on_batch(_tensors(one), target, weight)
                total += times
            if count == samples:
                break
    finally:
        for variable, values in zip(others, before):
            variable.assign(values)
        if hasattr(model, "zero_grad"):  # torch keeps the last gradients
            model.zero_grad()
    if total == 0:
        raise ValueError(f"there must be examples, with weights above 0. Received: {count} examples")
    fisher = Fisher()
    for weight, squares in zip(model.trainable_weights, optimizer.squares):
        fisher[weight.path] = (ops.convert_to_numpy(squares) / total).astype("float32")
    wrong = [path for path, values in fisher.items() if not np.isfinite(values).all()]
    if wrong:
        raise ValueError(
            "gradients must be finite: look for infinite or missing numbers in the data, and for float16. "
            f"Received: others for {wrong}"
        )
    return fisher


class _SquaredGradients(keras.optimizers.Optimizer):
    """An 'optimizer' that changes no weight and sums the squares of gradients: the same on every backend."""

    def __init__(self):
        super().__init__(learning_rate=0.0, name="squared_gradients")

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.squares = [self.add_variable(weight.shape, dtype="float32", name="squares") for weight in variables]

    def apply(self, grads, trainable_variables=None):
        for gradient, squares in zip(grads, self.squares):
            if gradient is None:  # the outputs do not depend on it
                continue
            if hasattr(gradient, "dense_shape"):
                self.assign_add(squares, _square_rows(gradient))
            else:
                self.assign_add(squares, ops.square(ops.cast(gradient, "float32")))


def _square_rows(gradient):
    """Squares what TensorFlow gives as an embedding's gradient: a row for each token, also for one that came before.

    A token's rows are summed before they are squared; each of its n rows gets an n-th of the square.
    """
    same = ops.cast(ops.equal(gradient.indices[:, None], gradient.indices[None]), "float32")
    same = same / ops.sqrt(ops.sum(same, axis=1, keepdims=True))
    sums = ops.tensordot(same, ops.cast(gradient.values, "float32"), axes=1)
    return type(gradient)(ops.square(sums), gradient.indices, gradient.dense_shape)


class _Scorer(keras.Model):
    """A model as it predicts, for a train step of its own: `compile` and `fit` of the model know nothing of it."""

    def __init__(self, model):
        super().__init__(name="scorer", autocast=False)
        self.scored = model
        self.built = True

    def call(self, inputs):
        return self.scored(inputs, training=False)

    @property
    def losses(self):
        return []  # regularisation is no part of the likelihood


def _check_model(model):
    if not isinstance(model, keras.Model) or not model.built:
        raise ValueError(f"`model` must be a built `keras.Model`. Received: {model!r}")
    paths = [weight.path for weight in model.trainable_weights]
    if not paths:
        raise ValueError(f"nothing in the model trains: thaw some weights. Received: {model.name!r}")
    shared = sorted({path for path in paths if paths.count(path) > 1})
    if shared:
        raise ValueError(f"weights are known by their paths: give layers names of their own. Received twice: {shared}")
    replicas, _ = replicas_of(model)
    if replicas > 1:
        raise ValueError(f"examples are taken one by one: use a model without replicas. Received: {replicas} replicas")


def _check_options(y, labels, samples, loss):
    if not isinstance(labels, str) or labels not in ("model", "data"):
        raise ValueError(
            f"`labels` must be 'model' or 'data' (the labels themselves are `y`). Received: {labels!r:.100}"
        )
    if labels == "model" and (y is not None or loss is not None):
        raise ValueError(
            "with labels='model' labels are drawn from the model's logits: for your own `y` or `loss` pass "
            f"labels='data'. Received: {'y' if loss is None else 'loss'} and labels='model'"
        )
    if samples is not None and (samples != int(samples) or samples < 1):
        raise ValueError(f"`samples` must be a whole number of at least 1. Received: {samples!r}")


# === The data ===


def _batches(model, x, y, samples, random):
    """`(x, y, weights)` for each batch: arrays with a row for each example, or None; raw text as the task takes it."""
    if isinstance(model, TokenClassifier) and model.is_raw(x):
        yield from _batches(model, _sentences(model, x, y, samples, random), None, samples, random)
        return
    if is_text(x) or isinstance(x, (Mapping, list, tuple)) or hasattr(x, "shape"):
        yield from _batches_in_memory(model, x, y, samples, random)
        return
    if y is not None:
        raise ValueError(f"a dataset has its labels itself: `(x, y)`. Received: {type(x).__name__} and `y`")
    dataset, preprocessor = x, getattr(model, "preprocessor", None)
    if isinstance(x, keras.utils.PyDataset):
        order = range(len(x)) if samples is None else random.permutation(len(x)).tolist()
        dataset = (x[i] for i in order)
    elif not hasattr(x, "__iter__"):
        raise ValueError(f"`x` must be arrays, a dict or list of them, texts or a dataset. Received: {x!r:.100}")
    for batch in dataset:
        inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(batch)
        if is_text(inputs) and preprocessor is not None:
            made = batches(inputs, labels, preprocessor, shuffle=False, sample_weight=weights)
            yield from _batches(model, made, None, None, random)
        else:
            yield _arrays(inputs), _arrays(labels), _arrays(weights)


def _batches_in_memory(model, x, y, samples, random):
    text, preprocessor = is_text(x), getattr(model, "preprocessor", None)
    if text and preprocessor is None and isinstance(x, (list, tuple, str)):
        raise ValueError(
            "texts need a model with a `preprocessor`; one that takes strings itself takes an array of them. "
            f"Received: {x!r:.100}"
        )
    x, y = to_columns(x) if text and preprocessor is not None else _arrays(x), _arrays(y)
    counts = {len(values) if values.ndim else 0 for values in keras.tree.flatten([x] if y is None else [x, y])}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(f"inputs and labels must have a row for each example. Received: {sorted(counts)} rows")
    [count] = counts
    if samples is not None and samples < count:
        rows = random.choice(count, int(samples), replace=False)
        x, y = _take(x, rows), _take(y, rows)
    if text and preprocessor is not None:
        yield from _batches(model, batches(x, y, preprocessor, shuffle=False), None, None, random)
        return
    for start in range(0, count, 32):
        rows = slice(start, start + 32)
        yield _take(x, rows), _take(y, rows), None


def _sentences(model, x, y, samples, random):
    """Sentences of words in memory as batches, with labels, which at least say where words are."""
    x = model.raw_columns(x)
    y = [[0] * len(words) for words in x] if y is None else y
    if samples is not None and samples < len(x) == len(y):
        rows = random.choice(len(x), int(samples), replace=False).tolist()
        x, y = [x[row] for row in rows], [y[row] for row in rows]
    return model.make_batches(x, y, 32, False, None)


def _of_words(labels, weights):
    """Labels from 0 on, and weights [batch, length] that are 0 where no word is."""
    if labels is None:
        raise ValueError("a tagger's data need labels [batch, length], to say where words are. Received: none")
    words = labels >= 0
    if weights is not None:
        words = words * (weights[:, None] if weights.ndim == 1 else weights)
    return np.maximum(labels, 0), words.astype("float32")


def _arrays(values):
    """A nest of whatever `fit` takes as one of numpy arrays, or None; a list of numbers is one array."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)) and all(np.ndim(value) == 0 for value in values):
        return np.asarray(values)
    return keras.tree.map_structure(ops.convert_to_numpy, values)


def _take(values, rows):
    return None if values is None else keras.tree.map_structure(lambda array: array[rows], values)


def _tensors(values):
    """Arrays of strings, which are objects to Keras, as tensors; numbers as they are."""
    return keras.tree.map_structure(
        lambda array: ops.convert_to_tensor(array) if array.dtype.kind in "OSU" else array, values
    )


def _times(weight, of_words=False):
    """How often an example with this sample weight counts, and the weight of its loss; its gradient is squared.

    A sentence whose words all have one weight counts so often; one without words does not count.
    """
    if of_words:
        [*different] = set(weight[weight > 0].tolist())
        times = 1.0 if len(different) > 1 else sum(different)
        return times, weight if len(different) > 1 else np.sign(weight) * times**0.5
    if weight is None or np.size(weight) != 1:  # weights of positions
        return 1.0, weight
    times = float(np.reshape(weight, ()))
    if not times >= 0:
        raise ValueError(f"sample weights must not be negative. Received: {times}")
    return times, np.full(1, times**0.5, "float32")


# === Logits and labels ===


def _check_logits(logits):
    """Returns the shape of logits, [batch, ..., classes]."""
    if not hasattr(logits, "shape") or logits.ndim < 2 or logits.shape[-1] < 2:
        shapes = keras.tree.map_structure(lambda output: tuple(output.shape), logits)
        raise ValueError(
            "the model's only output must be logits [batch, ..., classes] of two classes or more; for others pass "
            f"labels='data' and `loss`. Received: outputs of shape {shapes}"
        )
    if np.all(logits >= 0) and np.allclose(np.sum(logits, axis=-1, dtype="float64"), 1.0, rtol=0, atol=1e-3):
        raise ValueError(
            "the model's outputs must be logits: take the softmax off its last layer. Received: outputs that are "
            "probabilities, which are positive and sum to 1"
        )
    return logits.shape


def _draw(logits, random):
    """Draws a label for each row of logits [..., classes] from their softmax."""
    logits = np.asarray(logits, "float64")
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    upto = np.cumsum(shares / shares.sum(axis=-1, keepdims=True), axis=-1)
    draws = random.random((*logits.shape[:-1], 1))
    return np.minimum((upto <= draws).sum(axis=-1), logits.shape[-1] - 1).astype("int32")


def _check_labels(labels, shape):
    labels, classes = np.asarray(labels), shape[-1]
    rank = labels.ndim - (labels.ndim == len(shape) and labels.shape[-1] == 1)
    if labels.dtype.kind not in "iub" or rank != len(shape) - 1:
        raise ValueError(
            f"labels must be whole numbers from 0 to {classes - 1}, one for each row of logits of shape {shape}; for "
            f"others pass `loss`. Received: {labels.dtype} of shape {labels.shape}"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"labels must be whole numbers from 0 to {classes - 1}. Received: {labels.min()} to {labels.max()}"
        )

"""The Fisher information of a model's weights: how much its predictions on a dataset depend on each weight."""

import pathlib
from collections.abc import Mapping
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import FLAG, expect, expects, integer
from keras_transfer.core.files import atomic_file, check_folder
from keras_transfer.data import Batches
from keras_transfer.distribute import replicas_of
from keras_transfer.tasks import Task, count_rows, take_rows
from keras_transfer.text import is_text

_ROWS = 32  # Number of rows in a batch of arrays.


class Fisher(dict):
    """A dict from weight paths to their Fisher information, float32 arrays of the weights' shapes.

    `estimate_fisher` returns it, and `EWC` accepts it. Its files can be loaded on every backend. To protect several
    earlier tasks, add their arrays. A path consists of layer names. Keras numbers unnamed layers, so name the layers if
    another process builds the model again.

    Example:
    ```python
    fisher = keras_transfer.adaptation.Fisher({"dense/kernel": np.ones((4, 2), "float32")})
    fisher.save("fisher.npz")
    fisher = keras_transfer.adaptation.Fisher.load("fisher.npz")
    ```
    """

    def save(self, path: str | pathlib.Path, *, overwrite: bool = False) -> None:
        """Writes the arrays to a `.npz` file atomically.

        Args:
            path: String or path. File to write.
            overwrite: Boolean. Whether to replace an existing file. Defaults to `False`.

        Raises:
            FileExistsError: If `path` exists and `overwrite=False`.
        """
        path = pathlib.Path(path)
        check_folder(path, overwrite)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A weight path cannot be an array name: `file`, for example, is an argument of `np.savez`.
        arrays = {f"weight_{i}": values for i, values in enumerate(self.values())}
        with atomic_file(path) as file:
            np.savez(file, paths=np.array(list(self), str), **arrays)

    @classmethod
    def load(cls, path: str | pathlib.Path) -> Self:
        """Loads a Fisher information from a file.

        Args:
            path: String or path. File that `save` wrote.

        Returns:
            The `Fisher`.

        Raises:
            ValueError: If `Fisher.save` did not write the file.
        """
        with open(path, "rb") as file:
            try:
                arrays = dict(np.load(file, allow_pickle=False))
                return cls({str(name): arrays[f"weight_{i}"] for i, name in enumerate(arrays["paths"])})
            except Exception as error:  # NumPy and `zipfile` raise errors of many types.
                raise ValueError(f"`path` must be a file that `Fisher.save` wrote. Received: {str(path)!r}") from error


@expects(empirical=FLAG._replace(hint=lambda value: " Pass labels as `y`."), samples=integer(1))
def estimate_fisher(
    model: keras.Model,
    x: Any,
    y: Any = None,
    *,
    empirical: bool = False,
    samples: int | None = None,
    loss: Any = None,
    seed: int | None = None,
) -> Fisher:
    """Returns the diagonal of the Fisher information of a model's trainable weights on a dataset.

    It is the mean over examples of the squared gradient of log p(label | example), without dropout and without
    regularization. The label of each example is drawn from the model's own prediction, which gives the true Fisher
    information. With `empirical=True` it is the label in the data, which gives the empirical Fisher information, close
    to zero where the model is confident and correct.

    The gradient of each example is computed separately, which takes as long as an epoch with batches of one. A few
    hundred examples are common. The model does not change. With `mixed_float16`, small gradients vanish.

    Args:
        model: Built `keras.Model`. Its only output must be logits `[batch, ..., classes]`, unless `loss` is given.
        x: Examples in a form that `fit` accepts: arrays, a dict or list of them, or a dataset of batches of any size
            (`text.batches`, `PyDataset`, tf.data, an iterable). For a task, anything that `Task.dataset` accepts. An
            example of a `TokenClassifier` is a row, and only the positions of its words count. An example with sample
            weight n counts as n examples. Weights `[batch, length]` apply to the log-likelihoods of positions, whose
            weighted sum is the log-likelihood of the example. Give padding the weight 0. If all other positions have
            the weight n, the example counts as n examples.
        y: Integer labels of `x` for `empirical=True`. Defaults to `None`, for datasets, which contain them.
        empirical: Boolean. Whether to use the labels of the data. If `False`, labels in a dataset are ignored. Defaults
            to `False`.
        samples: Integer. Maximum number of examples. They are drawn at random from data in memory and `text.batches`,
            or are the first ones of a stream, or of the shuffled batches of another `PyDataset`. Defaults to `None`,
            for all examples.
        loss: Loss, or its name, that returns the negative log-likelihood of one example. Use it with `empirical=True`
            for other outputs or labels. Defaults to `None`, the cross-entropy of integer labels, even if the model is
            compiled with a different loss.
        seed: Integer. Makes labels and examples reproducible on every backend. Defaults to `None`, which follows
            `keras.utils.set_random_seed`.

    Returns:
        A `Fisher`, with an array for the path of each trainable weight.

    Raises:
        ValueError: If the model is not built, has no trainable weights, or has two with the same path; if examples or
            labels are missing; if labels are out of range; if the outputs are not logits; if a gradient is not finite;
            or if several replicas share the model.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    x = np.random.default_rng(0).normal(size=(16, 4))
    fisher = keras_transfer.adaptation.estimate_fisher(model, x, seed=0)
    ```

    Source: https://arxiv.org/abs/1612.00796, section 2; the two kinds of labels, https://arxiv.org/abs/1905.12558.
    """
    optimizer = _SquaredGradients()
    total = apply_to_examples(optimizer, model, x, y, empirical, samples, loss, seed)
    fisher = Fisher()
    for weight, squares in zip(model.trainable_weights, optimizer.squares):
        fisher[weight.path] = (ops.convert_to_numpy(squares) / total).astype("float32")
    wrong = [path for path, values in fisher.items() if not np.isfinite(values).all()]
    rule = (
        "Gradients must be finite. Check whether the data contains NaN or infinity, and whether the model computes "
        "in float16."
    )
    expect(not wrong, rule, gradients=wrong)
    return fisher


def apply_to_examples(optimizer, model, x, y, empirical, samples, loss, seed, power=0.5):
    """Calls an optimizer, which changes no weights, with the gradients of each example, and returns how many there are.

    The other arguments are those of `estimate_fisher`. An example with sample weight n counts as n, and its loss is
    multiplied by `n ** power`.
    """
    _check_model(model)
    rule = (
        f"The outputs of this `{type(model).__name__}` are not the logits of one label. Pass `empirical=True` and "
        "`loss`, the negative log-likelihood."
    )
    if isinstance(model, Task):
        expect(model.labels.one_of or loss is not None, rule, empirical=empirical)
    rule = "Labels are drawn from the model's logits. Pass `empirical=True` for your own `y` or `loss`."
    expect(empirical or (y is None and loss is None), rule, empirical=empirical)
    random = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
    scorer = _Scorer(model)
    optimizer.build(scorer.trainable_variables)
    default = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    scorer.compile(optimizer, default if loss is None else loss, auto_scale_loss=False)
    own = {id(weight) for weight in model.weights}
    others = [variable for variable in [*model.variables, *model.metrics_variables] if id(variable) not in own]
    before = [ops.convert_to_numpy(variable).copy() for variable in others]
    count, total, shape = 0, 0.0, None
    # A `SpanExtractor` predicts a position, so each batch has its own number of classes.
    varies = loss is None and isinstance(model, Task) and getattr(model.output, "shape", [0])[-1] is None
    try:
        for inputs, targets, weights in example_batches(model, x, y, empirical, samples, random):
            if not empirical or (loss is None and (varies or shape is None)):
                logits = scorer.predict_on_batch(tensors(inputs))
                shape = _check_logits(logits) if varies or shape is None else shape
            if not empirical:
                targets = _draw(logits, random)
            elif targets is None:
                raise ValueError("`empirical=True` requires `y`, or a dataset of `(x, y)`. Received: no labels")
            elif loss is None:
                _check_labels(targets, shape)
            for i in range(len(keras.tree.flatten(inputs)[0])):
                if count == samples:
                    break
                one, target, weight = (take(part, slice(i, i + 1)) for part in (inputs, targets, weights))
                count += 1
                times, weight = times_of(weight, power)
                if times > 0:
                    scorer.train_on_batch(tensors(one), target, weight)
                total += times
            if count == samples:
                break
    finally:
        for variable, values in zip(others, before):
            variable.assign(values)
        if hasattr(model, "zero_grad"):  # PyTorch keeps the last gradients.
            model.zero_grad()
    expect(total != 0, "`x` must contain at least one example with a sample weight above 0.", examples=count)
    return total


class _SquaredGradients(keras.optimizers.Optimizer):
    """An optimizer that leaves the weights unchanged, and sums the squared gradients on every backend."""

    def __init__(self):
        super().__init__(learning_rate=0.0, name="squared_gradients")

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.squares = [self.add_variable(weight.shape, dtype="float32", name="squares") for weight in variables]

    def apply(self, grads, trainable_variables=None):
        for gradient, squares in zip(grads, self.squares):
            if gradient is None:  # The outputs do not depend on this weight.
                continue
            if hasattr(gradient, "dense_shape"):
                self.assign_add(squares, _square_rows(gradient))
            else:
                self.assign_add(squares, ops.square(ops.cast(gradient, "float32")))


def _square_rows(gradient):
    """Squares an embedding's gradient on TensorFlow. Sums the n rows of a token, and gives each 1/n of the square."""
    same = ops.cast(ops.equal(gradient.indices[:, None], gradient.indices[None]), "float32")
    same = same / ops.sqrt(ops.sum(same, axis=1, keepdims=True))
    sums = ops.tensordot(same, ops.cast(gradient.values, "float32"), axes=1)
    return type(gradient)(ops.square(sums), gradient.indices, gradient.dense_shape)


class _Scorer(keras.Model):
    """A model in inference mode with its own train step, so that the model's own compilation does not change."""

    def __init__(self, model):
        super().__init__(name="scorer", autocast=False)
        self.scored = model
        self.built = True

    def call(self, inputs):
        return self.scored(inputs, training=False)

    @property
    def losses(self):
        return []  # Regularization is not part of the likelihood.


def _check_model(model):
    expect(isinstance(model, keras.Model) and model.built, "`model` must be a built `keras.Model`.", model=model)
    paths = [weight.path for weight in model.trainable_weights]
    expect(paths, "`model` must have trainable weights. Unfreeze some.", model=model.name)
    shared = sorted({path for path in paths if paths.count(path) > 1})
    expect(not shared, "Weights must have unique paths. Use unique layer names.", duplicates=shared)
    replicas, _ = replicas_of(model)
    rule = "`model` must not be distributed over several replicas. Create it outside of the strategy."
    expect(replicas <= 1, rule, replicas=replicas)


def _check_logits(logits):
    """Returns the shape of logits, [batch, ..., classes]."""
    if not hasattr(logits, "shape") or logits.ndim < 2 or logits.shape[-1] < 2:
        shapes = keras.tree.map_structure(lambda output: tuple(output.shape), logits)
        raise ValueError(
            "`model` must have one output: logits [batch, ..., classes] for at least two classes. Otherwise, pass "
            f"`empirical=True` and `loss`. Received: outputs of shape {shapes}"
        )
    sums = np.sum(logits, axis=-1, dtype="float64")
    are_probabilities = np.all(logits >= 0) and np.allclose(sums, 1.0, rtol=0, atol=1e-3)
    rule = "The outputs of `model` must be logits. Remove the softmax from the last layer."
    expect(not are_probabilities, rule, outputs=logits[0])
    return logits.shape


def _draw(logits, random):
    """Draws a label for each row of logits [..., classes] from their softmax."""
    logits = np.asarray(logits, "float64")
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    cumulative = np.cumsum(odds / odds.sum(axis=-1, keepdims=True), axis=-1)
    draws = random.random((*logits.shape[:-1], 1))
    return np.minimum((cumulative <= draws).sum(axis=-1), logits.shape[-1] - 1).astype("int32")


def _check_labels(labels, shape):
    labels, classes = np.asarray(labels), shape[-1]
    is_column = labels.ndim == len(shape) and labels.shape[-1] == 1
    rank = labels.ndim - 1 if is_column else labels.ndim
    has_one_of_each_row = rank == len(shape) - 1
    rule = f"Labels must be integers from 0 to {classes - 1}, one for each row of logits of shape {shape}."
    are_labels = labels.dtype.kind in "iub" and has_one_of_each_row
    expect(are_labels, f"{rule} For other labels, pass `loss`.", dtype=str(labels.dtype), shape=labels.shape)
    least, most = int(labels.min()), int(labels.max())
    expect(least >= 0 and most < classes, rule, smallest=least, largest=most)


def example_batches(model, x, y, empirical, samples, random):
    """Yields `(inputs, labels, weights)` for each batch: arrays with a row for each example, or `None`.

    The arguments are those of `estimate_fisher`, and a `np.random.Generator`, which draws the samples.
    """
    is_task = isinstance(model, Task)
    if is_task and model.reader.accepts(x):
        x = model.reader.columns(x)
        y = model.labels.placeholders(x) if y is None and not empirical else y
        count = count_rows(x)
        if samples is not None and samples < count and (y is None or len(y) == count):  # Otherwise, the task complains.
            rows = random.choice(count, int(samples), replace=False)  # Only the drawn rows are tokenized.
            x, y = take_rows(x, rows), take_rows(y, rows)
        samples = None
    if is_task:
        x, y = model.dataset(x, y), None
    for batch in _batches_of(x, y, samples, random):
        inputs, targets, weights = map(_arrays, keras.utils.unpack_x_y_sample_weight(batch))
        if is_task:
            targets, weights = model.labels.mask(targets, weights)
        yield inputs, targets, weights


def _batches_of(x, y, samples, random):
    """Returns an iterable of the batches of arrays or of a dataset. Rows are drawn if their number is known."""
    rule = "Raw text requires a task with a preprocessor. For a model that accepts strings itself, pass an array."
    expect(not (is_text(x) and isinstance(x, (list, tuple, str))), rule, x=x)
    if isinstance(x, (Mapping, list, tuple)) or hasattr(x, "shape"):
        return _batches_of_arrays(_arrays(x), _arrays(y), samples, random)
    expect(y is None, "`y` must be None if `x` is a dataset, which contains the labels.", x=type(x).__name__)
    if isinstance(x, Batches):
        x = _some_rows(x, samples, random)
        return (x[i] for i in range(len(x)))
    if isinstance(x, keras.utils.PyDataset):
        order = range(len(x)) if samples is None else random.permutation(len(x)).tolist()
        return (x[i] for i in order)
    expect(hasattr(x, "__iter__"), "`x` must be an array, a dict or list of arrays, texts or a dataset.", x=x)
    return x


def _batches_of_arrays(x, y, samples, random):
    """Returns a generator of the batches of arrays."""
    arrays = keras.tree.flatten([x] if y is None else [x, y])
    counts = {len(values) if values.ndim else 0 for values in arrays}
    rule = "`x` and `y` must have the same number of rows, at least one."
    expect(len(counts) == 1 and counts != {0}, rule, rows=sorted(counts))
    [count] = counts
    rows = _drawn(count, samples, random)
    batches = [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)]
    return ((take(x, batch), take(y, batch)) for batch in batches)


def _some_rows(data, samples, random):
    """Returns `Batches` grouped by length and without the rows that are not drawn, whose batches become smaller."""
    planned = data.grouped().planned()
    count = sum(len(rows) for _, rows in planned)
    is_drawn = np.isin(np.arange(count), _drawn(count, samples, random))
    kept, start = [], 0
    for length, rows in planned:
        end = start + len(rows)
        drawn = np.asarray(rows)[is_drawn[start:end]]
        if len(drawn):
            kept.append((length, drawn))
        start = end
    return data.pinned(kept)


def _drawn(count, samples, random):
    """Returns the drawn ones of `count` rows in ascending order, or all of them."""
    whole = samples is None or samples >= count
    return np.arange(count) if whole else np.sort(random.choice(count, int(samples), replace=False))


def _arrays(values):
    """Returns a structure of arrays or tensors with NumPy arrays, or None. A list of numbers becomes one array."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)) and all(np.ndim(value) == 0 for value in values):
        return np.asarray(values)
    return keras.tree.map_structure(ops.convert_to_numpy, values)


def take(values, rows):
    """Returns rows of a structure of arrays, or None."""
    return None if values is None else keras.tree.map_structure(lambda array: array[rows], values)


def tensors(values):
    """Returns arrays, with string arrays converted to tensors because Keras does not accept them."""
    return keras.tree.map_structure(
        lambda array: ops.convert_to_tensor(array) if array.dtype.kind in "OSU" else array, values
    )


def times_of(weight, power=0.5):
    """Returns how many examples an example counts as, and the weight of its loss, whose gradient is squared."""
    if weight is None:
        return 1.0, None
    expect(np.all(weight >= 0), "Sample weights must not be negative.", smallest=float(np.min(weight)))
    different = set(weight[weight > 0].tolist())
    if len(different) > 1:  # These are weights of positions, not of the example.
        return 1.0, weight
    times = sum(different)
    return times, np.sign(weight).astype("float32") * times**power

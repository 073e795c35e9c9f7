"""The Fisher information of a model's weights: how much what a model says of a dataset depends on each of them."""

import os
import pathlib
import tempfile
from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_transfer.tasks.replicas import replicas_of
from keras_transfer.text import batches, is_text, to_columns

BATCH = 32  # rows that are preprocessed and predicted together; gradients are of single rows


class Fisher(dict):
    """A dict from the paths of weights to their Fisher information, float32 arrays of the weights' shapes.

    `estimate_fisher` makes it, and `EWC` takes it. It is plain data: files of it are read by any backend, and for
    several earlier tasks their arrays can be added.

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
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as scratch:
            new = pathlib.Path(scratch) / "new"
            with open(new, "wb") as file:  # an open file, to which numpy adds no suffix
                # Paths are no names of numpy's arrays: one of them may be `file`, its own argument.
                arrays = {f"weight_{i}": values for i, values in enumerate(self.values())}
                np.savez(file, paths=np.array(list(self), str), **arrays)
            os.replace(new, path)

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
    regularisation. With `labels="model"` each example's label is drawn from what the model itself predicts, which is the
    Fisher information proper; with `labels="data"` it is the one in the data, which is called the empirical one, and
    is next to zero where the model is sure and right.

    An example's gradient is computed by itself, so that this takes about as long as an epoch of `fit` with batches of
    one; a few hundred examples are usual. The model is left as it was. Under the policy `mixed_float16` small gradients
    vanish: estimate with a model in float32 or bfloat16.

    Args:
        model: a built `keras.Model`. By default its only output is logits [batch, ..., classes].
        x: examples as `fit` takes them: arrays, a dict or list of them, a dataset of batches of any size
            (`text.batches`, `PyDataset`, tf.data, an iterable); with a task also raw text. An example with sample
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
        ValueError: the model is not built, nothing in it trains, or two of its weights share a path; there are no data or
            no labels, or labels are out of range; the outputs are no logits; a gradient is not finite; several
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
    default = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    scorer.compile(optimizer, default if loss is None else loss, auto_scale_loss=False)
    own = {id(weight) for weight in model.weights}
    others = [variable for variable in [*model.variables, *model.metrics_variables] if id(variable) not in own]
    before = [ops.convert_to_numpy(variable).copy() for variable in others]
    count, total, classes = 0, 0.0, None
    try:
        for inputs, targets, weights in _batches(model, x, y, samples, random):
            if labels == "model" or (loss is None and classes is None):
                logits = scorer.predict_on_batch(_take(inputs, slice(None)))
                classes = _check_logits(logits)
            if labels == "model":
                targets = _draw(logits, random)
            elif targets is None:
                raise ValueError("labels='data' needs labels: `y`, or a dataset of `(x, y)`. Received: none")
            elif loss is None:
                _check_labels(targets, classes)
            for i in range(len(keras.tree.flatten(inputs)[0])):
                if count == samples:
                    break
                one, target, weight = (_take(part, slice(i, i + 1)) for part in (inputs, targets, weights))
                count += 1
                times, weight = _times(weight)
                if times > 0:
                    scorer.train_on_batch(one, target, weight)
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
        super().__init__(learning_rate=0.0)

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.squares = [self.add_variable(weight.shape, dtype="float32", name="squares") for weight in variables]

    def apply(self, grads, trainable_variables=None):
        for gradient, squares in zip(grads, self.squares):
            if gradient is not None:  # what the output does not depend on
                # TensorFlow's gradient of an embedding has a row for each token, and squares are of their sums. (What
                # is no tensor becomes one in a sum, not in `ops.convert_to_tensor`.)
                if hasattr(gradient, "indices") and hasattr(gradient, "values"):
                    gradient = ops.add(ops.zeros(squares.shape, gradient.dtype), gradient)
                squares.assign_add(ops.square(ops.cast(gradient, "float32")))


class _Scorer(keras.Model):
    """A model as it predicts, for a train step of its own: `compile` and `fit` of the model know nothing of it."""

    def __init__(self, model):
        super().__init__(autocast=False)
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


def _batches(model, x, y, samples, random):
    """`(x, y, weights)` for each batch, arrays with a row for each example, or None; text as the model takes it."""
    text, in_memory = is_text(x), isinstance(x, (Mapping, list, tuple)) or hasattr(x, "shape")
    if text or in_memory:
        yield from _batches_in_memory(model, x, y, samples, random)
        return
    if y is not None:
        raise ValueError(f"a dataset has its labels itself: `(x, y)`. Received: {type(x).__name__} and `y`")
    if isinstance(x, keras.utils.PyDataset):
        order = range(len(x)) if samples is None else random.permutation(len(x))
        x = (x[int(i)] for i in order)
    elif not hasattr(x, "__iter__"):
        raise ValueError(f"`x` must be arrays, a dict or list of them, texts or a dataset. Received: {x!r:.100}")
    for batch in x:
        inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(batch)
        if is_text(inputs) and getattr(model, "preprocessor", None) is not None:
            made = batches(inputs, labels, model.preprocessor, BATCH, shuffle=False, sample_weight=weights)
            yield from _batches(model, made, None, None, random)
        else:
            yield _arrays(inputs), _arrays(labels), _arrays(weights)


def _batches_in_memory(model, x, y, samples, random):
    preprocessor = getattr(model, "preprocessor", None)
    if is_text(x) and preprocessor is not None:
        x = to_columns(x)
    elif is_text(x) and isinstance(x, (list, tuple, str)):
        raise ValueError(
            "lists of texts are for a model with a `preprocessor`; one that takes strings itself takes an array of them. "
            f"Received: {type(x).__name__} {x!r:.100}"
        )
    x, y = _arrays(x), _arrays(y)
    counts = {len(values) if values.ndim else 0 for values in keras.tree.flatten([x, [] if y is None else y])}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(
            f"inputs and labels must be arrays with a row for each example. Received: {sorted(counts)} rows"
        )
    [count] = counts
    if samples is not None and samples < count:
        rows = random.choice(count, int(samples), replace=False)
        x, y = (keras.tree.map_structure(lambda values: values[rows], part) for part in (x, y) if part is not None)

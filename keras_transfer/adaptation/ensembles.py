"""Ensembles: several trained classifiers or regressors that answer as one model, with the mean of their outputs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.arrays import to_array
from keras_transfer.core.expect import expect, expects, instance_of, list_of, number, one_of
from keras_transfer.tasks import (
    ClassNames,
    Head,
    MultiHot,
    Numbers,
    SiameseReader,
    Signature,
    Task,
    TextClassifier,
    TextReader,
    TextRegressor,
    config_of_tasks,
    config_with_adapters,
    encode_parts,
    encode_texts,
    tasks_from_config,
)
from keras_transfer.text import JointPreprocessor

SHARES = list_of(number(0))
_MODEL = instance_of((TextClassifier, TextRegressor), "a `TextClassifier` or a `TextRegressor`")
_ROUNDS, _CONVERGED = 1000, 1e-8  # Limits of `_likeliest_shares`.


@keras.saving.register_keras_serializable(package="keras_transfer")
class Ensemble(Task):
    """Several trained models that answer as one: the mean of their probabilities, logits or numbers.

    The members may have different seeds, methods, encoders and tokenizers. Each reads the same texts with its own
    preprocessor. The ensemble is a task: `predict`, `predict_labels`, `predict_proba` and `evaluate` work without
    `compile`, a `.keras` file contains all members, and `serving.export` writes one SavedModel that accepts raw text.
    It does not train and never changes its members. Members that share an encoder still share it, also in files. If
    they have different adapters in it, each answers with those that it was last given.

    `predict` returns logits, whose softmax (or sigmoid, with `multi_label=True`) are the averaged probabilities. With
    `multi_label=True`, the thresholds are the means of those of the members.

    Args:
        models: List of `TextClassifier`s, or of `TextRegressor`s, with preprocessors. Classifiers have the same class
            names, in any order. The ensemble has the order of the first.
        weights: List of floats of at least 0 with the sum 1, the weight of each member in the mean. `tune_weights`
            finds them. Defaults to `None`, equal weights.
        average: String. What is averaged of classifiers, `"probabilities"` or `"logits"`. Defaults to
            `"probabilities"`.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Logits `[batch, num_classes]` or numbers `[batch, num_targets]`, float32.

    Raises:
        ValueError: If there are no models, if they differ in their task, options or classes, if some were trained on
            single texts and others on pairs, if one has no preprocessor, or if `weights` are not one number for each
            model, with the sum 1.

    Example:
    ```python
    classifier, names = keras_transfer.tasks.TextClassifier, ["bad", "good"]
    models = [classifier.from_pretrained("minilm-l6", label_names=names) for seed in range(2)]
    ensemble = keras_transfer.adaptation.Ensemble(models)
    ensemble.predict_proba(["A fine film."])  # the mean of both
    ```

    Source: Lakshminarayanan et al. 2017, https://arxiv.org/abs/1612.01474
    """

    answers = TextClassifier.answers
    # These call `predict` and `_probabilities`, and ask `labels`.
    predict_proba, predict_labels, labels_of = (
        TextClassifier.predict_proba,
        TextClassifier.predict_labels,
        TextClassifier.labels_of,
    )

    @expects(models=list_of(_MODEL, least=1), weights=SHARES, average=one_of("probabilities", "logits"))
    def __init__(
        self,
        models: Sequence[Task],
        *,
        weights: Sequence[float] | None = None,
        average: str = "probabilities",
        name: str | None = None,
    ) -> None:
        shares, orders, first = checked_shares(weights, len(models)), _checked_orders(models), models[0]
        classes, kind = first.label_names, None
        if classes is None:
            labels: Any = Numbers(first.num_targets)
        elif first.multi_label:
            thresholds = [np.array(model.thresholds)[order] for model, order in zip(models, orders)]
            labels, kind = MultiHot(classes, np.mean(thresholds, axis=0).tolist()), "sigmoid"
        else:
            labels, kind = ClassNames(classes), "softmax"
        members = [_Member(*parts, f"member_{i}") for i, parts in enumerate(zip(models, orders))]
        mean = _Mean(shares, None if average == "logits" else kind)

        inputs = [member.new_inputs(f"_{i}") for i, member in enumerate(members)]
        outputs = [member(dict(zip(member.inputs_of_task, given.values()))) for member, given in zip(members, inputs)]
        joined = keras.Model({name: each for given in inputs for name, each in given.items()}, outputs)
        reader = SiameseReader if first.siamese else TextReader
        preprocessor = JointPreprocessor([model.preprocessor for model in models])
        super().__init__(joined, reader(preprocessor), Head(mean(outputs), labels), name=name)
        object.__setattr__(self, "_parts", (members, mean))  # Keras must not track them a second time.
        self.average, self.siamese = average, first.siamese
        self.fitted_on = next((model.fitted_on for model in models if model.fitted_on), None)
        # With an optimizer, `fit` raises the error of `make_train_function`. This one has no slots.
        self.compile("sgd")

    @property
    def members(self) -> list:
        """List of the models, in the order in which they were given."""
        return [member.task for member in self._parts[0]]

    @property
    def member_weights(self) -> list[float]:
        """List of floats. The weight of each member in the mean."""
        return ops.convert_to_numpy(self._parts[1].shares).tolist()

    def make_train_function(self, force=False):
        raise ValueError(
            "An ensemble does not train. Train its members one by one, and create an ensemble of them. `tune_weights` "
            f"finds their weights. Received: an ensemble of {len(self.members)} models"
        )

    @expects()
    def tune_weights(self, x: Any, y: Any) -> list[float]:
        """Sets the weights of the members to those with the highest likelihood of the labels of validation data.

        They are the weights of a mixture, which expectation maximization finds from equal weights. Use data on which
        the members were not trained.

        Args:
            x: Texts, as for `predict`.
            y: Labels, as for `evaluate`.

        Returns:
            List of floats, the new `member_weights`. Saved and exported ensembles keep them.

        Raises:
            ValueError: If the ensemble does not average probabilities, if there are no texts, or if the labels are
                invalid.

        Example:
        ```python
        classifier, names = keras_transfer.tasks.TextClassifier, ["bad", "good"]
        models = [classifier.from_pretrained("minilm-l6", label_names=names) for seed in range(2)]
        ensemble = keras_transfer.adaptation.Ensemble(models)
        ensemble.tune_weights(["A fine film.", "What a bore."], ["good", "bad"])
        ```
        """
        members, mean = self._parts
        rule = "Only weights of probabilities can be tuned. Use classifiers and `average='probabilities'`."
        expect(mean.kind is not None, rule, average=self.average, label_names=self.label_names)
        labels = self.labels.encode(y)
        self.labels.check(labels)
        labels = to_array(labels)
        outputs = np.stack([member.predict(x) for member in members]).astype("float64")
        rule = "There must be a label for each text, and at least one text."
        expect(len(labels) == outputs.shape[1] > 0, rule, labels=len(labels), texts=outputs.shape[1])
        if mean.kind == "sigmoid":
            logs = -np.logaddexp(0, np.where(labels >= 0.5, -outputs, outputs)).reshape(len(members), -1)
        else:
            labels = labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)
            logs = outputs - np.logaddexp.reduce(outputs, axis=2, keepdims=True)
            logs = logs[:, np.arange(len(labels)), labels.astype(int)]
        mean.shares.assign(_likeliest_shares(logs))
        return self.member_weights

    def _probabilities(self, logits):
        rule = "Regressors have no classes. Use `predict`."
        expect(self.label_names is not None, rule, label_names=None)
        return ops.convert_to_numpy(self.labels.probabilities(logits))

    # === Export and files ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signature of an exported ensemble.

        Args:
            pairs: Boolean. Whether it accepts pairs of texts. Defaults to `False`.

        Returns:
            Dict of one `Signature`, `"serving_default"`, with the inputs and outputs of that of a member.

        Raises:
            ValueError: If a member does not match `pairs`.
        """
        encode = encode_parts if self.siamese else encode_texts

        def answer(**texts):
            return self.labels.response(self(encode(self, *texts.values()), training=False))

        own = self.members[0].signatures(pairs)["serving_default"]
        return {"serving_default": dataclasses.replace(own, function=answer)}

    def get_config(self):
        return {
            **config_of_tasks(self.members),
            "label_names": self.label_names,
            "weights": self.member_weights,
            "average": self.average,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        options = {name: config[name] for name in ("weights", "average", "name")}
        ensemble = cls(tasks_from_config(config, custom_objects), **options)
        if config["label_names"] is not None:
            ensemble.label_names = config["label_names"]
        return ensemble


class _Member(keras.layers.Layer):
    """A model of an ensemble, with its own adapters, on inputs of its own length, and with classes in a given order."""

    def __init__(self, task, order, name):
        super().__init__(name=name)
        self.task, self.order = task, order
        self.inputs_of_task = task.input if isinstance(task.input, dict) else {each.name: each for each in task.inputs}
        self.built = True

    def new_inputs(self, suffix):
        """Returns symbolic inputs like those of the model, by names with a suffix."""
        parts, symbols = (2,) if self.task.siamese else (), self.inputs_of_task.items()
        shapes = {name: (*parts, *symbol.shape[1:]) for name, symbol in symbols}
        return {
            name + suffix: keras.Input(shapes[name], dtype=symbol.dtype, name=name + suffix) for name, symbol in symbols
        }

    def call(self, inputs):
        # Other members may read more tokens than this one has positions for.
        longest = slice(getattr(self.task.preprocessor, "sequence_length", None))
        part = (slice(None), slice(None), longest) if self.task.siamese else (slice(None), longest)
        inputs = {name: values[part[: len(values.shape)]] for name, values in inputs.items()}
        with self.task.head_adapters.applying():
            return ops.take(self.task(inputs, training=False), self.order, axis=-1)

    @property
    def metrics(self):
        return []  # Those of a compiled model would replace the ones of the ensemble, which have the same names.

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.task.output.shape, "float32")

    def get_config(self):  # Stored outputs ask what the ensemble computes.
        return {"task": config_with_adapters(self.task), "order": self.order, "name": self.name}

    def predict(self, x):
        """Returns the outputs of the model for data as an array."""
        with self.task.head_adapters.applying():
            return self.task.predict(x, verbose=0)[:, self.order]


class _Mean(keras.layers.Layer):
    """The weighted mean of a list of outputs, or the logits of the weighted mean of their softmax or sigmoid."""

    def __init__(self, shares, kind):
        super().__init__(dtype="float32", name="mean")
        self.kind = kind
        self.shares = self.add_weight(name="shares", shape=(len(shares),), trainable=False)
        self.shares.assign(shares)
        self.built = True

    def call(self, outputs):
        outputs, shares = ops.stack(outputs), ops.reshape(ops.convert_to_tensor(self.shares), (-1, 1, 1))
        if self.kind is None:
            return ops.sum(shares * outputs, axis=0)
        if self.kind == "softmax":
            return ops.logsumexp(ops.log_softmax(outputs) + ops.log(shares), axis=0)
        yes, no = (ops.log_sigmoid(sign * outputs) + ops.log(shares) for sign in (1.0, -1.0))
        return ops.logsumexp(yes, axis=0) - ops.logsumexp(no, axis=0)

    def get_config(self):
        return {"kind": self.kind, "name": self.name}


def checked_shares(weights, count):
    """Returns weights of models as an array whose sum is 1, by default equal ones."""
    shares = np.full(count, 1 / count) if weights is None else np.array(weights, "float64")
    rule = f"`weights` must be {count} numbers with the sum 1, one for each model."
    expect(len(shares) == count and abs(shares.sum() - 1) < 1e-6, rule, weights=weights)
    return shares / shares.sum()


def _checked_orders(models):
    """Returns the position of each output of the first model in each of the models, as lists."""
    names, first = models[0].label_names, _kind_of(models[0])
    for place, model in enumerate(models):
        model.reader.require()
        rule, kind, own = "All models of an ensemble must be of the same kind.", _kind_of(model), model.label_names
        expect(kind == first, rule, received=f"{kind} at position {place}, and {first} before it")
        rule = "All models of an ensemble must have the same classes. Train them with the same `label_names`."
        expect({*(own or ())} == {*(names or ())}, rule, received=f"{own} at position {place}, and {names} before it")
    kinds = [model.fitted_on for model in models]
    rule = "All models of an ensemble must be trained on single texts, or all on pairs."
    expect(len({*kinds} - {None}) < 2, rule, fitted_on=kinds)
    return [
        [model.label_names.index(name) for name in names] if names else [*range(model.num_targets)] for model in models
    ]


def _kind_of(model):
    """Returns what the models of an ensemble must have in common, in words."""
    options = [name for name in ("multi_label", "siamese") if getattr(model, name, False)]
    kind = "a classifier" if model.label_names else f"a regressor of {model.num_targets}"
    return kind + "".join(f" with `{name}=True`" for name in options)


def _likeliest_shares(logs):
    """Returns the weights of a mixture with the highest likelihood, given log-likelihoods `[members, items]`."""
    likelihoods = np.exp(logs - logs.max(axis=0))
    shares = np.full(len(logs), 1 / len(logs))
    for _ in range(_ROUNDS):
        parts = shares[:, None] * likelihoods
        before, shares = shares, (parts / parts.sum(axis=0)).mean(axis=1)
        if np.abs(shares - before).max() < _CONVERGED:
            break
    return shares

"""A text classifier that follows the estimator protocol of scikit-learn, without importing it."""

import dataclasses
import inspect
import numbers
from typing import Any, Self

import keras
import numpy as np

from keras_transfer.adaptation import Recipe, fine_tune, get_recipe
from keras_transfer.core.expect import expect, expects
from keras_transfer.core.names import advice_on_label, check_spaces, did_you_mean
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import to_columns


@expects()
@dataclasses.dataclass(eq=False, repr=False)
class KerasTransferClassifier:
    """A `tasks.TextClassifier` as an estimator for scikit-learn's `cross_val_score`, `GridSearchCV` and `Pipeline`.

    `fit` loads the pretrained encoder and fine-tunes it with a new head, so each call starts from scratch. Training and
    prediction do not require scikit-learn.

    Args:
        source: String or path. The pretrained encoder, as for `TextClassifier.from_pretrained`. Defaults to
            `"minilm-l6"`.
        recipe: Name of a recipe, or an `adaptation.Recipe`. Defaults to `"bert"`.
        epochs: Integer. Number of epochs. Defaults to `None`, the value of the recipe.
        learning_rate: Float. Peak learning rate. Defaults to `None`, the value of the recipe.
        batch_size: Integer. Number of texts per batch. Defaults to `None`, the value of the recipe.
        sequence_length: Integer. Number of tokens to which texts are truncated. Defaults to `None`, the value of the
            checkpoint.
        random_state: Integer. Seed of the weights and of the order of the texts, with which `fit` calls
            `keras.utils.set_random_seed`. Defaults to `None`, which leaves the random state unchanged.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line per epoch). Defaults to `0`.

    Attributes:
        classes_: Array [classes]. The labels, sorted, after `fit`.
        n_features_in_: Integer. Number of columns of texts, 2 for pairs, after `fit`.
        model_: The `TextClassifier`, after `fit`.
        history_: Dict from metrics to their values in each epoch, after `fit`.

    Example:
    ```python
    classifier = keras_transfer.wrappers.KerasTransferClassifier("minilm-l6", epochs=1, random_state=0)
    classifier.fit(["What a film!", "What a bore.", "A fine film."], ["good", "bad", "good"])
    classifier.predict(["A bore."])
    ```
    """

    # scikit-learn's protocol: the constructor stores its arguments and checks nothing.
    source: Any = "minilm-l6"
    _: dataclasses.KW_ONLY
    recipe: str | Recipe = "bert"
    epochs: int | None = None
    learning_rate: float | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    random_state: Any = None
    verbose: str | int = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fine-tunes a new classifier.

        Args:
            X: List, array or table column of texts, or an array or a table with one column, or with two for pairs.
            y: List or array `[texts]` of labels: strings, integers or booleans.
            sample_weight: Array `[texts]` of floats. Weights of the texts. Defaults to `None`.

        Returns:
            The estimator.

        Raises:
            ValueError: If an argument of the constructor is invalid, if texts are not strings, if texts and labels
                differ in number, or if labels are fewer than two, of different types, fractions, or names that differ
                only in the spaces around them.
        """
        texts, labels = _columns(X), _labels(y)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"`y` must contain at least two different labels. Received: {classes.tolist()}")
        if classes.dtype.kind == "f" and len(fractions := classes[classes % 1 != 0]):
            raise ValueError(
                f"`y` must be classes.{advice_on_label(fractions[0])} Received: {fractions.tolist()!r:.100}"
            )
        if classes.dtype.kind == "U":
            check_spaces(classes.tolist(), "`y`")
        recipe = self._recipe()
        if self.random_state is not None:
            seed = self.random_state
            keras.utils.set_random_seed(int(seed) if isinstance(seed, numbers.Integral) else seed)
        model = TextClassifier.from_pretrained(
            self.source,
            sequence_length=self.sequence_length,
            head="new",
            label_names=[str(name) for name in classes],
            scalar_mix=recipe.scalar_mix,
        )
        names = [str(label) for label in labels]
        weights = None if sample_weight is None else np.asarray(sample_weight)
        history = fine_tune(model, texts, names, sample_weight=weights, recipe=recipe, verbose=self.verbose)
        self.classes_, self.model_, self.history_ = classes, model, history.history
        self.n_features_in_ = _count(texts)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probabilities of the classes.

        Args:
            X: Texts, as for `fit`.

        Returns:
            Float array `[texts, classes]`, in the order of `classes_`.

        Raises:
            ValueError: If the classifier was not fitted, if texts are not strings, or if `X` contains pairs and the
                data of `fit` did not, or vice versa.
        """
        if not hasattr(self, "model_"):
            raise ValueError(f"The classifier was not fitted. Call `fit` before `predict`. Received: {self}")
        texts = _columns(X)
        if len(texts) and _count(texts) != self.n_features_in_:
            raise ValueError(
                f"`X` must have as many columns of texts as in `fit`, {self.n_features_in_}. Received: {_count(texts)}"
            )
        return self.model_.predict_proba(texts)

    def predict(self, X: Any) -> np.ndarray:
        """Returns the most likely label of each text.

        Args:
            X: Texts, as for `fit`.

        Returns:
            Array `[texts]` of labels.

        Raises:
            ValueError: If the classifier was not fitted, if texts are not strings, or if `X` contains pairs and the
                data of `fit` did not, or vice versa.
        """
        places = self.predict_proba(X).argmax(axis=-1)
        return self.classes_[places]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy on texts and their labels.

        Args:
            X: Texts, as for `fit`.
            y: List or array `[texts]` of labels, of the same type as for `fit`.
            sample_weight: Array `[texts]` of floats. Weights of the texts. Defaults to `None`.

        Returns:
            Float between 0 and 1.

        Raises:
            ValueError: If the classifier was not fitted, if texts and labels differ in number, or if labels are strings
                and the labels of `fit` were numbers, or vice versa.
        """
        labels, predicted = _labels(y), self.predict(X)
        rule = "Each text must have a label."
        expect(len(labels) == len(predicted), rule, labels=len(labels), predicted=len(predicted))
        if len(labels) and (labels.dtype.kind == "U") != (self.classes_.dtype.kind == "U"):
            raise ValueError(
                f"Labels must have the same type as in `fit`, such as {self.classes_.tolist()[0]!r}. "
                f"Received: {labels.tolist()[0]!r:.100} at position 0"
            )
        return float(np.average(labels == predicted, weights=sample_weight))

    def _recipe(self):
        """Returns the recipe, changed by the given arguments of the constructor."""
        changes = {name: getattr(self, name) for name in ("epochs", "learning_rate", "batch_size")}
        changes = {name: value for name, value in changes.items() if value is not None}
        if isinstance(self.recipe, Recipe):
            return dataclasses.replace(self.recipe, **changes)
        return get_recipe(self.recipe, **changes)

    # === scikit-learn's protocol ===

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the arguments of the constructor.

        Args:
            deep: Boolean. Required by the protocol. It has no effect, because no argument is an estimator. Defaults to
                `True`.

        Returns:
            Dict from names to values.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Sets arguments of the constructor.

        Args:
            **params: Arguments of the constructor.

        Returns:
            The estimator.

        Raises:
            ValueError: If a name is unknown.
        """
        names = list(self.get_params())
        for name in params:
            if name not in names:
                hint = did_you_mean(name, names)
                raise ValueError(f"Unknown parameter. Expected one of {names}.{hint} Received: {name!r}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self):
        try:
            from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags
        except ImportError as error:
            raise ImportError(
                "The tags of an estimator require scikit-learn 1.6 or later. Install it with "
                "`pip install 'scikit-learn>=1.6'`."
            ) from error
        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(one_d_array=True, string=True),
            non_deterministic=self.random_state is None,
        )

    def __repr__(self):
        defaults = {name: value.default for name, value in inspect.signature(type(self)).parameters.items()}
        shown = [f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(shown)})"


def _labels(y):
    """Returns labels as an array [rows], after a check that all are strings or all are numbers."""
    shape = np.shape(y) if hasattr(y, "shape") else (len(y),)
    expect(len(shape) == 1 or shape[1:] == (1,), "`y` must have one label for each text.", y=shape)
    values = np.asarray(y).ravel().tolist() if hasattr(y, "shape") else list(y)
    values = [label.item() if isinstance(label, np.generic) else label for label in values]
    kind = str if values and isinstance(values[0], str) else numbers.Real
    for position, label in enumerate(values):
        if not isinstance(label, kind) or label != label:
            advice = advice_on_label(label) if label is None or label != label else ""
            raise ValueError(
                f"Labels must be strings or numbers, all of the same type, and none may be missing.{advice} "
                f"Received: {label!r:.100} at position {position}, {values[0]!r:.100} at position 0"
            )
    return np.array(values)


def _columns(X):
    """Returns texts as an array, or pairs of texts as a tuple of two arrays."""
    if isinstance(X, tuple):
        raise ValueError(
            "`X` must have one row for each text, and for pairs an array of shape [rows, 2], so that scikit-learn can "
            f"divide it. Received: a tuple of {len(X)} values"
        )
    rule = "`X` must be a list, an array or a table column of texts, neither a generator nor a sparse matrix."
    expect(hasattr(X, "__len__") and (not hasattr(X, "toarray")), rule, X=X)
    if not isinstance(X, str) and isinstance(next(iter(X), None), (list, tuple)):
        X = np.array(X, object)
    if getattr(X, "ndim", 1) != 2:
        return to_columns(X)
    columns = np.asarray(X, object)
    if columns.shape[1] not in (1, 2):
        raise ValueError(f"`X` must have one column of texts, or two for pairs. Received: {columns.shape[1]} columns")
    return to_columns(tuple(columns.T) if columns.shape[1] == 2 else columns[:, 0])


def _count(texts):
    """Returns the number of columns of texts that `_columns` returns."""
    return 2 if isinstance(texts, tuple) else 1

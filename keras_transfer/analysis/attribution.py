"""Why a model gives its answer: a score for each word, by gradients, by leaving words out, or by LIME and SHAP."""

import logging
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis.attribution_rows import Question, as_columns, ask, classes_of, each, split_text, tagged
from keras_transfer.analysis.attribution_view import Attributions
from keras_transfer.core.expect import expect, expects, instance_of, integer, number, one_of, raising
from keras_transfer.data import Batches, compiles_each_length
from keras_transfer.encoders import above, is_quantized
from keras_transfer.tasks import (
    CausalLM,
    Seq2SeqLM,
    SpanExtractor,
    Task,
    TextClassifier,
    TextRegressor,
    TokenClassifier,
    input_names,
)
from keras_transfer.training import gradient_of

log = logging.getLogger("keras_transfer")
_TASKS = (TextClassifier, TextRegressor, TokenClassifier, SpanExtractor, CausalLM, Seq2SeqLM)
_GRADIENTS = ("integrated_gradients", "gradient_x_input", "smoothgrad")
_METHODS = (*_GRADIENTS, "occlusion", "erasure", "lime", "shap")
_RULES = ("gauss_legendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid")
_TOLERANCE = 0.01  # Part of the difference between two outputs that scores may miss before there is a warning.


@expects(
    model=instance_of(_TASKS, f"one of the tasks {[task.__name__ for task in _TASKS]}"),
    method=one_of(*_METHODS),
    baseline=one_of("pad", "mask", "zero"),
    steps=integer(2),
    rule=one_of(*_RULES),
    layer=integer(0),
    samples=integer(1),
    noise=number(0),
    output=one_of("logit", "probability"),
    batch_size=integer(1),
    seed=integer(0),
)
def attribute(
    model: Task,
    x: Any,
    *,
    method: str = "integrated_gradients",
    target: Any = None,
    baseline: str = "pad",
    steps: int = 50,
    rule: str = "gauss_legendre",
    layer: int = 0,
    samples: int = 20,
    noise: float = 0.1,
    output: str = "logit",
    batch_size: int = 64,
    seed: int = 0,
) -> Attributions:
    r"""Returns how much each word of a text adds to an output of a model.

    Integrated gradients distribute the difference between the output for the text and the output for a baseline, a text
    without words, among the tokens:

    `score = sum((states - baseline) * mean over a of gradient(baseline + a * (states - baseline)))`

    The scores of a text then sum to that difference. `delta` is what the sum misses, which more steps make smaller.
    Other methods say what happens if a token is hidden (`"occlusion"`) or a word deleted (`"erasure"`), which is not
    the same question: a model that has seen no such texts may answer anything.

    Args:
        model: `TextClassifier`, `TextRegressor`, `TokenClassifier`, `SpanExtractor`, `CausalLM` or `Seq2SeqLM` with a
            preprocessor.
        x: Texts, pairs of texts as a tuple of two columns, or sentences as lists of words, as for `predict`. Questions
            and contexts for a `SpanExtractor`. Prompts or sources for models that generate.
        method: String. `"integrated_gradients"`, `"gradient_x_input"`, `"smoothgrad"` (the gradient times the vectors,
            as a mean over noise), `"occlusion"`, `"erasure"`, or `"lime"` and `"shap"`, which require these packages.
        target: What to explain. For a classifier, a class; for a regressor with several numbers, the position of one;
            for a tagger, the position of a word or `(position, label)`; for a model that generates, the generated text,
            each token of which becomes a row. Or a list with one for each text. Defaults to `None`, the answer of the
            model, which a tagger does not have without a word.
        baseline: String. The text without words: `"pad"` or `"mask"` replaces each token that is not special,
            and `"zero"` is a vector of zeros instead of each. Defaults to `"pad"`.
        steps: Integer, at least 2. Number of gradients of integrated gradients. Defaults to `50`.
        rule: String. How their mean is weighted: `"gauss_legendre"`, `"riemann_left"`, `"riemann_middle"`,
            `"riemann_right"` or `"riemann_trapezoid"`. Defaults to `"gauss_legendre"`.
        layer: Integer. The hidden state of the encoder whose vectors are explained: 0 for the embeddings (with their
            positions), and from 1 for the outputs of the blocks. Defaults to `0`.
        samples: Integer. Number of noisy copies of SmoothGrad, 50 times as many texts of LIME, and 10 times as many of
            SHAP. Defaults to `20`.
        noise: Float. Standard deviation of SmoothGrad's noise, as a part of the range of a text's vectors. Defaults to
            `0.1`.
        output: String. `"logit"`, or `"probability"` for classifiers, taggers and models that generate. LIME and SHAP
            explain probabilities. Defaults to `"logit"`.
        batch_size: Integer. Number of rows that the model computes at once. Defaults to `64`.
        seed: Integer. Seed of noise, LIME and SHAP. Defaults to `0`.

    Returns:
        `Attributions`.

    Raises:
        ValueError: If the task or its form does not fit the method, if a target does not exist, or if the outputs do
            not depend on the hidden state.
        ImportError: If `lime` or `shap` is not installed.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    why = keras_transfer.analysis.attribute(model, ["A fine film."], target="good", steps=20)
    why.words[0], why.word_scores[0], why.delta  # ["A", "fine", "film", "."], [...], [...]
    ```

    Source: Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365; SmoothGrad, https://arxiv.org/abs/1706.03825;
    occlusion, https://arxiv.org/abs/1311.2901; erasure, https://arxiv.org/abs/1612.08220.
    """
    rule_of = "A quantized model has no gradients. Use 'occlusion' or 'erasure'."
    expect(method not in _GRADIENTS or not is_quantized(model), rule_of, method=method)
    has_classes = isinstance(model, (TextClassifier, TokenClassifier, CausalLM, Seq2SeqLM))
    rule_of = "`output='probability'` requires a task that predicts classes or tokens."
    expect(output == "logit" or has_classes, rule_of, model=type(model).__name__)
    x = as_columns(x)
    if method in ("erasure", "lime", "shap"):
        words = _Words(model, x, target, output if method == "erasure" else "probability")
        found = _leave_out(words) if method == "erasure" else _by_package(words, method, samples, seed)
        return Attributions(method=method, output=words.output, removes=words, **found)
    question = ask(model, x, target)
    kind = None if output == "logit" else "sigmoid" if getattr(model, "multi_label", False) else "softmax"
    pieces = _Pieces(model, question, kind, "pad" if baseline == "zero" else baseline, batch_size)
    if method == "occlusion":
        return Attributions(method=method, output=output, removes=pieces, **_leave_out(pieces))
    path = _Path(model, layer, kind, baseline == "zero" or method != "integrated_gradients")
    points, weights = np.ones(1), np.ones(1)
    if method == "integrated_gradients":
        points, weights = rule_points(rule, steps)
    elif method == "smoothgrad":
        points, weights = np.ones(samples), np.full(samples, 1 / samples)
    noise = noise if method == "smoothgrad" else 0.0
    scores, values = _along(path, pieces, points, weights, noise, batch_size, seed)
    found = {"scores": scores, "prediction": values[:, 0]}
    if method == "integrated_gradients":
        changes = values[:, 0] - values[:, 1]
        found |= {"baseline_prediction": values[:, 1], "delta": np.array([one.sum() for one in scores]) - changes}
        wrong = np.flatnonzero(np.abs(found["delta"]) > _TOLERANCE * np.maximum(np.abs(changes), 1e-3))
        if len(wrong):
            log.warning(
                "The scores of %d of %d rows miss more than %.0f%% of the difference between their output and that of "
                "the baseline, such as %.3g of %.3g in row %d. Use more `steps`, such as %d.",
                *(len(wrong), len(values), 100 * _TOLERANCE, found["delta"][wrong[0]], changes[wrong[0]], wrong[0]),
                4 * steps,
            )
    return Attributions(method=method, output=output, removes=pieces, **found)


def rule_points(rule, steps):
    """Returns the points between 0 and 1 at which a rule computes gradients, and their weights, which sum to 1."""
    if rule == "gauss_legendre":
        points, weights = np.polynomial.legendre.leggauss(steps)
        return (points + 1) / 2, weights / 2
    if rule == "riemann_trapezoid":
        weights = np.full(steps, 1 / (steps - 1))
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, steps), weights
    shift = {"riemann_left": 0.0, "riemann_middle": 0.5, "riemann_right": 1.0}[rule]
    return (np.arange(steps) + shift) / steps, np.full(steps, 1 / steps)


# === Gradients ===


def _picked(outputs, places, kind):
    """Returns the sum of some outputs of each row, given their places `[rows, outputs, axes]`."""
    outputs = ops.cast(outputs, "float32")
    outputs = outputs if kind is None else ops.softmax(outputs) if kind == "softmax" else ops.sigmoid(outputs)
    shape, place = ops.shape(outputs), places[..., 0]
    for axis in range(2, len(shape)):
        place = place * shape[axis] + places[..., axis - 1]
    return ops.sum(ops.take_along_axis(ops.reshape(outputs, (shape[0], -1)), place, axis=1), axis=1)


class _Path(keras.Model):
    """The gradients, or the outputs, on the straight way from the vectors of a baseline to those of a text.

    Args:
        from_zero: Boolean. Whether the way begins at zeros.
    """

    def __init__(self, model, layer, kind, from_zero):
        super().__init__(name="path", autocast=False)
        states, self.upper = above(model, layer, "Use another `layer`, or 'occlusion' or 'erasure'.")
        self.lower = keras.Model(model.input, states)
        self.kind, self.from_zero, self.names, self.built = kind, from_zero, input_names(model), True

    def call(self, data):
        rows, points = data["rows"], data["points"]
        # The inputs of a task need not be a dict.
        states, start = (ops.cast(self.lower(data[name]), "float32") for name in ("rows", "baseline"))
        start = ops.zeros_like(states) if self.from_zero else start
        count, steps = ops.shape(states)[0], ops.shape(points)[0]
        real = ops.cast(rows["padding_mask"], "float32")[..., None] if "padding_mask" in rows else 1.0
        spread = real * states
        spread = ops.max(spread, axis=(1, 2), keepdims=True) - ops.min(spread, axis=(1, 2), keepdims=True)
        change = states - start
        path = start[:, None] + points[:, None, None] * change[:, None] + spread[:, None] * data["noise"]
        path = ops.reshape(path, (-1, *ops.shape(states)[1:]))
        others = [ops.repeat(rows[name], steps, axis=0) for name in self.names]
        places = ops.repeat(data["places"], steps, axis=0)

        def values(path):
            path = ops.cast(path, self.lower.output.dtype)
            return _picked(self.upper([path, *others], training=False), places, self.kind)

        if "weights" not in data:
            return ops.reshape(values(path), (count, steps))
        gradients = ops.reshape(gradient_of(lambda path: ops.sum(values(path)), path), (count, steps, -1))
        mean = ops.sum(gradients * data["weights"][:, None], axis=1)
        return ops.sum(ops.reshape(mean, ops.shape(states)) * change, axis=-1)


def _along(path, pieces, points, weights, noise, batch_size, seed):
    """Returns the scores of the tokens of each row, and its outputs for the text and for the baseline `[rows, 2]`."""
    inputs, random = pieces.question.inputs, np.random.default_rng(seed)
    replaced = pieces.replaced(np.arange(len(pieces.lengths)), [None] * len(pieces.lengths))
    steps, width = min(len(points), batch_size), path.lower.output.shape[-1]
    extra = -len(points) % steps  # Each call has as many points as the others, the last ones with a weight of 0.
    points, weights = (np.pad(values.astype("float32"), (0, extra)) for values in (points, weights))
    scores: list[Any] = [None] * len(pieces.lengths)
    outputs = np.zeros((len(scores), 2))
    shape = (len(points), next(iter(inputs.values())).shape[1], width) if noise else (len(points), 1, 1)
    noises = (noise * random.normal(size=shape)).astype("float32")
    for rows, length in batches_of(inputs, max(batch_size // steps, 1)):
        data = {
            "rows": cut(inputs, rows, length),
            "baseline": cut(replaced, rows, length),
            "places": pieces.question.places[rows].astype("int32"),
        }
        ends = {**data, "points": np.array([1.0, 0.0], "float32"), "noise": np.zeros((2, 1, 1), "float32")}
        outputs[rows] = path.predict_on_batch(ends)
        total = 0.0
        for begin in range(0, len(points), steps):
            part = slice(begin, begin + steps)
            own = {"points": points[part], "weights": weights[part], "noise": noises[part, :length]}
            total = total + path.predict_on_batch({**data, **own})
        for row, found in zip(rows, total):
            scores[row] = found[: pieces.lengths[row]]
    return scores, outputs


def batches_of(inputs, size):
    """Yields the rows of batches of the same size, in which rows may occur again, and the length of the longest."""
    data = Batches.of(inputs, batch_size=size).grouped()
    for length, rows in (data.few_lengths() if compiles_each_length() else data).planned():
        yield np.resize(rows, size), length if "padding_mask" in inputs else None


def cut(inputs, rows, length):
    """Returns rows of inputs without padding at their end. A decoder has lengths of its own."""
    return {name: v[rows] if name.startswith("decoder_") else v[rows, :length] for name, v in inputs.items()}


# === Leaving out ===


class _Pieces:
    """Rows of tokens, some of which can be hidden: replaced by the token of a baseline."""

    def __init__(self, model, question, kind, baseline, batch_size):
        self.question, self.batch_size = question, batch_size
        self.lengths = [len(tokens) for tokens in question.tokens]
        source = model.preprocessor
        self.token = getattr(source, f"{baseline}_id", 0 if baseline == "pad" else None)
        rule = "The vocabulary has no mask token. Use `baseline='pad'`."
        expect(self.token is not None, rule, baseline=baseline)
        self.values = _Values(model, kind)

    def replaced(self, rows, places):
        """Returns the inputs of some rows in which tokens are replaced: those at some places, or all for `None`."""
        inputs = {name: values[rows] for name, values in self.question.inputs.items()}
        name = "character_ids" if "character_ids" in inputs else "token_ids"
        inputs[name] = inputs[name].copy()
        for ids, row, own in zip(inputs[name], rows, places):
            own = np.flatnonzero(~self.question.fixed[row]) if own is None else own
            ids[own] = 0 if name == "character_ids" else self.token
        return inputs

    def outputs(self, rows, places):
        """Returns the output of each row in which the tokens at some places are replaced."""
        inputs, found = self.replaced(rows, places), np.zeros(len(rows))
        for chosen, length in batches_of(inputs, min(self.batch_size, len(rows))):
            data = {"rows": cut(inputs, chosen, length), "places": self.question.places[rows][chosen].astype("int32")}
            found[chosen] = self.values.predict_on_batch(data)
        return found


class _Values(keras.Model):
    """The outputs of a task that are asked for."""

    def __init__(self, model, kind):
        super().__init__(name="values", autocast=False)
        self.plain, self.kind, self.built = keras.Model(model.input, model.output), kind, True

    def call(self, data):
        return _picked(self.plain(data["rows"], training=False), data["places"], self.kind)


def _leave_out(source):
    """Returns the difference that each token, or each word, makes if it is left out of its row."""
    rows = np.arange(len(source.lengths))
    fixed = source.question.fixed
    places = [(row, place) for row in rows for place in np.flatnonzero(~fixed[row])]
    whole = source.outputs(rows, [[] for _ in rows])
    found = source.outputs(np.array([row for row, _ in places]), [[place] for _, place in places])
    scores = [np.zeros(length) for length in source.lengths]
    for (row, place), value in zip(places, found):
        scores[row][place] = whole[row] - value
    return {"scores": scores, "prediction": whole}


class _Words:
    """Texts, some of whose words can be deleted before the model reads them."""

    def __init__(self, model, x, target, output):
        rule = "Words can be deleted for classifiers, regressors, taggers and a `Seq2SeqLM`. Use 'occlusion'."
        known = (TextClassifier, TextRegressor, TokenClassifier, Seq2SeqLM)
        expect(isinstance(model, known), rule, model=type(model).__name__)
        self.model, self.output = model, output
        columns = model.reader.columns(x)
        self.columns = columns if isinstance(columns, tuple) else (columns,)
        count = len(self.columns[0])
        self.is_tagger, self.writes = isinstance(model, TokenClassifier), isinstance(model, Seq2SeqLM)
        if self.is_tagger:
            self.spans = [[(place, place + 1) for place in range(len(row))] for row in self.columns[0]]
            self.asked = [tagged(model, self.columns[0], row, one) for row, one in enumerate(each(target, count))]
            words = [list(row) for row in self.columns[0]]
        else:
            spans = [[split_text(model.preprocessor, text) for text in column] for column in self.columns]
            self.spans = [[(i, *span) for i, own in enumerate(row) for span in own] for row in zip(*spans)]
            words = [[self.columns[i][row][a:b] for i, a, b in own] for row, own in enumerate(self.spans)]
        self.lengths, rows = [len(own) for own in words], np.arange(count)
        if self.writes:
            self.asked = model.generate(list(columns)) if target is None else each(target, count)
            names = self.asked
        else:
            outputs = self._predict(rows, [[] for _ in rows])
            given = [label for _, label in self.asked] if self.is_tagger else target
            self.places, names = classes_of(model, outputs, given)
            if self.is_tagger:
                names = [f"{words[i][self.asked[i][0]]}: {name}" for i, name in enumerate(names)]
        fixed = [np.zeros(length, bool) for length in self.lengths]
        if self.is_tagger:  # Without the word, there is nothing to label.
            for row, (word, _) in enumerate(self.asked):
                fixed[row][word] = True
        owners = [np.arange(length) for length in self.lengths]
        self.question = Question({}, None, names, words, words, owners, fixed)

    def without(self, row, places):
        """Returns the columns of a row, or its words, without the words at some places."""
        if self.is_tagger:
            return ([word for place, word in enumerate(self.columns[0][row]) if place not in places],)
        texts = [column[row] for column in self.columns]
        for place in sorted(places, reverse=True):
            column, start, end = self.spans[row][place]
            text = texts[column]
            before = text[:start].rstrip()
            texts[column] = before + text[end:] if before else text[end:].lstrip()
        return tuple(texts)

    def _predict(self, rows, places):
        """Returns the outputs of the model for rows without some words, an array `[rows, classes]`."""
        columns = tuple(map(list, zip(*map(self.without, rows, places))))
        outputs = self.model.predict(columns if len(columns) > 1 else columns[0], verbose=0)
        if not self.is_tagger:
            return np.asarray(outputs)
        words = [self.asked[row][0] for row in rows]
        words = [word - sum(place < word for place in own) for word, own in zip(words, places)]
        return np.stack([found[word] for found, word in zip(outputs, words)])

    def probabilities(self, rows, places):
        """Returns the probabilities of all classes, or other outputs, of rows without some words."""
        outputs = self._predict(rows, places)
        if self.output == "logit":
            return outputs
        if getattr(self.model, "multi_label", False):
            return 1 / (1 + np.exp(-outputs))
        odds = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return odds / odds.sum(axis=-1, keepdims=True)

    def outputs(self, rows, places):
        """Returns the output that is asked for of each row without the words at some places."""
        if self.writes:
            texts = [self.without(row, own)[0] for row, own in zip(rows, places)]
            found = self.model.score(texts, [self.asked[row] for row in rows])
            return np.asarray(getattr(found, "log_likelihoods", found))
        return np.take_along_axis(self.probabilities(rows, places), self.places[rows][:, None], axis=1)[:, 0]


def _by_package(words, method, samples, seed):
    """Returns the scores of LIME or SHAP for words, which they leave out of the texts many times."""
    rule = f"`method='{method}'` explains a `TextClassifier`."
    expect(isinstance(words.model, TextClassifier), rule, model=type(words.model).__name__)
    with raising(
        f"This method requires {method}. Install it with `pip install {method}`.", ImportError, error=ImportError
    ):
        package = __import__("lime.lime_text" if method == "lime" else "shap")
    scores = []
    for row, (length, place) in enumerate(zip(words.lengths, words.places)):
        explain = _of_lime if method == "lime" else _of_shap

        def outputs(kept, row=row, place=place):
            left_out = [np.flatnonzero(~np.asarray(one, bool)).tolist() for one in kept]
            return words.probabilities([row] * len(left_out), left_out)

        scores.append(explain(package, outputs, length, int(place), samples, seed))
    rows = np.arange(len(words.lengths))
    return {"scores": scores, "prediction": words.outputs(rows, [[] for _ in rows])}


def _of_lime(lime, outputs, length, place, samples, seed):
    """Returns the weights of LIME's linear model, in which a text has its words as names of their positions."""

    def classify(texts):
        present = [{int(name) for name in text.split()} for text in texts]
        return outputs([[place in own for place in range(length)] for own in present])

    explainer = lime.lime_text.LimeTextExplainer(bow=True, split_expression=r"\s+", random_state=seed)
    names = " ".join(map(str, range(length)))
    found = explainer.explain_instance(names, classify, labels=[place], num_features=length, num_samples=50 * samples)
    scores = np.zeros(length)
    for name, weight in found.as_list(label=place):
        scores[int(name)] = weight
    return scores


def _of_shap(shap, outputs, length, place, samples, seed):
    """Returns Shapley values, estimated from random orders of the words."""
    explainer = shap.explainers.Permutation(lambda kept: outputs(kept)[:, place], np.zeros((1, length)), seed=seed)
    found = explainer(np.ones((1, length)), max_evals=max(10 * samples, 2 * length + 1), silent=True)
    return found.values[0]

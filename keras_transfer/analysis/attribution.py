"""Why a model gives its answer: a score for each word, by gradients, by leaving words out, or by LIME and SHAP."""

import functools
import importlib
import logging
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis.attribution_rows import ask, ask_without
from keras_transfer.analysis.attribution_view import Attributions
from keras_transfer.core.expect import (
    NotApplicableError,
    expect,
    expects,
    instance_of,
    integer,
    number,
    one_of,
    raising,
)
from keras_transfer.data import Batches, compiles_each_length
from keras_transfer.encoders import above, is_quantized
from keras_transfer.keras_internals import predict_batch
from keras_transfer.tasks import (
    CausalLM,
    Seq2SeqLM,
    SpanExtractor,
    TextClassifier,
    TextRegressor,
    TokenClassifier,
    input_names,
)
from keras_transfer.training import gradient_of

log = logging.getLogger("keras_transfer")
_TASKS = (TextClassifier, TextRegressor, TokenClassifier, SpanExtractor, CausalLM, Seq2SeqLM)
_GRADIENTS = ("integrated_gradients", "gradient_x_input", "smoothgrad")
_COPIES = {"smoothgrad": 20, "lime": 1000, "shap": 20}  # Number of changed copies of a text; of SHAP for each word.
_TOGETHER = 64  # Number of rows whose tokens are left out at once.
_TOLERANCE = 0.01  # Part of the difference between two outputs that scores may miss before there is a warning.


@expects(
    model=instance_of(_TASKS, f"one of the tasks {[task.__name__ for task in _TASKS]}", NotApplicableError),
    method=one_of(*_GRADIENTS, "occlusion", "erasure", "lime", "shap"),
    baseline=one_of("pad", "mask", "zero"),
    steps=integer(2),
    samples=integer(1),
    noise=number(0),
    output=one_of("logit", "probability"),
    batch_size=integer(1),
)
def attribute(
    model: Any,
    x: Any,
    *,
    method: str = "integrated_gradients",
    target: Any = None,
    baseline: str = "pad",
    steps: int = 50,
    layer: int = 0,
    samples: int | None = None,
    noise: float = 0.1,
    output: str = "logit",
    batch_size: int = 64,
    seed: int = 0,
    verbose: str | int = "auto",
) -> Attributions:
    r"""Returns how much each word of a text adds to an output of a model.

    Integrated gradients distribute the difference between the output for the text and the output for a baseline, a text
    without words, among the tokens:

    `score = sum((states - baseline) * mean over a of gradient(baseline + a * (states - baseline)))`

    The scores of a text then sum to that difference. `delta` is what the sum misses, which more steps make smaller.
    Other methods say what happens without a token (`"occlusion"`) or words (`"erasure"`, `"lime"`, `"shap"`).

    Args:
        model: `TextClassifier`, `TextRegressor`, `TokenClassifier`, `SpanExtractor`, `CausalLM` or `Seq2SeqLM` with a
            preprocessor.
        x: Texts, pairs of texts (or questions and contexts) as a tuple of two columns, or sentences as lists of words,
            as for `predict`. Prompts or sources for models that generate.
        method: String. `"integrated_gradients"`, `"gradient_x_input"`, `"smoothgrad"` (its mean over noise),
            `"occlusion"`, `"erasure"`, or `"lime"` and `"shap"`, which require these packages.
        target: What to explain. For a classifier, a class; for a regressor with several numbers, the position of one;
            for a tagger, the position of a word or `(position, label)`; for a model that generates, the generated text,
            each token of which becomes a row. Or a list with one for each text. Defaults to the answer of the model,
            for a tagger to its most likely label of a word that is not the most frequent one of all texts.
        baseline: String. The text without words: `"pad"` or `"mask"` replaces each token that is not special, and
            `"zero"`, for integrated gradients, is zeros in place of all vectors. Defaults to `"pad"`.
        steps: Integer, at least 2. Number of gradients of integrated gradients, whose mean is weighted by Gauss and
            Legendre's rule. Defaults to `50`.
        layer: Integer. The hidden state of the encoder whose vectors are explained: 0 for the embeddings (with their
            positions), and from 1 for the outputs of the blocks. Defaults to `0`.
        samples: Integer. Number of changed copies of a text that SmoothGrad, LIME and SHAP compute. Defaults to `None`:
            20, 1000, and 20 for each word of the text. SHAP requires more than two for each word.
        noise: Float. Standard deviation of SmoothGrad's noise, as a part of the range of a text's vectors.
        output: String. `"logit"`, or `"probability"` for classifiers, taggers and models that generate. Methods that
            delete words explain the log-likelihood, or the likelihood, of the whole text that a `Seq2SeqLM` writes.
        batch_size: Integer. Number of rows that the model computes at once. Defaults to `64`.
        seed: Integer. Seed of noise, LIME and SHAP. Defaults to `0`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar with the time left) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `Attributions`.

    Raises:
        ValueError: If the task or its form does not fit the method, if a target does not exist, if the outputs do not
            depend on the hidden state, or if they or their gradients are not finite.
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
    rule = "A quantized model has no gradients. Use 'occlusion' or 'erasure'."
    expect(method not in _GRADIENTS or not is_quantized(model), rule, error=NotApplicableError, method=method)
    rule = "`baseline='zero'` is for integrated gradients."
    expect(baseline != "zero" or method == "integrated_gradients", rule, method=method)
    has_numbers = isinstance(model, (TextRegressor, SpanExtractor))
    rule = "`output='probability'` requires a task that predicts classes or tokens."
    expect(output == "logit" or not has_numbers, rule, model=type(model).__name__)
    kind = None if output == "logit" else "sigmoid" if getattr(model, "multi_label", False) else "softmax"
    if isinstance(x, tuple):
        x = tuple([part] if isinstance(part, str) else part for part in x)
    x = [x] if isinstance(x, str) else x
    if method in ("erasure", "lime", "shap"):
        question, without = ask_without(model, x, target, kind)
    else:
        question = ask(model, x, target)
        name, missing = ("mask_id", None) if baseline == "mask" else ("pad_id", 0)
        token = getattr(model.preprocessor, name, missing)
        expect(token is not None, "The vocabulary has no mask token. Use `baseline='pad'`.", baseline=baseline)
        from_zero = baseline == "zero" or method != "integrated_gradients"
        without = functools.partial(_outputs_without, _asked(model, kind), question, token, batch_size)
    rows = np.arange(len(question.owners))
    bar = keras.utils.Progbar(len(rows), verbose=1 if verbose == "auto" else verbose, unit_name="row")
    more: tuple = (None, None)  # The outputs for the baseline, and what scores miss.
    if method in _GRADIENTS:
        points, weights = np.ones(1), np.ones(1)  # The text itself.
        if method == "smoothgrad":
            copies = samples or _COPIES["smoothgrad"]
            points, weights = np.ones(1 + copies), np.array([0.0, *np.full(copies, 1 / copies)])
        elif method == "integrated_gradients":  # By Gauss and Legendre's rule from -1 to 1, after the two ends.
            points, weights = np.polynomial.legendre.leggauss(steps)
            points, weights = np.array([1.0, 0.0, *(points + 1) / 2]), np.array([0.0, 0.0, *weights / 2])
        replaced = _replaced(question, token, rows, [np.flatnonzero(owner >= 0) for owner in question.owners])
        noise, asked = noise if method == "smoothgrad" else 0.0, _asked(model, kind, layer, from_zero)
        scores, values = _along(asked, question, replaced, points, weights, noise, batch_size, seed, bar)
        prediction = values[:, 0]
        if method == "integrated_gradients":
            changes = prediction - values[:, 1]
            more = values[:, 1], np.array([one.sum() for one in scores]) - changes
            wrong = np.flatnonzero(np.abs(more[1]) > _TOLERANCE * np.maximum(np.abs(changes), 1e-3))
            if len(wrong):
                log.warning(
                    "The scores of %d of %d rows miss more than %.0f%% of the difference between their output and that "
                    "of the baseline, such as %.3g of %.3g in row %d. Use more `steps`, such as %d.",
                    *(len(wrong), len(rows), 100 * _TOLERANCE, more[1][wrong[0]], changes[wrong[0]], wrong[0]),
                    4 * steps,
                )
    else:
        prediction = without(rows, [[] for _ in rows])
        if method in ("occlusion", "erasure"):
            scores = _leave_out_each(without, question.owners, prediction, bar)
        else:
            scores = _by_package(without, question.owners, method, samples, seed, bar)
    rule = "The outputs of the model, and their gradients, must be finite."
    expect(np.isfinite(np.concatenate([prediction, *scores])).all(), rule, outputs=prediction, scores=scores)
    words = (question.targets, question.tokens, question.words, question.owners)
    return Attributions(method, output, *words, scores, prediction, without, *more)


def _asked(model, *how):
    """Returns an `_Asked` of a task, which is kept with its trace."""
    return model.derived(("attribute", *how), lambda: _Asked(model, *how))


class _Asked(keras.Model):
    """The sum of the outputs that are asked for, of a text, or at points between it and a baseline with its scores."""

    def __init__(self, model, kind, layer=None, from_zero=False):
        super().__init__(name="asked", autocast=False)
        tensors = model.input.values() if isinstance(model.input, dict) else model.inputs
        self.tensors, self.kind, self.from_zero = dict(zip(input_names(model), tensors)), kind, from_zero
        self.built = True
        if layer is None:
            self.upper, self.lower = keras.Model(model.input, model.output), None
        else:
            states, self.upper = above(model, layer, "Use another `layer`, or 'occlusion' or 'erasure'.")
            self.lower = keras.Model(model.input, states)

    @property
    def input(self):
        """Dict of the symbolic inputs of the task, from which `predict_batch` knows the axes of rows."""
        return self.tensors

    def call(self, data):
        rows, places = data["rows"], data["places"]  # The inputs of a task need not be a dict.
        if self.lower is None:
            return self._sums(self.upper(rows, training=False), places)
        states = ops.cast(self.lower(rows), "float32")
        change = states if self.from_zero else states - ops.cast(self.lower(data["baseline"]), "float32")
        count, steps = ops.shape(states)[0], ops.shape(data["points"])[0]
        real = ops.cast(rows["padding_mask"], "float32")[..., None] if "padding_mask" in rows else 1.0
        spread = ops.max(real * states, (1, 2), keepdims=True) - ops.min(real * states, (1, 2), keepdims=True)
        path = states[:, None] + (data["points"][:, None, None] - 1) * change[:, None]
        path = ops.reshape(path + spread[:, None] * data["noise"], (-1, *ops.shape(states)[1:]))
        others = [ops.repeat(rows[name], steps, axis=0) for name in self.tensors]  # JAX sorts a dict.
        places = ops.repeat(places, steps, axis=0)

        def values(path):
            path = ops.cast(path, self.lower.output.dtype)
            return self._sums(self.upper([path, *others], training=False), places)

        gradients, outputs = gradient_of(values, path)
        gradients, weights = ops.reshape(gradients, (count, steps, -1)), data["weights"][:, None]
        gradients = ops.where(weights != 0, gradients * weights, 0.0)  # There may be no gradient at the baseline.
        mean = ops.reshape(ops.sum(gradients, axis=1), ops.shape(states))
        return {"scores": ops.sum(mean * change, axis=-1), "outputs": ops.reshape(outputs, (count, steps))}

    def _sums(self, outputs, places):
        """Returns the sum of some outputs of each row, given their places `[rows, outputs, axes]`."""
        outputs = ops.cast(outputs, "float32")
        if self.kind is not None:
            outputs = ops.softmax(outputs) if self.kind == "softmax" else ops.sigmoid(outputs)
        shape, place = ops.shape(outputs), places[..., 0]
        for axis in range(2, len(shape)):
            place = place * shape[axis] + places[..., axis - 1]
        return ops.sum(ops.take_along_axis(ops.reshape(outputs, (shape[0], -1)), place, axis=1), axis=1)


def _along(asked, question, replaced, points, weights, noise, batch_size, seed, bar):
    """Returns the scores of the tokens of each row, and its outputs at all points `[rows, points]`."""
    inputs, width, count = question.inputs, asked.lower.output.shape[-1], len(points)
    calls = -(-count // batch_size)
    steps = -(-count // calls)  # Each call has as many points as the others, the last ones with a weight of 0.
    points, weights = (np.pad(values, (0, calls * steps - count)).astype("float32") for values in (points, weights))
    shape = (len(points), next(iter(inputs.values())).shape[1], width) if noise else (len(points), 1, 1)
    noises = (noise * np.random.default_rng(seed).normal(size=shape)).astype("float32")
    noises[weights == 0] = 0  # The outputs of the text and of the baseline, which have no part in the scores.
    scores: list[Any] = [None] * len(question.owners)
    outputs = np.zeros((len(scores), len(points)))
    for rows, length in _batches(inputs, max(batch_size // steps, 1)):
        data = {
            "rows": _cut(inputs, rows, length),
            "baseline": _cut(replaced, rows, length),
            "places": question.places[rows].astype("int32"),
        }
        total = 0.0
        for part in (slice(begin, begin + steps) for begin in range(0, len(points), steps)):
            own = {"points": points[part], "weights": weights[part], "noise": noises[part, :length]}
            found = predict_batch(asked, {**data, **own})
            total, outputs[rows, part] = total + found["scores"], found["outputs"]
        for row, own in zip(rows, total):
            scores[row] = own[: len(question.owners[row])]
        bar.add(len(set(rows)))
    return scores, outputs


def _batches(inputs, size):
    """Yields the rows of batches, and the length of the longest. Compiled ones have one size: rows may occur again."""
    data, compiled = Batches.of(inputs, batch_size=size).grouped(), compiles_each_length()
    for length, rows in (data.few_lengths() if compiled else data).planned():
        yield np.resize(rows, size) if compiled else rows, length if "padding_mask" in inputs else None


def _cut(inputs, rows, length):
    """Returns rows of inputs without padding at their end. A decoder has lengths of its own."""
    return {name: v[rows] if name.startswith("decoder_") else v[rows, :length] for name, v in inputs.items()}


def _replaced(question, token, rows, places):
    """Returns the inputs of rows in which the tokens at some places are replaced by that of the baseline."""
    inputs = {name: values[rows] for name, values in question.inputs.items()}
    has_characters = "character_ids" in inputs
    for ids, own in zip(inputs["character_ids" if has_characters else "token_ids"], places):
        ids[own] = 0 if has_characters else token
    return inputs


def _outputs_without(asked, question, token, batch_size, rows, places):
    """Returns the output of each row in which the tokens at some places are replaced."""
    rows, found = np.asarray(rows), np.zeros(len(rows))
    inputs = _replaced(question, token, rows, places)
    for chosen, length in _batches(inputs, min(batch_size, len(rows))):
        data = {"rows": _cut(inputs, chosen, length), "places": question.places[rows[chosen]].astype("int32")}
        found[chosen] = predict_batch(asked, data)
    return found


def _leave_out_each(without, owners, whole, bar):
    """Returns the difference that each token, or each word, makes if it is left out of its row."""
    scores = [np.zeros(len(owner)) for owner in owners]
    for rows in np.split(np.arange(len(owners)), range(_TOGETHER, len(owners), _TOGETHER)):
        places = [(row, place) for row in rows for place in np.flatnonzero(owners[row] >= 0)]
        found = without([row for row, _ in places], [[place] for _, place in places]) if places else []
        for (row, place), value in zip(places, found):
            scores[row][place] = whole[row] - value
        bar.add(len(rows))
    return scores


def _by_package(without, owners, method, samples, seed, bar):
    """Returns the scores of LIME or SHAP for words, which they leave out of the texts many times."""
    explain, module = (_of_lime, "lime.lime_text") if method == "lime" else (_of_shap, "shap")
    rule = f"This method requires {method}. Install it with `pip install {method}`."
    with raising(rule, ImportError, error=ImportError):
        package = importlib.import_module(module)
    scores, most = [np.zeros(len(owner)) for owner in owners], max((owner >= 0).sum() for owner in owners)
    rule = "SHAP requires more than two `samples` for each word of a text."
    expect(method == "lime" or samples is None or samples > 2 * most, rule, samples=samples, words=int(most))
    for row, owner in enumerate(owners):
        places = np.flatnonzero(owner >= 0)

        def outputs(kept, row=row, places=places):
            return without([row] * len(kept), [places[~np.asarray(one, bool)] for one in kept])

        if len(places):
            scores[row][places] = explain(package, outputs, len(places), samples, seed)
        bar.add(1)
    return scores


def _of_lime(package, outputs, count, samples, seed):
    """Returns the weights of LIME's linear model, in which a text has its words as names of their positions."""

    def classify(texts):
        return outputs([np.isin(np.arange(count), [int(name) for name in text.split()]) for text in texts])[:, None]

    explainer = package.LimeTextExplainer(split_expression=r"\s+", random_state=seed)
    options = {"labels": [0], "num_features": count, "num_samples": samples or _COPIES["lime"]}
    found = explainer.explain_instance(" ".join(map(str, range(count))), classify, **options)
    return [weight for _, weight in sorted((int(name), weight) for name, weight in found.as_list(label=0))]


def _of_shap(package, outputs, count, samples, seed):
    """Returns Shapley values, estimated from random orders of the words."""
    state = np.random.get_state()  # The package seeds NumPy's global generator.
    explainer = package.explainers.Permutation(outputs, np.zeros((1, count)), seed=seed)
    found = explainer(np.ones((1, count)), max_evals=samples or _COPIES["shap"] * count, silent=True)
    np.random.set_state(state)
    return found.values[0]

"""Comparing methods on the same data over several seeds, in runs that continue after the process was killed."""

import dataclasses
import functools
import gc
import inspect
import json
import math
import pathlib
import re
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation import KINDS, RECIPES, Recipe, fine_tune, get_adapters, get_recipe
from keras_transfer.core.arrays import data_digest
from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.files import atomic_file
from keras_transfer.core.names import did_you_mean
from keras_transfer.experiments.comparison_report import Comparison, shorten

RISING = ("acc", "auc", "f1", "precision", "recall", "pearson", "spearman", "matthews")
FALLING = ("loss", "error", "perplexity", "mse", "mae")

# Results of earlier versions lack these settings, which were off then.
LATER = ("gradient_accumulation_steps", "rematerialize", "precision", "penalty")

PLAIN = (bool, int, float, str, type(None))
LATER_SETTINGS = ("metrics",)  # Files of earlier versions lack these.


@expects(mode=one_of("max", "min", "auto"))
def compare(
    make_model: Callable[[], keras.Model],
    data: dict[str, Any],
    methods: Any,
    *,
    seeds: int | Sequence[int] = 5,
    baseline: str | None = None,
    metric: str = "accuracy",
    mode: str = "auto",
    results: Any = None,
    loss: Any = "auto",
    metrics: Any = "auto",
    verbose: int = 1,
) -> Comparison:
    """Trains a model with each method and several seeds, and returns the scores with their uncertainty.

    A method may be a list of variants, such as a recipe with several learning rates. All variants are trained with the
    first seed. The one with the best validation score is also trained with the other seeds. The test data is never used
    to choose a variant.

    Each run begins with `keras.utils.set_random_seed(seed)`, so all methods start with the same weights. With
    `results`, each finished run is written as a line of a file. If the process is killed, the same call continues
    without repeating finished runs. Methods and seeds can be added later. The file identifies a callable only by its
    name and its plain arguments, and the model by its class and its initial weights. Use a new file after changing the
    callable's code, or anything that the weights do not contain, such as dropout or the sequence length.

    Args:
        make_model: Function without arguments that returns a new built model. If a method is a recipe and `loss` is not
            given, the model must be a task.
        data: Dict with `"train"`, `"validation"` and, if there is test data, `"test"`: tuples `(x, y)` or `(x, y,
            sample_weight)` in memory, as for `fit`.
        methods: List of methods, or dict from names to methods or to lists of variants. A method is one of:
            - the name of a recipe, or a `Recipe`
            - the name of adapters with their sizes, as for `add_adapters`. They are trained with the recipe `"bert"` at
              a learning rate of 1e-3
            - a callable `(model, train, validation, seed)` that compiles and trains the model. It may return another
              model, which is then evaluated instead, or a dict of scores with `"validation"`, and nothing is evaluated.
              If it has an argument `callbacks`, it receives a list of callbacks to pass to `fit`, which measure the
              time of a step.
        seeds: Integer or list of integers. An integer is the number of seeds, which are 0, 1 and so on. With one seed,
            there are no intervals and no tests. Defaults to `5`.
        baseline: String. Name of the method to which the others are compared. Defaults to `None`, the first method.
        metric: String. Name of the score in the results of `evaluate`. Defaults to `"accuracy"`.
        mode: `"max"` if a higher score is better, `"min"`, or `"auto"`, which infers it from the name. Defaults to
            `"auto"`.
        results: String or path. Results file. Defaults to `None`, for no file.
        loss: Loss, or its name, for recipes, as for `fine_tune`. Defaults to `"auto"`, the loss of the task.
        metrics: List of metrics, or their names, for recipes, as for `fine_tune`. Defaults to `"auto"`, the metrics of
            the task.
        verbose: Integer. `1` prints a line after each run, `0` prints nothing. Defaults to `1`.

    Returns:
        A `Comparison`, which prints as a table.

    Raises:
        ValueError: If `make_model` is no function, or returns a model that an earlier run has trained; if there are no
            methods, or if one is unknown; if `"train"` or `"validation"` is missing or not in
            memory; if `seeds`, `baseline` or `mode` is invalid; if `evaluate` does not return `metric`; or if the file
            contains runs with different data, or a different model, metric, list of metrics, loss or backend.

    Example:
    ```python
    x = np.random.default_rng(0).normal(size=(48, 4))
    y = x.sum(axis=1)

    def make_model():
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])

    def sgd(rate):
        def method(model, train, validation, seed):
            model.compile(keras.optimizers.SGD(rate), "mse", run_eagerly=True)
            model.fit(*train, verbose=0)

        return method

    data = {"train": (x[:32], y[:32]), "validation": (x[32:], y[32:])}
    methods = {"slow": sgd(0.001), "fast": [sgd(0.03), sgd(0.1)]}
    comparison = keras_transfer.experiments.compare(make_model, data, methods, seeds=2, metric="loss")
    print(comparison)
    comparison.best
    ```
    """
    variants = named_variants(methods)
    numbers = _seeds(seeds)
    baseline = next(iter(variants)) if baseline is None else baseline
    expect(baseline in variants, f"`baseline` must be one of {list(variants)}.", baseline=baseline)
    parts = parts_of(data)
    mode = _mode(mode, metric)
    settings = {
        "data": {name: data_digest(part) for name, part in parts.items()},
        "metric": metric,
        "backend": keras.backend.backend(),
        "model": _describe(make_model),
        "loss": None if loss == "auto" else repr(keras.saving.serialize_keras_object(loss)),
        "metrics": _definitions(metrics),
    }
    file, trained = RunFile(results, settings), {}
    done = {(run["method"], run["definition"], run["seed"]): run for run in file.runs}

    def run(name, definition, seed):
        if (name, definition, seed) not in done:
            scores = _run(make_model, variants[name][definition], seed, parts, metric, loss, metrics, trained)
            done[name, definition, seed] = {"method": name, "definition": definition, "seed": seed, **scores}
            file.add(done[name, definition, seed])
            if verbose:
                shown = ", ".join(f"{part} {metric} {scores[part]:.4f}" for part in parts if part in scores)
                variant = shorten(definition, variants[name])
                print(", ".join(filter(None, [name, variant, f"seed {seed}"])), end=": ")
                print(f"{shown}, {scores['seconds']:.0f} s", flush=True)
        return done[name, definition, seed]

    chosen, better = {}, max if mode == "max" else min
    for seed in numbers:
        for name, definitions in variants.items():
            if name not in chosen:
                first = [run(name, definition, seed) for definition in definitions]
                chosen[name] = [better(first, key=lambda line: _rank(line["validation"], mode))]
            else:
                chosen[name].append(run(name, chosen[name][0]["definition"], seed))
    return Comparison(chosen, metric, mode, baseline, variants, parts["validation"][1])


class _StepTimes(keras.callbacks.Callback):
    """Measures the times between the ends of successive steps, without the first step of each epoch."""

    def __init__(self):
        super().__init__()
        self.seconds, self._last = [], None

    def on_epoch_begin(self, epoch, logs=None):
        self._last = None

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        if self._last is not None:
            self.seconds.append(now - self._last)
        self._last = now


def _run(make_model, method, seed, parts, metric, loss, metrics, trained):
    """Trains a model with a method, and returns its scores, times and numbers of weights.

    `trained` has the digests of the weights that the run before has changed, by their positions.
    """
    keras.utils.set_random_seed(seed)
    model, times = make_model(), _StepTimes()
    weights = model.weights
    begin = _digests(weights)
    shared = any(position < len(begin) and begin[position] == digest for position, digest in trained.items())
    rule = (
        "`make_model` must return a new model each time, over a new encoder. This one begins with the weights that the "
        "run before has trained, so the methods could not be compared. Create the model inside the function, such as "
        "`lambda: TextClassifier.from_pretrained(...)`."
    )
    expect(not shared, rule, model=model)
    keras.utils.set_random_seed(seed)  # Makes the order of the data independent of how the model was created.
    start = time.perf_counter()
    train, validation = parts["train"], parts["validation"]
    if isinstance(method, Recipe):
        # Validation after each epoch would take time and not affect the result.
        x, y, sample_weight = (*train, None)[:3]
        options = {"recipe": method, "loss": loss, "metrics": metrics, "callbacks": [times]}
        answer = fine_tune(model, x, y, sample_weight=sample_weight, **options, verbose=0)
    else:
        timed = {"callbacks": [times]} if "callbacks" in inspect.signature(method).parameters else {}
        answer = method(model, train, validation, seed, **timed)
    seconds = time.perf_counter() - start
    model = answer if isinstance(answer, keras.Model) else model
    rule = "A method must compile the model that it trains, or return one that is compiled."
    expect(model.compiled or isinstance(answer, dict), rule, model=model)
    trained.clear()
    trained.update({i: end for i, (end, start) in enumerate(zip(_digests(weights), begin)) if end != start})
    scores = answer if isinstance(answer, dict) else {}
    scores = scores or {name: score_of(model, part, metric) for name, part in parts.items() if name != "train"}
    total = sum(math.prod(weight.shape) for weight in model.weights)
    trainable = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    step = float(np.median(times.seconds)) if times.seconds else None
    del model, answer, weights
    gc.collect()  # Traced functions are in reference cycles.
    return {**scores, "seconds": seconds, "step_seconds": step, "trainable": trainable, "parameters": total}


def _digests(weights):
    return [zlib.crc32(ops.convert_to_numpy(weight).tobytes()) for weight in weights]


def score_of(model, part, metric):
    """Returns the score of a model on `(x, y)` or `(x, y, sample_weight)`."""
    x, y, sample_weight = (*part, None)[:3]
    scores = model.evaluate(x, y, sample_weight=sample_weight, verbose=0, return_dict=True)
    expect(metric in scores, f"`metric` must be one of {sorted(scores)}, which `evaluate` returns.", metric=metric)
    return float(scores[metric])


def _rank(score, mode):
    """Returns a score for comparisons, in which NaN is the worst score."""
    return (-math.inf if mode == "max" else math.inf) if math.isnan(score) else score


# === Arguments ===


def _seeds(seeds):
    given = range(seeds) if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool) else seeds
    right = isinstance(given, (list, tuple, range)) and len(given) > 0 and len(set(given)) == len(given)
    rule = "`seeds` must be a positive integer, or a list of different integers of at least 0."
    expect(right and all(isinstance(seed, (int, np.integer)) and seed >= 0 for seed in given), rule, seeds=seeds)
    return [int(seed) for seed in given]


def parts_of(data):
    """Returns the parts of the data in order, each as a tuple."""
    if not isinstance(data, dict) or any(data.get(name) is None for name in ("train", "validation")):
        raise ValueError(
            "`data` must be a dict with 'train', 'validation' and perhaps 'test'. Without validation data, nothing can "
            "be chosen: hold out some of the training data (`datasets.hold_out`). "
            f"Received: {sorted(data) if isinstance(data, dict) else f'a {type(data).__name__}'}"
        )
    unknown = sorted(set(data) - {"train", "validation", "test"})
    expect(not unknown, "`data` must have 'train', 'validation' and perhaps 'test'.", unknown=unknown)
    parts = {name: data[name] for name in ("train", "validation", "test") if data.get(name) is not None}
    for name, part in parts.items():
        rule = f"`data[{name!r}]` must be `(x, y)` or `(x, y, sample_weight)` in memory."
        expect(isinstance(part, tuple) and len(part) in (2, 3), rule, part=part)
    return {name: tuple(part) for name, part in parts.items()}


def _mode(mode, metric):
    if mode == "auto":
        for mode, words in (("min", FALLING), ("max", RISING)):
            if any(word in metric.lower() for word in words):
                return mode
        raise ValueError(
            f"Pass `mode='max'` if a higher score is better, or else `mode='min'`. Received: metric={metric!r}"
        )
    return mode


# === Settings, which identify the runs of a results file ===


def _definitions(metrics):
    """Returns what distinguishes metrics that are passed to `compile`, or None for those of the task."""
    if isinstance(metrics, str) and metrics == "auto":
        return None

    def described(metric):
        if inspect.isfunction(metric):  # Keras would serialize the code of a lambda and the line where it is.
            return f"{metric.__module__}.{metric.__qualname__}"
        return keras.saving.serialize_keras_object(metric)

    # Keras numbers the default names of the metrics of a process.
    return re.sub(r"('name': '[^']*?)_\d+'", r"\1'", repr(keras.tree.map_structure(described, metrics)))


def _describe(make_model):
    """Returns what distinguishes the model: its class, its number of weights, and their mean magnitude."""
    rule = (
        "`make_model` must be a function that returns a new model each time, such as `lambda: "
        "TextClassifier.from_pretrained(...)`."
    )
    expect(not isinstance(make_model, keras.Model) and callable(make_model), rule, make_model=make_model)
    keras.utils.set_random_seed(0)
    model = make_model()
    rule = "`make_model` must return a built `keras.Model`."
    expect(isinstance(model, keras.Model) and model.built, rule, model=model)
    total = sum(math.prod(weight.shape) for weight in model.weights)
    magnitudes = (np.abs(ops.convert_to_numpy(weight)).sum(dtype="float64") for weight in model.weights)
    return {"class": type(model).__name__, "parameters": total, "magnitude": float(sum(magnitudes)) / max(total, 1)}


def named_variants(methods):
    """Returns `{name: {definition: Recipe or callable}}` for the argument `methods` of `compare`."""
    expect(isinstance(methods, (dict, list, tuple)), "`methods` must be a list or a dict.", methods=methods)
    named = [*methods.items()] if isinstance(methods, dict) else [(_name(method), method) for method in methods]
    names = [name for name, _ in named]
    expect(names, "`methods` must have at least one method.", methods=methods)
    rule = "`methods` must have different names, which are strings."
    expect(len(set(names)) == len(names) and all(isinstance(name, str) and name for name in names), rule, names=names)
    return {name: _variants(name, method) for name, method in named}


def _name(method):
    name = method if isinstance(method, str) else getattr(method, "__name__", None)
    rule = "A list of methods can contain names of recipes and named functions. To name other methods, pass a dict."
    expect(name is not None and name != "<lambda>", rule, method=method)
    return name


def _variants(name, method):
    several = method if isinstance(method, (list, tuple)) else [method]
    expect(several, "A method must have at least one variant.", name=name, method=method)
    variants = {}
    for variant in several:
        if not isinstance(variant, Recipe) and not callable(variant):
            variant = _named(variant)
        definition = define(variant)
        alike = sum(other.partition(" #")[0] == definition for other in variants)
        variants[f"{definition} #{alike + 1}" if alike else definition] = variant
    return variants


def _named(name):
    """Returns the recipe with a name, or a recipe that trains the adapters with that name."""
    word = str(name).partition(":")[0]
    if isinstance(name, str) and word in KINDS:
        get_adapters(name)  # Raises if a size is invalid.
        return get_recipe("adapters", adapters=name)
    if isinstance(name, str) and name in RECIPES:
        return get_recipe(name)
    raise ValueError(
        f"A method must be a `Recipe`, a callable, the name of a recipe, one of {sorted(RECIPES)}, or of adapters, one "
        f"of {sorted(KINDS)}.{did_you_mean(word, [*RECIPES, *KINDS])} Received: {name!r}"
    )


def define(method):
    """Returns a string that identifies a recipe or callable and is the same in each process."""
    if isinstance(method, Recipe):
        values = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
        values = {name: value for name, value in values.items() if name not in LATER or value}
        return f"Recipe({', '.join(f'{name}={value!r}' for name, value in values.items())})"
    values = {}
    if isinstance(method, functools.partial):
        values = {**{str(place): value for place, value in enumerate(method.args)}, **method.keywords}
        name = define(method.func)
    elif inspect.isfunction(method):
        values, name = inspect.getclosurevars(method).nonlocals, method.__qualname__
    else:
        name = getattr(method, "__qualname__", None) or type(method).__qualname__
    plain = ", ".join(f"{key}={value!r}" for key, value in values.items() if isinstance(value, PLAIN))
    return f"{name}({plain})" if plain else name


class RunFile:
    """The results of finished runs, in memory and, if there is a path, in a file, which is replaced as a whole.

    The first line of the file contains the settings that all runs share, JSON values. Each further line is the result
    of a run.
    """

    def __init__(self, path, settings):
        self.path, self.settings, self.runs = None if path is None else pathlib.Path(path), settings, []
        if self.path is not None and self.path.exists() and self.path.stat().st_size:
            self._read()
        elif self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write()

    def add(self, run):
        """Adds the result of a run."""
        self.runs.append(run)
        if self.path is not None:
            self._write()

    def _write(self):
        with atomic_file(self.path) as file:
            file.writelines(f"{json.dumps(line)}\n".encode() for line in ({"settings": self.settings}, *self.runs))

    def _read(self):
        data = self.path.read_bytes()
        lines = data[: data.rfind(b"\n") + 1].splitlines()  # An earlier version left an incomplete last line if killed.
        try:
            first, *self.runs = map(json.loads, lines)
            before = {**{name: self.settings.get(name) for name in LATER_SETTINGS}, **first["settings"]}
            wrong = [run for run in self.runs if not isinstance(run, dict) or "settings" in run]
        except (ValueError, KeyError, TypeError):
            wrong = [self.path]
        expect(not wrong, "`results` must be a new file, or one that an experiment wrote.", results=str(self.path))
        different = "; ".join(_differences(before, self.settings))
        rule = "The file contains runs with different settings. Choose another file for `results`."
        expect(not different, rule, received=f"results={str(self.path)!r}, with {different}")
        self.settings = before


def _differences(before, now, name=""):
    """Returns descriptions of the settings that differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for key in dict.fromkeys([*before, *now]):
            found += _differences(before.get(key), now.get(key), f"{name} {key}".strip())
        return found
    numbers = isinstance(before, float) and isinstance(now, float)
    # Another processor may round the initial weights differently.
    same = math.isclose(before, now, rel_tol=1e-6) if numbers else before == now
    return [] if same else [f"{name} {before!r} instead of {now!r}"]

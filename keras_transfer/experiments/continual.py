"""Tasks one after the other on one encoder (continual learning), and how much of the earlier ones is forgotten."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_transfer.adaptation import EWC, Recipe, add_adapters, estimate_fisher, fine_tune, get_adapters
from keras_transfer.core.expect import FRACTION, POSITIVE, expect, integer, number
from keras_transfer.core.names import look_up
from keras_transfer.datasets import hold_out
from keras_transfer.experiments.comparison import FALLING, compare, define, score_of
from keras_transfer.experiments.comparison_report import Comparison
from keras_transfer.experiments.transfer import check, made, score_of_task
from keras_transfer.tasks import MultiTask, Task

# The options of each method with their defaults, and the rules of options.
METHODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ewc": {"strength": 1.0, "decay": 0.9, "samples": 200},
    "replay": {"share": 0.1},
    "adapters": {"adapters": "pfeiffer:48", "learning_rate": 1e-3},
}
RULES = {
    "strength": number(0),
    "decay": FRACTION,
    "samples": integer(1),
    "share": number(above=0, most=1),
    "learning_rate": POSITIVE,
}


def compare_continual(
    make_tasks: Callable[[], dict[str, Task]],
    data: dict[str, dict[str, Any]],
    methods: Sequence[str] | dict[str, dict] = tuple(METHODS),
    *,
    metrics: dict[str, Any] | None = None,
    recipe: str | Recipe = "bert",
    seeds: Any = 5,
    results: Any = None,
    verbose: int = 1,
) -> "ContinualComparison":
    """Trains tasks one after the other on one encoder, and compares methods that protect the earlier ones.

    After each task, all tasks so far are evaluated, on the test data if there is any. Each has its own head.

    Args:
        make_tasks: Function without arguments that returns a dict from names to tasks over one new encoder.
        data: Dict of parts, as for `transfer_matrix`. The tasks train in the order of `data["train"]`.
        methods: List of names, or dict from other names to a name or to a dict of a `"method"` and its options. The
            first one is the baseline.
            - `"plain"`: nothing protects the earlier tasks
            - `"ewc"`: online EWC (Schwarz et al. 2018), a penalty of `strength` (`1.0`) on the distance from the
              weights after the last task. The Fisher information is that of `samples` (`200`) rows of the last task,
              scaled to a mean of 1, plus `decay` (`0.9`) times the earlier one.
            - `"replay"`: a `share` (`0.1`) of the rows of earlier tasks trains with each task, as in `MultiTask`
            - `"adapters"`: each task trains its own `adapters` (`"pfeiffer:48"`) on the frozen encoder, at a
              `learning_rate` (`1e-3`)
        metrics: Dict, as for `transfer_matrix`. More of each must be better. Defaults to `None`, for the accuracies.
        recipe: Name of a recipe, or a `Recipe`. Defaults to `"bert"`.
        seeds: Integer or list of integers, as for `compare`. Defaults to `5`.
        results: String or path. Results file, as for `compare`, of runs of all tasks. Defaults to `None`, for no file.
        verbose: Integer. `1` prints a line after each run, `0` prints nothing. Defaults to `1`.

    Returns:
        A `ContinualComparison`, which prints as a table.

    Raises:
        ValueError: If an argument is invalid, or if the file contains runs with different data or settings.

    Example:
    ```python
    def make_tasks():
        first = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        second = keras_transfer.tasks.TextClassifier(first.encoder, first.preprocessor, num_classes=2)
        return {"mood": first, "length": second}

    data = {"mood": (["good", "bad"], [1, 0]), "length": (["a", "a b"], [0, 1])}
    recipe = keras_transfer.adaptation.get_recipe("bert", epochs=1)
    print(keras_transfer.experiments.compare_continual(
        make_tasks, {"train": data, "validation": data}, ["plain", "adapters"], recipe=recipe, seeds=1
    ))
    ```

    Source: https://arxiv.org/abs/1805.06370
    """
    names, plan = check(data, recipe)
    scored = {name: score_of_task(metrics, name) for name in names}
    falling = [name for name, (metric, _) in scored.items() if any(word in metric.lower() for word in FALLING)]
    expect(not falling, "Scores are averaged, so more of each metric must be better.", metrics=falling)
    named = methods if isinstance(methods, dict) else dict(zip(methods, methods))
    held = {part: data[part] for part in ("validation", "test") if part in data}
    options = {"plan": plan, "scored": scored, "held": held}
    described = {"recipe": define(plan), "order": ", ".join(names)}
    trained = {
        name: functools.partial(
            _train,
            **options,
            **described,
            **_with_defaults(**(given if isinstance(given, dict) else {"method": given})),
        )
        for name, given in named.items()
    }

    def make_model():
        tasks = made(make_tasks, *names)
        return MultiTask(tasks[names[0]].encoder, tasks)

    parts = {part: (tasks, None) for part, tasks in data.items()}
    compared = sorted(f"{name}: {metric}" for name, (metric, _) in scored.items())
    run: dict[str, Any] = {"seeds": seeds, "results": results, "verbose": verbose}
    found = compare(make_model, parts, trained, metric="score", mode="max", metrics=compared, **run)
    return ContinualComparison(found.runs)


def _with_defaults(method=None, **given):
    """Returns all options of a method."""
    method = look_up(method, METHODS, "method")
    unknown = sorted(given.keys() - METHODS[method].keys())
    expect(not unknown, f"The options of {method!r} are {list(METHODS[method])}.", unknown=unknown)
    for name in given.keys() & RULES.keys():
        RULES[name].check(name, given[name])
    get_adapters(given.get("adapters", "pfeiffer"))  # Raises if a size is invalid.
    return {"method": method, **METHODS[method], **given}


def _train(model, train, validation, seed, callbacks, *, plan, scored, held, method, recipe, order, **options):
    """Trains the tasks of a `MultiTask` in their order, and returns the scores of a run."""
    kept, fisher, matrix, [*_, last] = {}, None, [], held

    def scores_on(part, names):
        return [score_of(model.tasks[name], held[part][name], scored[name][0]) for name in names]

    for name, data in train[0].items():
        task, own = model.tasks[name], plan
        if method == "adapters":
            add_adapters(task, options["adapters"], name=name)
            own = dataclasses.replace(plan, learning_rate=options["learning_rate"], frozen=None, last_blocks=None)
        if fisher is not None:
            own = dataclasses.replace(plan, penalty=EWC(fisher, options["strength"], groups="pretrained"))
        fit: dict[str, Any] = {"recipe": own, "callbacks": callbacks, "verbose": 0}
        if kept:
            several = MultiTask(model.encoder, {each: model.tasks[each] for each in (*kept, name)})
            metrics = {each: scored[each][1] for each in several.tasks}
            fine_tune(several, {**kept, name: data}, metrics=metrics, **fit)
        else:
            x, y, sample_weight = (*data, None)[:3]
            fine_tune(task, x, y, sample_weight=sample_weight, metrics=scored[name][1], **fit)
        if method == "ewc":
            fisher = running_fisher(fisher, task, *data[:2], seed, options["samples"], options["decay"])
        if method == "replay":
            kept[name] = data if options["share"] == 1 else hold_out(data, options["share"], seed=seed)[1]
        seen = list(scored)[: len(matrix) + 1]
        later = [float("nan")] * (len(scored) - len(seen))
        matrix.append(scores_on(last, seen) + later)
    return {**summary(matrix), **{part: float(np.mean(scores_on(part, scored))) for part in held}, "matrix": matrix}


def running_fisher(earlier, task, x, y, seed, samples, decay):
    """Returns the Fisher information of the weights of the encoder, scaled to a mean of 1, plus the decayed earlier."""
    of_data = {} if task.labels.one_of else {"y": y, "empirical": True, "loss": task.loss}
    found = estimate_fisher(task, x, samples=samples, seed=seed, **of_data)
    own = {weight.path for weight in task.encoder.weights} & found.keys()
    mean = sum(found[path].sum() for path in own) / sum(found[path].size for path in own)
    now, before = {path: found[path] / mean for path in own}, earlier or {}
    return {path: now.get(path, 0.0) + decay * before.get(path, 0.0) for path in now.keys() | before.keys()}


def summary(matrix):
    """Returns the scores of a run, given those of each task after each one, NaN for tasks that come later."""
    matrix = np.array(matrix)
    last = matrix[-1, :-1]
    return {
        "average": float(matrix[-1].mean()),
        "forgetting": float(np.mean(np.nanmax(matrix[:-1, :-1], axis=0) - last)),
        "backward": float(np.mean(last - np.diag(matrix)[:-1])),
    }


class ContinualComparison(Comparison):
    """The scores of tasks that were trained one after the other, which `compare_continual` returns.

    It is a `Comparison` of three scores. `average` is the mean score of all tasks at the end. `forgetting` is the mean
    difference of the best earlier score of a task from the one at the end (Chaudhry et al. 2018). `backward` is the
    backward transfer, the mean difference of the score at the end from the one right after the task was trained
    (Lopez-Paz and Ranzato 2017). Both leave out the last task.

    Args:
        runs: Dict from names of methods to the results of their runs. The first method is the baseline.

    Attributes:
        matrices: Dict from names of methods to arrays `[seeds, tasks, tasks]`. `[:, i, j]` is the score of task j after
            task i was trained, or NaN if task j comes later.

    Source: https://arxiv.org/abs/1801.10112, https://arxiv.org/abs/1706.08840
    """

    title, scores, chosen_by = "Tasks one after the other", ("forgetting", "backward", "average"), "average"

    def __init__(self, runs: dict[str, Any]) -> None:
        super().__init__(runs, "score", "max", next(iter(runs)))
        self.matrices = {name: np.array([run["matrix"] for run in found]) for name, found in runs.items()}

    def _notes(self):
        return ["* has the best average. Less forgetting and more backward transfer are better.", *super()._notes()[1:]]

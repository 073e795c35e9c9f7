"""Chains of two tasks for all pairs of given tasks: which intermediate task helps which target."""

import contextlib
import functools
import pathlib
import tempfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_transfer.adaptation import Recipe, fine_tune, get_recipe
from keras_transfer.analysis import PlottedResult
from keras_transfer.core.expect import expect
from keras_transfer.experiments.comparison import compare, define, parts_of
from keras_transfer.experiments.comparison_report import Comparison, shown_score
from keras_transfer.tasks import Task

AFTER = "after "


def transfer_matrix(
    make_tasks: Callable[[], dict[str, Task]],
    data: dict[str, dict[str, Any]],
    *,
    metrics: dict[str, Any] | None = None,
    modes: dict[str, str] | None = None,
    recipe: str | Recipe = "bert",
    seeds: Any = 5,
    results: Any = None,
    verbose: int = 1,
) -> "TransferMatrix":
    """Trains each task alone and after each other one, and returns which intermediate task helps which target.

    A chain trains an encoder on an intermediate task, and then with a new head on the target (STILTs, Phang et al.
    2018). All runs of a target with a seed begin with the same head and read the data in the same order. The encoder of
    a task alone begins all chains of this task, so n tasks make n * n runs for each seed.

    Args:
        make_tasks: Function without arguments that returns a dict from names to tasks over one new encoder.
        data: Dict with `"train"`, `"validation"` and, if there is test data, `"test"`. Each is a dict from the names of
            at least two tasks to `(x, y)` or `(x, y, sample_weight)` in memory.
        metrics: Dict from names of tasks to a metric or its name, the score of the task. Defaults to `None`, for the
            accuracy, as for tasks that are missing in the dict.
        modes: Dict from names of tasks to the `mode` of their metric, as for `compare`. Defaults to `None`, for
            `"auto"`, as for tasks that are missing in the dict.
        recipe: Name of a recipe, or a `Recipe` without adapters. Defaults to `"bert"`.
        seeds: Integer or list of integers, as for `compare`. Defaults to `5`.
        results: String or path. Folder for finished runs and the weights of their encoders, where the same call
            continues, also with more seeds or tasks. Defaults to `None`, for no folder.
        verbose: Integer. `1` prints a line after each run, `0` prints nothing. Defaults to `1`.

    Returns:
        A `TransferMatrix`, which prints as a table.

    Raises:
        ValueError: If an argument is invalid, or if the folder contains runs with different data or settings.

    Example:
    ```python
    def make_tasks():
        first = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        second = keras_transfer.tasks.TextClassifier(first.encoder, first.preprocessor, num_classes=2)
        return {"mood": first, "length": second}

    data = {"mood": (["good", "bad"], [1, 0]), "length": (["a", "a b"], [0, 1])}
    recipe = keras_transfer.adaptation.get_recipe("bert", epochs=1)
    print(keras_transfer.experiments.transfer_matrix(
        make_tasks, {"train": data, "validation": data}, recipe=recipe, seeds=1
    ))
    ```

    Source: https://arxiv.org/abs/1811.01088
    """
    names, plan = check(data, recipe)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()) if results is None else results)
        encoders = folder / f"encoders-{zlib.crc32(define(plan).encode()):08x}"
        encoders.mkdir(parents=True, exist_ok=True)
        comparisons = {}
        for with_chains in (False, True):  # All intermediate models come first.
            for name in names:
                methods, (metric, compiled) = {}, score_of_task(metrics, name)
                for first in [name, *(other for other in names if with_chains and other != name)]:
                    options = {"plan": plan, "encoders": encoders, "metrics": compiled}
                    method = functools.partial(_train, **options, first=first, target=name, recipe=define(plan))
                    methods[name if first == name else f"{name} {AFTER}{first}"] = method
                comparisons[name] = compare(
                    functools.partial(_target, make_tasks, name),
                    {part: tasks[name] for part, tasks in data.items()},
                    methods,
                    seeds=seeds,
                    metric=metric,
                    mode=(modes or {}).get(name, "auto"),
                    metrics=compiled,
                    results=folder / f"{name}.jsonl",
                    verbose=verbose,
                )
    return TransferMatrix(comparisons)


def check(data, recipe):
    """Returns the names of the tasks in the data of an experiment, and its `Recipe`."""
    rule = "`data` must be a dict with 'train', 'validation' and perhaps 'test', each with the same names of two tasks."
    is_right = isinstance(data, dict) and {"train", "validation"} <= data.keys() <= {"train", "validation", "test"}
    expect(is_right and all(isinstance(part, dict) for part in data.values()), rule, data)
    names = {name: list(part) for name, part in data.items()}
    expect(len(data["train"]) > 1 and len({frozenset(part) for part in data.values()}) == 1, rule, **names)
    for name in names["train"]:
        parts_of({part: tasks[name] for part, tasks in data.items()})
    plan = recipe if isinstance(recipe, Recipe) else get_recipe(recipe)
    rule = "Tasks one after the other need a recipe without adapters, since each task changes the encoder itself."
    expect(plan.adapters is None, rule, adapters=plan.adapters)
    return names["train"], plan


def score_of_task(metrics, name):
    """Returns the name of the score of a task, and the metrics with which the task is compiled."""
    metric = (metrics or {}).get(name)
    named = getattr(metric, "name", getattr(metric, "__name__", metric))
    return ("accuracy", "auto") if metric is None else (named, [metric])


def made(make_tasks, *names):
    """Returns new tasks with these names."""
    tasks = make_tasks()
    missing = [name for name in names if name not in tasks]
    expect(not missing, "`make_tasks` must return a dict with a task for each name in the data.", missing=missing)
    return {name: tasks[name] for name in names}


def _target(make_tasks, name):
    return made(make_tasks, name)[name]


def _train(model, train, validation, seed, callbacks, *, plan, encoders, metrics, first, target, recipe):
    """Trains a target on the encoder that the task `first` has trained, or alone, and then keeps its encoder."""
    path = encoders / f"{first}-{seed}.weights.h5"
    if first != target:
        model.encoder.load_weights(path)
    x, y, sample_weight = (*train, None)[:3]
    options = {"recipe": plan, "metrics": metrics, "callbacks": callbacks}
    fine_tune(model, x, y, sample_weight=sample_weight, **options, verbose=0)
    if first == target:
        model.encoder.save_weights(path)


class TransferMatrix(PlottedResult):
    """The scores of tasks alone and after others, which `transfer_matrix` returns.

    `plot()` draws the differences from the targets alone as a matrix, in which blue is better.

    Args:
        comparisons: Dict from names of targets to `Comparison`s, whose baseline is the target alone.

    Attributes:
        comparisons: The argument.
        rows: List of dicts, those of all comparisons, each with the name of its `target` and its `gain`, the difference
            with the sign that makes more of it better.
        pairs: List of tuples: the names of a target and of an intermediate task, and the row of both.
        helps: Dict from names of targets to lists of the tasks that improve them, with a p value below 0.05.
    """

    title, index = "Transfer matrix", ("target", "method")

    def __init__(self, comparisons: dict[str, Comparison]) -> None:
        self.comparisons = comparisons
        self.rows = []
        for name, found in comparisons.items():
            for row in found.rows:
                gain = None if row["difference"] is None else row["difference"] * (1 if found.mode == "max" else -1)
                self.rows.append({"target": name, **row, "gain": gain})
        chains = [row for row in self.rows if row["difference"] is not None]
        self.pairs = [(row["target"], row["method"].removeprefix(f"{row['target']} {AFTER}"), row) for row in chains]
        self.helps: dict[str, list[str]] = {name: [] for name in comparisons}
        for name, first, row in self.pairs:
            if row["gain"] > 0 and (1.0 if row["p"] is None else row["p"]) < 0.05:  # The interval then excludes 0.
                self.helps[name].append(first)

    def _draw(self, axes):
        names = list(self.comparisons)
        gains = np.zeros((len(names), len(names)))
        axes.figure.set_size_inches(2.6 + 0.8 * len(names), 1.4 + 0.45 * len(names))
        for target, first, row in self.pairs:
            place = names.index(target), names.index(first)
            gains[place] = row["gain"]
            axes.text(*place[::-1], f"{row['difference']:+.3f}", ha="center", va="center", fontsize=8)
        most = 2 * np.abs(gains).max() or 1.0  # Pale colors, behind numbers.
        axes.imshow(gains, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="intermediate task", ylabel="target")

    def _cells(self):
        cells = {}
        for name, comparison in self.comparisons.items():
            part, alone = comparison.parts[-1], comparison.rows[0]
            score = shown_score(alone[part], alone[f"{part}_interval"])
            cells[name] = {"target": name, "metric": comparison.metric, "alone": score}
            cells[name] |= {f"{AFTER}{first}": "" for first in self.comparisons}
        for name, first, row in self.pairs:
            star = " *" if first in self.helps[name] else ""
            cells[name][f"{AFTER}{first}"] = shown_score(row["difference"], row["difference_interval"], "+") + star
        return [*next(iter(cells.values()))], [[*row.values()] for row in cells.values()]

    def _notes(self):
        count = self.rows[0]["seeds"]
        interval = f"±: 95% t interval over {count} seeds. *: better, with p < 0.05 in the paired t test."
        notes = ["after: difference from the target alone, over the same seeds."]
        return [*notes, interval if count > 1 else "1 seed: no intervals."]

"""A rule of thumb that suggests a recipe for a task and its data."""

import numbers
from typing import Any

from keras_transfer.adaptation.adapters.base import adapted_encoder, get_adapters
from keras_transfer.adaptation.features import row_ends
from keras_transfer.adaptation.recipes.costs import estimate, measure_speed, memory_of_machine
from keras_transfer.adaptation.recipes.length import STEPS, with_enough_epochs
from keras_transfer.adaptation.recipes.recipe import Recipe, get_recipe
from keras_transfer.batches import Batches
from keras_transfer.groups import layer_groups
from keras_transfer.integers import check_integer
from keras_transfer.tasks.base import Task

MANY_TASKS = 5  # From about so many on, one encoder with adapters is easier to store and serve than separate models.


def suggest(
    model: Task,
    x: Any,
    y: Any = None,
    *,
    memory: float | None = None,
    minutes: float | None = None,
    tasks: int = 1,
) -> Recipe:
    """Suggests a recipe for a task and its data, prints it with the reasons, and returns it.

    This is a rule of thumb, not a prediction:

    - `"bert"`, which trains all weights. On TREC-6, no other method has a significantly lower error with 4,362 labeled
      questions, and a frozen encoder has a much higher one with 50 (see the page "Which method when").
    - More epochs than the recipe has, if it would make fewer than 60 steps.
    - If the estimate for that exceeds `memory` or `minutes`, `"last_layers"`, or `"feature_extraction"` if
      `"last_layers"` exceeds them too. If that does as well, the reasons say so.
    - With five `tasks` or more, `"lora"`, whose adapters share one encoder, or `"feature_extraction"` if that exceeds
      the limits. On TREC-6, LoRA has 1.4 points more errors than all weights, and on SST-2 1.3,
      which is not significant.

    With few texts, results vary between seeds (Dodge et al. 2020). If you have labeled validation data, compare the
    suggestion with other recipes on it.

    The memory is estimated from the sizes of the weights, their gradients, Adam's slots, and the activations of a
    batch of the longest texts, without the framework itself. The time is estimated from the number of operations and
    the speed of a matrix product on this machine, measured in a fraction of a second. Expect either to be wrong by a
    factor of two.

    Args:
        model: `Task` with labels.
        x: Data in memory, as for `fit`, or `text.batches` or `text.word_batches` with labels.
        y: Labels of data in memory. Defaults to `None`.
        memory: Integer. Number of bytes that training may use. Defaults to `None`, all memory of the machine. Pass the
            memory of the device if you train on a GPU.
        minutes: Float. Maximum duration of the run. Defaults to `None`, for no limit.
        tasks: Integer. Number of tasks or customers that use the same encoder, each with its own training data.
            Defaults to `1`.

    Returns:
        A `Recipe` to pass to `fine_tune`.

    Raises:
        ValueError: If `model` is not a task with labels, if the data is not in memory or has no labels, if a limit is
            not a positive number, or if `tasks` is not a positive integer.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    recipe = keras_transfer.adaptation.suggest(model, ["What a film!", "What a bore."], [1, 0])
    ```

    Source: https://arxiv.org/abs/2002.06305
    """
    if not isinstance(model, Task) or model.labels.optional or model.head_is_pretrained:
        raise ValueError(f"`model` must be a task with labels, such as a `TextClassifier`. Received: model={model!r}")
    for name, limit in (("memory", memory), ("minutes", minutes)):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, numbers.Real) or not limit > 0):
            raise ValueError(
                f"`{name}` must be a positive number. Leave it out for its default. Received: {name}={limit!r}"
            )
    tasks = check_integer("tasks", tasks, 1)
    if not hasattr(model.output, "shape"):
        raise ValueError(f"`model` must have one output. Received: outputs {list(model.output)}")
    data = model.dataset(x, y)
    if not isinstance(data, Batches) or not data.has_labels:
        raise ValueError(
            "The data must be in memory, with labels: `x` and `y`, `text.batches(...)` or `text.word_batches(...)`. "
            f"Received: x of type {type(x).__name__}{'' if y is not None else ', and y=None'}"
        )
    ends, classes = row_ends(data), model.output.shape[-1]
    added = _adapter_weights(model) if tasks >= MANY_TASKS else None
    recipes, speed = _recipes(model, len(ends), added is not None), measure_speed()
    costs = {
        name: estimate(model, recipe, ends, speed, added if name == "lora" else 0) for name, recipe in recipes.items()
    }
    memory = memory_of_machine() if memory is None else memory
    name, reasons = choose(costs, memory, minutes)
    if tasks > 1:
        reasons.append(_about_tasks(name, tasks, model.count_params(), added))
    if recipes[name].epochs > get_recipe(name).epochs:
        reasons.append(f"{recipes[name].epochs} epochs: fewer would make fewer than {STEPS} steps")
    size = f"{len(ends):,} rows of {ends.mean():.0f} tokens on average, at most {ends.max()}; {classes} classes"
    print(_described(name, [size, *reasons], costs))
    return recipes[name]


def _adapter_weights(model):
    """Returns how many weights the adapters of the recipe `"lora"` have, or `None` if they do not fit the encoder."""
    [kind] = get_adapters(get_recipe("lora").adapters)
    try:
        return kind.count_weights(adapted_encoder(model))
    except ValueError:
        return None


def _about_tasks(name, tasks, weights, added):
    """Returns a reason about several tasks, given the recipe and the numbers of weights of model and adapters."""
    if name == "feature_extraction":
        return f"{tasks} tasks: their heads share the weights of one frozen encoder"
    if tasks < MANY_TASKS:
        return f"{tasks} tasks: fewer than about {MANY_TASKS} are simpler and more accurate as separate models"
    if added is None:
        return f"{tasks} tasks: the encoder cannot have adapters, so each task needs its own head or model"
    one, own = 4 * weights / 1e6, 4 * added / 1e6
    return (
        f"{tasks} tasks: adapters over one encoder have {one + tasks * own:,.1f} MB and one export, separate models "
        f"{tasks * one:,.0f} MB; LoRA costs 1.4 points on TREC-6; 1.3 on SST-2 are not significant"
    )


def _recipes(model, rows, adapters=False):
    """Returns the recipes that `suggest` chooses from, by name, with enough epochs for so many rows."""
    recipes = {"bert": get_recipe("bert"), "feature_extraction": get_recipe("feature_extraction")}
    blocks = sum(group.kind == "block" for group in layer_groups(model))
    if adapters:
        recipes["lora"] = get_recipe("lora")
    elif blocks:
        recipes["last_layers"] = get_recipe("last_layers", last_blocks=max(1, round(blocks / 4)))
    return {name: with_enough_epochs(recipe, rows) for name, recipe in recipes.items()}


def choose(costs, memory, minutes=None):
    """Returns the name of the suggested recipe and the list of reasons.

    Args:
        costs: Dict from the names of recipes to what `estimate` returns. With `"lora"`, there are many tasks.
        memory, minutes: See `suggest`.
    """
    name, reasons = "bert", ["all weights: no method is significantly better on TREC-6, with few labels or with many"]
    if "lora" in costs:
        name, reasons = "lora", []
    for smaller in (*(name for name in ("last_layers", "feature_extraction") if name in costs), None):
        cost = costs[name]
        over = [f"{cost['memory'] / 1e9:.1f} GB of {memory / 1e9:.1f}"] if cost["memory"] > memory else []
        over += [f"{cost['minutes']:.0f} minutes of {minutes}"] if minutes and cost["minutes"] > minutes else []
        if not over:
            break
        reasons.append(f"{name} would need {' and '.join(over)}")
        if smaller is None:
            reasons.append("no recipe stays within the limits: use fewer or shorter texts, or smaller batches")
        name = smaller or name
    return name, reasons


def _described(name, reasons, costs):
    """Returns a suggestion with its reasons and the costs of all recipes as a text."""
    lines = [f"Suggested recipe: {name}", *(f"- {reason}" for reason in reasons), ""]
    lines.append(f"{'recipe':28}{'trainable':>10}{'memory':>12}{'time':>13}")
    for other, cost in costs.items():
        amounts = f"{cost['memory'] / 1e9:>9.2f} GB{cost['minutes']:>9.1f} min"
        lines.append(f"{other:28}{cost['trainable']:>10.2%}{amounts}")
    return "\n".join([*lines, "Memory and time are rough: expect a factor of two."])

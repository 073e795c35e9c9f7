"""A rule of thumb that suggests a recipe for a task and its data."""

from keras_transfer.adaptation.features import row_ends
from keras_transfer.adaptation.recipes.costs import estimate, measure_speed, memory_of_machine
from keras_transfer.adaptation.recipes.recipe import get_recipe
from keras_transfer.batches import Batches
from keras_transfer.groups import layer_groups
from keras_transfer.tasks.base import Task

# Round numbers of our choice. The experiment that would set them is `experiments.compare` of recipes by data size.
FEW, SOME = 100, 1000  # Texts.
PER_CLASS = 10


def suggest(model, x, y=None, *, memory=None, minutes=None):
    """Suggests a recipe for a task and its data, prints it with the reasons, and returns it.

    This is a rule of thumb, not a prediction:

    - fewer than 100 texts, or fewer than 10 for each class: `"feature_extraction"`
    - fewer than 1,000 texts: `"linear_probe_then_finetune"`
    - otherwise `"bert"`, which trains everything
    - if the estimate for that exceeds `memory` or `minutes`: `"last_layers"`, or `"feature_extraction"` if
      `"last_layers"` exceeds them too

    Fine-tuning all weights on few texts gives results that vary widely between seeds (Dodge et al. 2020) and can
    distort what the encoder has learned (Kumar et al. 2022). The number of texts at which this begins depends on the
    task. The thresholds are round numbers of our choice. If you have labelled validation data, compare the suggestion
    with other recipes on these data.

    The memory is estimated from the sizes of the weights, their gradients, Adam's slots, and the activations of a
    batch of the longest texts, without the framework itself. The time is estimated from the number of operations and
    the speed of a matrix product on this machine, measured in a fraction of a second. Expect either to be wrong by a
    factor of two.

    Args:
        model: `Task` with labels.
        x: Data in memory, as for `fit`, or `text.batches` or `text.word_batches` with labels.
        y: Labels of data in memory. Defaults to `None`.
        memory: Number of bytes that training may use. Defaults to `None`, all memory of the machine. Pass the memory of
            the device if you train on a GPU.
        minutes: Float. Maximum duration of the run. Defaults to `None`, no limit.

    Returns:
        A `Recipe`, which `fine_tune` takes.

    Raises:
        ValueError: If `model` is not a task with labels, or if the data are not in memory or have no labels.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    recipe = keras_transfer.adaptation.suggest(model, ["What a film!", "What a bore."], [1, 0])
    ```

    Source: https://arxiv.org/abs/2002.06305, https://arxiv.org/abs/2202.10054
    """
    if not isinstance(model, Task) or model.labels.optional or model.head_is_pretrained:
        raise ValueError(f"`model` must be a task with labels, such as a `TextClassifier`. Received: model={model!r}")
    if not hasattr(model.output, "shape"):
        raise ValueError(f"`model` must have one output. Received: outputs {list(model.output)}")
    data = model.dataset(x, y)
    if not isinstance(data, Batches) or not data.has_labels:
        raise ValueError(
            "The data must be in memory, with labels: `x` and `y`, `text.batches(...)` or `text.word_batches(...)`. "
            f"Received: x of type {type(x).__name__}{'' if y is not None else ', and y=None'}"
        )
    ends, classes = row_ends(data), model.output.shape[-1]
    places = data.contents.places
    labels = len(ends) if places is None else len(places.row)
    recipes, speed = _recipes(model), measure_speed()
    costs = {name: estimate(model, recipe, ends, speed) for name, recipe in recipes.items()}
    memory = memory_of_machine() if memory is None else memory
    name, reasons = choose(len(ends), labels, classes, costs, memory, minutes)
    size = f"{len(ends):,} rows of {ends.mean():.0f} tokens on average, at most {ends.max()}; {classes} classes"
    print(_described(name, [size, *reasons], costs))
    return recipes[name]


def _recipes(model):
    """Returns the recipes that `suggest` chooses from, by name."""
    recipes = {name: get_recipe(name) for name in ("bert", "linear_probe_then_finetune", "feature_extraction")}
    blocks = sum(group.kind == "block" for group in layer_groups(model))
    if blocks:
        recipes["last_layers"] = get_recipe("last_layers", last_blocks=max(1, round(blocks / 4)))
    return recipes


def choose(rows, labels, classes, costs, memory, minutes=None):
    """Returns the name of the suggested recipe and the list of reasons.

    Args:
        rows, labels, classes: Integers. Numbers of texts, of labels, and of classes.
        costs: Dict from the names of recipes to what `estimate` returns.
        memory, minutes: See `suggest`.
    """
    if rows < FEW or labels < PER_CLASS * classes:
        name = "feature_extraction"
        reasons = [f"fewer than {FEW} rows, or {PER_CLASS} labels for each class: the encoder is not trained"]
    elif rows < SOME:
        name = "linear_probe_then_finetune"
        reasons = [f"fewer than {SOME:,} rows: a head that is trained first distorts the encoder less"]
    else:
        name, reasons = "bert", [f"at least {SOME:,} rows: enough to train all weights"]
    for smaller in ("last_layers", "feature_extraction"):
        cost = costs[name]
        over = [f"{cost['memory'] / 1e9:.1f} GB of {memory / 1e9:.1f}"] if cost["memory"] > memory else []
        over += [f"{cost['minutes']:.0f} minutes of {minutes}"] if minutes and cost["minutes"] > minutes else []
        if over and smaller in costs and name != "feature_extraction":
            reasons.append(f"{name} would need {' and '.join(over)}")
            name = smaller
    return name, reasons


def _described(name, reasons, costs):
    """Returns a suggestion with its reasons and the costs of all recipes as a text."""
    lines = [f"Suggested recipe: {name}", *(f"- {reason}" for reason in reasons), ""]
    lines.append(f"{'recipe':28}{'trainable':>10}{'memory':>12}{'time':>13}")
    for other, cost in costs.items():
        amounts = f"{cost['memory'] / 1e9:>9.2f} GB{cost['minutes']:>9.1f} min"
        lines.append(f"{other:28}{cost['trainable']:>10.2%}{amounts}")
    return "\n".join([*lines, "Memory and time are rough: expect a factor of two."])

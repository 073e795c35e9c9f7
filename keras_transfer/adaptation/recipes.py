"""Whole plans for adapting a model, as small objects, and `fine_tune`, which calls `compile` and `fit` with them."""

import dataclasses
import difflib

import keras

from keras_transfer.adaptation.freezing import freeze
from keras_transfer.adaptation.layerwise import LayerwiseOptimizer
from keras_transfer.adaptation.schedules import LinearWarmupDecay, SlantedTriangular
from keras_transfer.adaptation.unfreezing import ChainThaw, GradualUnfreezing
from keras_transfer.tasks.task import Task
from keras_transfer.text import batches, is_text


@dataclasses.dataclass
class Recipe:
    """A plan for adapting a model: what freezes, and which optimizer, schedule and callbacks train the rest.

    Print it, change it (`dataclasses.replace`) and pass it to `fine_tune`; or call its three methods in a script with
    `compile` and `fit`, which is all that `fine_tune` does.

    Args:
        epochs: int.
        learning_rate: float, the highest rate, of the top group.
        batch_size: int, for raw texts.
        schedule: `"linear"` (`LinearWarmupDecay`), `"slanted_triangular"`, or `"constant"`.
        warmup_fraction: float, the share of the run in which the rate rises.
        decay: float, each group's rate as a multiple of the next higher group's; None for one rate for all.
        weight_decay: float, decoupled; not for norms and biases.
        global_clipnorm: float, the gradients' norm at most; None for any.
        unfreezing: `"gradual"`, `"chain_thaw"`, or None to train all from the beginning.
        share: float, the share of the run over which `unfreezing` thaws; None for its own default.
        frozen: what `freeze` takes as `groups`, or None: what never trains.

    Example:
    ```python
    recipe = keras_transfer.adaptation.get_recipe("ulmfit_classifier", epochs=2)
    print(recipe)
    ```
    """

    epochs: int = 4
    learning_rate: float = 5e-5
    batch_size: int = 32
    schedule: str = "linear"
    warmup_fraction: float = 0.1
    decay: float | None = None
    weight_decay: float = 0.01
    global_clipnorm: float | None = 1.0
    unfreezing: str | None = None
    share: float | None = None
    frozen: str | list | None = None

    def __post_init__(self):
        _check(self.schedule in SCHEDULES, "schedule", f"one of {sorted(SCHEDULES)}", self.schedule)
        _check(self.unfreezing in UNFREEZING, "unfreezing", "'gradual', 'chain_thaw' or None", self.unfreezing)
        _check(self.epochs >= 1 and self.epochs == int(self.epochs), "epochs", "at least 1", self.epochs)
        _check(self.batch_size >= 1, "batch_size", "at least 1", self.batch_size)
        _check(self.learning_rate > 0, "learning_rate", "above 0", self.learning_rate)
        _check(self.weight_decay >= 0, "weight_decay", "at least 0", self.weight_decay)

    def prepare(self, model):
        """Freezes what never trains; returns the model."""
        return model if self.frozen is None else freeze(model, self.frozen)

    def build_optimizer(self, model, total_steps):
        """Returns the optimizer with its schedule.

        Args:
            model: the built model that is to be trained.
            total_steps: int, the batches of the whole run.
        """
        rate = SCHEDULES[self.schedule](self.learning_rate, total_steps, self.warmup_fraction)
        optimizer = keras.optimizers.AdamW(rate, weight_decay=self.weight_decay, global_clipnorm=self.global_clipnorm)
        return LayerwiseOptimizer(optimizer, model, decay=self.decay)

    def build_callbacks(self):
        """Returns the list of callbacks that the recipe needs."""
        kind = UNFREEZING[self.unfreezing]
        options = {} if self.share is None else {"share": self.share}
        return [] if kind is None else [kind(**options)]


SCHEDULES = {
    "linear": lambda peak, steps, fraction: LinearWarmupDecay(peak, steps, warmup_fraction=fraction),
    "slanted_triangular": lambda peak, steps, fraction: SlantedTriangular(peak, steps, cut_fraction=fraction),
    "constant": lambda peak, steps, fraction: peak,
}
UNFREEZING = {"gradual": GradualUnfreezing, "chain_thaw": ChainThaw, None: None}
RECIPES = {
    # Devlin et al. 2018, appendix A.3.
    "bert": {},
    # Howard and Ruder 2018: rates by depth, slanted triangles, groups thawed from the top over the first half.
    "ulmfit_classifier": {
        "learning_rate": 2e-4,
        "schedule": "slanted_triangular",
        "decay": 1 / 2.6,
        "unfreezing": "gradual",
    },
    # Peters et al. 2019, "To tune or not to tune": the encoder as it is, a new head.
    "feature_extraction": {"learning_rate": 1e-2, "epochs": 10, "weight_decay": 0.0, "frozen": "pretrained"},
    # Felbo et al. 2017.
    "chain_thaw": {"learning_rate": 2e-4, "unfreezing": "chain_thaw"},
}


def get_recipe(name, **changes):
    """Returns a recipe by its name.

    Args:
        name: `"bert"` (all at once, warm-up and linear decay; Devlin et al. 2018), `"ulmfit_classifier"` (gradual
            unfreezing, slanted triangles, rates by depth; Howard and Ruder 2018), `"feature_extraction"` (the encoder
            stays as it is) or `"chain_thaw"` (Felbo et al. 2017).
        **changes: fields of `Recipe`.

    Returns:
        A `Recipe`.

    Raises:
        ValueError: there is no such recipe; a field is wrong.

    Example:
    ```python
    print(keras_transfer.adaptation.get_recipe("bert", epochs=3))
    ```
    """
    if name not in RECIPES:
        close = difflib.get_close_matches(str(name), RECIPES, n=1)
        nearest = f" (nearest: {close[0]!r})" if close else ""
        raise ValueError(f"the recipes are {sorted(RECIPES)}{nearest}. Received: {name!r}")
    unknown = set(changes) - {field.name for field in dataclasses.fields(Recipe)}
    if unknown:
        raise ValueError(f"a recipe has {[f.name for f in dataclasses.fields(Recipe)]}. Received: {sorted(unknown)}")
    return Recipe(**{**RECIPES[name], **changes})


def fine_tune(model, train, validation_data=None, recipe="bert", loss="auto", metrics="auto", callbacks=(), **options):
    """Adapts a model by a recipe: freezes, compiles and fits it, and does nothing else.

    Args:
        model: a task, or any built Keras model.
        train: `(texts, labels)` for a task; or what `fit` takes and has a length: `text.batches`, `(x, y)` arrays, a
            tf.data.Dataset of batches.
        validation_data: as in `fit`.
        recipe: the name of a recipe, or a `Recipe`.
        loss, metrics: as in `compile`; a task knows its own.
        callbacks: list of more callbacks.
        **options: more arguments of `fit`.

    Returns:
        Keras's `History`.

    Raises:
        ValueError: there is no such recipe; the number of batches is not known; a model that is no task has no loss.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    x, y = np.random.normal(size=(32, 4)), np.random.normal(size=(32, 2))
    history = keras_transfer.adaptation.fine_tune(model, (x, y), loss="mse", verbose=0)
    ```
    """
    plan = recipe if isinstance(recipe, Recipe) else get_recipe(recipe)
    taken = {"x", "y", "epochs", "batch_size"} & set(options)
    if taken:
        raise ValueError(f"the recipe says `epochs` and `batch_size`, `train` the data. Received: {sorted(taken)}")
    if loss == "auto" and not isinstance(model, Task):
        raise ValueError("a model that is no task needs `loss`. Received: loss='auto'")
    metrics = None if metrics == "auto" and not isinstance(model, Task) else metrics
    data, steps = _batches(model, train, plan.batch_size, options.get("steps_per_epoch"))
    plan.prepare(model)
    model.compile(plan.build_optimizer(model, plan.epochs * steps), loss=loss, metrics=metrics)
    callbacks = [*plan.build_callbacks(), *callbacks]
    fit = {"epochs": plan.epochs, "validation_data": validation_data, "callbacks": callbacks, **options}
    return model.fit(*data, **fit)


def _batches(model, train, batch_size, steps):
    """`(arguments of fit, batches of an epoch)`."""
    if isinstance(train, tuple) and len(train) in (2, 3):
        if is_text(train[0]) and getattr(model, "preprocessor", None) is not None:
            made = batches(train[0], train[1], model.preprocessor, batch_size, sample_weight=(*train, None)[2])
            return (made,), len(made)
        count = len(keras.tree.flatten(train[0])[0])
        return (*train[:2], batch_size), steps or -(-count // batch_size)
    try:
        return (train,), steps or len(train)
    except TypeError as error:
        raise ValueError(
            f"the schedule needs to know how many batches an epoch has: pass `steps_per_epoch`. Received: {train!r}"
        ) from error


def _check(right, name, expected, received):
    if not right:
        raise ValueError(f"`{name}` must be {expected}. Received: {received!r}")

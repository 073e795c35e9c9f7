"""Whole plans for adapting a model, as small objects, and `fine_tune`, which calls `compile` and `fit` with them."""

import dataclasses
import difflib
import logging
import math

import keras

from keras_transfer.adaptation.freezing import freeze
from keras_transfer.adaptation.layerwise import LayerwiseOptimizer
from keras_transfer.adaptation.rates import is_number
from keras_transfer.adaptation.schedules import LinearWarmupDecay, SlantedTriangular
from keras_transfer.adaptation.unfreezing import ChainThaw, GradualUnfreezing
from keras_transfer.tasks.task import Task
from keras_transfer.text import batches, is_text
from keras_transfer.training.trainable import could_train, remember_trainable

log = logging.getLogger("keras_transfer")


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
        warmup_fraction: float, the fraction of the run in which the rate rises.
        decay: float, each group's rate as a multiple of the next higher group's; None for one rate for all.
        weight_decay: float, decoupled; not for norms and biases.
        global_clipnorm: float, the gradients' norm at most; None for any.
        unfreezing: `"gradual"`, `"chain_thaw"`, or None to train all from the beginning.
        fraction: float, the fraction of the run over which `unfreezing` thaws; None for its own default.
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
    fraction: float | None = None
    frozen: str | list | None = None

    def __post_init__(self):
        _check(self.schedule in SCHEDULES, "schedule", f"one of {SCHEDULES}", self.schedule)
        _check(self.unfreezing in UNFREEZING, "unfreezing", "'gradual', 'chain_thaw' or None", self.unfreezing)
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            _check(is_number(value) and value >= 1 and value == int(value), name, "a whole number above 0", value)
        for name, expected, right in (
            ("learning_rate", "above 0", lambda value: value > 0),
            ("warmup_fraction", "in [0, 1]", lambda value: 0 <= value <= 1),
            ("weight_decay", "at least 0", lambda value: value >= 0),
            ("decay", "in (0, 1], or None", lambda value: 0 < value <= 1),
            ("global_clipnorm", "above 0, or None", lambda value: value > 0),
            ("fraction", "in (0, 1], or None", lambda value: 0 < value <= 1),
        ):
            value, optional = getattr(self, name), expected.endswith("None")
            _check((value is None and optional) or (is_number(value) and right(value)), name, expected, value)
        unused = self.fraction is not None and not self.unfreezing
        _check(not unused, "fraction", "None if `unfreezing` is None", self.fraction)

    def prepare(self, model):
        """Freezes what never trains.

        Args:
            model: the built model that is to be trained.

        Returns:
            The model.

        Raises:
            ValueError: nothing would train; the model is as it was.
        """
        restore = remember_trainable(model)
        if self.frozen is not None:
            freeze(model, self.frozen)
        if not model.trainable_weights:
            restore()
            raise ValueError(f"something must train: thaw it before, or freeze less. Received: frozen={self.frozen!r}")
        return model

    def build_optimizer(self, model, total_steps):
        """Returns the optimizer with its schedule.

        Args:
            model: the built model that is to be trained.
            total_steps: int, the batches of the whole run.
        """
        rate = self.learning_rate
        if self.schedule == "linear":
            rate = LinearWarmupDecay(rate, total_steps, warmup_fraction=self.warmup_fraction)
        elif self.schedule == "slanted_triangular":
            rate = SlantedTriangular(rate, total_steps, cut_fraction=self.warmup_fraction)
        optimizer = keras.optimizers.AdamW(rate, weight_decay=self.weight_decay, global_clipnorm=self.global_clipnorm)
        return LayerwiseOptimizer(optimizer, model, decay=self.decay)

    def build_callbacks(self):
        """Returns the list of callbacks that the recipe needs."""
        kind = UNFREEZING[self.unfreezing]
        options = {} if self.fraction is None else {"fraction": self.fraction}
        return [] if kind is None else [kind(**options)]


SCHEDULES = ("constant", "linear", "slanted_triangular")
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
    if not isinstance(name, str) or name not in RECIPES:
        close = difflib.get_close_matches(str(name), RECIPES, n=1)
        nearest = f" (nearest: {close[0]!r})" if close else ""
        raise ValueError(f"the recipes are {sorted(RECIPES)}{nearest}. Received: {name!r}")
    unknown = set(changes) - {field.name for field in dataclasses.fields(Recipe)}
    if unknown:
        raise ValueError(f"a recipe has {[f.name for f in dataclasses.fields(Recipe)]}. Received: {sorted(unknown)}")
    return Recipe(**{**RECIPES[name], **changes})


def fine_tune(model, train, validation_data=None, recipe="bert", loss="auto", metrics="auto", callbacks=(), **options):
    """Adapts a model by a recipe: freezes, compiles and fits it, and does nothing else.

    What was frozen before stays so, as after another recipe; a warning says it. To train all again: `compile` with
    any new optimizer, `unfreeze`, `fine_tune`.

    Args:
        model: a task, or any built Keras model.
        train: `(texts, labels)` for a task; or what `fit` takes and has a length: `text.batches`, `(x, y)` arrays, a
            tf.data.Dataset of batches. Tuples may have sample weights as their third part.
        validation_data: as in `fit`.
        recipe: the name of a recipe, or a `Recipe`.
        loss, metrics: as in `compile`; a task knows its own.
        callbacks: as in `fit`: more callbacks.
        **options: more arguments of `fit`.

    Returns:
        Keras's `History`.

    Raises:
        ValueError: there is no such recipe; nothing would train; the number of batches is not known; a model that is no
            task has no loss.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    x, y = np.random.normal(size=(32, 4)), np.random.normal(size=(32, 2))
    history = keras_transfer.adaptation.fine_tune(model, (x, y), loss="mse", verbose=0)
    ```
    """
    plan = recipe if isinstance(recipe, Recipe) else get_recipe(recipe)
    taken = {"x", "y", "epochs", "batch_size", "sample_weight", "validation_split"} & set(options)
    if taken:
        raise ValueError(
            "the recipe says `epochs` and `batch_size`, `train` the data, and `validation_data` those for validation. "
            f"Received: {sorted(taken)}"
        )
    if loss == "auto" and not isinstance(model, Task):
        raise ValueError("a model that is no task needs `loss`. Received: loss='auto'")
    metrics = None if metrics == "auto" and not isinstance(model, Task) else metrics
    data, steps = _batches(model, train, plan.batch_size, options.get("steps_per_epoch"))
    optimizer = plan.build_optimizer(model, plan.epochs * steps)
    frozen = sum(math.prod(weight.shape) for weight in could_train(model) if not weight.trainable)
    if frozen:
        log.warning("%d weights were frozen before this recipe, and stay so", frozen)
    plan.prepare(model)
    model.compile(optimizer, loss=loss, metrics=metrics)
    callbacks = [*plan.build_callbacks(), *keras.tree.flatten(callbacks or [])]
    return model.fit(**data, epochs=plan.epochs, validation_data=validation_data, callbacks=callbacks, **options)


def _batches(model, train, batch_size, steps):
    """`(arguments of fit, batches of an epoch)`."""
    if isinstance(train, tuple) and len(train) in (2, 3):
        x, y, sample_weight = (*train, None)[:3]
        made = None
        if isinstance(model, Task) and model.preprocessor is not None and model.is_raw(x):
            made = model.make_batches(x, y, batch_size, True, sample_weight)
        elif is_text(x) and getattr(model, "preprocessor", None) is not None:
            made = batches(x, y, model.preprocessor, batch_size, sample_weight=sample_weight)
        if made is not None:
            return {"x": made}, steps or len(made)
        count = len(keras.tree.flatten(x)[0])
        data = {"x": x, "y": y, "sample_weight": sample_weight, "batch_size": batch_size}
        return data, steps or -(-count // batch_size)
    if hasattr(train, "shape") or isinstance(train, (list, dict, str)):
        raise ValueError(f"`train` must be `(x, y)` or a dataset of batches. Received: a {type(train).__name__}")
    try:
        return {"x": train}, steps or len(train)
    except TypeError as error:
        raise ValueError(
            f"the schedule needs to know how many batches an epoch has: pass `steps_per_epoch`. Received: {train!r}"
        ) from error


def _check(right, name, expected, received):
    if not right:
        raise ValueError(f"`{name}` must be {expected}. Received: {received!r}")

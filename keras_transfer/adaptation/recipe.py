"""Recipes: what each freezes, adds and trains, and the published ones by name."""

import dataclasses
import math
from typing import Any

import keras

from keras_transfer.adaptation.adapters.adapters import add_adapters
from keras_transfer.adaptation.rematerialization import rematerialize, transformer_blocks
from keras_transfer.core.expect import FRACTION, POSITIVE, RATE, expect, expects, number, one_of, optional
from keras_transfer.core.names import belongs, did_you_mean
from keras_transfer.core.precision import PRECISIONS, Precision, recommended_precision
from keras_transfer.keras_internals import remember_trainable
from keras_transfer.layers import ScalarMix
from keras_transfer.training import (
    COUNT,
    ChainThaw,
    FusedAdamW,
    GradualUnfreezing,
    LayerwiseOptimizer,
    LinearProbe,
    LinearWarmupDecay,
    Penalty,
    SlantedTriangular,
    WarmupCosine,
    fine_tuning_rate,
    freeze,
    layer_groups,
)

_ADAFACTOR_RATE = (
    "The learning rate of the recipe is meant for AdamW. Adafactor's is a fraction of the size of the weights. Pass "
    "another `learning_rate`, for example 1e-3. Received: optimizer='adafactor'"
)

# The numbers that `benchmarks.fine_tuning.methods` found for all-MiniLM-L6-v2 on TREC-6 and SST-2: of three rates per
# method, each three times the last, the best on the dev data. Houlsby et al. 2019 and Hu et al. 2021 also found that
# adapters, which begin as the identity, need higher rates than all weights.
EPOCHS, FROZEN_EPOCHS, HEAD_RATE = 3, 10, 1e-2

# Each schedule has its class, and the name of its argument for `warmup_fraction`.
SCHEDULES: dict[str, Any] = {
    "constant": None,
    "cosine": (WarmupCosine, "warmup_fraction"),
    "linear": (LinearWarmupDecay, "warmup_fraction"),
    "slanted_triangular": (SlantedTriangular, "cut_fraction"),
}

# Each optimizer has its class, and the fields that only it has.
OPTIMIZERS = {
    "adamw": (FusedAdamW, ("beta_1", "beta_2", "epsilon")),
    "adafactor": (keras.optimizers.Adafactor, ()),
}

UNFREEZING = {"gradual": GradualUnfreezing, "chain_thaw": ChainThaw, "linear_probe": LinearProbe, None: None}
_FRACTION = number(above=0, most=1)

_OF_ADAPTIVE = {"warmup_fraction": 0.06, "beta_2": 0.98, "epsilon": 1e-6}  # The common fields of "dapt" and "tapt".

RECIPES: dict[str, dict[str, Any]] = {
    # Devlin et al. 2018, appendix A.3.
    "bert": {},
    # Howard and Ruder 2018, sections 3.2 and 4.1: a base rate of 0.004 in batches of 64, cut_frac 0.1, ratio 32 (the
    # defaults of `SlantedTriangular`), a factor of 2.6 between layers, Adam's moments of 0.7 and 0.99, and 15 epochs as
    # for TREC-6. The weight decay and the clipping come from the code, `imdb_scripts/finetune_lm.py` in fastai.
    "ulmfit_lm": {
        "learning_rate": 4e-3,
        "batch_size": 64,
        "epochs": 15,
        "schedule": "slanted_triangular",
        "decay": 1 / 2.6,
        "weight_decay": 1e-7,
        "beta_1": 0.7,
        "beta_2": 0.99,
        "global_clipnorm": 0.3,
    },
    # Howard and Ruder 2018: discriminative rates, slanted triangles, gradual unfreezing over the first half.
    "ulmfit_classifier": {
        "schedule": "slanted_triangular",
        "decay": 1 / 2.6,
        "unfreezing": "gradual",
    },
    # Peters et al. 2019, "To tune or not to tune": a frozen encoder and a new head.
    "feature_extraction": {"weight_decay": 0.0, "frozen": "pretrained"},
    # Peters et al. 2018: the same, with a learned weighted mean of all layers.
    "scalar_mix": {"weight_decay": 0.0, "frozen": "pretrained", "scalar_mix": True},
    # Lee et al. 2019, "What would Elsa do?": the top quarter of BERT's blocks.
    "last_layers": {"last_blocks": 3},
    # Houlsby et al. 2019 and Hu et al. 2021.
    "adapters": {"adapters": "houlsby:64"},
    "lora": {"adapters": "lora:rank=8"},
    # Kumar et al. 2022 (LP-FT): "feature_extraction", then "bert".
    "linear_probe_then_finetune": {"unfreezing": "linear_probe", "probe_learning_rate": HEAD_RATE},
    # Gururangan et al. 2020, table 13, for tasks without labels such as `MaskedLM`: on a domain, on the task's texts.
    "dapt": {"learning_rate": 5e-4, "batch_size": 2048, "epochs": 1, **_OF_ADAPTIVE},
    "tapt": {"learning_rate": 1e-4, "batch_size": 256, "epochs": 100, **_OF_ADAPTIVE},
    # Clark et al. 2020, table 6, for ELECTRA-Small, with `configure_pretraining.py` and `model/optimization.py` in
    # google-research/electra: 10,000 warmup steps. The larger models have a rate of 2e-4, in batches of 256 and 2,048
    # rows.
    "electra": {
        "learning_rate": 5e-4,
        "batch_size": 128,
        "steps": 1_000_000,
        "warmup_fraction": 0.01,
        "epsilon": 1e-6,
    },
    # Radford et al. 2018, section 4.1. The warmup as a fraction of the run, epsilon and the clipping come from the
    # fine-tuning code, `opt.py` and `train.py` in openai/finetune-transformer-lm. No other code is public. In the
    # paper, the rate rises over the first 2,000 updates.
    "gpt": {
        "learning_rate": 2.5e-4,
        "batch_size": 64,
        "epochs": 100,
        "schedule": "cosine",
        "warmup_fraction": 0.002,
        "epsilon": 1e-8,
    },
    # `examples/roberta/config/pretraining/base.yaml` in fairseq: 10,000 warmup steps, and 16 batches of 16 rows on each
    # of 8 GPUs in a step. It also decays norms and biases. Liu et al. 2019, table 9, use 6e-4, batches of 8,192 and
    # 500,000 steps.
    "roberta": {
        "learning_rate": 5e-4,
        "batch_size": 2048,
        "steps": 125_000,
        "warmup_fraction": 0.08,
        "beta_2": 0.98,
        "epsilon": 1e-6,
        "global_clipnorm": None,
    },
    # Felbo et al. 2017.
    "chain_thaw": {"unfreezing": "chain_thaw"},
}

# With 60 steps, all weights learned 50 labeled questions better than a head on the frozen encoder did, with 27% instead
# of 49% errors (`benchmarks.fine_tuning.few_labels`). 576 questions need about 100, as many as 500 had there.
STEPS = 100


@expects(
    epochs=optional(optional(COUNT, "auto")),
    steps=COUNT,
    learning_rate=optional(POSITIVE, "auto"),
    batch_size=COUNT,
    schedule=one_of(*SCHEDULES),
    warmup_fraction=FRACTION,
    decay=_FRACTION,
    weight_decay=number(0),
    optimizer=one_of(*OPTIMIZERS),
    beta_1=RATE,
    beta_2=RATE,
    epsilon=POSITIVE,
    global_clipnorm=optional(POSITIVE),
    unfreezing=one_of(*UNFREEZING),
    unfreezing_fraction=_FRACTION,
    last_blocks=COUNT,
    probe_learning_rate=POSITIVE,
    gradient_accumulation_steps=COUNT,
)
@dataclasses.dataclass
class Recipe:
    """A plan for adapting a model: which weights are frozen, and how an optimizer and callbacks train the rest.

    Print a recipe, change it (`dataclasses.replace`) and pass it to `fine_tune`. Alternatively, call its three methods
    in a script together with `compile` and `fit`. `fine_tune` does nothing else.

    Args:
        epochs: Integer. Number of epochs, or `None` if `steps` is set. Defaults to `"auto"`: 3, or 10 if only a head on
            a frozen encoder trains, and for a small table as many as make 100 updates.
        steps: Integer. Number of batches of the run, instead of `epochs`. It is rounded up to epochs of equal length,
            or to whole epochs if the data has the same order in each. Defaults to `None`.
        learning_rate: Float. Peak learning rate of the top layer group. Defaults to `"auto"`, which depends on the
            encoder (`default_learning_rate`) and on what trains, such as adapters; see `resolve`.
        batch_size: Integer. Number of rows per batch, for data in memory. Defaults to `32`.
        schedule: `"linear"` (`LinearWarmupDecay`), `"cosine"` (`WarmupCosine`), `"slanted_triangular"`
            (`SlantedTriangular`) or `"constant"`. Defaults to `"linear"`.
        warmup_fraction: Float between 0 and 1. Fraction of the run in which the rate rises. Defaults to `0.1`.
        decay: Float between 0 and 1. Ratio between the learning rates of adjacent layer groups. Defaults to `None`, one
            rate for all groups.
        weight_decay: Float. Decoupled weight decay, except for normalization layers and biases. Defaults to `0.01`.
        optimizer: `"adamw"`, or `"adafactor"` (`keras.optimizers.Adafactor`), which stores one array of the shape of
            each weight and two vectors, instead of two arrays. Its rate is a fraction of the size of the weights, so it
            must be higher, such as `1e-3`, and cannot be `"auto"`. It has no `beta_1`, `beta_2` and
            `epsilon`. Defaults to `"adamw"`.
        beta_1: Float between 0 and 1. Decay rate of the first moment of AdamW. Defaults to `0.9`.
        beta_2: Float between 0 and 1. Decay rate of the second moment of AdamW. Defaults to `0.999`.
        epsilon: Float. Added to the root of AdamW's second moment. Defaults to `1e-7`.
        global_clipnorm: Float. Maximum global norm of the gradients, or `None` for no maximum. Defaults to `1.0`.
        unfreezing: `"gradual"`, `"chain_thaw"`, `"linear_probe"` (new layer groups first, then all with a fresh
            optimizer and the schedule), or `None`, which trains everything from the start. Defaults to `None`.
        unfreezing_fraction: Float between 0 and 1. Fraction of the run over which `unfreezing` takes place. Defaults to
            `None`, for the default of the callback, or half of the run for `"linear_probe"`.
        frozen: String, integer or list. Layer groups that never train, in any form that `select_groups` accepts.
            Defaults to `None`, for none.
        last_blocks: Integer. Number of top blocks to train, with everything above them, or `None` to train all blocks.
            Defaults to `None`.
        probe_learning_rate: Float. Constant learning rate of the first stage of `unfreezing="linear_probe"`. Defaults
            to `None`, for other recipes.
        adapters: String, kind or list. Adapters to add, as for `add_adapters`. Only they and the head then train.
            Defaults to `None`, for none.
        scalar_mix: Boolean. Whether the recipe requires a model with a `layers.ScalarMix`. Defaults to `False`.
        gradient_accumulation_steps: Integer. Number of batches that together make one update of the weights, for
            batches of `batch_size` rows that would not fit in memory at once. Each row or label counts the same, as in
            one large batch. `steps` and the schedule count batches. The last update of the run is that of the
            batches that are left. Defaults to `None`, an update for each batch.
        rematerialize: Boolean. Whether to recompute the activations inside Transformer blocks for the gradient instead
            of storing them, as `rematerialize` does. It saves memory and costs time. Defaults to `False`.
        precision: `"float32"`, `"mixed_bfloat16"`, a `Precision` from `recommended_precision`, or `"auto"`, which calls
            it. The attribute is then the name of the policy. The recipe requires a model with this dtype policy: create
            the task with `encoder={"dtype": recipe.precision}`. Defaults to `None`, the policy of the model, which is
            float32 by default.
        penalty: `L2SP`, with `weight_decay=0.0`, or `EWC`. Penalty on the distance of the weights from their start.
            Defaults to `None`, for no penalty.

    Raises:
        ValueError: If two fields contradict each other.

    Example:
    ```python
    recipe = keras_transfer.adaptation.get_recipe("ulmfit_classifier", epochs=2)
    print(recipe)
    ```
    """

    _: dataclasses.KW_ONLY
    epochs: int | str | None = "auto"
    steps: int | None = None
    learning_rate: float | str = "auto"
    batch_size: int = 32
    schedule: str = "linear"
    warmup_fraction: float = 0.1
    decay: float | None = None
    weight_decay: float = 0.01
    optimizer: str = "adamw"
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    global_clipnorm: float | None = 1.0
    unfreezing: str | None = None
    unfreezing_fraction: float | None = None
    frozen: str | list | None = None
    last_blocks: int | None = None
    probe_learning_rate: float | None = None
    adapters: str | list | None = None
    scalar_mix: bool = False
    gradient_accumulation_steps: int | None = None
    rematerialize: bool = False
    precision: str | Precision | None = None
    penalty: Penalty | None = None

    def __post_init__(self):
        if not isinstance(self.precision, Precision):
            one_of(*PRECISIONS, None, aliases={"bf16": "bfloat16"}).check("precision", self.precision)
        if self.steps is not None and self.epochs == "auto":
            self.epochs = None
        rule = (
            "Exactly one of `epochs` and `steps` must be set. Pass `steps=None` with `epochs`, or use "
            "`get_recipe(name, epochs=...)`, which does so."
        )
        expect((self.epochs is None) != (self.steps is None), rule, epochs=self.epochs, steps=self.steps)
        if self.optimizer == "adafactor" and self.learning_rate == "auto":
            raise ValueError(_ADAFACTOR_RATE)
        for name in OPTIMIZERS["adamw"][1]:
            value, default = getattr(self, name), getattr(Recipe, name)
            is_right = value == default or name in OPTIMIZERS[self.optimizer][1]
            rule = f"`{name}` must be {default} if `optimizer={self.optimizer!r}`, which has none."
            expect(is_right, rule, **{name: value})
        fraction = self.unfreezing_fraction
        rule = "`unfreezing_fraction` must be None if `unfreezing=None`."
        expect(fraction is None or self.unfreezing, rule, unfreezing_fraction=fraction)
        apart = self.adapters is None or (self.frozen is None and self.last_blocks is None)
        expect(apart, "`adapters` must be None if `frozen` or `last_blocks` is set.", adapters=self.adapters)
        rate, probes = self.probe_learning_rate, self.unfreezing == "linear_probe"
        rule = "`probe_learning_rate` must be a number if `unfreezing='linear_probe'`, and None otherwise."
        expect((rate is not None) == probes, rule, probe_learning_rate=rate)
        precision = recommended_precision() if self.precision == "auto" else self.precision
        self.precision = precision.policy if isinstance(precision, Precision) else precision

    def resolve(self, model: Any, steps_per_epoch: int) -> "Recipe":
        """Returns the recipe with numbers for a model and its data in place of `"auto"`.

        Args:
            model: Model to train.
            steps_per_epoch: Integer. Number of batches per epoch.

        Returns:
            A `Recipe` whose `epochs` and `learning_rate` are numbers.

        Example:
        ```python
        model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        print(keras_transfer.adaptation.get_recipe("lora").resolve(model, steps_per_epoch=18))
        ```
        """
        epochs = self.epochs
        if epochs == "auto":
            epochs = max(FROZEN_EPOCHS if self.frozen == "pretrained" else EPOCHS, enough_epochs(self, steps_per_epoch))
        return dataclasses.replace(self, epochs=epochs, learning_rate=self._rate(model))

    def _rate(self, model):
        """Returns the peak learning rate for a model."""
        if self.learning_rate != "auto":
            return self.learning_rate
        if self.frozen == "pretrained":
            return HEAD_RATE
        multiple = 1
        if self.adapters is not None:
            multiple = 30
        elif self.decay is not None:
            multiple = 18  # This is the rate of the top group. The lower ones have a fraction of it.
        elif self.unfreezing == "chain_thaw":
            multiple = 3
        return float(f"{multiple * fine_tuning_rate(model):.2g}")

    def prepare(self, model: Any) -> Any:
        """Freezes the layer groups that never train, adds adapters, and lets blocks rematerialize.

        Args:
            model: Built model to train.

        Returns:
            The model.

        Raises:
            ValueError: If nothing would be trainable, if the model has fewer than `last_blocks` blocks, if it lacks a
                `ScalarMix`, blocks or the dtype policy that the recipe requires, or if adapters cannot be added. The
                model is then unchanged.
        """
        rule = (
            f"The recipe requires a model with the dtype policy {self.precision}. Create the task with "
            f"`encoder={{'dtype': {self.precision!r}}}`, or leave out `precision` of the recipe."
        )
        policy = model.dtype_policy.name
        expect(self.precision in (None, policy), rule, dtype_policy=policy)
        mixes = any(isinstance(layer, ScalarMix) for layer in getattr(model, "layers", ()))
        rule = (
            "The recipe requires a model that mixes the layers of its encoder. Create the task with `scalar_mix=True`."
        )
        if self.scalar_mix:
            expect(mixes, rule, model=model)
        below = None if self.last_blocks is None else _lowest_of_last(model, self.last_blocks)
        blocks = transformer_blocks(model) if self.rematerialize else []
        if self.adapters is not None:
            add_adapters(model, self.adapters)
            return rematerialize(model) if blocks else model
        restore = remember_trainable(model)
        if below:
            freeze(model, below=below)
        if self.frozen is not None:
            freeze(model, self.frozen)
        if not model.trainable_weights:
            restore()
            raise ValueError(
                "Some weights must remain trainable. Freeze fewer layer groups. If the model was frozen before, call "
                f"`unfreeze` first. Received: frozen={self.frozen!r}"
            )
        return rematerialize(model) if blocks else model

    def build_optimizer(self, model: Any, total_steps: int) -> LayerwiseOptimizer:
        """Builds the optimizer of the recipe with its schedule.

        Args:
            model: Built model to train.
            total_steps: Integer. Number of batches in the whole run.

        Returns:
            A `LayerwiseOptimizer`.
        """
        rate = self._rate(model)
        if self.unfreezing == "linear_probe":  # The schedule begins with the second stage.
            probed = 0.5 if self.unfreezing_fraction is None else self.unfreezing_fraction
            total_steps = max(total_steps - round(probed * total_steps), 1)
        if self.schedule != "constant":
            schedule, fraction = SCHEDULES[self.schedule]
            rate = schedule(rate, total_steps, **{fraction: self.warmup_fraction})
        kind, names = OPTIMIZERS[self.optimizer]
        options = {name: getattr(self, name) for name in ("weight_decay", "global_clipnorm", *names)}
        accumulated = self.gradient_accumulation_steps if self.gradient_accumulation_steps != 1 else None
        optimizer = kind(rate, **options, gradient_accumulation_steps=accumulated)
        return LayerwiseOptimizer(optimizer, model, decay=self.decay, penalty=self.penalty)

    def build_callbacks(self) -> list[keras.callbacks.Callback]:
        """Builds the callbacks that the recipe needs.

        Returns:
            List of Keras callbacks.
        """
        kind = UNFREEZING[self.unfreezing]
        given = {"fraction": self.unfreezing_fraction, "learning_rate": self.probe_learning_rate}
        return [] if kind is None else [kind(**{name: value for name, value in given.items() if value is not None})]


def get_recipe(name: str, **changes: Any) -> Recipe:
    """Returns a recipe by its name.

    Args:
        name: String, one of these:
            - `"bert"`: everything at once, warmup and linear decay (Devlin et al. 2018)
            - `"ulmfit_classifier"`: gradual unfreezing, slanted triangles, discriminative rates (Howard and Ruder 2018)
            - `"ulmfit_lm"`: slanted triangles and discriminative rates for a `CausalLM` on the texts of a task (same
              paper)
            - `"feature_extraction"`: a frozen encoder
            - `"scalar_mix"`: a frozen encoder and a mean of its layers (Peters et al. 2018)
            - `"last_layers"`: the top three blocks (Lee et al. 2019)
            - `"linear_probe_then_finetune"`: first the head, then all (Kumar et al. 2022)
            - `"adapters"`: bottlenecks of 64 (Houlsby et al. 2019)
            - `"lora"`: LoRA of rank 8 (Hu et al. 2021)
            - `"chain_thaw"`: one layer group at a time (Felbo et al. 2017)
            - `"dapt"` and `"tapt"`: continued pretraining of a `MaskedLM` on texts of a domain or of a task (Gururangan
              et al. 2020)
            - `"electra"` (Clark et al. 2020), `"gpt"` (Radford et al. 2018) and `"roberta"` (Liu et al. 2019):
              pretraining from random weights
        **changes: Fields of `Recipe`. `epochs` replaces the `steps` of a recipe, and `steps` its `epochs`.
            `optimizer="adafactor"` drops the fields that only AdamW has, and requires a `learning_rate`.

    Returns:
        A `Recipe`.

    Raises:
        ValueError: If `name` is unknown, if a field is invalid, or if Adafactor has no `learning_rate`.

    Example:
    ```python
    print(keras_transfer.adaptation.get_recipe("bert", epochs=3))
    ```
    """
    if not isinstance(name, str) or name not in RECIPES:
        hint = belongs(name) or did_you_mean(name, RECIPES)
        raise ValueError(f"`recipe` must be a `Recipe` or one of {sorted(RECIPES)}.{hint} Received: {name!r}")
    unknown = set(changes) - {field.name for field in dataclasses.fields(Recipe)}
    if unknown:
        fields = [field.name for field in dataclasses.fields(Recipe)]
        hint = did_you_mean(min(unknown), fields)
        raise ValueError(f"Unknown fields for a recipe. Expected some of {fields}.{hint} Received: {sorted(unknown)}")
    other = {"epochs": "steps", "steps": "epochs"}
    replaced = {other[length]: None for length in other if changes.get(length) is not None}
    if changes.get("optimizer") == "adafactor":
        if "learning_rate" not in changes:
            raise ValueError(_ADAFACTOR_RATE)
        replaced |= {field: getattr(Recipe, field) for field in OPTIMIZERS["adamw"][1]}
    return Recipe(**{**RECIPES[name], **replaced, **changes})


def _lowest_of_last(model, count):
    """Returns the depth of the lowest of the `count` top blocks."""
    blocks = [group for group in layer_groups(model) if group.kind == "block"]
    rule = f"`last_blocks` must be at most the number of blocks, {len(blocks)}."
    expect(len(blocks) >= count, rule, last_blocks=count)
    return blocks[-count].depth


def steps_of(recipe, rows):
    """Returns the number of updates that a `Recipe` makes with so many rows."""
    batches = recipe.epochs * math.ceil(rows / recipe.batch_size) if recipe.steps is None else recipe.steps
    return batches // (recipe.gradient_accumulation_steps or 1)


def enough_epochs(recipe, batches):
    """Returns how many epochs of so many batches make at least `STEPS` updates with a `Recipe`."""
    return math.ceil(STEPS * (recipe.gradient_accumulation_steps or 1) / batches)

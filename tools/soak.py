"""Random valid combinations of encoder, task, stages, optimizer and compilation: each must train, or be refused.

    python tools/soak.py --seconds 600
    KERAS_BACKEND=jax python tools/soak.py --seconds 600
    python tools/soak.py --case 17  # repeats one combination

Each case is drawn with its number as the seed. It runs a `fit` of a few tiny batches and another one without callbacks,
and checks that all values are finite, that frozen weights and flags did not change, and that something trained. A
`ValueError` that this package raises with "Received:" is a refusal, not a failure. A failure is printed with its case.
The exit status is 1 if there was one.
"""

import argparse
import json
import pathlib
import random
import sys
import time
import traceback

import keras
import numpy as np

import keras_transfer as kt

adapt = kt.adaptation
PACKAGE = str(pathlib.Path(kt.__file__).parent)
VOCABULARY, LENGTH, ROWS, BATCH = 20, 6, 10, 4
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 12}
ENCODERS = {
    "BERT": lambda: kt.encoders.BertEncoder(VOCABULARY, **SIZES),
    "RoBERTa": lambda: kt.encoders.RobertaEncoder(VOCABULARY, **SIZES),
    "tutorial": lambda: kt.encoders.TransformerEncoder(VOCABULARY, **SIZES),
    "ELMo": lambda: kt.encoders.ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 4)], projection_dim=4, units=8),
    "words": lambda: kt.encoders.WordVectorEncoder(VOCABULARY, hidden_dim=8),
}
OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adafactor", "Lion", "Adagrad", "Lamb", "Ftrl", "Muon"]


def draw(case):
    """Returns the options of a case, as JSON values."""
    pick = random.Random(case)
    options = {
        "encoder": pick.choice(list(ENCODERS)),
        "task": pick.choice(["text", "text", "tokens"]),
        "scalar_mix": pick.random() < 0.2,
        "policy": pick.choice(["float32", "float32", "mixed_bfloat16", "mixed_float16"]),
        "optimizer": pick.choice(OPTIMIZERS),
        "schedule": pick.choice([None, "slanted", "linear", "cycle"]),
        "clip": pick.choice([{}, {"global_clipnorm": 1.0}, {"clipvalue": 0.1}]),
        "accumulation": pick.choice([None, None, 2, 3]),
        "ema": pick.random() < 0.25,
        "layerwise": pick.random() < 0.7,
        "rates": pick.choice([{}, {"decay": 0.5}, {"rates": {"new": 3.0}}, {"rates": {"embeddings": 0.0}}]),
        "penalty": pick.choice([None, "l2sp", "l2sp norm", "l2sp kernels", "ewc", "ewc pretrained"]),
        "stages": pick.choice([None, "gradual", "chain", "sequential", "staged", "staged"]),
        "stage_rate": pick.choice([None, None, 0.01]),
        "frozen": pick.choice([None, None, "embeddings", 1]),
        "logger": pick.random() < 0.3,
        "loss": pick.choice(["auto", "auto", "smooth", "focal"]),
        "weights": pick.random() < 0.2,
        "together": pick.choice([1, 1, 1, 2]),
        "jit": pick.choice([False, False, "auto", "auto", True]),
        "eager": pick.random() < 0.5,
    }
    if options["optimizer"] == "Ftrl":  # divides by the learning rate, which is 0 where a schedule ends
        options["schedule"] = None
    options["layerwise"] &= options["optimizer"] not in ("Ftrl", "Muon")  # which `LayerwiseOptimizer` does not support
    options["logger"] &= options["layerwise"] and options["penalty"] is not None
    return options


def build(options):
    """Returns the model, compiled, and its callbacks."""
    keras.config.set_dtype_policy(options["policy"])
    encoder = ENCODERS[options["encoder"]]()
    if options["task"] == "text":
        model = kt.tasks.TextClassifier(encoder, num_classes=3, scalar_mix=options["scalar_mix"])
    else:
        model = kt.tasks.TokenClassifier(encoder, label_names=["A", "B", "C"], scalar_mix=options["scalar_mix"])
    if options["frozen"] is not None:
        adapt.freeze(model, options["frozen"])
    model.compile(optimizer_of(model, options), loss=loss_of(options), **compilation_of(options))
    return model, callbacks_of(options)


def optimizer_of(model, options):
    steps = 3 * -(-ROWS // BATCH)
    rate = {
        None: 0.01,
        "slanted": kt.optimizers.schedules.SlantedTriangular(0.01, steps),
        "linear": kt.optimizers.schedules.LinearWarmupDecay(0.01, steps, warmup_fraction=0.0),
        "cycle": kt.optimizers.schedules.OneCycle(0.01, steps),
    }[options["schedule"]]
    extra = {"gradient_accumulation_steps": options["accumulation"], "use_ema": options["ema"], **options["clip"]}
    if options["optimizer"] == "SGD":
        extra["momentum"] = 0.9
    if options["penalty"] is not None and options["layerwise"]:
        extra["weight_decay"] = 0.0
        if options["optimizer"] == "Muon":
            extra["adam_weight_decay"] = 0.0
    optimizer = getattr(keras.optimizers, options["optimizer"])(rate, **extra)
    if not options["layerwise"]:
        return optimizer
    penalty = None
    if options["penalty"] is not None:
        fisher = {weight.path: np.ones(weight.shape, "float32") for weight in model.trainable_weights}
        penalty = {
            "l2sp": lambda: adapt.L2SP(0.1, new_strength=0.1),
            "l2sp norm": lambda: adapt.L2SP(0.1, squared=False),
            "l2sp kernels": lambda: adapt.L2SP(0.1, groups="all", norms_and_biases=False),
            "ewc": lambda: adapt.EWC(fisher),
            "ewc pretrained": lambda: adapt.EWC(fisher, groups="pretrained"),
        }[options["penalty"]]()
    return kt.optimizers.LayerwiseOptimizer(optimizer, model, penalty=penalty, **options["rates"])


def loss_of(options):
    if options["loss"] == "smooth":  # a function of the user's own
        return lambda y, logits: (
            keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True)
            + 0.01 * keras.ops.mean(keras.ops.square(logits), axis=-1)
        )
    if options["loss"] == "focal":
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    return "auto"


def compilation_of(options):
    compilation = {"run_eagerly": True} if options["eager"] else {"jit_compile": options["jit"]}
    return {**compilation, "steps_per_execution": 1 if options["eager"] else options["together"]}


def callbacks_of(options):
    rate = {"learning_rate": options["stage_rate"]}
    stages = {
        None: lambda: [],
        "gradual": lambda: [kt.callbacks.GradualUnfreezing()],
        "chain": lambda: [kt.callbacks.ChainThaw()],
        "sequential": lambda: [kt.callbacks.SequentialUnfreezing()],
        "staged": lambda: [
            kt.callbacks.StagedTraining(
                [kt.callbacks.Stage("new", epochs=1, **rate), kt.callbacks.Stage("all", **rate)]
            ),
        ],
    }[options["stages"]]()
    return [*stages, *([kt.callbacks.PenaltyLogger()] if options["logger"] else [])]


def data_of(model, options, seed):
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, LENGTH + 1, (ROWS, 1))
    mask = (np.arange(LENGTH) < lengths).astype("int32")
    x = {}
    for name, tensor in model.encoder.input.items():
        shape = (ROWS, LENGTH, *tensor.shape[2:])
        x[name] = {"padding_mask": mask, "segment_ids": 0 * mask}.get(name, draw.integers(1, VOCABULARY, shape))
        x[name] = x[name].astype("int32")
    if options["task"] == "text":
        return x, draw.integers(0, 3, ROWS), draw.uniform(0.5, 2, ROWS) if options["weights"] else None
    return x, draw.integers(0, 3, (ROWS, LENGTH)), mask.astype("float32")


def values(model):
    return {weight.path: np.array(keras.ops.convert_to_numpy(weight)) for weight in model.weights}


def run(case):
    """Runs a case. A failure raises an error."""
    options = draw(case)
    keras.utils.set_random_seed(case)
    model, callbacks = build(options)
    x, y, weights = data_of(model, options, case)
    arguments = {"x": x, "y": y, "sample_weight": weights, "batch_size": BATCH, "verbose": 0}
    before, flags = values(model), [weight.trainable for weight in model.weights]
    frozen = {weight.path for weight in model.weights if not weight.trainable}
    history = model.fit(**arguments, epochs=3, validation_data=(x, y, weights), callbacks=callbacks).history
    check([weight.trainable for weight in model.weights] == flags, "a flag changed")
    model.fit(**arguments)
    after = values(model)
    check(np.isfinite(history["loss"]).all(), f"the loss is not finite: {history}")
    wrong = [path for path, value in after.items() if not np.isfinite(value).all()]
    check(not wrong, f"weights are not finite: {wrong}")
    moved = {path for path in after if (after[path] != before[path]).any()}
    check(not moved & frozen, f"frozen weights moved: {sorted(moved & frozen)}")
    stands = options["layerwise"] and options["rates"].get("rates") == {"embeddings": 0.0}
    could = {group.name for group in adapt.layer_groups(model) if group.trainable_parameters}
    check(moved or (stands and could == {"embeddings"}), "nothing trained")
    check(np.isfinite(model.predict(x, verbose=0)).all(), "a prediction is not finite")


def check(right, message):
    if not right:
        raise AssertionError(message)


def is_refusal(error):
    """Returns whether this package raised the error itself, and said what it received."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    return isinstance(error, ValueError) and last.startswith(PACKAGE) and "Received:" in str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--case", type=int, help="only this case, with its traceback")
    arguments = parser.parse_args()
    if arguments.case is not None:
        print(json.dumps(draw(arguments.case), indent=2))
        run(arguments.case)
        return
    end, case = time.monotonic() + arguments.seconds, arguments.first
    report = {"backend": keras.backend.backend(), "cases": 0, "refusals": {}, "failures": {}}
    while time.monotonic() < end or not report["cases"]:
        began = time.monotonic()
        try:
            run(case)
            print(f"case {case}: trained in {time.monotonic() - began:.0f} s", flush=True)
        except Exception as error:
            kind = "refusals" if is_refusal(error) else "failures"
            report[kind][case] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:300]}"
            print(f"case {case}: {kind[:-1]}: {report[kind][case]}", flush=True)
        keras.utils.clear_session()
        report["cases"] += 1
        case += 1
    print(json.dumps(report))
    sys.exit(bool(report["failures"]))


if __name__ == "__main__":
    main()

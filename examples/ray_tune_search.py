"""Searches hyper-parameters with Ray Tune, which runs trials side by side on several cores, GPUs or machines.

    pip install "ray[tune]"
    python examples/ray_tune_search.py --trials 20 --cpus 4

The space is that of `keras_tuner_search.py`. To compare the best trials with several seeds, use `experiments.compare`.
"""

import argparse

from ray import tune

parser = argparse.ArgumentParser()
parser.add_argument("--trials", type=int, default=20)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--cpus", type=int, default=4, help="cores of each trial")
parser.add_argument("--gpus", type=float, default=0, help="GPUs of each trial")
args = parser.parse_args()


def train(choice):
    """Trains a model, and returns its validation accuracy to Ray."""
    import keras_transfer as kt  # in each of Ray's processes

    data = kt.datasets.load_demo_questions()
    rows, validation = kt.datasets.hold_out(data.train)
    model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
    recipe = kt.adaptation.get_recipe("bert", **choice)
    history = kt.adaptation.fine_tune(model, *rows, validation_data=validation, recipe=recipe, verbose=0)
    return {"accuracy": history.history["val_accuracy"][-1]}


space = {
    "epochs": args.epochs,
    "learning_rate": tune.loguniform(3e-5, 1e-3),
    "decay": tune.choice([0.4, 0.7, 0.9, 1.0]),
    "unfreezing": tune.choice(["gradual", None]),
}
tuner = tune.Tuner(
    tune.with_resources(train, {"cpu": args.cpus, "gpu": args.gpus}),
    param_space=space,
    tune_config=tune.TuneConfig(metric="accuracy", mode="max", num_samples=args.trials),
)
best = tuner.fit().get_best_result()
print(f"validation accuracy {best.metrics['accuracy']:.4f}: {best.config}")

"""Searches hyper-parameters with KerasTuner: the learning rate, its decay over the layer groups, and unfreezing.

    pip install keras-tuner
    python examples/keras_tuner_search.py --trials 20

`experiments.compare` trains a few methods with several seeds. In a larger space, let a tuner choose the trials, and
then compare the best ones with several seeds. The same command continues an interrupted search.
"""

import argparse

import keras_tuner

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--trials", type=int, default=20)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--directory", default="keras_tuner_search", help="folder of the search")
args = parser.parse_args()

data = kt.datasets.load_demo_questions()
train, validation = kt.datasets.hold_out(data.train)


class Search(keras_tuner.RandomSearch):
    """Trains a pretrained model in each trial by a recipe whose fields the tuner chooses."""

    def run_trial(self, trial):
        choice = trial.hyperparameters
        recipe = kt.adaptation.get_recipe(
            "bert",
            epochs=args.epochs,
            learning_rate=choice.Float("learning_rate", 3e-5, 1e-3, sampling="log"),
            decay=choice.Choice("decay", [0.4, 0.7, 0.9, 1.0]),
            unfreezing="gradual" if choice.Boolean("gradual_unfreezing") else None,
        )
        model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
        return kt.adaptation.fine_tune(model, *train, validation_data=validation, recipe=recipe, verbose=0)


tuner = Search(objective="val_accuracy", max_trials=args.trials, seed=0, directory=args.directory)
tuner.search()
for trial in tuner.oracle.get_best_trials(5):
    print(f"validation accuracy {trial.score:.4f}: {trial.hyperparameters.values}")

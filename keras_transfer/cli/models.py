"""The models that commands use: of the folder of a run, of a `.keras` file, or exported."""

import pathlib
import zipfile

import keras

from keras_transfer import adaptation, tasks
from keras_transfer.cli.run_folder import MODEL, STATE, is_unfinished
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import one_of
from keras_transfer.core.names import listed
from keras_transfer.serving import is_exported, labels_of_export, open_exported, read_facts

KINDS = {  # From the outputs of an export to what it predicts.
    ("label", "label_id", "probabilities"): "classification",
    ("chosen", "probabilities"): "multi-label",
    ("values",): "regression",
}


def find_model(path, exported=False):
    """Returns the file of a model, given it or the folder that contains it, or the folder of an exported model."""
    path = pathlib.Path(path)
    if path.is_dir():
        if is_exported(path):
            if exported:
                return path
            raise ValueError(
                "An exported model cannot be exported. Pass the folder that `keras-transfer train` wrote, or the "
                f".keras file. Received: {path}"
            )
        unfinished, path = is_unfinished(path), path / MODEL
        if unfinished:
            old = f" For the model of an earlier run, pass {path}." if path.exists() else ""
            raise FileNotFoundError(
                f"The run is not finished. `keras-transfer train` with the same settings continues it.{old} "
                f"Received: {path.parent}"
            )
        if not path.exists():
            raise FileNotFoundError(
                f"The model must be a .keras file{',' if exported else ' or'} a folder that `keras-transfer train` or "
                f"`keras-transfer quickstart` wrote{', or an exported model' if exported else ''}. "
                f"Received: {path.parent}, without {MODEL}"
            )
    if not path.exists():
        raise FileNotFoundError(f"The model does not exist. Received: {path}")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"The model must be a .keras file. Received: {path}")
    return path


def trained_model(encoder):
    """Returns the `.keras` file if `--encoder` is a model that `train` wrote, or its folder, and None for others."""
    path = pathlib.Path(encoder)
    if path.suffix == ".keras" or (path / MODEL).is_file() or (path / STATE).is_file():
        return None if (path / "config.json").is_file() else find_model(path)
    return None


def load_model(path):
    """Returns the model in a `.keras` file."""
    try:
        return keras.saving.load_model(path, compile=False)
    except (KeyError, TypeError, ValueError) as error:  # The file is damaged, or of another library.
        [problem] = str(error).splitlines()[:1] or [""]
        raise ValueError(f"The model cannot be loaded. Received: {path}, {problem}") from None


def kind_of(model):
    """Returns what a task predicts for each text: one of `labelled_texts.LABELS`, or None for other tasks."""
    if isinstance(model, tasks.TextClassifier):
        return "multi-label" if model.multi_label else "classification"
    return "regression" if isinstance(model, tasks.TextRegressor) and model.num_targets == 1 else None


def open_model(path, adapter=None):
    """Returns a `TrainedModel` or an `ExportedModel`, which answers with the named adapters."""
    path = find_model(path, exported=True)
    return ExportedModel(path, adapter) if path.is_dir() else TrainedModel(path, adapter)


class TrainedModel:
    """A `TextClassifier` or a `TextRegressor` in a `.keras` file.

    Attributes:
        kind: String. What it predicts: `"classification"`, `"multi-label"` or `"regression"`.
    """

    def __init__(self, path, adapter=None):
        self.model = load_model(path)
        self.kind = kind_of(self.model)
        if self.kind is None:
            raise ValueError(
                "The model must be a `TextClassifier`, or a `TextRegressor` that predicts one number. "
                f"Received: {path}, a `{type(self.model).__name__}`"
            )
        self.label_names = self.model.label_names or []
        if adapter is not None:
            adaptation.set_active_adapter(self.model, adapter)

    def predict(self, texts):
        """Returns the probabilities [texts, classes] or the numbers [texts], and a list of labels."""
        if self.kind == "regression":
            return check_numbers(self.model.predict(texts, verbose=0)[:, 0]), []
        outputs = self.model.predict_proba(texts)
        return outputs, self.model.labels_of(outputs)


class ExportedModel:
    """An export in any format that predicts labels for a text, or a number, with the interface of `TrainedModel`."""

    def __init__(self, folder, adapter=None):
        facts = read_facts(folder)
        self.adapter, self.exported = adapter, open_exported(str(folder), "serving_default")
        inputs, outputs = sorted(self.exported.inputs), sorted(self.exported.outputs)
        if "words" in outputs:
            raise ValueError(
                "This command does not support taggers. Tag texts in Python with `serving.Predictor(folder, column)`. "
                f"Received: {folder}"
            )
        if inputs not in (["text"], ["adapter", "text"]):
            raise ValueError(
                "The exported model must have a single input `text`. Answer other requests in Python with "
                f"`serving.Predictor(folder, columns)`. Received: {folder}, a model with the inputs {inputs}"
            )
        if inputs == ["text"] and adapter is not None:
            raise ValueError(
                f"The model has no adapters to choose from. Leave out `--adapter`. Received: {folder} with {adapter!r}"
            )
        if inputs != ["text"] and adapter is None:
            names = f", {listed(facts['adapters'])}" if facts else ""
            raise ValueError(
                f"The model has several adapters. Pass `--adapter` with the name of one of them{names}. "
                f"Received: {folder}"
            )
        if adapter is not None and facts:
            one_of(*facts["adapters"]).check("adapter", adapter)
        self.kind = KINDS.get(tuple(outputs))
        if self.kind is None or (self.kind == "regression" and self._answers([])["values"].shape[1] != 1):
            raise ValueError(
                "The exported model must predict a label, several labels or a number for each text. "
                f"Received: {folder}, a model of {outputs}"
            )
        self.label_names = labels_of_export(folder)

    def predict(self, texts):
        """Returns the probabilities [texts, classes] or the numbers [texts], and a list of labels."""
        found = self._answers(texts)
        if self.kind == "regression":
            return check_numbers(found["values"][:, 0]), []
        if self.kind == "classification":
            return found["probabilities"], list(found["label"])
        chosen = [[name for name, one in zip(self.label_names, row) if one] for row in found["chosen"]]
        return found["probabilities"], chosen

    def _answers(self, texts):
        columns = {"text": texts, "adapter": [self.adapter] * len(texts)}
        return self.exported.answer({name: columns[name] for name in self.exported.inputs}, 64)

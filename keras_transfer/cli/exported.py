"""An exported classifier or regressor, as `keras-transfer evaluate`, `predict` and `classify` use it."""

import json
import pathlib

from keras_transfer import serving
from keras_transfer.cli import ask
from keras_transfer.core.arrays import check_numbers


class ExportedModel:
    """An export in any format that predicts labels for a text, or a number if it has no `label_names`."""

    def __init__(self, folder, adapter=None):
        self.adapter = adapter
        columns = {"text": "text"} if adapter is None else {"text": "text", "adapter": "adapter"}
        signatures = ask.read_facts(folder).get("signatures", {})
        inputs = sorted(signatures.get("serving_default", {"inputs": columns})["inputs"])
        if inputs != sorted(columns):
            raise ValueError(
                "The exported model must have a single input `text`. Answer other requests in Python with "
                f"`serving.Predictor(folder, columns)`. Received: {folder}, a model with the inputs {inputs}"
            )
        self.predictor = serving.Predictor(folder, columns)
        nothing = self._answers([])
        ask.refuse_taggers(folder, nothing)
        self.kind = ask.KINDS.get(tuple(nothing))
        if self.kind is None or (self.kind == "regression" and nothing["values"].shape[1] != 1):
            shown = {name: list(values.shape[1:]) for name, values in nothing.items()}
            raise ValueError(
                "The exported model must predict a label, several labels or a number for each text. "
                f"Received: {folder}, a model of {shown}"
            )
        files = [pathlib.Path(folder, name) for name in ("labels.json", ask.LABELS_FILE)]
        self.label_names = next((json.loads(path.read_text("utf-8")) for path in files if path.is_file()), [])

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
        found = self.predictor({name: columns[name] for name in self.predictor.text_columns})
        return {name: values for name, values in found.items() if name not in columns}

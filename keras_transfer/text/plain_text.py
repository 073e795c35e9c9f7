"""The preprocessor of encoders that accept strings."""

import keras

from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.text.preprocessor import Preprocessor


@keras.saving.register_keras_serializable(package="keras_transfer")
class PlainText(SavedByArguments, Preprocessor):
    """Passes texts unchanged to an encoder that accepts strings.

    Args:
        name: String. Name of the layer.

    Call arguments:
        - `texts`: A string, or a list, array, table column or tensor of strings.

    Returns:
        Dict of `text`, a TensorFlow string tensor [batch].

    Raises:
        ValueError: If `texts` are pairs.

    Example:
    ```python
    keras_transfer.text.PlainText()(["A fine film."])["text"]
    ```
    """

    def call(self, texts, sequence_length=None):
        self._check_single(texts)
        return {"text": texts}

    def compute_output_spec(self, texts, sequence_length=None):
        return {"text": keras.KerasTensor(texts.shape, "string")}

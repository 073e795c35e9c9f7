"""Text for encoders that take it as it is."""

import keras

from keras_transfer.text.preprocessor import Preprocessor


@keras.saving.register_keras_serializable(package="keras_transfer")
class PlainText(Preprocessor):
    """The preprocessor of an encoder that takes strings itself.

    Args:
        name: str.

    Call arguments:
        texts: [batch] strings.

    Returns:
        A dict: `text` [batch] strings, TensorFlow tensors.

    Raises:
        ValueError: `texts` are pairs.

    Example:
    ```python
    keras_transfer.text.PlainText()(["A fine film."])["text"]
    ```
    """

    def call(self, texts, sequence_length=None):
        if isinstance(texts, tuple):
            raise ValueError("the encoder takes single texts. Received: pairs")
        return {"text": texts}

    def compute_output_spec(self, texts, sequence_length=None):
        return {"text": keras.KerasTensor(texts.shape, "string")}

    def get_config(self):
        return {"name": self.name}

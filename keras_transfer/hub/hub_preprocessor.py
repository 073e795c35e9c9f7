"""A TF Hub preprocessing module as the preprocessor of a task."""

import os

import keras

from keras_transfer.core.lazy import tf
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.hub.errors import expect, shown
from keras_transfer.hub.hub_encoder import TOKEN_INPUTS
from keras_transfer.hub.module import load
from keras_transfer.hub.tensors import describe
from keras_transfer.hub.trust import from_trusted_config
from keras_transfer.text import Preprocessor


@keras.saving.register_keras_serializable(package="keras_transfer")
class HubPreprocessor(SavedByArguments, Preprocessor):
    """A preprocessing module, such as BERT's on TF Hub, as a preprocessor.

    The module accepts strings and returns a dict of ids of a fixed length. Other lengths and pairs of texts require the
    functions `tokenize` and `bert_pack_inputs`, which BERT's modules have.

    Args:
        handle: String or path. See `HubLayer`.
        sequence_length: Integer. Length to which texts are truncated and padded. Defaults to the module's own.
        sha256: String. See `HubLayer`.
        name: String. Name of the preprocessor.

    Call arguments:
        - `texts`: Strings [batch], or a tuple of two such tensors.
        - `sequence_length`: Integer. Length for this call only. `"longest"` has no effect, since the module pads
          itself.

    Returns:
        A dict of `token_ids`, `padding_mask` and `segment_ids`, each [batch, length] int32.

    Raises:
        HubError: If the module cannot be loaded, lacks the required functions or returns other outputs.

    Example:
    ```python
    module = tf.Module()
    ids = lambda texts: tf.strings.unicode_decode(texts, "UTF-8").to_tensor(shape=[None, 8])
    names = ("input_word_ids", "input_mask", "input_type_ids")
    outputs = lambda texts: {name: ids(texts) for name in names}
    module.__call__ = tf.function(outputs, input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(module, "module")
    keras_transfer.hub.HubPreprocessor("module")(["A fine film."])["token_ids"]
    ```
    """

    def __init__(
        self,
        handle: str | os.PathLike,
        *,
        sequence_length: int | None = None,
        sha256: str | None = None,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self.handle = str(handle)
        self.sequence_length = sequence_length
        self.sha256 = sha256
        self.module, _, _ = load(handle, sha256=sha256)
        parts = all(hasattr(self.module, part) for part in ("tokenize", "bert_pack_inputs"))
        wanted = "be callable" if sequence_length is None else "have `tokenize` and `bert_pack_inputs`"
        fits, received = callable(self.module) if sequence_length is None else parts, shown(self.handle)
        expect(fits, f"A preprocessing module must {wanted}.", received, sequence_length=sequence_length)

    def call(self, texts, sequence_length=None):
        length = self.sequence_length if sequence_length in (None, "longest") else sequence_length
        if length is None and not isinstance(texts, tuple):
            outputs = self.module(texts)
        else:
            outputs = self._packed(texts if isinstance(texts, tuple) else (texts,), length)
        are_known = isinstance(outputs, dict) and outputs.keys() <= TOKEN_INPUTS.keys()
        rule = f"The outputs must be a dict with keys in {sorted(TOKEN_INPUTS)}."
        expect(are_known, rule, received=describe(outputs))
        return {TOKEN_INPUTS[name]: ids for name, ids in outputs.items()}

    def _packed(self, texts, length):
        rule = "For pairs and other lengths, the module must have `tokenize` and `bert_pack_inputs`."
        expect(hasattr(self.module, "bert_pack_inputs"), rule, shown(self.handle))
        segments = [self.module.tokenize(part) for part in texts]
        options = {} if length is None else {"seq_length": tf.constant(length)}
        return self.module.bert_pack_inputs(segments, **options)

    def compute_output_spec(self, texts, sequence_length=None):
        return keras.Operation.compute_output_spec(self, texts, sequence_length=sequence_length)

    @classmethod
    def from_config(cls, config, custom_objects=None, safe_mode=None):
        return from_trusted_config(cls, config, safe_mode)

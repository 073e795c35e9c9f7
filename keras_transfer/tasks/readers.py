"""The data of tasks that predict hidden tokens: texts without labels."""

import numpy as np
from keras import ops

from keras_transfer.data import UNUSED
from keras_transfer.tasks.reader import Reader, encode_texts, for_backend
from keras_transfer.tasks.streams import texts_of_stream


class HiddenTokenReader(Reader):
    """Accepts texts for a task whose objective hides some of their tokens."""

    def __init__(self, preprocessor, task_name, method):
        super().__init__(preprocessor)
        self.task_name, self.method = task_name, method

    def check(self, x, method):
        if method == "predict" and self.accepts(x):
            raise ValueError(f"`predict` requires prepared inputs{self.advice()}. Received: {x!r:.100}")

    def advice(self):
        """Returns the end of a sentence that says how to predict texts."""
        return f". Use `{self.method}(texts)` for texts"

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"`y` and `sample_weight` must be None for raw text, since a `{self.task_name}` makes its targets. "
                f"Received: {'sample_weight' if y is None else 'y'}"
            )
        return super().batches(columns, None, None, batch_size, shuffle)


class MaskReader(HiddenTokenReader):
    """Accepts texts for a task that predicts the tokens at mask tokens, which a batch of texts contains."""

    def advice(self):
        mask = getattr(getattr(self.preprocessor, "tokenizer", None), "mask_token", None)
        return f", with `mask_positions`{super().advice()} in which {mask!r} marks the hidden tokens"

    def inputs(self, x):
        self.require()
        return for_backend(self.preprocessor.encode_masked(x, "longest"))


class OrderedMaskReader(MaskReader):
    """Accepts texts for a task that predicts tokens in a factorization order: the masked tokens after all others."""

    def advice(self):
        return f", with `factorization_order` and{super().advice().removeprefix(', with')}"

    def inputs(self, x):
        inputs = super().inputs(x)
        hidden = inputs["token_ids"] == self.preprocessor.mask_id
        # Keras cannot call a model with a mixture of arrays and tensors.
        order = hidden.astype("int32") if isinstance(hidden, np.ndarray) else ops.cast(hidden, "int32")
        return {**inputs, "factorization_order": order}


class SegmentPairReader(HiddenTokenReader):
    """Accepts pairs of texts with labels that say whether they belong together, some of whose tokens are hidden."""

    takes_either = True  # A task that was trained on pairs is exported for pairs.

    def stream(self, dataset):
        if len(texts_of_stream(dataset)) == 1:
            raise ValueError(
                f"A `{self.task_name}` expects pairs of texts: `((text, text_pair), labels)`. "
                f"Received: a `tf.data.Dataset` of {dataset.element_spec}"
            )
        return super().stream(dataset)

    def columns(self, x):
        found = super().columns(x)
        if not isinstance(found, tuple):
            raise ValueError(
                f"A `{self.task_name}` expects pairs of texts: a tuple of two columns, or `corpus.pairs(...)`. "
                f"Received: {type(x).__name__}"
            )
        return found

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if sample_weight is not None:
            raise ValueError(
                f"`sample_weight` must be None, since a `{self.task_name}` weights the tokens that it hides equally. "
                "Received: sample_weight"
            )
        return Reader.batches(self, columns, y, None, batch_size, shuffle)

    def inputs(self, x):
        self.require()
        if not isinstance(x, tuple):
            self.columns(x)
        first, second = ([part] if isinstance(part, (str, bytes)) else part for part in x)
        inputs = encode_texts(self, first, second)
        places = inputs["token_ids"][:, :1] * 0 + UNUSED
        return for_backend({**inputs, "mask_positions": places})

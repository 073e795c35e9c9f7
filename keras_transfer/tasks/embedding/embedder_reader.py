"""The data of a `TextEmbedder`: single texts, or rows of several texts that belong together."""

import numpy as np

from keras_transfer.batches import part_batches, to_parts
from keras_transfer.tasks.embedding.prompts import prompt_of, with_prompt
from keras_transfer.tasks.inputs import Reader, texts_of_stream
from keras_transfer.text.base import is_text, to_columns


class EmbedderReader(Reader):
    """Accepts texts, or a tuple of columns of texts. The encoder processes the texts of a row separately, each after a
    prompt.

    Args:
        preprocessor: Preprocessor, as for `Reader`.
        prompts: Dict from names to prompts.
        default_prompt_name: String, or `None`. Name of the prompt in front of every text.
    """

    def __init__(self, preprocessor, prompts, default_prompt_name):
        super().__init__(preprocessor)
        self.prompts, self.default_prompt_name = prompts, default_prompt_name

    @property
    def prompt(self):
        """String. The prompt in front of every text, or `""`."""
        return prompt_of(self.prompts, self.default_prompt_name, "default_prompt_name")

    def accepts(self, x):
        if isinstance(x, tuple) and len(x) > 1:
            return all(is_text(part) for part in x)
        return is_text(x)

    def check(self, x, method):
        if method in ("fit", "evaluate") and self.accepts(x) and not isinstance(x, tuple):
            raise ValueError(
                f"`{method}` expects rows of several texts: a tuple of columns, such as `(texts, similar_texts)`. "
                f"Received: {type(x).__name__} of one text per row"
            )

    def columns(self, x):
        return with_prompt(to_parts(x) if isinstance(x, tuple) else to_columns(x), self.prompt)

    def batch_of(self, parts):
        parts = super().batch_of(parts)
        return (parts,) if len(parts) > 1 and all(is_text(part) for part in parts) else parts

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if not isinstance(columns, tuple):
            return super().batches(columns, y, sample_weight, batch_size, shuffle)
        options = {"batch_size": batch_size, "shuffle": shuffle, "sample_weight": sample_weight}
        return part_batches(columns, y, preprocessor=self.preprocessor, **options)

    def stream(self, dataset):
        if len(texts_of_stream(dataset)) > 1:
            raise ValueError(
                "Rows of several texts must be in memory, as a tuple of columns. "
                f"Received: a `tf.data.Dataset` of {dataset.element_spec}"
            )
        if self.prompt and texts_of_stream(dataset):
            if isinstance(dataset.element_spec, tuple):
                dataset = dataset.map(lambda text, *rest: (self.prompt + text, *rest))
            else:
                dataset = dataset.map(lambda text: self.prompt + text)
        return super().stream(dataset)

    def inputs(self, x):
        if isinstance(x, tuple):
            return self.in_one_batch(x)
        return super().inputs(self.columns(x) if self.prompt else x)

    def nothing(self, model, columns):
        outputs = super().nothing(model, columns)
        return np.stack([outputs] * len(columns), axis=1) if isinstance(columns, tuple) else outputs

"""What tasks that predict hidden tokens read: texts without labels."""

from keras_transfer.tasks.inputs import Reader, for_backend


class HiddenTokenReader(Reader):
    """Reads texts for a task whose objective hides some of their tokens.

    Args:
        preprocessor: See `Reader`.
        task_name: String. Name of the class of the task, for errors.
        method: String. The method that reads texts, since `predict` does not.
    """

    def __init__(self, preprocessor, task_name, method):
        super().__init__(preprocessor)
        self.task_name, self.method = task_name, method

    def check(self, x, method):
        if method == "predict" and self.accepts(x):
            raise ValueError(f"`predict` takes prepared inputs{self.advice()}. Received: {x!r:.100}")

    def advice(self):
        """Returns the rest of a sentence that says how to predict texts."""
        return f". Use `{self.method}(texts)` for texts"

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"`y` and `sample_weight` must be None for raw text, since a `{self.task_name}` makes its targets. "
                f"Received: {'sample_weight' if y is None else 'y'}"
            )
        return super().batches(columns, None, None, batch_size, shuffle)


class MaskReader(HiddenTokenReader):
    """Reads texts for a task that predicts the tokens at mask tokens, which one batch of texts contains."""

    def advice(self):
        mask = getattr(getattr(self.preprocessor, "tokenizer", None), "mask_token", None)
        return f", with `mask_positions`{super().advice()} in which {mask!r} marks the hidden tokens"

    def inputs(self, x):
        self.require()
        return for_backend(self.preprocessor.encode_masked(x, "longest"))

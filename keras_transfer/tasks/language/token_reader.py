"""What language models read: texts without labels, because the tokens themselves are the targets."""

from keras_transfer.tasks.inputs import Reader, encode_texts, for_backend, texts_of_stream


class NextTokenReader(Reader):
    """Reads texts for a causal language model. Outputs are trimmed to the tokens of each text."""

    def stream(self, dataset):
        if texts_of_stream(dataset):
            raise ValueError(
                "A `CausalLM` takes raw text in memory, such as a list. A `tf.data.Dataset` must contain `(inputs, "
                f"targets, weights)`. Received: {dataset.element_spec}"
            )
        return dataset

    def restore(self, data, predict):
        """Returns a list of arrays [tokens, vocabulary], the logits of each text."""
        lengths, logits = data.inputs["padding_mask"].sum(axis=1), [None] * len(data.inputs["padding_mask"])
        for part, outputs in predict.parts(data):
            for row, values in zip(part.order, outputs):
                logits[row] = values[: lengths[row]]
        return logits

    def nothing(self, model, columns):
        return []


class HiddenTokenReader(Reader):
    """Reads texts for a task whose objective hides some of their tokens.

    Args:
        preprocessor: See `Reader`.
        task_name: String. Name of the class of the task, for errors.
        method: String. The method that reads texts, since `predict` does not.
        reads_masks: Boolean. Whether one batch of texts has mask tokens, which the model predicts.
    """

    def __init__(self, preprocessor, task_name, method, reads_masks):
        super().__init__(preprocessor)
        self.task_name, self.method, self.reads_masks = task_name, method, reads_masks

    def check(self, x, method):
        if method == "predict" and self.accepts(x):
            advice = f"`predict` takes prepared inputs. Use `{self.method}(texts)` for texts."
            if self.reads_masks:
                mask = getattr(getattr(self.preprocessor, "tokenizer", None), "mask_token", None)
                advice = (
                    f"`predict` takes prepared inputs, with `mask_positions`. Use `{self.method}(texts)` for texts in "
                    f"which {mask!r} marks the hidden tokens."
                )
            raise ValueError(f"{advice} Received: {x!r:.100}")

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"`y` and `sample_weight` must be None for raw text, since a `{self.task_name}` makes its targets. "
                f"Received: {'sample_weight' if y is None else 'y'}"
            )
        return super().batches(columns, None, None, batch_size, shuffle)

    def stream(self, dataset):
        if texts_of_stream(dataset):
            raise ValueError(
                f"A `{self.task_name}` takes raw text in memory, such as a list. A `tf.data.Dataset` must contain "
                f"`(inputs, targets)`. Received: {dataset.element_spec}"
            )
        return dataset

    def inputs(self, x):
        self.require()
        if self.reads_masks:
            return for_backend(self.preprocessor.encode_masked(x, "longest"))
        return for_backend(encode_texts(self, [x] if isinstance(x, (str, bytes)) else x))

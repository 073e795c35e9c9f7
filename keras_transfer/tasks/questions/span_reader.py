"""The data of a `SpanExtractor`: questions and their contexts, which become overlapping windows."""

import numpy as np

from keras_transfer.batches import span_batches, span_columns
from keras_transfer.layers.attention import HIDDEN
from keras_transfer.tasks.inputs import Reader


class SpanReader(Reader):
    """Accepts a tuple of questions and contexts for training. `SpanExtractor.answer` predicts their answers."""

    in_memory = (
        "A `tf.data.Dataset` must contain ids. For questions, contexts and answers, use `text.span_batches((questions, "
        "contexts), answers, preprocessor=model.preprocessor)` instead."
    )

    def __init__(self, preprocessor, doc_stride, overlap):
        super().__init__(preprocessor)
        self.doc_stride, self.overlap = doc_stride, overlap

    def check(self, x, method):
        if method.startswith("predict") and self.accepts(x):
            raise ValueError(
                "`predict` requires prepared inputs, with `answer_mask`. Use `answer(questions, contexts)` for texts. "
                f"Received: {x!r:.100}"
            )

    def columns(self, x):
        return span_columns(x)

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        return span_batches(
            columns,
            y,
            preprocessor=self.preprocessor,
            batch_size=batch_size,
            shuffle=shuffle,
            sample_weight=sample_weight,
            doc_stride=self.doc_stride,
            overlap=self.overlap,
        )

    def inputs(self, x):
        raise ValueError(
            "A `SpanExtractor` can be called on prepared inputs only, since a long context has several rows. Use "
            f"`answer(questions, contexts)`. Received: {x!r:.100}"
        )

    def restore(self, data, predict):
        # Batches of different lengths have outputs of different lengths.
        logits = np.full((len(data.inputs["answer_mask"]), 2, data.inputs["answer_mask"].shape[1]), HIDDEN, "float32")
        for part, found in predict.parts(data):
            logits[part.order, :, : found.shape[2]] = found
        return logits[np.unique(data.order)]

"""What `fit` knows about the data and the answers, and says once: unknown tokens, and one answer to all texts."""

import logging

import numpy as np

from keras_transfer.batches import Batches
from keras_transfer.label_names import label_of_accuracy

log = logging.getLogger("keras_transfer")

_SHARE, _ROWS, _TOKENS = 0.1, 2000, 100  # Fewer tokens say nothing.


def warn_of_unknown_tokens(task, data):
    """Logs a warning if more than a tenth of the tokens in a sample of the training data are unknown ones."""
    if not isinstance(data, Batches):
        return
    rows = np.linspace(0, len(data.real) - 1, min(len(data.real), _ROWS)).astype(int)
    inputs, labels = data.read(rows, data.options.lengths[-1]), data.read_labels(rows)
    if not {"token_ids", "padding_mask"} <= inputs.keys():
        return
    columns = [(inputs["token_ids"], inputs["padding_mask"] != 0, task.preprocessor)]
    if task.labels.are_ids and getattr(labels, "ndim", 0) == 2:
        columns.append((labels, labels >= 0, getattr(task, "target_preprocessor", None) or task.preprocessor))
    for ids, real, preprocessor in columns:
        unknown = getattr(preprocessor, "unk_id", None)
        if unknown is None or getattr(preprocessor, "warned_of_unknown", False):
            continue
        tokens = ids[real]
        special = set(getattr(preprocessor, "special_ids", ())) - {unknown}
        tokens = tokens[~np.isin(tokens, [*special])]
        share = float(np.mean(tokens == unknown)) if len(tokens) >= _TOKENS else 0.0
        if share > _SHARE:
            preprocessor.warned_of_unknown = True
            log.warning(
                "%.0f%% of the tokens of the texts are unknown to the vocabulary, so the model cannot tell them apart. "
                "Load an encoder that was pretrained on texts in this language and script, such as a multilingual one "
                "(XLM-R, multilingual BERT), or word vectors that contain these words.",
                100 * share,
            )


def warn_of_one_answer(task, data, validation_data, logs):
    """Logs a warning if the last accuracy in `logs` is exactly that of the same answer to all texts."""
    part, prefix = (data, "") if validation_data is None else (validation_data, "val_")
    labels = getattr(part, "labels", None) if isinstance(part, Batches) else None
    if task.label_names is None or getattr(labels, "dtype", None) is None or labels.dtype.kind not in "iu":
        return
    if labels.ndim != (2 if task.labels.of_places else 1) or f"{prefix}accuracy" not in logs:
        return
    accuracy = logs[f"{prefix}accuracy"][-1]
    found = label_of_accuracy(labels[labels >= 0], accuracy)
    if found is not None:
        log.warning(
            "The %saccuracy, %.4f, is exactly that of the answer %r to everything. The model has probably learned only "
            "which label is frequent. Try another learning rate or more epochs, and look at its answers.",
            "validation " if prefix else "",
            accuracy,
            task.label_names[found],
        )

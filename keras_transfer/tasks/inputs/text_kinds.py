"""Whether a task was trained on single texts or on pairs. It would answer the other kind without an error."""

from keras_transfer.batches import Batches
from keras_transfer.tasks.inputs.streams import is_stream, texts_of_stream

_NAMES = {"texts": "single texts", "pairs": "pairs of texts"}
_ADVICE = {
    "texts": "Pass texts as a list; a tuple of two is one pair",
    "pairs": "Pass a tuple of two columns, `(texts, other_texts)`",
}


def kind_of(task, x):
    """Returns the kind of the texts in `x`: `"texts"`, `"pairs"`, or `None` if it is unknown or makes no difference.

    Args:
        task: `Task`.
        x: Anything that `Task.dataset` accepts.
    """
    if not task.reader.takes_either:
        return None
    if isinstance(x, Batches):
        return x.contents.kind if x.contents.kind in _NAMES else None
    if is_stream(x):
        return {1: "texts", 2: "pairs"}.get(len(texts_of_stream(x)))
    if not task.reader.accepts(x):
        return None
    return "pairs" if isinstance(x, tuple) else "texts"


def check_kind(task, x, expected):
    """Raises a `ValueError` if `x` has single texts and the task was trained on pairs, or vice versa.

    Args:
        task: `Task`.
        x: Anything that `Task.dataset` accepts.
        expected: String, the kind that the task was trained on, or `None` if it is unknown.
    """
    kind = None if expected is None else kind_of(task, x)
    if kind not in (None, expected):
        raise ValueError(
            f"The model is trained on {_NAMES[expected]}. {_ADVICE[expected]}. Set `model.fitted_on = None` to use it "
            f"for {_NAMES[kind]} anyway. Received: {_NAMES[kind]}"
        )


def check_export(task, pairs):
    """Raises a `ValueError` if a task trained on single texts would be exported for pairs, or vice versa."""
    if task.reader.takes_either and task.fitted_on is not None and pairs != (task.fitted_on == "pairs"):
        raise ValueError(
            f"The model is trained on {_NAMES[task.fitted_on]}. Use `pairs={not pairs}`, or set "
            f"`model.fitted_on = None`. Received: pairs={pairs}"
        )

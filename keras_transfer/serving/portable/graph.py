"""A task as a function from token ids to its answers, for converters of TensorFlow graphs."""

from keras_transfer.tasks.classification import MultipleChoice, TextClassifier, TextRegressor
from keras_transfer.tasks.embedding import TextEmbedder
from keras_transfer.tasks.questions import SpanExtractor
from keras_transfer.tasks.tagging import TokenClassifier

# From each task to the kind of its answers, which determines the outputs of the graph and how `predict.py` uses them.
KINDS = {
    TextClassifier: "classes",
    TextRegressor: "values",
    TokenClassifier: "words",
    MultipleChoice: "choices",
    SpanExtractor: "spans",
    TextEmbedder: "embedding",
}


def kind_of_answers(model):
    """Returns the kind of a task's answers, as a key of `predict.py`."""
    kind = next((kind for task, kind in KINDS.items() if type(model) is task), None)
    if kind is None:
        names = ", ".join(f"`{task.__name__}`" for task in KINDS)
        raise ValueError(
            f'Only the format "savedmodel" supports this task. LiteRT and ONNX support {names}, but no subclasses of '
            f"these. Received: {_name(model)}"
        )
    for setting in ("windows", "siamese", "crf"):
        if getattr(model, setting, None):
            raise ValueError(
                f'Only the format "savedmodel" supports a `{_name(model)}` with `{setting}`. '
                f"Received: {setting}={getattr(model, setting)!r}"
            )
    if kind == "classes" and model.multi_label:
        return "several_classes"
    return kind


def graph_of(model, kind):
    """Returns a function of the encoder's inputs, by name, that returns a dict of named outputs.

    The outputs are `logits` and `probabilities` of classes, [batch, classes] or, for words, [batch, length, labels];
    `values` [batch, targets]; `embedding` [batch, dim]; `logits` [batch, 1] of choices; and `logits` [batch, length, 2]
    of the starts and ends of spans.
    """
    import tensorflow as tf

    def answer(**ids):
        outputs = model(ids, training=False)
        if kind in ("values", "embedding"):
            return {kind: outputs}
        if kind in ("choices", "spans"):
            return {"logits": tf.transpose(outputs, [0, 2, 1]) if kind == "spans" else outputs}
        probabilities = tf.sigmoid(outputs) if kind == "several_classes" else tf.nn.softmax(outputs)
        return {"logits": outputs, "probabilities": probabilities}

    return answer


def _name(model):
    return type(model).__name__

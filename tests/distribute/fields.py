"""Run by test_fields.py in the process with two CPU devices: a tagger with a field on one device and on two."""

import keras

from tests.strategies import two_replicas
from tests.tasks.tagging.taggers import examples, tagger


def main():
    """The metrics of a step of one device and of two replicas, whose field forbids what the logits alone predict."""
    strategy, logs = two_replicas(), []
    words, tags = examples(8)
    one = field()
    with strategy.scope():
        two = field()
    one.run_eagerly = True
    two.set_weights(one.get_weights())
    for model in (one, two):
        history = model.fit(words, tags, batch_size=8, shuffle=False, verbose=0).history
        logs.append({name: found for name, [found] in history.items()})
    return logs


def field():
    model = tagger("vectors", crf=True)
    transitions = model.random_field.transitions
    transitions.assign(10.0 * keras.ops.eye(transitions.shape[0]))  # All words of a sentence have the same tag.
    model.compile(keras.optimizers.SGD(0.0))
    return model

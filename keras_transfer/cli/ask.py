"""Asks an exported classifier. This script requires tensorflow and tensorflow_text, but not this library.

python ask.py MODEL "first text" "second text"
"""

import sys


def print_answers(texts, answers):
    """Prints one line per text with its answer, the probability of a label, and the text."""
    shown = [f"{answer:.4f}" if isinstance(answer, float) else answer for answer, _ in answers]
    shown = [" | ".join(answer) or "-" if isinstance(answer, list) else answer for answer in shown]
    width = max(len(answer) for answer in shown)
    for text, answer, (_, probability) in zip(texts, shown, answers, strict=True):
        print(f"  {answer:<{width}}  {'' if probability is None else f'{probability:4.0%}  '}{text}")


def labels_of(folder, texts):
    """Returns `(label, probability)` for each text."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 (the graph uses its operations)

    outputs = tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(texts))
    labels = [label.decode() for label in outputs["label"].numpy()]
    return list(zip(labels, outputs["probabilities"].numpy().max(axis=-1)))


if __name__ == "__main__":
    print_answers(sys.argv[2:], labels_of(sys.argv[1], sys.argv[2:]))
    assert not [name for name in sys.modules if name.startswith("keras_transfer")]

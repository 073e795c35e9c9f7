"""Asks an exported model. This script requires tensorflow and tensorflow_text, but not this library.

python ask.py MODEL "first text" "second text"
"""

import json
import os
import pathlib
import sys
import tempfile

# Paths in a SavedModel that `serving.export` wrote.
LABELS_FILE, FACTS_FILE = "assets.extra/labels.json", "assets.extra/export.json"
KINDS = {  # From the outputs of an export to what it predicts.
    ("label", "label_id", "probabilities"): "classification",
    ("chosen", "probabilities"): "multi-label",
    ("values",): "regression",
}


def import_tensorflow():
    """Imports TensorFlow without the lines that it logs on import, whatever its log level, and returns the module.

    C++ writes these lines to file descriptor 2, which is redirected during the import. If the import raises an
    exception, the redirected lines are shown. Afterwards the log level hides everything that does not end the program.

    If the environment variable `TF_CPP_MIN_LOG_LEVEL` is 0 or 1, nothing is hidden. If TensorFlow has been imported
    before, nothing is redirected.
    """
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"]
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") in ("0", "1"):
        import tensorflow

        return tensorflow
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            import tensorflow
        except BaseException:
            held_back.seek(0)
            os.write(stderr, held_back.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    return tensorflow


def is_exported(folder):
    """Returns whether a folder contains an exported model."""
    return (pathlib.Path(folder) / "saved_model.pb").exists()


def read_facts(folder):
    """Returns a dict of the `task`, `adapters` and `signatures` of an export, empty if it lacks the file."""
    file = pathlib.Path(folder) / FACTS_FILE
    if not file.is_file():
        return {}
    try:
        facts = json.loads(file.read_text("utf-8"))
        return {name: facts[name] for name in ("task", "adapters", "signatures")}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is damaged. Export the model again. Received: {error!r}") from None


def refuse_taggers(folder, outputs):
    """Raises a ValueError if the names of the outputs of an export are those of a tagger."""
    if "words" in outputs:
        raise ValueError(
            "This command does not support taggers. Tag texts in Python with `serving.Predictor(folder, column)`. "
            f"Received: {folder}"
        )


def answers_of(folder, texts, adapter=None):
    """Returns `(answer, probability)` for each text, as an exported classifier or regressor of texts answers it.

    The answer is a label, a list of labels or a number. Only a single label has a probability, which is otherwise None.
    """
    if not is_exported(folder):
        raise FileNotFoundError(f"The model's folder must contain saved_model.pb. Received: {folder}")
    tf = import_tensorflow()
    import tensorflow_text  # noqa: F401 (the graph uses its operations)

    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    inputs, names = sorted(signature.structured_input_signature[1]), sorted(signature.structured_outputs)
    kind = KINDS.get(tuple(names))
    refuse_taggers(folder, names)
    several = inputs == ["adapter", "text"]
    if inputs != ["text"] and not several:
        raise ValueError(f"The model must have a single input `text`. Received: a model with the inputs {inputs}")
    if several != (adapter is not None):
        expected = "has several adapters, and needs" if several else "has no adapters to choose from, and accepts no"
        raise ValueError(f"The exported model {expected} `adapter`. Received: {folder}, with adapter={adapter!r}")
    columns = {"text": texts, **({"adapter": [adapter] * len(texts)} if several else {})}
    found = signature(**{name: tf.constant(column, tf.string) for name, column in columns.items()})
    outputs = {name: output.numpy() for name, output in found.items()}
    if kind == "classification" and outputs["label"].ndim == 1:
        labels = [label.decode() for label in outputs["label"]]
        return list(zip(labels, outputs["probabilities"].max(axis=-1).tolist(), strict=True))
    if kind == "multi-label":
        labels = json.loads((pathlib.Path(folder) / LABELS_FILE).read_text("utf-8"))
        return [([label for label, one in zip(labels, row) if one], None) for row in outputs["chosen"]]
    if kind == "regression" and outputs["values"].shape[-1] == 1:
        return [(value, None) for value in outputs["values"][:, 0].tolist()]
    raise ValueError(f"The model must predict a label, several labels or a number. Received: a model of {names}")


def print_answers(texts, answers):
    """Prints one line per text with its answer, the probability of a label, and the text."""
    shown = [f"{answer:.4f}" if isinstance(answer, float) else answer for answer, _ in answers]
    shown = [" | ".join(answer) or "-" if isinstance(answer, list) else answer for answer in shown]
    width = max(len(answer) for answer in shown)
    for text, answer, (_, probability) in zip(texts, shown, answers, strict=True):
        print(f"  {answer:<{width}}  {'' if probability is None else f'{probability:4.0%}  '}{text}")


if __name__ == "__main__":
    print_answers(sys.argv[2:], answers_of(sys.argv[1], sys.argv[2:]))
    assert not [name for name in sys.modules if name.startswith("keras_transfer")]

"""Asks an exported model. This script requires tensorflow and tensorflow_text, but not this library.

python ask.py MODEL "first text" "second text"
"""

import os
import pathlib
import sys
import tempfile


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


def classify(folder, texts):
    """Returns the predictions of an exported classifier.

    Args:
        folder: Path of a folder that `keras_transfer.serving.export` wrote.
        texts: List of strings.

    Returns:
        A list of `(label, probability)`, one for each text.

    Raises:
        FileNotFoundError: If the folder has no SavedModel.
        ValueError: If the model does not take a single text.
    """
    if not (pathlib.Path(folder) / "saved_model.pb").exists():
        other = (pathlib.Path(folder) / "model.keras").exists() or str(folder).endswith(".keras")
        hint = " For a model of `keras-transfer train`, use `keras-transfer predict`." if other else ""
        raise FileNotFoundError(f"The model's folder must contain saved_model.pb.{hint} Received: {folder}")
    tf = import_tensorflow()
    import tensorflow_text  # noqa: F401 (its operations are in the graph)

    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    inputs = sorted(signature.structured_input_signature[1])
    if inputs != ["text"]:
        raise ValueError(f"The model must have a single input `text`. Received: a model with the inputs {inputs}")
    outputs = signature(text=tf.constant(texts))
    labels = [label.decode() for label in outputs["label"].numpy()]
    return list(zip(labels, outputs["probabilities"].numpy().max(axis=-1).tolist(), strict=True))


def print_answers(folder, texts):
    """Prints one line per text with its label, its probability and the text."""
    answers = classify(folder, texts)
    width = max(len(label) for label, _ in answers)
    for text, (label, probability) in zip(texts, answers, strict=True):
        print(f"  {label:<{width}}  {probability:4.0%}  {text}")


if __name__ == "__main__":
    print_answers(sys.argv[1], sys.argv[2:])
    assert not [name for name in sys.modules if name.startswith("keras_transfer")]

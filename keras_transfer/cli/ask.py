"""Asks an exported model: a script of its own, which needs tensorflow and tensorflow_text and nothing of this library.

python ask.py MODEL "first text" "second text"
"""

import os
import pathlib
import sys
import tempfile


def import_tensorflow():
    """Imports TensorFlow without the lines that it logs on import, whatever its log level, and returns the module.

    C++ writes these lines to file descriptor 2, which is redirected during the import. If the import raises an
    exception, what was written is shown. Afterwards the log level hides everything that does not end the program.

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


def ask(folder, texts):
    """Returns an exported classifier's answers.

    Args:
        folder: path that `keras_transfer.serving.export` wrote.
        texts: list of str.

    Returns:
        List of `(label, probability)`, one for each text.

    Raises:
        FileNotFoundError: there is no SavedModel in the folder.
        ValueError: it takes something else than one text.
    """
    if not (pathlib.Path(folder) / "saved_model.pb").exists():
        raise FileNotFoundError(f"a SavedModel is a folder with a saved_model.pb. Received: {folder}")
    tf = import_tensorflow()
    import tensorflow_text  # noqa: F401 (its operations are in the graph)

    classify = tf.saved_model.load(str(folder)).signatures["serving_default"]
    inputs = sorted(classify.structured_input_signature[1])
    if inputs != ["text"]:
        raise ValueError(f"the model must take one `text`. Received: a model of {inputs}")
    outputs = classify(text=tf.constant(texts))
    labels = [label.decode() for label in outputs["label"].numpy()]
    return list(zip(labels, outputs["probabilities"].numpy().max(axis=-1).tolist(), strict=True))


def print_answers(folder, texts):
    """Prints label, probability and text, a line for each text."""
    answers = ask(folder, texts)
    width = max(len(label) for label, _ in answers)
    for text, (label, probability) in zip(texts, answers, strict=True):
        print(f"  {label:<{width}}  {probability:4.0%}  {text}")


if __name__ == "__main__":
    print_answers(sys.argv[1], sys.argv[2:])
    assert not [name for name in sys.modules if name.startswith("keras_transfer")]

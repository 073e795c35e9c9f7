"""The tokens of a task that writes text: end tokens, tokens that the user names, and the bytes that each token adds."""

import operator

from keras_transfer.generation.decoding import generation_defaults
from keras_transfer.text.preprocessors import TokenPreprocessor


def named_token_id(preprocessor, token, argument):
    """Returns the id of a token that the user passed as a string or as its id.

    Args:
        preprocessor: The preprocessor of the task, or `None`.
        token: String or integer.
        argument: String. Name of the argument, for the error.
    """
    if not isinstance(token, str):
        try:
            return operator.index(token)
        except TypeError as error:
            raise ValueError(
                f"`{argument}` must be a token or its id, an integer. Received: {argument}={token!r:.100}"
            ) from error
    found = None if preprocessor is None else preprocessor.token_to_id(token)
    if found is None:
        raise ValueError(f"`{argument}` must be a token of the vocabulary. Received: {argument}={token!r}")
    return found


def token_preprocessor(task):
    """Returns the preprocessor of a task."""
    getattr(task, "reader", task).require()
    if not isinstance(task.preprocessor, TokenPreprocessor):
        raise ValueError(
            "This method requires a `text.TokenPreprocessor`, which has a tokenizer. Create the task with one, or pass "
            f"token ids. Received: {type(task.preprocessor).__name__}"
        )
    return task.preprocessor


def target_preprocessor(task):
    """Returns the preprocessor of the texts that a task writes, which may differ from that of its inputs."""
    own = getattr(task, "target_preprocessor", None)
    return task.preprocessor if own is None else own


def end_ids(task):
    """Returns the ids of end tokens as a tuple: the checkpoint's, or else one of the preprocessor, or else none."""
    found = generation_defaults(task.encoder).end_ids
    if found is not None:
        return found
    preprocessor = target_preprocessor(task)
    if not isinstance(preprocessor, TokenPreprocessor):
        return ()
    own = getattr(preprocessor.tokenizer, "eos_id", None)
    last = preprocessor.packing.end[-1:]
    own = preprocessor.token_to_id(last[0]) if own is None and last else own
    return () if own is None else (own,)


def text_pieces(task):
    """Returns the bytes that each token adds to a text, as a list. Special tokens add nothing."""
    token_preprocessor(task)
    preprocessor = target_preprocessor(task)
    pieces = preprocessor.tokenizer.token_bytes()
    special = {preprocessor.token_to_id(token) for token in preprocessor.packing.special_tokens}
    special |= set(end_ids(task))
    pieces += [b""] * (task.output.shape[-1] - len(pieces))  # An embedding may have more rows than the vocabulary.
    return [b"" if index in special else piece for index, piece in enumerate(pieces)]

"""The preprocessors of the sources and of the targets of a translation model."""

from keras_transfer.checkpoints.sources import check_length
from keras_transfer.generation.decoding import generation_defaults
from keras_transfer.names import listed
from keras_transfer.text.base import is_language_code


def load_both(checkpoint, sequence_length, source_language, target_language):
    """Returns a checkpoint's preprocessors of sources and targets. The second is `None` if both are the same.

    Args:
        checkpoint: `OpenedCheckpoint`.
        sequence_length: Integer, or `None` for the checkpoint's value.
        source_language: String, or `None` for the checkpoint's language.
        target_language: String, or `None` for the checkpoint's language.
    """
    check_length(sequence_length)
    sources = checkpoint.preprocessor(sequence_length)
    tokenizer = getattr(sources, "tokenizer", None)
    codes, is_pair = getattr(tokenizer, "language_codes", []), getattr(tokenizer, "has_own_targets", False)
    for name, language in (("source_language", source_language), ("target_language", target_language)):
        known = [] if is_pair and name == "source_language" else codes  # Marian's codes name the target language.
        if language is not None and language not in known:
            expected = f"must be one of {listed(known)}" if known else "cannot be chosen, because there are no codes"
            raise ValueError(f"`{name}` {expected} for {checkpoint.source}. Received: {name}={language!r}")
    if is_pair:
        targets = checkpoint.preprocessor(sequence_length, target=True)
        return sources if target_language is None else sources.with_language(target_language), targets
    if not codes:
        return sources, None
    if target_language is not None:
        targets = sources.with_language(target_language)
    else:
        targets = checkpoint.preprocessor(sequence_length, target=True)
        targets = None if targets.language == sources.language else targets
    return sources if source_language is None else sources.with_language(source_language), targets


def in_language_of_checkpoint(encoder, preprocessor):
    """Returns the preprocessor of targets in the language with which the checkpoint's generation begins, or `None`.

    Args:
        encoder: `EncoderDecoder`.
        preprocessor: Preprocessor of the sources, or `None`.
    """
    if getattr(preprocessor, "language", None) is None or preprocessor.tokenizer.has_own_targets:
        return None
    if not preprocessor.tokenizer.is_loaded:  # A `.keras` file contains the preprocessor of targets separately.
        return None
    found = generation_defaults(encoder)
    for index in (found.constraints.forced_first, found.start_id):
        token = "" if index is None or index >= preprocessor.vocabulary_size else preprocessor.vocabulary[index]
        if is_language_code(token):
            return preprocessor.with_language(token)
    return None

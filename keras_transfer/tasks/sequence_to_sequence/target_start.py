"""The start of a target: the decoder's first input token, and the code of the target's language."""

from keras_transfer.generation.decoding import generation_defaults
from keras_transfer.tasks.continuations import named_token_id
from keras_transfer.text.preprocessors import TokenPreprocessor


def language_id(preprocessor):
    """Returns the id of the language code that targets begin with, given their preprocessor, or `None`."""
    if not isinstance(preprocessor, TokenPreprocessor) or preprocessor.language not in preprocessor.packing.start:
        return None
    return preprocessor.token_to_id(preprocessor.language)


def start_id(encoder, preprocessor, token):
    """Returns the id of the token that the decoder begins with."""
    if (
        token is None
        and isinstance(preprocessor, TokenPreprocessor)
        and preprocessor.language in preprocessor.packing.end
    ):
        token = preprocessor.language
    if token is not None:
        found, count = named_token_id(preprocessor, token, "start_token"), encoder.decoder.token_embedding.input_dim
        if not 0 <= found < count:
            raise ValueError(f"`start_token` must be an id from 0 to {count - 1}. Received: start_token={token}")
        return found
    found = generation_defaults(encoder).start_id
    if found is not None:
        return found
    files = encoder.checkpoint_settings if encoder.checkpoints_have_start else {}
    config = files.get("config.json", {})
    if config and encoder.default_start is not None and "decoder_start_token_id" not in config:
        return encoder.default_start
    if {"config.json", "generation_config.json"} & {*files}:
        raise ValueError(
            "The checkpoint lacks `decoder_start_token_id`, the first input of its decoder. Pass `start_token`, such "
            "as the id of '</s>' for BART. Received: start_token=None"
        )
    if not isinstance(preprocessor, TokenPreprocessor):
        return 0
    first = [] if encoder.starts_with_padding else preprocessor.packing.start[:1]
    return preprocessor.token_to_id(first[0]) if first else preprocessor.pad_id

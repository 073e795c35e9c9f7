"""Checks of ids in memory, before an encoder looks them up."""

import numpy as np

from keras_transfer.layers.embeddings import PositionEmbedding


def check_ids(encoder, arrays):
    """Raises a `ValueError` if ids are not rows of the encoder's tables; a negative id would count from the end."""
    for name in ("token_ids", "decoder_token_ids"):
        ids = arrays.get(name)
        if ids is not None and ids.dtype.kind not in "iub" and (ids != np.round(ids)).any():
            place = tuple(np.argwhere(ids != np.round(ids))[0].tolist())
            raise ValueError(f"`{name}` must be integers. Received: {ids[place]} at position {place}")
        for table in () if ids is None else encoder.layers:
            if isinstance(table, PositionEmbedding):
                table.check_length(ids.shape[-1])
    decoder = getattr(encoder, "decoder", None)
    counts = {
        "token_ids": getattr(encoder, "vocabulary_size", None),
        "segment_ids": getattr(encoder, "num_segments", None),
        "decoder_token_ids": None if decoder is None else decoder.token_embedding.input_dim,
    }
    for name, count in counts.items():
        ids = arrays.get(name)
        if ids is None or ids.dtype.kind not in "iu" or not ids.size or not count:
            continue
        if ids.min() < 0 or ids.max() >= count:
            place = tuple(np.argwhere((ids < 0) | (ids >= count))[0].tolist())
            raise ValueError(
                f"`{name}` must be from 0 to {count - 1}, because the encoder has {count} of them. "
                f"Received: {ids[place]} at position {place}"
            )

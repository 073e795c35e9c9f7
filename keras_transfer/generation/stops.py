"""Stop strings: an automaton over tokens that also finds stop strings across the boundaries of tokens."""

import numpy as np

from keras_transfer.core.expect import expect


def stop_table(stops, pieces):
    """Returns the transitions of an automaton over tokens that recognizes stop strings, int32 `[states, vocabulary]`.

    Its state is the longest prefix of a stop string that the text ends with (Aho & Corasick 1975). A token advances it
    by all of its bytes (`pieces`) at once. The first state is the start. The last one, which is never left, says that a
    stop string occurred.
    """
    for stop in stops:
        expect(isinstance(stop, str) and stop, "`stop` must contain strings that are not empty.", stop=stop)
    by_byte = _byte_table([stop.encode("utf-8") for stop in stops])
    length = max(map(len, pieces), default=0)
    padded = np.zeros((len(pieces), length), "int32")
    for index, piece in enumerate(pieces):
        padded[index, : len(piece)] = np.frombuffer(piece, np.uint8)
    lengths = np.array([len(piece) for piece in pieces])
    states = np.repeat(np.arange(len(by_byte), dtype="int32")[:, None], len(pieces), axis=1)
    for position in range(length):
        states = np.where(lengths > position, by_byte[states, padded[:, position]], states)
    return states


def _byte_table(stops):
    """Returns the next states `[states, 256]` of the automaton over bytes."""
    prefixes = sorted({stop[:end] for stop in stops for end in range(len(stop))}, key=len)
    number = {prefix: index for index, prefix in enumerate(prefixes)}
    last = len(prefixes)
    table = np.full((last + 1, 256), last, "int32")
    for prefix, state in number.items():
        for byte in range(256):
            text = prefix + bytes([byte])
            if not any(text.endswith(stop) for stop in stops):
                table[state, byte] = next(number[text[i:]] for i in range(len(text) + 1) if text[i:] in number)
    return table

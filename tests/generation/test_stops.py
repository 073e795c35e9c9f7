"""Stop strings, found by an automaton over tokens."""

import numpy as np
import pytest

from keras_transfer.generation.stops import stop_table


def test_a_stop_string_is_found_wherever_the_borders_of_tokens_are():
    random = np.random.default_rng(0)
    pieces = [bytes(random.choice(list(b"ab"), random.integers(0, 4)).tolist()) for _ in range(12)]
    stops = ["aab", "bab", "abba"]
    table = stop_table(stops, pieces)
    assert table.dtype == "int32" and table.shape[1] == 12
    for _ in range(300):
        state, text = 0, b""
        for token in random.integers(0, 12, random.integers(1, 9)):
            state, text = table[state, token], text + pieces[token]
            assert (state == len(table) - 1) == any(stop.encode() in text for stop in stops)


def test_characters_of_several_bytes_may_be_split():
    pieces = [bytes([byte]) for byte in "é".encode()] + [b"x"]
    table = stop_table(["é"], pieces)
    state = 0
    for token, ended in ((0, False), (2, False), (0, False), (1, True), (2, True)):
        state = table[state, token]
        assert (state == len(table) - 1) == ended


@pytest.mark.parametrize("stop", ["", 3])
def test_a_stop_string_must_not_be_empty(stop):
    with pytest.raises(ValueError, match="`stop` must contain strings that are not empty. Received: "):
        stop_table([stop], [b"a"])

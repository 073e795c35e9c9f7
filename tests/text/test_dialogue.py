"""The sequence of a dialogue is that of the tutorial's worked example."""

from keras_transfer.text import dialogue_inputs

PERSONA = [["i", "like", "football"], ["i", "am", "from", "NYC"]]
HISTORY = [["how", "are", "you", "?"], ["pretty", "fine"]]


def test_words_segments_positions_and_targets_are_those_of_the_worked_example():
    words, segments, positions, targets = dialogue_inputs(PERSONA, HISTORY, ["great", "!"])
    assert words == [
        *["<bos>", "i", "like", "football", "i", "am", "from", "NYC"],
        *["<speaker2>", "how", "are", "you", "?"],
        *["<speaker1>", "pretty", "fine"],
        *["<speaker2>", "great", "!", "<eos>"],
    ]
    assert segments == [*["<speaker1>"] * 8, *["<speaker2>"] * 5, *["<speaker1>"] * 3, *["<speaker2>"] * 4]
    assert positions == list(range(20))
    # Each word of the reply and the end are the target of the word before them.
    assert targets == [*[None] * 16, "great", "!", "<eos>", None]


def test_the_one_who_replies_is_the_second_speaker_whatever_the_number_of_turns():
    for count in range(4):
        words = dialogue_inputs([], HISTORY[:1] * count, ["great"]).words
        assert words[-3:] == ["<speaker2>", "great", "<eos>"]
        turns = ["<speaker1>", "<speaker2>"] * 2
        assert [word for word in words if "speaker" in word] == turns[-1 - count :]


def test_without_a_reply_the_sequence_ends_where_it_begins_and_there_are_no_targets():
    whole = dialogue_inputs(PERSONA, HISTORY, ["great", "!"])
    words, segments, positions, targets = dialogue_inputs(PERSONA, HISTORY)
    assert (words, segments, positions) == (whole.words[:-3], whole.segments[:-3], whole.positions[:-3])
    assert targets == [None] * 17


def test_tokens_may_be_ids():
    found = dialogue_inputs([[7]], [[8, 9]], [5], bos=1, eos=2, speakers=(3, 4), ignored=0)
    assert found == ([1, 7, 3, 8, 9, 4, 5, 2], [3, 3, 3, 3, 3, 4, 4, 4], list(range(8)), [0, 0, 0, 0, 0, 5, 2, 0])

"""PersonaChat's dialogues: personas, turns, candidates, and examples with their history."""

import pytest

from keras_transfer.datasets import load_personachat
from tests.errors import check_errors

FIRST = [
    "1 your persona: i like football.",
    "2 your persona: i am from nyc.",
    "3 partner's persona: i read.",
    "4 how are you ?\tpretty fine .\t\tno .|pretty fine .",
    "5 great !\tindeed .\t\tindeed .|yes .",
]


def write(tmp_path, *lines):
    (tmp_path / "valid.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "valid.txt"


def test_the_validation_set_has_1000_dialogues_and_7801_turns(data_dir):
    dialogues = load_personachat(data_dir("personachat") / "valid_self_original_no_cands.txt")
    assert len(dialogues) == 1000 and sum(len(dialogue.turns) for dialogue in dialogues) == 7801
    assert sum(len(dialogue.persona) for dialogue in dialogues) == 4483
    assert dialogues[0].turns[0].text == "hello what are doing today ?" and not dialogues[0].turns[0].candidates


def test_personas_turns_and_candidates_are_read(tmp_path):
    first, second = load_personachat(write(tmp_path, *FIRST, "1 your persona: i sing.", "2 hi\thello"))
    assert first.persona == ["i like football.", "i am from nyc."] and first.partner_persona == ["i read."]
    assert first.turns[0] == ("how are you ?", "pretty fine .", ["no .", "pretty fine ."])
    assert second == (["i sing."], [], [("hi", "hello", [])])


def test_the_history_of_an_example_ends_with_the_partner(tmp_path):
    first, second = load_personachat(write(tmp_path, *FIRST))[0].examples()
    assert first.history == ["how are you ?"] and first.reply == "pretty fine ."
    assert second.history == ["how are you ?", "pretty fine .", "great !"] and second.reply == "indeed ."
    assert second.candidates == ["indeed .", "yes ."] and second.persona == ["i like football.", "i am from nyc."]


test_a_mistake_in_a_line_is_one_error = check_errors(
    ([*FIRST[:3], FIRST[4]], "line 4: Expected a line with the number 4 or 1. Received: '5 great"),
    (FIRST[1:], "line 1: Expected a line with the number 1 or 1"),
    ([*FIRST[:4], "5 great !"], "line 5: Expected an utterance, a tab and a reply. Received: 'great !'"),
    ([*FIRST[:4], "5 great !\t"], "line 5: Expected an utterance, a tab and a reply"),
    ([*FIRST[:2], "1 your persona: i sing."], "line 3: Expected a reply in the dialogue before"),
    (FIRST[:3], "end: Expected a reply in the dialogue before"),
    ([], "Expected at least one dialogue. Received: no lines"),
    call=lambda lines, tmp_path: load_personachat(write(tmp_path, *lines)),
)


def test_a_missing_file_says_where_to_get_the_data(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ParlAI .* Received: .*valid.txt"):
        load_personachat(tmp_path / "valid.txt")

"""SWAG, COPA and RACE: contexts, questions, choices and the position of the right one."""

import json

import pytest

from keras_transfer.datasets import load_copa, load_race, load_swag

SWAG_HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
SWAG_ROW = '0,v1,7,start,"She sits down, slowly.",She,gold,"opens a ""book"".",flies away.,melts.,barks.'
COPA_ITEM = (
    '<item id="1" asks-for="{}" most-plausible-alternative="{}"><p>It rained &amp; poured.</p>'
    "<a1>I got wet.</a1><a2>Clouds came.</a2></item>"
)
ARTICLE = {
    "article": "Tom has a dog.",
    "questions": ["Tom has a _ .", "Who has it?"],
    "options": [["cat", "dog", "cow", "hen"], ["Ann", "Eve", "Tom", "Joe"]],
    "answers": ["B", "C"],
    "id": "high1.txt",
}


def write_copa(folder, *items, name="copa-dev.xml"):
    header = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE copa-corpus SYSTEM "copa.dtd">\n'
    (folder / name).write_text(f'{header}<copa-corpus version="1.0">{"".join(items)}</copa-corpus>')


def write_race(folder, split, level, number, article=ARTICLE):
    (folder / split / level).mkdir(parents=True, exist_ok=True)
    (folder / split / level / f"{number}.txt").write_text(json.dumps(article))


def test_swag_has_four_endings_after_the_beginning_of_the_second_sentence(tmp_path):
    (tmp_path / "val.csv").write_text(f"{SWAG_HEADER},label\n{SWAG_ROW},2\n")
    (tmp_path / "test.csv").write_text(f"{SWAG_HEADER}\n{SWAG_ROW}\n")
    data = load_swag(tmp_path)
    assert list(data) == ["validation", "test"] and data.validation.labels == [2] and data.test.labels is None
    assert data.validation.choices == [['opens a "book".', "flies away.", "melts.", "barks."]]
    contexts, endings = data.validation.inputs
    assert contexts == ["She sits down, slowly."]
    assert endings == [['She opens a "book".', "She flies away.", "She melts.", "She barks."]]


def test_an_ending_of_swag_that_does_not_exist_is_an_error(tmp_path):
    (tmp_path / "train.csv").write_text(f"{SWAG_HEADER},label\n{SWAG_ROW},4\n")
    with pytest.raises(ValueError, match="line 2: Expected one of .'0', '1', '2', '3'. .* Received: '4'"):
        load_swag(tmp_path)


def test_copa_asks_for_a_cause_or_an_effect(tmp_path):
    write_copa(tmp_path, COPA_ITEM.format("effect", 1), COPA_ITEM.format("cause", 2))
    data = load_copa(tmp_path)
    assert (
        list(data) == ["validation"]
        and data.validation.labels == [0, 1]
        and data.validation.questions == ["effect", "cause"]
    )
    contexts, endings = data.validation.inputs
    assert contexts == ["It rained & poured."] * 2
    assert endings == [["so I got wet.", "so Clouds came."], ["because I got wet.", "because Clouds came."]]


def test_a_mistake_in_copa_is_one_error(tmp_path):
    for items, message in [
        ([COPA_ITEM.format("reason", 1)], r"item 1: Expected one of \['cause', 'effect'\]. Received: 'reason'"),
        ([COPA_ITEM.format("cause", 3)], r"item 1: Expected one of \['1', '2'\] as the right choice. Received: '3'"),
        (["<item>"], "Expected complete XML. The file may have been cut."),
        ([], "Expected at least one item"),
    ]:
        write_copa(tmp_path, *items)
        with pytest.raises(ValueError, match=message):
            load_copa(tmp_path)


def test_race_fills_the_gap_of_a_question_or_appends_the_choice(tmp_path):
    write_race(tmp_path, "dev", "high", 1)
    dev = load_race(tmp_path, level="high").validation
    assert dev.labels == [1, 2] and dev.contexts == ["Tom has a dog."] * 2
    endings = dev.inputs[1]
    assert (endings[0][1], endings[1][2]) == ("Tom has a dog .", "Who has it? Tom")


def test_race_is_read_in_the_order_of_the_numbers_of_its_files_for_one_or_both_levels(tmp_path):
    for level, number in (("middle", 10), ("middle", 9), ("high", 1)):
        write_race(tmp_path, "train", level, number, {**ARTICLE, "article": f"{level} {number}"})
    assert load_race(tmp_path).train.contexts[::2] == ["middle 9", "middle 10", "high 1"]
    assert load_race(tmp_path, level="middle").train.contexts[::2] == ["middle 9", "middle 10"]


def test_a_mistake_in_race_is_one_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must contain train, dev and test. Get RACE.tar.gz"):
        load_race(tmp_path)
    write_race(tmp_path, "train", "high", 1)
    with pytest.raises(FileNotFoundError, match=r"must contain articles. .* Received: .*middle"):
        load_race(tmp_path)
    for change, message in [
        ({"answers": ["B"]}, r"as many options and answers as questions. Received: \[2, 2, 1\]"),
        ({"answers": ["B", "E"]}, r"Expected one of \['A', 'B', 'C', 'D'\] as the right choice. Received: 'E'"),
        ({"options": [["cat"], ["dog"]]}, "Expected four options"),
        ({"options": [None, None]}, "Expected four options. Received: None"),
        ({"questions": ["Who?", 7]}, r"Expected strings. Received: \[7, 'Ann', 'Eve'"),
        ({"answers": "BC"}, "Expected 'answers' as list. Received: 'BC'"),
    ]:
        write_race(tmp_path, "train", "high", 1, {**ARTICLE, **change})
        with pytest.raises(ValueError, match=message):
            load_race(tmp_path, level="high")


@pytest.mark.parametrize("load, file", [(load_swag, "train.csv"), (load_copa, "copa-dev.xml")])
def test_a_folder_without_the_files_says_where_to_get_them(tmp_path, load, file):
    with pytest.raises(FileNotFoundError, match=rf"The folder must contain {file}.* Get .*https://.* Received: "):
        load(tmp_path)

"""SQuAD's questions with their answers in the characters of the context."""

import json

import pytest

from keras_transfer.datasets import Answer, hold_out, load_squad
from tests.errors import check_errors

CONTEXT = "Ann has a naïve 🐈 named Tom."


def write(tmp_path, *questions, **article):
    paragraph = {"context": CONTEXT, "qas": list(questions)}
    data = {"data": [{"title": "Cats", "paragraphs": [paragraph], **article}], "version": "1.1"}
    (tmp_path / "dev.json").write_text(json.dumps(data))
    return tmp_path / "dev.json"


def question(*answers, **fields):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "What is its name?", "answers": answers, **fields}


def test_the_dev_set_has_10570_questions_whose_answers_are_in_their_contexts(data_dir):
    data = load_squad(data_dir("squad1.1") / "dev-v1.1.json")
    assert {len(column) for column in data} == {10570} and len(set(data.ids)) == 10570
    assert len(set(data.titles)) == 48 and data.answers[0][0] == Answer("Denver Broncos", 177)
    for context, answers in zip(data.contexts, data.answers, strict=True):
        assert answers and all(context[start : start + len(text)] == text for text, start in answers)


def test_all_answers_are_kept_with_their_places_in_characters(tmp_path):
    data = load_squad(write(tmp_path, question(("Tom", 24), ("named Tom", 18))))
    assert data.answers == [[("Tom", 24), ("named Tom", 18)]]
    assert (data.ids, data.questions, data.contexts, data.titles) == (
        ["q1"],
        ["What is its name?"],
        [CONTEXT],
        ["Cats"],
    )


def test_an_impossible_question_of_squad_2_has_no_answers(tmp_path):
    impossible = question(is_impossible=True, plausible_answers=[{"text": "Ann", "answer_start": 0}])
    assert load_squad(write(tmp_path, question(("Ann", 0), is_impossible=False), impossible)).answers == [
        [("Ann", 0)],
        [],
    ]


def test_questions_can_be_divided(tmp_path):
    path = write(tmp_path, *(question(("Ann", 0), id=f"q{i}") for i in range(5)))
    train, held_out = hold_out(load_squad(path), validation_split=0.2)
    assert (len(train.ids), len(held_out.ids)) == (4, 1) and set(train.ids) | set(held_out.ids) == {
        f"q{i}" for i in range(5)
    }


test_a_mistake_in_a_question_is_one_error_with_its_id = check_errors(
    (question(("Tom", 23)), "question 'q1': Expected the answer 'Tom' at position 23 of ... Received: ' To'"),
    (question(("Tom", -4)), "Expected the answer 'Tom' at position -4"),
    (question(("dog", 10)), "Expected the answer 'dog' at position 10 ... Received: 'naï'"),
    (question(("Ann", "0")), "question 'q1': Expected 'answer_start' as int. Received: '0'"),
    (question(), "Expected answers, or `is_impossible`. Received: 0 answers and is_impossible=False"),
    (question(("Ann", 0), is_impossible=True), "Received: 1 answers and is_impossible=True"),
    (
        {"id": "q2", "question": "Who?"},
        "question 'q2': Expected an object with 'answers'. Received: ['id', 'question']",
    ),
    call=lambda bad, tmp_path: load_squad(write(tmp_path, bad)),
)


def test_a_file_that_was_cut_is_not_half_read(tmp_path):
    path = write(tmp_path, question(("Ann", 0)))
    path.write_text(path.read_text()[:90])
    with pytest.raises(ValueError, match=r"dev.json, line 1: Expected complete JSON. The file may have been cut."):
        load_squad(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="Expected an object with 'data'"):
        load_squad(path)
    with pytest.raises(FileNotFoundError, match=r"Get train-v1.1.json .* Received: .*missing.json"):
        load_squad(tmp_path / "missing.json")
    with pytest.raises(FileNotFoundError, match=r"Get train-v2.0.json .* Received: .*dev-v2.0.json"):
        load_squad(tmp_path / "dev-v2.0.json")


def test_ids_may_be_numbers_and_titles_may_be_missing(tmp_path):
    path = write(tmp_path, question(("Ann", 0), id=7))
    data = json.loads(path.read_text())
    del data["data"][0]["title"]
    path.write_text(json.dumps(data))
    found = load_squad(path)
    assert (found.ids, found.titles, found.answers) == (["7"], [""], [[("Ann", 0)]])


@pytest.mark.parametrize("form", ["lines", "list", "data"])
def test_a_file_with_one_question_in_each_row_is_read(tmp_path, form):
    """The form of Hugging Face's datasets: a list of texts, and a list of their places."""
    answers = [{"text": ["Tom", "named Tom"], "answer_start": [24, 18]}, {"text": [], "answer_start": []}]
    rows = [{"id": str(n), "question": "Who?", "context": CONTEXT, "answers": each} for n, each in enumerate(answers)]
    lines = "\n".join(map(json.dumps, rows))
    text = {"lines": lines, "list": json.dumps(rows, indent=1), "data": json.dumps({"data": rows})}[form]
    (tmp_path / "rows.json").write_text(text)
    found = load_squad(tmp_path / "rows.json")
    assert (found.ids, found.contexts) == (["0", "1"], [CONTEXT] * 2)
    assert found.answers == [[("Tom", 24), ("named Tom", 18)], []]


test_a_table_of_other_data_is_one_error = check_errors(
    ('[{"text": "a", "label": "b"}]', "For a table, use `read_table`. Received: rows with ['text', 'label']"),
    ('{"text": "a"}\n{"text": "b"}', "For a table, use `read_table`. Received: rows with ['text']"),
    call=lambda text, tmp_path: load_squad((tmp_path / "a.json").write_text(text) and tmp_path / "a.json"),
)

"""SuperGLUE's tasks are read from the layout of their official files."""

import json

import pytest

from keras_transfer.datasets import hold_out, load_superglue
from tests.errors import check_errors

# A row of each task, in the layout of its official files. Ann occurs twice among the entities of ReCoRD.
ROWS = {
    "BoolQ": '{"question": "is it wet", "passage": "It rained.", "idx": 0, "label": true}',
    "CB": '{"premise": "I doubt that it rained.", "hypothesis": "it rained", "label": "neutral", "idx": 0}',
    "RTE": '{"premise": "It rained.", "hypothesis": "It was dry.", "label": "not_entailment", "idx": 0}',
    "COPA": (
        '{"premise": "It rained.", "choice1": "I got wet.", "choice2": "I sang.", "question": "effect", '
        '"label": 0, "idx": 0}'
    ),
    "MultiRC": (
        '{"idx": 0, "passage": {"text": "Ann met Eve. They sang.", "questions": [{"question": "Who sang?", '
        '"idx": 0, "answers": [{"text": "Ann", "idx": 0, "label": 1}, {"text": "Tom", "idx": 1, "label": 0}]}, '
        '{"question": "Who met?", "idx": 1, "answers": [{"text": "Eve", "idx": 2, "label": 1}]}]}}'
    ),
    "ReCoRD": (
        '{"source": "news", "passage": {"text": "Ann met Eve.\\n@highlight\\nAnn smiled.", '
        '"entities": [{"start": 0, "end": 2}, {"start": 8, "end": 10}, {"start": 24, "end": 26}]}, "idx": 0, '
        '"qas": [{"query": "@placeholder smiled at Eve", "idx": 0, "answers": [{"start": 0, "end": 2, '
        '"text": "Ann"}, {"start": 24, "end": 26, "text": "Ann"}]}]}'
    ),
    "WiC": (
        '{"word": "bank", "sentence1": "The bank is closed.", "sentence2": "We sat on the bank.", "idx": 0, '
        '"label": false, "start1": 4, "end1": 8, "start2": 14, "end2": 18}'
    ),
    "WSC": (
        '{"text": "Ann saw Eve when she waved.", "target": {"span1_index": 2, "span1_text": "Eve", '
        '"span2_index": 4, "span2_text": "she"}, "idx": 0, "label": true}'
    ),
}
ROWS = {task: json.loads(row) for task, row in ROWS.items()}
PASSAGE = ROWS["ReCoRD"]["passage"]


def write(folder, task, *rows, name="train.jsonl"):
    (folder / task).mkdir(exist_ok=True)
    (folder / task / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def read(folder, task, *rows, name="train.jsonl"):
    write(folder, task, *(rows or [ROWS[task]]), name=name)
    return load_superglue(folder, task)


@pytest.mark.parametrize(
    "task, texts, label",
    [
        ("BoolQ", (["is it wet"], ["It rained."]), "true"),
        ("CB", (["I doubt that it rained."], ["it rained"]), "neutral"),
        ("RTE", (["It rained."], ["It was dry."]), "not_entailment"),
    ],
)
def test_tasks_of_pairs_have_texts_and_label_names(tmp_path, task, texts, label):
    data = read(tmp_path, task)
    assert data.train.texts == texts and [data.label_names[i] for i in data.train.labels] == [label]


@pytest.mark.parametrize(
    "task, names",
    [
        ("BoolQ", ["false", "true"]),
        ("CB", ["entailment", "contradiction", "neutral"]),
        ("COPA", None),
        ("MultiRC", ["false", "true"]),
        ("ReCoRD", None),
        ("RTE", ["entailment", "not_entailment"]),
        ("WiC", ["false", "true"]),
        ("WSC", ["false", "true"]),
    ],
)
def test_label_names_have_the_order_of_other_tools(tmp_path, task, names):
    assert read(tmp_path, task).label_names == names


def test_copa_has_choices(tmp_path):
    data = read(tmp_path, "COPA", name="val.jsonl")
    assert data.validation.inputs == (["It rained."], [["so I got wet.", "so I sang."]]) and data.validation.labels == [
        0
    ]


def test_multirc_has_a_row_for_each_answer_with_the_number_of_its_question(tmp_path):
    train = read(tmp_path, "MultiRC").train
    assert train.texts == (["Ann met Eve. They sang."] * 3, ["Who sang? Ann", "Who sang? Tom", "Who met? Eve"])
    assert train.labels == [1, 0, 1] and train.questions == [0, 0, 1]


def test_record_has_entities_and_answers_without_duplicates(tmp_path):
    train = read(tmp_path, "ReCoRD").train
    assert train.entities == [["Ann", "Eve"]] and train.answers == [["Ann"]]
    assert train.queries == ["@placeholder smiled at Eve"] and train.passages == [PASSAGE["text"]]


def test_wic_has_places_of_the_word_in_both_sentences(tmp_path):
    train = read(tmp_path, "WiC").train
    for sentences, spans in zip(train.sentences, train.spans, strict=True):
        (start, end) = spans[0]
        assert sentences[0][start:end] == train.words[0] == "bank"
    assert train.labels == [0]


def test_wsc_has_places_of_the_phrases_in_words(tmp_path):
    train = read(tmp_path, "WSC").train
    assert train.phrases == (["Eve"], ["she"]) and train.labels == [1]
    assert [train.texts[0].split(" ")[places[0]] for places in train.places] == ["Eve", "she"]


@pytest.mark.parametrize("task", ROWS)
def test_test_sets_without_labels_are_read(tmp_path, task):
    row = json.loads(json.dumps(ROWS[task]))
    row.pop("label", None)
    if task == "MultiRC":
        for question in row["passage"]["questions"]:
            for answer in question["answers"]:
                del answer["label"]
    if task == "ReCoRD":
        del row["qas"][0]["answers"]
    test = read(tmp_path, task, row, name="test.jsonl").test
    assert (test.answers if task == "ReCoRD" else test.labels) is None


def test_the_diagnostic_sets_have_labels(tmp_path):
    row = {"sentence1": "It rained.", "sentence2": "It was wet.", "label": "entailment", "idx": 0}
    data = read(tmp_path, "AX-b", row, name="AX-b.jsonl")
    assert list(data) == ["test"] and data.test == ((["It rained."], ["It was wet."]), [0])
    assert data.label_names == ["entailment", "not_entailment"]


def test_rows_can_be_divided_whatever_their_columns_are(tmp_path):
    train, held_out = hold_out(read(tmp_path, "WiC", *[ROWS["WiC"]] * 5).train)
    assert type(train) is type(held_out)
    assert [len(part) for part in (train.words, *train.sentences, *train.spans, held_out.spans[1])] == [4] * 5 + [1]


test_a_mistake_in_a_row_is_one_error = check_errors(
    (("CB", {"label": "neutrl"}), "line 1: Unknown label. Did you mean 'neutral'? ... Received: 'neutrl'"),
    (("BoolQ", {"label": "yes"}), "line 1: Unknown label. ... Received: 'yes'"),
    (("RTE", {"premise": None}), "line 1: Expected 'premise' as str. Received: None"),
    (("MultiRC", {"passage": {"text": "Ann.", "questions": {}}}), "line 1: Expected 'questions' as list. Received: {}"),
    (("WiC", {"start1": "4"}), "line 1: Expected 'start1' as int. Received: '4'"),
    (("COPA", {"question": "reason"}), "line 1: Expected one of ['cause', 'effect']. Received: 'reason'"),
    (("WSC", {"target": {}}), "line 1: Expected an object with 'span1_text'. Received: []"),
    call=lambda task, change, tmp_path: read(tmp_path, task, {**ROWS[task], **change}),
)


def test_a_file_that_was_cut_and_an_unknown_task_are_errors(tmp_path):
    write(tmp_path, "CB", ROWS["CB"], ROWS["CB"])
    path = tmp_path / "CB" / "train.jsonl"
    path.write_text(path.read_text()[:-30])
    with pytest.raises(ValueError, match=r"train.jsonl, line 2: Expected complete JSON. The file may have been cut."):
        load_superglue(tmp_path, "CB")
    with pytest.raises(ValueError, match=r"Unknown SuperGLUE task. Did you mean 'BoolQ'\?"):
        load_superglue(tmp_path, "boolqa")
    with pytest.raises(FileNotFoundError, match=r"super.gluebenchmark.com/tasks"):
        load_superglue(tmp_path, "WSC")

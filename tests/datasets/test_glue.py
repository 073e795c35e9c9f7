"""GLUE's tasks are read as the official tools read them, and what is wrong with a file is one error."""

import logging

import pytest

from keras_transfer.datasets import load_glue
from tests.errors import check_errors

PARSES = "\t".join(["(parse)"] * 4)
# The header and two rows of each task, in the layout of its official files.
ROWS = {
    "CoLA": ["gj04\t1\t\tThe cat sleeps.", "gj04\t0\t*\tCat the sleeps."],
    "SST-2": ["sentence\tlabel", "a warm film \t1", 'called " bold " by few \t0'],
    "MRPC": [
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '1\t10\t11\tHe said "yes.\tHe agreed.',
        "0\t12\t13\tIt rose.\tIt fell.",
    ],
    "QQP": [
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "1\t2\t3\tWho is he?\tWho's he?\t1",
        "4\t5\t6\tHow?\tWhy?\t0",
    ],
    "STS-B": [
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tg\tf\t2012\t1\tnone\tnone\tA man runs.\tA man is running.\t5.000",
        "1\tg\tf\t2012\t2\tnone\tnone\tA man runs.\tA cat sits.\t0.25",
    ],
    "MNLI": [
        f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2\tlabel1\tgold_label".replace(
            PARSES, "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
        ),
        f"0\t1\t1c\tfiction\t{PARSES}\tIt rained.\tIt was dry.\tcontradiction\tcontradiction",
        f"1\t2\t2n\tfiction\t{PARSES}\tIt rained.\tIt was cold.\tneutral\tneutral",
    ],
    "QNLI": [
        "index\tquestion\tsentence\tlabel",
        "0\tWho won?\tAnn won.\tentailment",
        "1\tWho won?\tIt rained.\tnot_entailment",
    ],
    "RTE": [
        "index\tsentence1\tsentence2\tlabel",
        "0\tAnn won the race.\tAnn lost.\tnot_entailment",
        "1\tAnn won the race.\tAnn won.\tentailment",
    ],
    "WNLI": [
        "index\tsentence1\tsentence2\tlabel",
        "0\tAnn saw Eve. She waved.\tEve waved.\t0",
        "1\tAnn saw Eve. She waved.\tAnn waved.\t1",
    ],
}
EXPECTED = {
    "CoLA": (["The cat sleeps.", "Cat the sleeps."], ["acceptable", "unacceptable"]),
    "SST-2": (["a warm film ", 'called " bold " by few '], ["positive", "negative"]),
    "MRPC": ((['He said "yes.', "It rose."], ["He agreed.", "It fell."]), ["equivalent", "not_equivalent"]),
    "QQP": ((["Who is he?", "How?"], ["Who's he?", "Why?"]), ["duplicate", "not_duplicate"]),
    "STS-B": ((["A man runs."] * 2, ["A man is running.", "A cat sits."]), [5.0, 0.25]),
    "MNLI": ((["It rained."] * 2, ["It was dry.", "It was cold."]), ["contradiction", "neutral"]),
    "QNLI": ((["Who won?"] * 2, ["Ann won.", "It rained."]), ["entailment", "not_entailment"]),
    "RTE": ((["Ann won the race."] * 2, ["Ann lost.", "Ann won."]), ["not_entailment", "entailment"]),
    "WNLI": ((["Ann saw Eve. She waved."] * 2, ["Eve waved.", "Ann waved."]), ["not_entailment", "entailment"]),
}


def write(folder, task, lines, name="train.tsv"):
    (folder / task).mkdir(exist_ok=True)
    (folder / task / name).write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.parametrize("task", ROWS)
def test_each_task_is_read_from_the_layout_of_its_official_files(tmp_path, task):
    write(tmp_path, task, ROWS[task])
    data = load_glue(tmp_path, task)
    texts, labels = EXPECTED[task]
    assert list(data) == ["train"] and data.train.texts == texts
    names = data.label_names
    assert [label if names is None else names[label] for label in data.train.labels] == labels


@pytest.mark.parametrize(
    "task, names",
    [
        ("CoLA", ["unacceptable", "acceptable"]),
        ("SST-2", ["negative", "positive"]),
        ("MRPC", ["not_equivalent", "equivalent"]),
        ("QQP", ["not_duplicate", "duplicate"]),
        ("STS-B", None),
        ("MNLI", ["entailment", "neutral", "contradiction"]),
        ("QNLI", ["entailment", "not_entailment"]),
        ("RTE", ["entailment", "not_entailment"]),
        ("WNLI", ["not_entailment", "entailment"]),
    ],
)
def test_label_names_have_the_order_of_other_tools_and_are_a_list_of_ones_own(tmp_path, task, names):
    write(tmp_path, task, ROWS[task])
    found = load_glue(tmp_path, task).label_names
    assert found == names
    if found:
        found.clear()
        assert load_glue(tmp_path, task).label_names == names


@pytest.mark.parametrize(
    "task, train, dev, test, first",
    [
        ("SST-2", 67349, 872, 1821, "negative"),
        ("CoLA", 8551, 1043, 1063, "acceptable"),
        ("RTE", 2490, 277, 3000, "not_entailment"),
        ("STS-B", 5749, 1500, 1379, 5.0),
    ],
)
def test_the_official_files_have_their_published_sizes(data_dir, caplog, task, train, dev, test, first):
    data = load_glue(data_dir("glue"), task)
    texts = [split.texts if isinstance(split.texts, list) else split.texts[0] for split in data.values()]
    assert list(map(len, texts)) == [train, dev, test] and not caplog.records
    assert len(data.train.labels) == train and data.test.labels is None
    label = data.train.labels[0]
    assert (label if data.label_names is None else data.label_names[label]) == first


def test_mnli_has_two_development_and_two_test_sets(tmp_path):
    header, row = ROWS["MNLI"][:2]
    for name in ("train", "dev_matched", "dev_mismatched"):
        write(tmp_path, "MNLI", [header, row], f"{name}.tsv")
    for name in ("test_matched", "test_mismatched"):
        write(tmp_path, "MNLI", ["\t".join(line.split("\t")[:10]) for line in (header, row)], f"{name}.tsv")
    data = load_glue(tmp_path, "mnli")
    assert list(data) == ["train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"]
    assert data.label_names == ["entailment", "neutral", "contradiction"]
    assert data.validation_mismatched.labels == [2] and data.test_matched == ((["It rained."], ["It was dry."]), None)


def test_the_test_file_of_cola_has_a_header_and_no_labels(tmp_path):
    write(tmp_path, "CoLA", ["index\tsentence", "0\tThe cat sat."], "test.tsv")
    assert load_glue(tmp_path, "CoLA").test == (["The cat sat."], None)


def test_characters_that_only_python_takes_for_line_ends_stay_in_a_text(tmp_path):
    write(tmp_path, "SST-2", ["sentence\tlabel", "a\u2028b\x85c\t1"])
    assert load_glue(tmp_path, "SST-2").train.texts == ["a\u2028b\x85c"]


def test_broken_rows_of_qqp_are_skipped_with_a_warning_as_in_the_official_tools(tmp_path, caplog):
    header, first, second = ROWS["QQP"]
    write(tmp_path, "QQP", [header, first, "7\t8\t9\tWhat", second])
    with caplog.at_level(logging.WARNING):
        assert load_glue(tmp_path, "QQP").train.labels == [1, 0]
    assert "skipped 1 broken rows" in caplog.text


def test_a_warning_says_that_a_file_does_not_have_the_official_number_of_rows(tmp_path, caplog):
    write(tmp_path, "RTE", ROWS["RTE"])
    load_glue(tmp_path, "RTE")
    assert "train.tsv has 2 rows. The official file has 2,490." in caplog.text


@pytest.mark.parametrize("name", ["sst2", "SST2", "sst-2", "Sst_2"])
def test_case_and_hyphens_of_a_task_make_no_difference(tmp_path, name):
    write(tmp_path, "SST-2", ROWS["SST-2"])
    assert load_glue(tmp_path, name).train.labels == [1, 0]


test_an_unknown_task_and_a_missing_folder_are_errors_that_help = check_errors(
    (
        lambda tmp_path: load_glue(tmp_path, "qnil"),
        "Unknown GLUE task. Did you mean 'QNLI'? Expected one of ... Received: 'qnil'",
    ),
    (
        lambda tmp_path: load_glue(tmp_path, "RTE"),
        FileNotFoundError,
        "must contain train.tsv, ... gluebenchmark.com/tasks. Received: ... RTE",
    ),
)


@pytest.mark.parametrize(
    "task, lines, message",
    [
        (
            "RTE",
            [*ROWS["RTE"][:2], "1\tAnn won"],
            "line 3: .* The file may have been cut. Received: 2 fields, .'1', 'Ann won'",
        ),
        (
            "RTE",
            [ROWS["RTE"][0], "1\tA\tB\tentailmet"],
            r"line 2: Unknown label. Did you mean 'entailment'\? .* Received: 'entailmet'",
        ),
        ("STS-B", [*ROWS["STS-B"][:2], ROWS["STS-B"][2].replace("0.25", "5.5")], "line 3: Expected a score .* '5.5'"),
        ("QNLI", ROWS["RTE"], "Expected the column 'question' of QNLI. Received: .'index', 'sentence1'"),
        ("RTE", ROWS["RTE"][:1], "Expected at least one row. Received: no rows"),
        ("CoLA", ["gj04\t1\t"], "line 1: Expected 4 fields"),
    ],
)
def test_a_mistake_in_a_file_is_one_error(tmp_path, task, lines, message):
    write(tmp_path, task, lines)
    with pytest.raises(ValueError, match=message):
        load_glue(tmp_path, task)

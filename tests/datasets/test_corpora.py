"""WikiText's lines and BLiMP's pairs, with their published sizes, and pairs of other files."""

import json

import pytest

from keras_transfer.datasets import load_blimp, load_wikitext, read_agreement, read_minimal_pairs


def test_wikitext_2_has_its_published_numbers_of_tokens(data_dir):
    data = load_wikitext(data_dir("wikitext-2"))
    tokens = {split: sum(len(line.split()) + 1 for line in lines) for split, lines in data.items()}
    assert tokens == {"train": 2088628, "validation": 217646, "test": 245569}
    assert data.validation[1] == "= Homarus gammarus =" and data.validation[0] == ""


def test_raw_files_are_read_and_two_files_of_a_split_are_an_error(tmp_path):
    (tmp_path / "wiki.test.raw").write_text(" \n = Ann = \n Ann sang . \n", "utf-8")
    assert load_wikitext(tmp_path) == {"test": ["", "= Ann =", "Ann sang ."]}
    (tmp_path / "wiki.test.tokens").write_text(" \n")
    with pytest.raises(ValueError, match=r"must have one file. Received: .*wiki.test.tokens.*wiki.test.raw"):
        load_wikitext(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"such as wiki.train.tokens. Get wikitext-2-v1.zip"):
        load_wikitext(tmp_path / "missing")


def test_blimp_has_1000_pairs_in_each_file(data_dir):
    data = load_blimp(data_dir("blimp"))
    assert {len(column) for pairs in data.values() for column in pairs} == {1000}
    pairs = data["anaphor_gender_agreement"]
    assert (pairs.good[0], pairs.bad[0]) == ("Katherine can't help herself.", "Katherine can't help himself.")
    assert set(pairs.phenomena) == {"anaphor_agreement"}
    assert load_blimp(data_dir("blimp") / "anaphor_gender_agreement.jsonl") == pairs


def test_a_mistake_in_blimp_is_one_error(tmp_path):
    row = json.dumps({"sentence_good": "It is.", "sentence_bad": "It are.", "linguistics_term": "agreement"})
    path = tmp_path / "agreement.jsonl"
    for text, message in [
        (f'{row}\n{{"sentence_good": "It is."}}\n', "line 2: Expected an object with 'sentence_bad'"),
        ("\n", "Expected at least one row. Received: no rows"),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load_blimp(path)
    path.unlink()
    for place in (path, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"github.com/alexwarstadt/blimp"):
            load_blimp(place)


def test_minimal_pairs_are_read_from_any_table(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("id,source_sentence,target_sentence,PID\n1,Это мой дом.,Это моего дом.,case\n", "utf-8")
    found = read_minimal_pairs(path, "source_sentence", "target_sentence", "PID")
    assert found == (["Это мой дом."], ["Это моего дом."], ["case"])
    assert read_minimal_pairs(path, "source_sentence", "target_sentence").phenomena == ["pairs"]


def test_agreement_is_read_with_both_forms_of_the_verb(tmp_path):
    (tmp_path / "a.text").write_text("the key to the cabinets is here <eos>\nkeys are <eos>\n", "utf-8")
    (tmp_path / "a.gold").write_text("5\tis\tare\t1\n1\tlie\tlies\t0\n", "utf-8")
    assert read_agreement(tmp_path / "a.text") == (
        ["the key to the cabinets is here", "keys lie"],
        ["the key to the cabinets are here", "keys lies"],
        ["1 attractor", "0 attractors"],
    )


def test_nonce_sentences_are_read_from_the_columns_of_their_files(tmp_path):
    (tmp_path / "generated.text").write_text("it stands there <eos>\nit runs <eos>\nsheep run <eos>\n", "utf-8")
    rows = [("0", "1", "is", "are"), ("7", "1", "represents", "represent"), ("8", "1", "put", "put")]
    lines = [
        "\t".join(["L!NOUN_VERB", "1", sentence, place, "VERB", "Number=Sing", right, wrong, "be", "0", "NOUN", "it"])
        for sentence, place, right, wrong in rows
    ]
    (tmp_path / "generated.gold").write_text("\n".join(lines), "utf-8")
    assert read_agreement(tmp_path / "generated.text") == (
        ["it is there", "it represents"],
        ["it are there", "it represent"],
        ["original", "nonce"],
    )


def test_a_mistake_in_agreement_is_one_error(tmp_path):
    (tmp_path / "a.text").write_text("keys are\nkeys are\n")
    for gold, message in [
        ("1\tare\tis\t0\n", r"same number of lines. Received: lines=\(2, 1\)"),
        ("1\tare\tis\t0\n2\tare\tis\t0\n", r"a.gold, line 2: Expected the position of a word"),
        ("1\tare\tis\n1\tare\tis\t0\n", r"a.gold, line 1: Expected the position of a word"),
        ("1\tare\tis\t0\n\n", r"a.gold, line 2: Expected the position of a word, .* Received: ''"),
    ]:
        (tmp_path / "a.gold").write_text(gold)
        with pytest.raises(ValueError, match=message):
            read_agreement(tmp_path / "a.text")
    with pytest.raises(FileNotFoundError, match="b.text"):
        read_agreement(tmp_path / "b.text")

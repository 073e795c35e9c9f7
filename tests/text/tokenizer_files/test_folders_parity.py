"""Live against Transformers 5: folders of 28 kinds with settings that contradict each other, texts and pairs.

Every third setting of a kind, or all 351 folders with KERAS_TRANSFER_TEST_WHOLE=1.
"""

import json

import pytest

from keras_transfer.checkpoints import load_preprocessor
from keras_transfer.text import TokenPreprocessor
from tests.samples import sample
from tests.text.tokenizer_files.folders import KINDS, TEXTS, settings_of, write_folder

pytestmark = pytest.mark.parity
pytest.importorskip("tensorflow_text")
pytest.importorskip("sentencepiece")
# Transformers drops an empty second text, so that it is no pair.
PAIRS = list(zip(TEXTS, [*TEXTS[1:-2], *TEXTS[:1]], strict=False))
# Tokenizers that put no space in front of words, and Pegasus without its normalization, are refused.
REFUSED = ("'Metaspace' with split=True", "The normalizer has an unknown step")


def rows_of(preprocessor, texts, length):
    """Returns the ids and the segments of rows without their padding."""
    inputs = {name: value.numpy() for name, value in preprocessor(texts, sequence_length=length).items()}
    segments = inputs.get("segment_ids", inputs["token_ids"] * 0)
    masks = inputs["padding_mask"] == 1
    return [
        (row[mask].tolist(), ids[mask].tolist())
        for row, ids, mask in zip(inputs["token_ids"], segments, masks, strict=True)
    ]


def compare(folder, caplog):
    """Returns whether the ids of a folder are those of Transformers, or `None` if the folder is refused."""
    transformers = pytest.importorskip("transformers", reason="run `make test-parity`")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    caplog.clear()
    try:
        load = TokenPreprocessor.load if "umt5" in folder.name else load_preprocessor  # No encoder is a UMT5.
        ours = load(folder, sequence_length=400)
    except Exception as error:  # of any class: the text decides
        assert any(reason in str(error) for reason in REFUSED)
        return None
    reads_segments = (
        ours.packing.segments is not None
        and json.loads((folder / "config.json").read_text()).get("type_vocab_size", 2) > 1
    )
    found = [rows_of(ours, TEXTS, "longest"), rows_of(ours, TEXTS, 8)]
    found += [rows_of(ours, tuple(map(list, zip(*PAIRS, strict=True))), length) for length in ("longest", 13)]
    expected = []
    for texts, length in ((TEXTS, None), (TEXTS, 8), (PAIRS, None), (PAIRS, 13)):
        rows = [(text,) if isinstance(text, str) else text for text in texts]
        rows = [theirs(*row, truncation=length is not None, max_length=length) for row in rows]
        expected.append([(row["input_ids"], row.get("token_type_ids", [0] * len(row["input_ids"]))) for row in rows])
    if not reads_segments or "distilbert" in folder.name:
        found, expected = ([[ids for ids, _ in rows] for rows in each] for each in (found, expected))
    return found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_transformers_and_what_disagrees_is_said(kind, tmp_path, caplog):
    pytest.importorskip("transformers", reason="run `make test-parity`")
    for setting in ["agreeing", *sample([name for name in settings_of(kind) if name != "agreeing"], 3)]:
        folder = tmp_path / f"{kind} {setting}"
        write_folder(folder, kind, setting, "5.24.0")
        equal = compare(folder, caplog)
        assert equal is not False, (setting, caplog.text)
        if equal is None:
            assert "disagree" in caplog.text, setting  # The warning comes before the error.


@pytest.mark.parametrize("kind", ["bert", "roberta", "t5"])
def test_a_folder_that_transformers_5_has_written_again_is_read_without_a_warning(kind, tmp_path, caplog):
    transformers = pytest.importorskip("transformers", reason="run `make test-parity`")
    write_folder(tmp_path / "first", kind, "own template", "5.24.0")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "first").save_pretrained(tmp_path / "again")
    (tmp_path / "again" / "config.json").write_text((tmp_path / "first" / "config.json").read_text())
    assert compare(tmp_path / "again", caplog) and "disagree" not in caplog.text

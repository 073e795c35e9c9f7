"""The front matter of model cards: YAML that other parsers read back as the same values."""

import json

import pytest

from keras_transfer.checkpoints.model_card import to_yaml

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

STRINGS = [
    *("plain", "no", "No", "NO", "y", "true", "null", "~", "1", "1.0", "1e3", "0x1f", "2024-01-01", "12:30", ".nan"),
    *(
        "",
        " ",
        " a ",
        "a: b",
        "a #b",
        "- a",
        "? a",
        "a\nb",
        "a\r\nb",
        "a\tb",
        "a\\b",
        '"',
        "'",
        "`",
        "@",
        "%",
        "&a",
        "*a",
    ),
    *("[a]", "{a: b}", "a|b", ">", "é", "日本語", "😀", "\u2028", "\x85", "\x00", "\x7f", "\ufeff", "\u200b", "..."),
    *("---", "!!str a", "a, b", "=", "<<", "LABEL_0", "org/name-1.0", "---\n# title", "e\u0301"),
]


@pytest.mark.parametrize("text", STRINGS, ids=json.dumps)
def test_every_string_comes_back(text):
    value = {"name": text, text or "empty": 1, "list": [text, {"inner": text, "more": [text]}]}
    assert yaml.safe_load(to_yaml(value)) == value


def test_numbers_and_nothing_come_back():
    value = {"a": 1e-05, "b": 2.5e20, "c": -3, "d": 0.1, "e": True, "f": None, "g": [], "h": {}, "i": 1e300}
    assert yaml.safe_load(to_yaml(value)) == value


def test_lists_of_lists_and_dicts_come_back():
    value = {
        "results": [{"task": {"type": "a"}, "metrics": [{"type": "b", "value": 1.0}, {"type": "c"}]}, ["d", ["e"]]]
    }
    assert yaml.safe_load(to_yaml(value)) == value


def test_what_is_safe_is_plain():
    assert to_yaml({"license": "apache-2.0", "language": ["en", "no"]}) == (
        'license: apache-2.0\nlanguage:\n  - en\n  - "no"\n'
    )

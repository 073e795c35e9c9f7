"""Results print as tables of their columns."""

import math

from keras_transfer.analysis import Result


def scores(rows):
    columns = {
        "layer": "",
        "score": ".2f",
        "share": ("part", ".1%"),
        "95% interval": (("low", "high"), "+.1f"),
        "count": "",
        "bits": ",.0f",
    }
    return Result(rows, columns, title="Scores", index=("layer",), notes=["Of two seeds."])


def test_a_column_without_values_is_left_out_and_a_missing_value_is_empty():
    first = {"layer": "block_0", "score": 0.5, "part": 0.251, "low": -0.25, "high": 1, "count": 1200, "bits": None}
    found = scores([first, {"layer": "mix", "score": math.nan, "part": "all", "low": math.nan, "high": 1.0}])
    assert str(found).splitlines() == [
        "layer    score  share  95% interval  count",
        "------------------------------------------",
        "block_0   0.50  25.1%  [-0.2, +1.0]  1,200",
        "mix               all",
        "Of two seeds.",
    ]
    assert found.to_markdown().splitlines()[2] == "| block_0 | 0.50 | 25.1% | [-0.2, +1.0] | 1,200 |"
    assert found.to_frame().loc["block_0", "count"] == 1200


def test_without_rows_the_headers_remain():
    assert str(scores([])).splitlines()[0] == "layer  score  share  95% interval  count  bits"


def test_a_cell_is_one_line_in_each_form():
    found = scores([{"layer": "a\nb | c", "count": 1}])
    assert str(found).splitlines()[2] == "a b | c      1"
    assert found.to_markdown().splitlines()[2] == r"| a b \| c | 1 |"


def test_control_characters_of_names_reach_neither_the_terminal_nor_the_page():
    found = scores([{"layer": "a\u202e\x1b[31m<b>", "score": 1.0}])
    found.notes = ["Left out: \x1b[31m"]
    assert "\u202e" not in str(found) and "\x1b" not in str(found)
    assert "<b>" not in found._repr_html_() and "&lt;b&gt;" in found._repr_html_()

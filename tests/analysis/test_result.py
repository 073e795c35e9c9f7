"""Results print as tables of their columns."""

from keras_transfer.analysis import Result


class Scores(Result):
    title, index = "Scores", ("layer",)
    columns = {
        "layer": ("layer", ""),
        "score": ("score", ".2f"),
        "95% interval": (("low", "high"), ".1f"),
        "count": ("count", ","),
        "bits": ("bits", ".0f"),
    }

    def __init__(self, rows):
        self.rows = rows


def test_a_column_without_values_is_left_out_and_a_missing_value_is_empty():
    rows = [{"layer": "block_0", "score": 0.5, "low": 0.25, "high": 1, "count": 1200, "bits": None}, {"layer": "mix"}]
    assert str(Scores(rows)).splitlines() == [
        "layer    score  95% interval  count",
        "-----------------------------------",
        "block_0   0.50    [0.2, 1.0]  1,200",
        "mix                                ",
    ]
    assert Scores(rows).to_markdown().splitlines()[2] == "| block_0 | 0.50 | [0.2, 1.0] | 1,200 |"
    assert Scores(rows).to_frame().loc["block_0", "count"] == 1200


def test_control_characters_of_names_reach_neither_the_terminal_nor_the_page():
    found = Scores([{"layer": "a\u202e\x1b[31m<b>", "score": 1.0}])
    assert "\u202e" not in str(found) and "\x1b" not in str(found)
    assert "<b>" not in found._repr_html_() and "&lt;b&gt;" in found._repr_html_()

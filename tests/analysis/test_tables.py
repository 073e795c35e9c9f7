"""Tables of a report as aligned lines."""

from keras_transfer.analysis.tables import Table


def test_numbers_are_aligned_to_the_right_and_texts_in_the_last_column_to_the_left():
    heads, rows = ["", "value", "text"], [["first", "1", "a"], ["b", "10.0", "longer"]]
    assert str(Table("Title", heads, rows, texts=True)) == (
        "Title\n       value  text\nfirst      1  a\nb       10.0  longer"
    )
    assert str(Table("Title", heads, rows, note="A note.")) == (
        "Title\n       value    text\nfirst      1       a\nb       10.0  longer\nA note."
    )

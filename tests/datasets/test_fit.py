"""What readers return goes into a task as it is."""

from keras_transfer.datasets import load_glue
from tests.tasks.tiny import classifier


def test_a_split_of_pairs_is_what_fit_and_predict_take(tmp_path, eagerly):
    rows = ["index\tsentence1\tsentence2\tlabel", "0\ta b\tgood\tentailment", "1\tc\tbad d\tnot_entailment"]
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE" / "train.tsv").write_text("\n".join(rows))
    data = load_glue(tmp_path, "RTE")
    model = classifier(label_names=data.label_names)
    model.compile()
    assert "val_loss" in model.fit(*data.train, validation_data=data.train, verbose=0).history
    assert model.predict(data.train.texts, verbose=0).shape == (2, 2)

"""The model cards that commands write."""

from keras_transfer.checkpoints import ModelCard
from keras_transfer.cli.scores import write_card
from tests.checkpoints.test_model_card import classifier


def test_a_kept_card_is_reported_with_the_path_that_the_user_knows(tmp_path, capsys, caplog):
    old, new = tmp_path / "model", tmp_path / ".model-new"
    old.mkdir()
    new.mkdir()
    (old / "README.md").write_text("My own card.")
    write_card(ModelCard(), classifier(), new, replaced=old)
    assert (new / "README.md").read_text() == "My own card."
    assert capsys.readouterr().out == f"{old / 'README.md'} is yours, and is kept\n"
    assert ".model-new" not in caplog.text

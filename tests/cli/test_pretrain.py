"""`keras-transfer pretrain` writes a checkpoint, and continues after Ctrl-C; `generate` writes texts with it."""

import json
import shutil

import keras
import numpy as np
import pytest

from keras_transfer.cli import pretraining, run_folder
from keras_transfer.datasets import load_demo_questions
from keras_transfer.encoders import ElectraEncoder, Encoder
from keras_transfer.tasks import BertPretraining, CausalLM, MaskedLM, PermutationLM, ReplacedTokenDetection
from keras_transfer_command import main
from tests.cli.test_train import Interrupted
from tests.tasks.tiny import preprocessor

pytest.importorskip("tensorflow_text")
pytest.importorskip("tokenizers")


@pytest.fixture
def pretrain(tmp_path, monkeypatch, eagerly):
    """A function that runs `pretrain` with further arguments in a folder with texts, and returns the status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(pretraining.SIZES, "tiny", (1, 16, 2, 16))
    monkeypatch.setitem(pretraining.ELECTRA_SIZES, "tiny", (1, 16, 1, 16, 12, 1 / 2, 0.15))
    monkeypatch.setitem(pretraining.LSTM_SIZES, "tiny", (2, 12, 16, 0.1))
    monkeypatch.setattr(pretraining, "_LEAST_WIDTH", 8)
    questions = load_demo_questions().train.texts[:100]
    (tmp_path / "texts.txt").write_text("\n\n".join(questions[:89] + ["What is it?\nA question."]))
    (tmp_path / "validation.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in questions[90:]))
    line = ["pretrain", "--corpus", "texts.txt", "--validation-corpus", "validation.jsonl", "--batch-size", "8"]
    line += ["--vocabulary-size", "300", "--sequence-length", "32", "--learning-rate", "0.01"]
    return lambda *arguments: main([*line, *arguments])


def weights_of(folder):
    return Encoder.from_pretrained(folder).get_weights()


@pytest.mark.parametrize(
    ("objective", "task"),
    [
        ("masked", MaskedLM),
        ("bert", BertPretraining),
        ("causal", CausalLM),
        ("awd-lstm", CausalLM),
        ("electra", ReplacedTokenDetection),
        ("permutation", PermutationLM),
    ],
)
def test_a_run_writes_a_checkpoint_with_its_head_and_tokenizer(objective, task, pretrain, tmp_path, capsys):
    line = ["--objective", objective, "--steps", "2", "--output", "model"]
    line += ["--sequence-length", "2", "--batch-size", "60"] if objective == "awd-lstm" else []
    assert pretrain(*line, "--traceback") == 0
    printed = capsys.readouterr().out
    assert f"{task.__name__} with " in printed and " in 90 documents, 2 steps\n" in printed
    assert "2/2 - " in printed and "\nValidation texts: " in printed
    assert ("perplexity" in printed) == (objective in ("masked", "causal", "awd-lstm", "permutation"))
    model = task.from_pretrained("model")
    assert model.preprocessor.vocabulary_size == 300 and model.preprocessor.sequence_length == (
        512 if objective == "awd-lstm" else 32
    )
    assert not (tmp_path / "model" / "checkpoints").exists()
    if objective == "electra":
        assert MaskedLM.from_pretrained("model/generator").fill_mask("Who is [MASK]?")
    if task is CausalLM:
        assert main(["generate", "model", "Who is", "What", "--max-new-tokens", "4"]) == 0
        found = capsys.readouterr().out.split("\n\n")
        assert len(found) == 2 and found[0].startswith("Who is") and found[1].startswith("What")
    assert pretrain(*line) == 1
    assert "contains a finished run" in capsys.readouterr().err
    assert main(["info", "model"]) == 0
    assert "loaded as" in capsys.readouterr().out


def test_after_ctrl_c_the_same_command_continues_as_if_nothing_had_happened(pretrain, tmp_path, monkeypatch, capsys):
    line = ["--objective", "causal", "--epochs", "2", "--batch-size", "16"]  # a vocabulary that is always the same
    assert pretrain(*line, "--output", "whole") == 0
    with monkeypatch.context() as patched:
        patched.setattr(pretraining, "TrainingCheckpoint", Interrupted)
        assert pretrain(*line, "--output", "cut") == 130
    assert "The run was stopped. The same command continues it" in capsys.readouterr().out
    assert not (tmp_path / "cut" / "config.json").exists()
    assert main(["info", "cut"]) == 0
    assert "an unfinished run of `keras-transfer pretrain`: the same command continues it" in capsys.readouterr().out
    assert pretrain(*line, "--seed", "1", "--output", "cut") == 1
    assert capsys.readouterr().err.endswith("Received: cut, where --seed was 0 instead of 1\n")
    assert pretrain(*line, "--output", "cut") == 0
    for weight, expected in zip(weights_of("cut"), weights_of("whole"), strict=True):
        np.testing.assert_array_equal(weight, expected)


def test_the_words_of_an_empty_document_are_not_counted(tmp_path):
    lines = [json.dumps({"text": text}) for text in ("a b", "", " ", "c d e")]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    assert pretraining._count_words([tmp_path / "texts.jsonl"], "blank_line", "text") == 7


@pytest.mark.slow
def test_an_lstm_continues_after_ctrl_c_and_goes_on_from_its_folder(pretrain, monkeypatch, capsys):
    line = ["--objective", "awd-lstm", "--epochs", "2", "--learning-rate", "1", "--validation-corpus", "texts.txt"]
    line += ["--sequence-length", "4", "--batch-size", "200"]  # three windows an epoch
    assert pretrain(*line, "--output", "whole") == 0
    with monkeypatch.context() as patched:
        patched.setattr(pretraining, "TrainingCheckpoint", Interrupted)
        assert pretrain(*line, "--output", "cut") == 130
    assert "The run was stopped" in capsys.readouterr().out
    assert pretrain(*line, "--output", "cut") == 0
    for weight, expected in zip(weights_of("cut"), weights_of("whole"), strict=True):
        np.testing.assert_array_equal(weight, expected)
    line = ["--corpus", "texts.txt", "--encoder", "cut", "--steps", "1", "--batch-size", "200", "--output", "model"]
    line += ["--sequence-length", "2"]
    assert main(["pretrain", "--objective", "awd-lstm", *line]) == 0
    assert CausalLM.from_pretrained("model").encoder.units == 16


def test_the_perplexity_per_word_counts_the_ends_of_documents(tmp_path):
    (tmp_path / "texts.txt").write_text("a b c\nd e\n\nf g\n")
    count = pretraining._count_words
    paths = [tmp_path / "texts.txt"]
    assert (count(paths, "blank_line", "text"), count(paths, "line", "text")) == (9, 10)
    scores = pretraining._scores(pretraining.PLANS["causal"], {"loss": 1.0, "perplexity": np.e}, 20, 10)
    assert scores == "perplexity 2.7183, perplexity_per_word 7.3891, loss 1.0000"


def test_pretraining_goes_on_with_a_checkpoint_and_its_vocabulary(pretrain, small_minilm, tmp_path, capsys):
    line = ["--corpus", "texts.txt", "--encoder", small_minilm, "--steps", "2", "--output", "model"]
    assert main(["pretrain", *line]) == 1
    assert "has no head for a MaskedLM. Pass `--new-head` for a new one" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
    keras.utils.set_random_seed(0)
    assert main(["pretrain", *line, "--new-head", "--sequence-length", "16"]) == 0
    before = Encoder.from_pretrained(small_minilm).token_embedding.get_weights()[0]
    after = Encoder.from_pretrained("model").token_embedding.get_weights()[0]
    assert before.shape == after.shape and (before != after).any()


def test_a_new_run_removes_the_model_of_an_earlier_one_when_its_training_begins(
    pretrain, tmp_path, monkeypatch, capsys
):
    assert pretrain("--objective", "electra", "--steps", "2", "--output", "model") == 0
    (tmp_path / "model" / "notes.txt").write_text("mine")
    line = ["--objective", "causal", "--output", "model", "--overwrite", "--epochs", "2", "--batch-size", "16"]
    with monkeypatch.context() as patched:  # Without a corpus, the earlier model remains.
        patched.setattr(pretraining.text.Corpus, "build", lambda *arguments, **options: 1 / 0)
        assert pretrain(*line) == 1
    assert ReplacedTokenDetection.from_pretrained("model")
    with monkeypatch.context() as patched:
        patched.setattr(pretraining, "TrainingCheckpoint", Interrupted)
        assert pretrain(*line) == 130
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        *("checkpoints", "corpus", "validation_corpus", "tokenizer", "run.json", "notes.txt")
    }
    capsys.readouterr()
    assert main(["generate", "model", "Who"]) == 1
    assert "The run is not finished. `keras-transfer pretrain` with the same" in capsys.readouterr().err
    assert main(["info", "model"]) == 0
    assert "an unfinished run of `keras-transfer pretrain`" in capsys.readouterr().out
    assert pretrain(*line) == 0
    assert CausalLM.from_pretrained("model").generate("Who is", max_new_tokens=2)
    assert not (tmp_path / "model" / "generator").exists() and not (tmp_path / "model" / "vocab.txt").exists()


def test_electra_goes_on_with_its_generator_or_a_new_one(pretrain, small_minilm, tmp_path, capsys):
    assert pretrain("--objective", "electra", "--steps", "2", "--output", "model") == 0
    line = ["pretrain", "--objective", "electra", "--corpus", "texts.txt", "--steps", "2", "--learning-rate", "1e-12"]
    assert main([*line, "--encoder", "model", "--output", "again"]) == 0
    for weight, expected in zip(weights_of("again/generator"), weights_of("model/generator"), strict=True):
        np.testing.assert_allclose(weight, expected, atol=1e-6)
    tables = [Encoder.from_pretrained(name).token_embedding.get_weights()[0] for name in ("again", "again/generator")]
    np.testing.assert_array_equal(*tables)
    shutil.rmtree("model/generator")
    assert main([*line, "--encoder", "model", "--output", "new"]) == 0
    assert Encoder.from_pretrained("new/generator").hidden_dim == 8
    capsys.readouterr()
    assert main([*line, "--encoder", "new", "--output", "new"]) == 1
    assert "`--output` must be a different folder from `--encoder`. Received: new" in capsys.readouterr().err
    assert main([*line, "--encoder", small_minilm, "--new-head", "--output", "bert"]) == 1
    assert "`--objective electra` requires an ELECTRA as `--encoder`" in capsys.readouterr().err
    assert not (tmp_path / "bert").exists()


def test_after_an_error_before_the_training_the_corrected_command_is_accepted(pretrain, tmp_path, capsys):
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    line = ["--objective", "causal", "--steps", "2", "--output", "model"]
    assert pretrain(*line, "--validation-corpus", "bad.txt") == 1  # after the vocabulary
    assert "bad.txt" in capsys.readouterr().err and (tmp_path / "model" / "validation_corpus").exists()
    assert pretrain(*line) == 0


def test_validation_texts_that_are_too_few_are_an_error_before_the_corpus_is_built(pretrain, tmp_path, capsys):
    (tmp_path / "few.txt").write_text("What is it?")
    line = ["--objective", "awd-lstm", "--steps", "2", "--output", "model"]
    assert pretrain(*line, "--validation-corpus", "few.txt") == 1
    error = capsys.readouterr().err
    assert (
        "model/validation_corpus must have two ids for each of 8 texts. Use a smaller batch size. Received: " in error
    )
    assert not (tmp_path / "model" / "corpus").exists()


def test_a_file_that_is_edited_to_the_same_size_is_another_one(tmp_path):
    described = []
    for text in ("a b", "a c"):
        (tmp_path / "texts.txt").write_text(text)
        described.append(run_folder.describe_files([tmp_path / "texts.txt"]))
    assert described[0] != described[1]


def test_the_perplexity_of_a_diverged_model_is_infinite():
    assert pretraining._scores(pretraining.PLANS["causal"], {"loss": 1000.0}).startswith("perplexity inf, ")


def test_the_help_describes_the_sizes_of_each_objective(capsys):
    with pytest.raises(SystemExit):
        main(["pretrain", "--help"])
    shown = capsys.readouterr().out
    for line in ("2 blocks, 128 wide", "12 blocks, 256 wide, embeddings 128 wide", "3 LSTMs, 1150 wide"):
        assert f" {line}\n" in shown
    assert "0.001 (tiny), 0.0007 (mini)" in shown and "5e-05 (with --encoder)" in " ".join(shown.split())


def test_the_sizes_of_electra_are_those_of_its_paper():
    # Table 6: blocks, width, heads, width of the feed-forward layers and of the embeddings, generator, hidden tokens.
    assert {name: pretraining.ELECTRA_SIZES[name] for name in ("small", "base", "large")} == {
        "small": (12, 256, 4, 1024, 128, 1 / 4, 0.15),
        "base": (12, 768, 12, 3072, 768, 1 / 3, 0.15),
        "large": (24, 1024, 16, 4096, 1024, 1 / 4, 0.25),
    }
    generators = {"small": (64, 256, 1), "base": (256, 1024, 4), "large": (256, 1024, 4)}  # width, feed-forward, heads
    for name, expected in generators.items():
        _, width, *_, fraction, _ = pretraining.ELECTRA_SIZES[name]
        found = pretraining._sizes_of_generator(width, fraction)
        assert found == dict(zip(("hidden_dim", "intermediate_dim", "num_heads"), expected, strict=True))


@pytest.mark.parametrize("name", ["large", "base", None])
def test_an_electra_goes_on_with_the_hidden_tokens_and_the_generator_of_its_size(name, monkeypatch, tmp_path):
    small = {"large": (2, 16, 1, 16, 16, 1 / 4, 0.25), "base": (1, 16, 2, 16, 16, 1 / 2, 0.15)}
    for key, sizes in small.items():
        monkeypatch.setitem(pretraining.ELECTRA_SIZES, key, sizes)
    monkeypatch.setattr(pretraining, "_LEAST_WIDTH", 4)
    sizes = dict(zip(("num_layers", "hidden_dim", "num_heads"), small.get(name, (1, 12, 1))))
    encoder = ElectraEncoder(17, **sizes, intermediate_dim=16, max_sequence_length=32)
    ReplacedTokenDetection(encoder, preprocessor()).save_pretrained(tmp_path / "model")
    model = pretraining.PLANS["electra"].continued_model(tmp_path / "model", 32, 8, new_head=False)
    hidden, width = {"large": (0.25, 4), "base": (0.15, 8), None: (0.15, 4)}[name]
    assert model.objective.mask_selection_rate == hidden and model.objective.mask_token_rate == 0.85
    assert model.generator.encoder.hidden_dim == width and model.share_embeddings


def test_a_new_electra_has_one_table_for_both_models(monkeypatch):
    monkeypatch.setitem(pretraining.ELECTRA_SIZES, "tiny", (1, 16, 1, 16, 12, 1 / 2, 0.25))
    monkeypatch.setattr(pretraining, "_LEAST_WIDTH", 4)
    model = pretraining.PLANS["electra"].new_model(preprocessor(), "tiny", 8)
    assert model.share_embeddings and model.generator.encoder.token_embedding is model.encoder.token_embedding
    assert model.encoder.embedding_dim == 12 and model.generator.encoder.hidden_dim == 8
    assert model.objective.mask_selection_rate == 0.25 and model.objective.mask_token_rate == 0.85


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "nowhere.txt"], "No such file or directory: 'nowhere.txt'"),
        (["--new-head"], "`--new-head` can be used only with `--encoder`"),
        (
            ["--objective", "awd-lstm", "--rematerialize"],
            "`--rematerialize` cannot be used with an LSTM.",
        ),
        (["--size", "large"], "`--size` must be one of ('tiny', 'mini', 'small', 'medium', 'base', 'tutorial')."),
        (["--objective", "electra", "--size", "tutorial"], "'base', 'large'). Received: size='tutorial'"),
    ],
)
def test_a_mistake_is_one_line_of_error(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a b c")
    assert main(["pretrain", "--corpus", "texts.txt", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]

"""The examples on language models run: pretraining, ULMFiT and generation."""

import json
import re
import runpy
import sys

import pytest

import keras_transfer as kt
from tests.pages import REPOSITORY


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["transformer", "awd-lstm"])
def test_the_language_model_example_runs_on_a_part_of_wikitext(architecture, tmp_path, monkeypatch, capsys, data_dir):
    pytest.importorskip("tokenizers", reason="needs tokenizers: pip install tokenizers")
    script = REPOSITORY / "examples" / "pretrain_language_model.py"
    monkeypatch.chdir(tmp_path)
    dim = "200" if architecture == "transformer" else "16"  # not divided by its three heads of about 64
    options = ["--data-dir", str(data_dir("wikitext-2")), "--architecture", architecture]
    options += ["--lines", "60", "--vocabulary-size", "400", "--num-layers", "1", "--dim", dim, "--length", "16"]
    monkeypatch.setattr(sys, "argv", [str(script), *options, "--batch-size", "4", "--learning-rate", "0.01"])
    names = runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    per_word, per_token = map(float, re.search(r"perplexity ([\d.]+) per word, ([\d.]+) per token", printed).groups())
    assert 1 < per_token < 400 and per_word > per_token  # 400 is that of a model which knows nothing.
    assert (tmp_path / f"language_model_{architecture}" / "model.keras").exists()
    # The text of a line is followed by one token for its end.
    first, ids = names["lines"]["validation"][0], names["tokenizer"].tokenize
    assert names["corpora"]["validation"]._shards[0].ids[: len(ids(first)) + 1].tolist() == [*ids(first), 3]


@pytest.mark.slow
def test_the_ulmfit_example_runs(monkeypatch, capsys, tmp_path, eagerly):
    script, general = REPOSITORY / "examples" / "ulmfit.py", tmp_path / "general.txt"
    general.write_text("\n\n".join(kt.datasets.load_demo_questions().train.texts[:32]))
    monkeypatch.setattr(sys, "argv", [str(script), "--examples", "32", "--batch-size", "8", "--general", str(general)])
    runpy.run_path(str(script), run_name="__main__")
    errors = re.findall(r"(\w+): test error ([\d.]+)%", capsys.readouterr().out)
    assert [name for name, _ in errors] == ["forward", "backward", "both"]
    assert all(0 <= float(error) <= 100 for _, error in errors)


@pytest.mark.slow
def test_the_example_that_compares_with_random_weights_runs(monkeypatch, capsys, tmp_path):
    script, texts = REPOSITORY / "examples" / "pretrained_or_random.py", kt.datasets.load_demo_questions().train.texts
    words = sorted({word.lower() for text in texts for word in text.split()})
    tokenizer = kt.text.WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    preprocessor = kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(end=["[SEP]"]), sequence_length=16)
    encoder = kt.encoders.AWDLSTMEncoder(preprocessor.vocabulary_size, embedding_dim=8, units=8, num_layers=1)
    kt.tasks.CausalLM(encoder, preprocessor).save(tmp_path / "model.keras")
    script, results = str(script), tmp_path / "runs.jsonl"
    options = [script, "--model", str(tmp_path / "model.keras"), "--epochs", "1", "--results", str(results)]

    def rows(*further):
        monkeypatch.setattr(sys, "argv", [*options, *further])
        runpy.run_path(script, run_name="__main__")
        return re.findall(r"([\w, .-]+), (\d+) examples: ([\d.]+)%", capsys.readouterr().out)

    found = rows("--examples", "16", "32", "--seeds", "1", "--plot", str(tmp_path / "curve.png"))
    assert [row[:2] for row in found] == [(kind, count) for count in ("16", "32") for kind in ("random", "pretrained")]
    assert (tmp_path / "curve.png").stat().st_size > 0
    results.write_text(results.read_text() + '{"half')
    weights = "--kinds", "pretrained", "--language-model-loss", "0", "annealed"
    again = rows("--examples", "16", "--seeds", "1", *weights)
    assert [row[0] for row in again] == ["pretrained", "pretrained, language-model loss annealed"]
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert again[0] == found[1] and len(lines) == 5  # The run without the loss was not repeated.


@pytest.mark.slow
def test_the_example_that_adapts_an_encoder_runs(monkeypatch, capsys, tmp_path, small_minilm, eagerly):
    script, output = str(REPOSITORY / "examples" / "adapt_encoder.py"), tmp_path / "adapted"
    options = ["--output", str(output), "--texts", "8", "--held-out", "4", "--length", "8", "--batch-size", "4"]
    monkeypatch.setattr(sys, "argv", [script, *options, "--head-fraction", "0.5"])
    runpy.run_path(script, run_name="__main__")
    assert re.search(r"loss [\d.]+, accuracy [\d.]+% on hidden tokens", capsys.readouterr().out)
    before, after = (kt.encoders.Encoder.from_pretrained(name).get_weights() for name in ("minilm-l6", str(output)))
    assert any((old != new).any() for old, new in zip(before, after, strict=True))

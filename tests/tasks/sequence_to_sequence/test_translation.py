"""Translation models learn from raw texts, although their targets are tokenized otherwise than their sources."""

import io
import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_transfer.encoders import Marian, MBart
from keras_transfer.objectives import Denoising, PrefixLM
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import Seq2SeqLM
from keras_transfer.text import MarianTokenizer, Packing, TokenPreprocessor
from tests.errors import check_errors
from tests.helpers import eager, in_graph, save_and_load

pytest.importorskip("tensorflow_text")
sentencepiece = pytest.importorskip("sentencepiece")

SOURCES = ["the film was long", "a small cafe", "the best cafe was small", "a long film"] * 4
TARGETS = ["der film war lang", "ein kleines cafe", "das beste cafe war klein", "ein langer film"] * 4
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}


def train(texts):
    file = io.BytesIO()
    options = {"vocab_size": 40, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=file, **options)
    return file.getvalue()


def pieces(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(index) for index in range(3, processor.get_piece_size())]


@pytest.fixture(scope="module")
def models():
    """SentencePiece models of the sources and of the targets."""
    return train(SOURCES), train(TARGETS)


@pytest.fixture(scope="module")
def trained(models):
    """A multilingual Marian model, whose sources begin with the language of the translation."""
    keras.utils.set_random_seed(0)
    tokens = dict.fromkeys(["</s>", "<unk>", *pieces(models[0]), *pieces(models[1]), ">>deu<<", "<pad>"])
    packing = Packing([], [], ["</s>"], "<pad>")
    sources, targets = (
        TokenPreprocessor(MarianTokenizer(model, [*tokens], eos_token="</s>", source_lang="en"), packing, 20)
        for model in models
    )
    encoder = Marian(len(tokens), **SIZES, max_sequence_length=24, activation="silu")
    found = Seq2SeqLM(
        encoder, sources.with_language(">>deu<<"), target_preprocessor=targets, max_new_tokens=6, start_token="<pad>"
    )
    found.compile(FusedAdamW(1e-2))
    history = found.fit(SOURCES, TARGETS, epochs=10, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    return found


def test_marian_reads_targets_with_their_own_tokenizer_and_writes_with_it(trained, models, eagerly):
    [(inputs, targets, weights)] = trained.dataset(SOURCES[:2], TARGETS[:2])
    vocabulary = trained.preprocessor.vocabulary
    source, target = (sentencepiece.SentencePieceProcessor(model_proto=model) for model in models)
    for row in range(2):
        expected = [">>deu<<", *source.encode(SOURCES[row], out_type=str), "</s>"]
        assert [vocabulary[id] for id in np.asarray(inputs["token_ids"])[row]][: len(expected)] == expected
        expected = [*target.encode(TARGETS[row], out_type=str), "</s>"]
        assert [vocabulary[id] for id in targets[row]][: len(expected)] == expected
        assert weights[row].sum() == len(expected)
        decoder = [vocabulary[id] for id in inputs["decoder_token_ids"][row]][: len(expected)]
        assert decoder == ["<pad>", *expected[:-1]]
    rows = trained.preprocessor(SOURCES[:4], sequence_length="longest")
    ids = trained.generate({name: np.asarray(values) for name, values in rows.items()})
    texts = [trained.target_preprocessor.detokenize(np.array(row)).numpy().decode() for row in ids]
    assert trained.generate(SOURCES[:4]) == texts and len(set(texts)) > 1
    assert trained.score(SOURCES[:4], TARGETS[:4]).shape == (4,)


def test_the_signature_of_a_translation_model_writes_what_generate_writes(trained):
    with eager():
        expected = trained.generate(SOURCES[:4])
    found = in_graph(trained.signatures()["serving_default"], SOURCES[:4])["target"]
    assert [text.decode() for text in found] == expected


def test_a_marian_folder_has_the_files_of_both_tokenizers(trained, models, tmp_path, eagerly):
    trained.save_pretrained(tmp_path / "saved")
    files = {path.name for path in (tmp_path / "saved").iterdir()}
    assert files == {
        *(
            "README.md",
            "config.json",
            "model.safetensors",
            "source.spm",
            "target.spm",
            "tokenizer_config.json",
            "vocab.json",
        )
    }
    assert (tmp_path / "saved" / "source.spm").read_bytes() == models[0]
    assert (tmp_path / "saved" / "target.spm").read_bytes() == models[1]
    again = Seq2SeqLM.from_pretrained(tmp_path / "saved", target_language=">>deu<<", max_new_tokens=6)
    for name in ("preprocessor", "target_preprocessor"):
        ours, before = getattr(again, name), getattr(trained, name)
        assert ours.packing == before.packing and ours.tokenizer.get_config() == before.tokenizer.get_config()
    assert again.generate(SOURCES[:4]) == trained.generate(SOURCES[:4])
    again.save_pretrained(tmp_path / "again")
    for name in files - {"model.safetensors", "README.md"}:  # The card says which checkpoint each came from.
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "saved" / name).read_bytes(), name
    ours, before = (load_file(tmp_path / folder / "model.safetensors") for folder in ("again", "saved"))
    assert ours.keys() == before.keys() and all((ours[key] == before[key]).all() for key in ours)


@pytest.mark.parity
def test_transformers_reads_a_marian_folder(trained, tmp_path):
    transformers = pytest.importorskip("transformers", reason="run `make test-parity`")
    trained.save_pretrained(tmp_path / "saved")
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path / "saved")
    both = theirs([f">>deu<<{text}" for text in SOURCES], text_target=TARGETS)
    ours = [trained.preprocessor(SOURCES), trained.target_preprocessor(TARGETS)]
    for name, inputs in zip(("input_ids", "labels"), ours, strict=True):
        real = inputs["padding_mask"].numpy() == 1
        assert [row[mask].tolist() for row, mask in zip(inputs["token_ids"].numpy(), real)] == both[name]


def language_folder(folder, model, name, **settings):
    """A folder of mBART or mBART-50, and the number of tokens."""
    keras.utils.set_random_seed(0)
    count = len(pieces(model)) + 4 + (25 if name == "MBart" else 52) + 1
    Seq2SeqLM(MBart(count, **SIZES, max_sequence_length=24)).save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": f"{name}Tokenizer"}))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 2, **settings}))
    return folder


@pytest.mark.parametrize("name", ["MBart", "MBart50"])
def test_the_targets_of_mbart_are_in_the_language_of_the_task(name, models, tmp_path):
    folder = language_folder(tmp_path / "folder", models[0], name, decoder_start_token_id=2)
    options = {"source_language": "fr_XX", "sequence_length": 12, "max_new_tokens": 2}
    found = Seq2SeqLM.from_pretrained(folder, target_language="de_DE", **options)
    codes = {code: found.preprocessor.token_to_id(code) for code in ("fr_XX", "de_DE")}
    [(inputs, targets, _)] = found.dataset(["a film"], ["long"])
    french, german = codes["fr_XX"], codes["de_DE"]
    text, target = (found.preprocessor.tokenize([each]).to_list()[0] for each in ("a film", "long"))
    # The labels, and what Transformers moves to the right: the last token of mBART's, `decoder_start_token_id` else.
    start, labels = (german, [*target, 2, german]) if name == "MBart" else (2, [german, *target, 2])
    source = [*text, 2, french] if name == "MBart" else [french, *text, 2]
    assert np.asarray(inputs["token_ids"])[0, : len(source)].tolist() == source
    assert targets[0, : len(labels)].tolist() == labels
    assert inputs["decoder_token_ids"][0, : len(labels)].tolist() == [start, *labels[:-1]]
    assert found.default_constraints().forced_first == (None if name == "MBart" else german)
    found.save_pretrained(tmp_path / "saved")
    again = Seq2SeqLM.from_pretrained(tmp_path / "saved", max_new_tokens=2)
    assert again.preprocessor.packing == found.preprocessor.packing
    assert again.target_preprocessor.packing == found.target_preprocessor.packing
    assert again.start_token == found.start_token and again.default_constraints() == found.default_constraints()


@pytest.mark.parametrize("name", ["MBart", "MBart50"])
def test_the_targets_of_an_objective_are_in_the_language_of_its_texts(name, models, tmp_path):
    folder = language_folder(tmp_path / "folder", models[0], name, decoder_start_token_id=2)
    objective = Denoising(0.5, poisson_mean=None, random_token_rate=0.0, permutation_rate=0.0, seed=0)
    languages = {"source_language": "fr_XX", "target_language": "fr_XX"}
    found = Seq2SeqLM.from_pretrained(folder, objective=objective, sequence_length=24, **languages)
    [(inputs, targets, weights)] = found.dataset(["the best cafe was small", "a film"])
    french, mask = map(found.preprocessor.token_to_id, ("fr_XX", "<mask>"))
    text = found.preprocessor.tokenize(["the best cafe was small"]).to_list()[0]
    # As when both were pretrained: the decoder begins with the last token of mBART's texts, and mBART-50's with `</s>`.
    start, labels = (french, [*text, 2, french]) if name == "MBart" else (2, [french, *text, 2])
    assert targets[0, : len(labels)].tolist() == labels and weights[0].sum() == len(labels)
    assert inputs["decoder_token_ids"][0, : len(labels)].tolist() == [start, *labels[:-1]]
    source = inputs["token_ids"][0][inputs["padding_mask"][0] == 1].tolist()
    assert mask in source and set(source) <= {mask, *labels}
    special = (slice(-2, None), slice(0)) if name == "MBart" else (slice(1), slice(-1, None))
    assert [source[part] for part in special] == [labels[part] for part in special]
    # No noise is the code of another language.
    codes = map(found.preprocessor.token_to_id, found.preprocessor.tokenizer.language_codes)
    assert {*codes} <= {*objective.tokens(found.preprocessor)["special_ids"]}


def test_the_language_of_targets_is_that_with_which_the_checkpoint_generates(models, tmp_path):
    folder = language_folder(tmp_path / "folder", models[0], "MBart")
    code = TokenPreprocessor.load(folder).token_to_id("ro_RO")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "decoder_start_token_id": code}))
    found = Seq2SeqLM.from_pretrained(folder, sequence_length=12)
    assert found.target_preprocessor.language == "ro_RO" and found.start_token == code
    assert found.preprocessor.language == "en_XX"


test_mistakes_are_errors = check_errors(
    (
        lambda tmp_path: Seq2SeqLM.from_pretrained(_mbart(tmp_path), target_language="german"),
        "`target_language` must be one of ['ar_AR', 'cs_CZ', ... Received: target_language='german'",
    ),
    (
        lambda tmp_path: Seq2SeqLM.from_pretrained(_mbart(tmp_path), preprocessor=None, target_language="de_DE"),
        "Use `preprocessor.with_language(...)` instead",
    ),
    (
        lambda tmp_path: Seq2SeqLM.from_pretrained(_mbart(tmp_path), sequence_length=12).dataset(["a"], ["b"]),
        "Targets need a language ... pass `target_language` to `from_pretrained`",
    ),
    (
        lambda tmp_path: Seq2SeqLM.from_pretrained(
            _mbart(tmp_path), sequence_length=12, objective=PrefixLM(), target_language="de_DE"
        ).dataset(["a film"]),
        "must have one language ... Received: objective=PrefixLM ... 'en_XX' ... for sources and ... 'de_DE'",
    ),
    (
        lambda trained: _with_objective(trained, Denoising()).dataset(SOURCES),
        "must have one tokenizer. Train this model with pairs of texts: `fit(sources, targets)` ... =Denoising",
    ),
    (
        lambda trained: _with_objective(trained, PrefixLM(), target_preprocessor=None).dataset(SOURCES),
        "must have one tokenizer. Train this model with pairs of texts: `fit(sources, targets)` ... =PrefixLM",
    ),
)


def _with_objective(model, objective, **options):
    options = {"target_preprocessor": model.target_preprocessor, "start_token": "<pad>", **options}
    return Seq2SeqLM(model.encoder, model.preprocessor, objective=objective, **options)


def _mbart(tmp_path):
    return language_folder(tmp_path / "mbart", train(SOURCES), "MBart", decoder_start_token_id=2)


def test_a_translation_model_survives_keras_files(trained, eagerly):
    again = save_and_load(trained)
    assert again.get_config() == trained.get_config()
    assert again.generate(SOURCES[:4]) == trained.generate(SOURCES[:4])
    np.testing.assert_allclose(*(each.score(SOURCES[:4], TARGETS[:4]) for each in (again, trained)), rtol=1e-5)

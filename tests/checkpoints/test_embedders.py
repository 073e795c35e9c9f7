"""A `TextEmbedder` as a folder of sentence-transformers, and back."""

import json
import shutil

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import ElmoEncoder
from keras_transfer.tasks import TextEmbedder
from tests.helpers import save_and_load
from tests.tasks.tiny import encoder, preprocessor

TEXTS = ["a b", "good", "c d e f g h", "a bad i j"]
SETTINGS = ("dense", "truncate_dim", "prompts", "default_prompt_name")


@pytest.mark.parametrize(("pooling", "normalize"), [("first", False), ("max", True)])
def test_the_pooling_of_the_task_is_written_whatever_the_encoder_has(pooling, normalize, tmp_path, eagerly):
    model = TextEmbedder(encoder(pooling="mean"), preprocessor(), pooling=pooling, normalize=normalize)
    model.save_pretrained(tmp_path / "saved")
    again = TextEmbedder.from_pretrained(tmp_path / "saved")
    assert (again.pooling, again.normalize) == (pooling, normalize)
    np.testing.assert_array_equal(again.embed(TEXTS, verbose=0), model.embed(TEXTS, verbose=0))
    modules = json.loads((tmp_path / "saved" / "modules.json").read_text())
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    assert [module["type"].rsplit(".", 1)[1] for module in modules] == kinds


def test_what_a_folder_cannot_contain_is_an_error_and_writes_nothing(tmp_path):
    for pooling in ("pooled", "concat"):
        with pytest.raises(CheckpointError, match=rf"the poolings \['first', 'last',.*pooling='{pooling}'"):
            TextEmbedder(encoder(), preprocessor(), pooling=pooling).save_pretrained(tmp_path / "saved")
    elu = TextEmbedder(encoder(), preprocessor(), dense=[{"units": 4, "activation": "elu"}])
    with pytest.raises(CheckpointError, match="the activations .*'tanh'.*Received: activation='elu'"):
        elu.save_pretrained(tmp_path / "saved")
    elmo = ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16)
    with pytest.raises(CheckpointError, match="cannot contain the pooling of a TextEmbedder.*'normalize': True"):
        TextEmbedder(elmo, normalize=True).save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def with_everything():
    """An embedder with all modules that a folder can contain."""
    model = TextEmbedder(
        encoder(),
        preprocessor(),
        pooling="weighted_mean",
        normalize=True,
        dense=[{"units": 12, "activation": "tanh"}, {"layer_norm": True}, {"units": 8, "use_bias": False}],
        truncate_dim=6,
        prompts={"query": "a good ", "document": ""},
        default_prompt_name="query",
    )
    model.dense_layers[1].set_weights([np.arange(1, 13) / 6, np.arange(12) / 9])  # Otherwise, ones and zeros.
    return model


@pytest.mark.parametrize("form", ["folder", "keras"])
def test_dense_layers_prompts_and_truncation_are_saved(form, tmp_path, eagerly):
    model = with_everything()
    if form == "keras":
        again = save_and_load(model)
    else:
        model.save_pretrained(tmp_path / "saved")
        again = TextEmbedder.from_pretrained(tmp_path / "saved")
    ours, theirs = (
        {name: each.get_config()[name] for name in ("pooling", "normalize", *SETTINGS)} for each in (model, again)
    )
    assert ours == theirs
    assert model.embed(TEXTS, verbose=0).shape == (4, 6)
    np.testing.assert_array_equal(again.embed(TEXTS, verbose=0), model.embed(TEXTS, verbose=0))


def test_the_arguments_of_the_task_replace_what_a_folder_says(tmp_path):
    with_everything().save_pretrained(tmp_path / "saved")
    again = TextEmbedder.from_pretrained(tmp_path / "saved", pooling="max", dense=None, truncate_dim=None)
    assert (again.pooling, again.normalize, again.dense, again.output.shape[1]) == ("max", True, [], 16)
    new = TextEmbedder.from_pretrained(tmp_path / "saved", head="new")
    assert (new.pooling, new.normalize, new.dense, new.prompts) == ("mean", False, [], {})


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The folder of an embedder with everything."""
    folder = tmp_path_factory.mktemp("everything")
    with_everything().save_pretrained(folder / "saved")
    return folder / "saved"


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "its pooling .* is not supported"),
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "max"]}, "its pooling .* is not supported"),
        ("1_Pooling/config.json", {"include_prompt": False}, "include_prompt=false"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.ELU"}, "ELU' of its Dense"),
        ("2_Dense/config.json", {"use_residual": True}, "its Dense .*'use_residual': True.* is not supported"),
        ("2_Dense/config.json", {"module_input_name": "token_embeddings"}, "its Dense .*token_embeddings"),
        ("2_Dense/config.json", {"out_features": 7}, r"must contain the tensors.*\(7, 16\).*Received: .*\(12, 16\)"),
        ("config_sentence_transformers.json", {"prompts": ["a"]}, "config_sentence_transformers.json cannot be read"),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "x"},
            "`default_prompt_name` must be one of .*'query'.*'x'",
        ),
        ("config_sentence_transformers.json", {"truncate_dim": 0}, "`truncate_dim` must be an integer of at least 1"),
    ],
)
def test_a_folder_that_an_embedder_cannot_compute_is_an_error(file, values, message, everything, tmp_path):
    folder = shutil.copytree(everything, tmp_path / "saved")
    change(folder / file, **values)
    with pytest.raises(ValueError, match=message):
        TextEmbedder.from_pretrained(folder)


def test_dropout_between_the_modules_has_no_effect_on_vectors(everything, tmp_path):
    folder = shutil.copytree(everything, tmp_path / "saved")
    modules = json.loads((folder / "modules.json").read_text())
    dropout = {"idx": 9, "name": "9", "path": "9_Dropout", "type": "sentence_transformers.models.Dropout"}
    (folder / "modules.json").write_text(json.dumps([*modules[:3], dropout, *modules[3:]]))
    (folder / "9_Dropout").mkdir()
    (folder / "9_Dropout" / "config.json").write_text('{"dropout": 0.5}')
    found, expected = (TextEmbedder.from_pretrained(path).embed(TEXTS, verbose=0) for path in (folder, everything))
    np.testing.assert_array_equal(found, expected)


def test_a_pooling_without_the_tokens_of_prompts_is_read_if_there_are_no_prompts(everything, tmp_path):
    folder = shutil.copytree(everything, tmp_path / "saved")
    change(folder / "1_Pooling/config.json", include_prompt=False)
    none = {"prompts": None, "default_prompt_name": None}
    found, expected = (
        TextEmbedder.from_pretrained(path, **none).embed(TEXTS, verbose=0) for path in (folder, everything)
    )
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(CheckpointError, match=r"Pass `prompts=None.*Received: prompts=\{'query': 'a good '"):
        TextEmbedder.from_pretrained(folder)


def test_modules_that_an_embedder_does_not_have_are_an_error_and_the_encoder_alone_loads(tmp_path, caplog):
    with_everything().save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved" / "modules.json"
    modules = json.loads(path.read_text())
    path.write_text(json.dumps([{**modules[0], "type": "sentence_transformers.models.BoW"}, *modules[1:]]))
    with pytest.raises(CheckpointError, match=r"Pass head='new'.*Received: its modules \['BoW', 'Pooling', "):
        TextEmbedder.from_pretrained(tmp_path / "saved")
    assert TextEmbedder.from_pretrained(tmp_path / "saved", head="new").pooling == "mean"
    assert "its modules ['BoW'" in caplog.text


def test_a_folder_that_lowercases_texts_requires_a_tokenizer_that_does(tmp_path):
    for lowercase in (True, False):
        folder = tmp_path / str(lowercase)
        TextEmbedder(encoder(), preprocessor(lowercase=lowercase)).save_pretrained(folder)
        (folder / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    assert TextEmbedder.from_pretrained(tmp_path / "True").preprocessor.lowercase
    with pytest.raises(CheckpointError, match="does not lowercase texts.*do_lower_case=true"):
        TextEmbedder.from_pretrained(tmp_path / "False")


@pytest.mark.parity
@pytest.mark.parametrize(
    ("mode", "dense", "normalize", "settings"),
    [
        ("cls", [], False, {}),
        ("max", [], True, {}),
        ("mean", [("Tanh", 12)], True, {}),
        ("lasttoken", [], False, {}),
        ("weightedmean", [], True, {}),
        ("mean_sqrt_len_tokens", [("Identity", 8), ("GELU", 20)], False, {}),
        ("mean", [("LayerNorm", 16), ("Dropout", 16), ("Tanh", 8)], True, {}),
        ("mean", [], True, {"truncate_dim": 5}),
        ("mean", [], True, {"prompts": {"query": "a good ", "document": "Bad: "}}),
        ("lasttoken", [("ReLU", 8)], True, {"prompts": {"x": "a good "}, "default_prompt_name": "x"}),
    ],
)
def test_each_kind_of_folder_gives_the_vectors_of_sentence_transformers(mode, dense, normalize, settings, tmp_path):
    reason = "compares with sentence-transformers on torch: run `make test-parity`"
    library = pytest.importorskip("sentence_transformers", reason=reason, exc_type=ImportError)
    import torch
    from sentence_transformers.sentence_transformer import modules as models

    encoder(initializer_range=0.3).save_pretrained(tmp_path / "encoder", preprocessor())
    modules, size = [models.Transformer(str(tmp_path / "encoder")), models.Pooling(16, mode)], 16
    for activation, units in dense:
        if activation == "Dropout":
            modules.append(models.Dropout(0.5))
        elif activation == "LayerNorm":
            modules.append(models.LayerNorm(size))
            torch.nn.init.normal_(modules[-1].norm.weight)
        else:
            modules.append(models.Dense(size, units, activation == "Tanh", getattr(torch.nn, activation)()))
        size = units
    modules += [models.Normalize()] if normalize else []
    theirs = library.SentenceTransformer(modules=modules, device="cpu", **settings)
    theirs.save(str(tmp_path / "theirs"))
    ours = TextEmbedder.from_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    again = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    query, document = (name if name in ours.prompts else None for name in ("query", "document"))
    for name, method in ((None, "encode"), (query, "encode_query"), (document, "encode_document")):
        found = ours.embed(TEXTS, verbose=0, prompt_name=name)
        for library_model in (theirs, again):
            np.testing.assert_allclose(found, getattr(library_model, method)(TEXTS), rtol=0, atol=1e-5)
    queries, corpus = theirs.encode_query(TEXTS[:2]), theirs.encode_document(TEXTS)
    expected = np.sort(library.util.cos_sim(queries, corpus).numpy(), axis=1)[:, ::-1]
    np.testing.assert_allclose(ours.search(TEXTS[:2], TEXTS, k=4, verbose=0)[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parity
def test_sentence_transformers_gives_the_vectors_of_a_folder_that_we_wrote(minilm, tmp_path):
    reason = "compares with sentence-transformers on torch: run `make test-parity`"
    library = pytest.importorskip("sentence_transformers", reason=reason, exc_type=ImportError)
    model = TextEmbedder.from_pretrained(minilm, pooling="max", normalize=False)
    model.save_pretrained(tmp_path / "saved")
    texts = ["What a film!", "A longer text, of two sentences. It ends here.", ""]
    theirs = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(texts)
    np.testing.assert_allclose(model.embed(texts, verbose=0), theirs, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_packaged_encoder_gives_the_embeddings_of_sentence_transformers(minilm):
    from tests.serving.test_export_embeddings import REFERENCE

    model = TextEmbedder.from_pretrained(minilm)
    with np.load(REFERENCE) as arrays:
        texts, expected = arrays["texts"].tolist(), arrays["embeddings"]
    np.testing.assert_allclose(model.embed(texts, verbose=0), expected, atol=1e-5)
    scores, indices = model.search(texts, texts, k=1, verbose=0)
    assert indices[:, 0].tolist() == list(range(len(texts)))
    np.testing.assert_allclose(scores, 1, atol=1e-5)

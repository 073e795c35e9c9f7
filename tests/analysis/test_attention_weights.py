"""The weights of attention: by hand in NumPy, live against Transformers, from raw texts, and their pictures."""

import importlib.util

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation import Prefix, add_adapters
from keras_transfer.analysis import AttentionWeights, attention_weights
from keras_transfer.encoders import T5, Bart, BartSingleText, ElmoEncoder, Encoder, EncoderDecoder, TransformerEncoder
from keras_transfer.layers import MultiHeadAttention
from keras_transfer.tasks import CausalLM, MaskedLM, Seq2SeqLM
from tests.errors import check_errors
from tests.samples import REFERENCES
from tests.tasks.tiny import VOCABULARY, classifier, encoder, preprocessor

SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "dropout": 0.0}
IDS = {
    "token_ids": np.array([[5, 6, 7, 1, 0], [8, 1, 0, 0, 0]]),
    "padding_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]),
    "decoder_token_ids": np.array([[0, 3, 4], [0, 9, 2]]),
    "decoder_padding_mask": np.array([[1, 1, 1], [1, 1, 0]]),
}
FOLDERS = sorted(path.parent for path in REFERENCES.glob("architectures/*/outputs.npz"))
FOLDERS += sorted(path.parent for path in REFERENCES.glob("sequence_to_sequence/*/gradients.npz"))
FOLDERS += [REFERENCES / "sequence_to_sequence" / name for name in ("mbart", "pegasus", "marian", "bert2gpt2")]
NAMES = {"token_ids": "input_ids", "padding_mask": "attention_mask", "segment_ids": "token_type_ids"}
NAMES |= {"decoder_token_ids": "decoder_input_ids", "decoder_padding_mask": "decoder_attention_mask"}
NAMES |= {"language_ids": "langs"}


def by_hand(layer, queries, keys, visible):
    """The weights of attention of one head after the other, computed in NumPy."""
    if layer.cross_attention:
        query, key = (
            x @ to_numpy(dense.kernel)[:, :8] + to_numpy(dense.bias)[:8]
            for x, dense in ((queries, layer.query), (keys, layer.key_value))
        )
    else:
        projected = queries @ to_numpy(layer.query_key_value.kernel) + to_numpy(layer.query_key_value.bias)
        query, key = projected[..., :8], projected[..., 8:16]
    found = []
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        scores = query[..., part] @ key[..., part].transpose(0, 2, 1) / 2
        scores = np.exp(np.where(visible, scores, -np.inf))
        found.append(scores / scores.sum(axis=-1, keepdims=True))
    return np.stack(found, axis=1)


def test_texts_and_words_of_an_encoder_with_a_preprocessor_are_those_of_a_task():
    model = classifier()
    expected = attention_weights(model, ["a good", "b"])
    for x in (["a good", "b"], [["a", "good"], ["b"]]):
        found = attention_weights(model.encoder, x, preprocessor=model.preprocessor)
        assert found.tokens == expected.tokens == [["[CLS]", "a", "good", "[SEP]"], ["[CLS]", "b", "[SEP]"]]
        assert found.separators == expected.separators
        np.testing.assert_array_equal(found.encoder[0], expected.encoder[0])


@pytest.mark.core
def test_the_weights_are_those_by_hand_in_both_halves_and_between_them():
    model = Bart(20, **SMALL, initializer_range=0.5)
    found = attention_weights(model, IDS)
    ids = {name: value[:, :4] for name, value in IDS.items()}  # All rows have padding at the fifth place.
    mask = ids["padding_mask"][:, None] == 1
    tensors = {name: keras.ops.convert_to_tensor(value) for name, value in ids.items()}
    states = keras.Model(model.input, [model.hidden_states, model.decoder_hidden_states])(tensors)
    own, decoded = ([to_numpy(state) for state in half] for half in states)
    for layer, weights in enumerate(found.encoder):
        expected = by_hand(model.encoder.blocks[layer].attention, own[layer], own[layer], mask)
        np.testing.assert_allclose(weights, expected, atol=1e-5)
    causal = np.tri(3)[None] * IDS["decoder_padding_mask"][:, None] == 1
    for layer, (block, weights) in enumerate(zip(model.decoder.blocks, found.decoder, strict=True)):
        x = decoded[layer]
        np.testing.assert_allclose(weights, by_hand(block.attention, x, x, causal), atol=1e-5)
        x, seen = (keras.ops.convert_to_tensor(value) for value in (x, causal))
        x = to_numpy(block.attention_norm(x + block.attention(x, attention_mask=seen)))
        np.testing.assert_allclose(found.cross[layer], by_hand(block.cross_attention, x, own[-1], mask), atol=1e-5)


def test_an_attention_layer_returns_the_same_whether_it_records_its_weights_and_the_outputs_of_its_heads_or_not():
    layer, found = MultiHeadAttention(2, causal=True), []
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    expected = to_numpy(layer(x))
    np.testing.assert_array_equal(expected, layer(x, record=lambda *given: found.append(given)))
    [(weights, heads)] = found
    assert weights.shape == (2, 2, 5, 5)
    values = (x @ to_numpy(layer.query_key_value.kernel))[..., 16:].reshape(2, 5, 2, 4)  # Biases are 0.
    by_hand = np.einsum("bhqk,bkhd->bqhd", to_numpy(weights), values).reshape(2, 5, 8)
    np.testing.assert_allclose(heads, by_hand, atol=1e-6)
    np.testing.assert_allclose(expected, layer.output_dense(heads), atol=1e-6)


def test_a_text_that_both_halves_read_has_the_weights_of_two_texts():
    single = BartSingleText(20, **SMALL, start_token=2)
    both = Bart(20, **SMALL)
    both.set_weights(single.get_weights())
    ids = {"token_ids": np.array([[5, 6, 7, 1]]), "padding_mask": np.ones((1, 4), "int32")}
    moved = {"decoder_token_ids": np.array([[2, 5, 6, 7]]), "decoder_padding_mask": ids["padding_mask"]}
    found, expected = attention_weights(single, ids), attention_weights(both, {**ids, **moved})
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_array_equal(getattr(found, kind), getattr(expected, kind))
    assert found.read == expected.read == [["2", "5", "6", "7"]] and found.written == [["5", "6", "7", "1"]]


def test_texts_have_the_weights_of_their_ids_and_the_names_of_their_tokens(eagerly):
    model = Seq2SeqLM(T5(len(VOCABULARY), **SMALL), preprocessor(sequence_length=16))
    found = attention_weights(model, ["a b c", "good"], ["c b a", "bad"])
    assert found.tokens == [["[CLS]", "a", "b", "c", "[SEP]"], ["[CLS]", "good", "[SEP]"]]
    assert found.read[1] == ["[PAD]", "[CLS]", "bad"] and found.written[1] == ["[CLS]", "bad", "[SEP]"]
    assert [weights.shape for weights in found.cross] == [(2, 2, 5, 5)] * 2
    for weights in (*found.encoder, *found.decoder, *found.cross):
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)
    assert (found.cross[0][1, :, :, 3:] == 0).all()  # padding of the second source
    ids = {"token_ids": np.array([[2, 15, 3]]), "decoder_token_ids": np.array([[0, 2, 16]])}
    ids |= {name.replace("token_ids", "padding_mask"): np.ones_like(value) for name, value in ids.items()}
    alone = attention_weights(model, ids)
    np.testing.assert_allclose(found.matrix(row=1), alone.matrix(), atol=1e-5)
    np.testing.assert_allclose(found.matrix("decoder", row=1, layer=0, head=1), alone.decoder[0][0, 1], atol=1e-5)
    assert alone.tokens == [["[CLS]", "good", "[SEP]"]] and alone.written == [["[CLS]", "bad", "?"]]


def test_tasks_over_one_encoder_take_their_raw_texts(eagerly):
    found = attention_weights(classifier(), (["a b", "c"], ["d", "e"]))
    assert found.tokens[1] == ["[CLS]", "c", "[SEP]", "e", "[SEP]"] and found.cross is None
    assert found.matrix(row=1).shape == (5, 5) and found.encoder[0].shape == (2, 2, 6, 6)
    causal = attention_weights(CausalLM(encoder(TransformerEncoder, causal=True), preprocessor()), ["a b c"])
    assert (np.triu(causal.matrix(), k=1) == 0).all()
    masked = attention_weights(MaskedLM(encoder(pooler=False), preprocessor()), ["a [MASK] c"])
    assert masked.matrix().shape[0] == len(masked.tokens[0])


def test_keys_of_a_prefix_come_first():
    model = classifier()
    add_adapters(model, Prefix(3))
    found = attention_weights(model, ["a b"])
    assert found.matrix().shape == (4, 7)
    np.testing.assert_allclose(found.matrix().sum(axis=1), 1.0, atol=1e-5)
    if importlib.util.find_spec("matplotlib"):
        assert [text.get_text() for text in found.plot().axes[0].get_xticklabels()][:4] == ["+", "+", "+", "[CLS]"]


def test_a_picture_has_the_written_tokens_in_lines_and_the_tokens_of_the_source_in_columns():
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'keras_transfer[plots]'")
    found = attention_weights(T5(20, **SMALL), IDS)
    axes = found.plot(row=1).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["8", "1"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["9", "?"]
    np.testing.assert_allclose(axes.images[0].get_array(), found.cross[-1][1].mean(axis=0)[:2, :2])


def seq2seq():
    return Seq2SeqLM(T5(len(VOCABULARY), **SMALL), preprocessor(sequence_length=16))


GIVEN = AttentionWeights([np.zeros((2, 4, 5, 5))] * 3, tokens=[list("abcde"), list("abc")])
ELMO = {"embedding_dim": 4, "filters": [(1, 4)], "projection_dim": 4, "units": 8}
test_a_mistake_is_one_clear_error = check_errors(
    (lambda: attention_weights(seq2seq(), ["a b"]), "such as `model.generate(x)`. Received: targets=None"),
    (lambda: attention_weights(classifier(), ["a"], ["b"]), "require a `Seq2SeqLM`. Received: targets=['b']"),
    (lambda: attention_weights(T5(20, **SMALL), ["a"]), "a dict of ['token_ids', ... `preprocessor(texts)`"),
    (lambda: attention_weights(encoder(), {"token_ids": IDS["token_ids"]}), "Received: ['token_ids']"),
    (lambda: attention_weights(seq2seq(), [], []), "at least one row. Received: rows=0"),
    (lambda: attention_weights("minilm-l6", ["a"]), "or such an encoder. Received: encoder='minilm-l6'"),
    (
        lambda: attention_weights(ElmoEncoder(**ELMO), {}),
        "must be a task with a Transformer ... Received: encoder=<ElmoEncoder",
    ),
    (lambda: ElmoEncoder(**ELMO).attention_weights({}), "Transformers of `keras_transfer.encoders`. ... ElmoEncoder"),
    (lambda: GIVEN.matrix("cross"), "one of ('encoder',). Received: kind='cross'"),
    (lambda: GIVEN.matrix(row=2), "from -2 to 1. Received: row=2"),
    (lambda: GIVEN.matrix(layer=3), "from -3 to 2. Received: layer=3"),
    (lambda: GIVEN.matrix(head=-5), "from -4 to 3. Received: head=-5"),
)


@pytest.mark.parity
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_weights_are_those_of_transformers(folder):
    reason = "compares with Transformers on torch: run `make test-parity`"
    torch = pytest.importorskip("torch", reason=reason, exc_type=ImportError)
    transformers = pytest.importorskip("transformers", reason=reason)
    two = folder.parent.name == "sequence_to_sequence"
    model = (EncoderDecoder if two else Encoder).from_pretrained(folder)
    arrays = dict(np.load(folder / "outputs.npz"))
    inputs = {name: arrays.get(name, np.zeros_like(arrays["token_ids"])) for name in model.input}
    found = attention_weights(model, inputs)
    cls = transformers.AutoModelForSeq2SeqLM if two else transformers.AutoModel
    original = cls.from_pretrained(folder, attn_implementation="eager").eval()
    given = {NAMES[name]: torch.tensor(value).long() for name, value in inputs.items() if name in NAMES}
    if two:
        given.pop("token_type_ids", None)
    with torch.no_grad():
        outputs = original(**given, output_attentions=True)
    kinds = {"encoder": outputs["encoder_attentions" if two else "attentions"]}
    kinds |= {"decoder": outputs.decoder_attentions, "cross": outputs.cross_attentions} if two else {}
    for kind, layers in kinds.items():
        for ours, theirs in zip(getattr(found, kind), layers, strict=True):
            queries, keys = ours.shape[2:]
            real = inputs["padding_mask" if kind == "encoder" else "decoder_padding_mask"][:, :queries] == 1
            difference = np.abs(ours - theirs.numpy()[:, :, :queries, :keys]).transpose(0, 2, 1, 3)[real]
            assert difference.max() <= 1e-5


def test_weights_print_in_one_line_and_show_the_matrices_of_all_heads_in_a_notebook(eagerly):
    weights = attention_weights(classifier(), ["good bad", "a"])
    assert repr(weights).startswith("AttentionWeights(encoder: 1 of [2, ") and len(repr(weights)) < 200
    assert "tokens: [CLS] good bad [SEP])" in repr(weights)
    page = weights._repr_html_()
    assert page.count("<svg") == 2 and page.count("<span>") == 4

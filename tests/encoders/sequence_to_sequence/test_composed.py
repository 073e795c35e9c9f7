"""Encoder-decoders of two pretrained encoders: what is loaded, what is new, and what the halves share."""

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation import freeze, layer_groups
from keras_transfer.encoders import (
    T5,
    Bart,
    BertEncoder,
    ComposedEncoderDecoder,
    DebertaV2Encoder,
    Encoder,
    EncoderDecoder,
    GPT2Encoder,
    TransformerEncoder,
)
from keras_transfer.tasks import MaskedLM, Seq2SeqLM
from tests.errors import check_errors
from tests.helpers import outputs_of, save_and_load
from tests.samples import REFERENCES

FOLDER = REFERENCES / "architectures"
SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
IDS = {
    "token_ids": np.array([[5, 6, 7, 1], [8, 1, 0, 0]]),
    "segment_ids": np.zeros((2, 4), "int32"),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]]),
    "decoder_token_ids": np.array([[0, 3, 4], [0, 9, 2]]),
    "decoder_padding_mask": np.ones((2, 3), "int32"),
}
SOURCE = ("token_ids", "segment_ids", "padding_mask")


@pytest.fixture(scope="module")
def two():
    return EncoderDecoder.from_encoders(FOLDER / "bert", FOLDER / "gpt2", dropout=0.0)


@pytest.fixture(scope="module")
def shared():
    return EncoderDecoder.from_encoders(FOLDER / "bert", tied=True)


def test_the_halves_are_the_encoders_of_the_checkpoints(two):
    alone, decoder = Encoder.from_pretrained(FOLDER / "bert"), Encoder.from_pretrained(FOLDER / "gpt2")
    outputs = two(IDS)
    expected = alone({name: IDS[name] for name in SOURCE})["sequence_output"]
    np.testing.assert_array_equal(to_numpy(outputs["sequence_output"]), to_numpy(expected))
    # Without what cross-attention adds, the decoder is GPT-2.
    kernels = [block.cross_attention.output_dense.kernel for block in two.decoder.blocks]
    before, values = to_numpy(outputs["decoder_sequence_output"]), [to_numpy(kernel) for kernel in kernels]
    for kernel in kernels:
        kernel.assign(0 * kernel)
    expected = decoder({name: IDS[f"decoder_{name}"] for name in ("token_ids", "padding_mask")})["sequence_output"]
    np.testing.assert_allclose(to_numpy(two(IDS)["decoder_sequence_output"]), to_numpy(expected), atol=1e-6)
    for kernel, value in zip(kernels, values):
        kernel.assign(value)
    assert np.abs(before - to_numpy(expected)).max() > 1e-3


def test_the_head_of_a_masked_language_model_is_loaded(shared):
    head = MaskedLM.from_pretrained(FOLDER / "bert", preprocessor=None)
    model = Seq2SeqLM(shared)
    for ours, theirs in zip(shared.decoder.output_transform, ("head_dense", "head_norm")):
        for value, expected in zip(ours.weights, head.get_layer(theirs).weights, strict=True):
            np.testing.assert_array_equal(to_numpy(value), to_numpy(expected))
    np.testing.assert_array_equal(*(to_numpy(each.get_layer("logits").bias) for each in (model, head)))
    assert not any("output" in path.split("/")[0] for path in shared.checkpoint_report.new)


def test_new_weights_are_reported_and_in_the_last_group_which_trains_alone(two, shared):
    for model, per_block in ((two, 8), (shared, 8)):
        new = model.checkpoint_report.new
        assert len(new) == per_block * len(model.decoder.blocks) and all("cross_attention" in path for path in new)
        assert "new: decoder_block_0/cross_attention" in str(model.checkpoint_report)
        groups = layer_groups(model)
        assert sum(len(group.variables) for group in groups) == len(model.weights)
        [group] = [group for group in groups if not group.pretrained]
        assert group.name == "decoder_cross_attention" and [weight.path for weight in group.variables] == new
    assert [group.name for group in layer_groups(two)][-4:] == [
        "decoder_block_0",
        "decoder_block_1",
        "decoder_final_norm",
        "decoder_cross_attention",
    ]
    model = EncoderDecoder.from_encoders(*halves()["two"])
    task = freeze(Seq2SeqLM(model), "pretrained")
    assert {weight.path for weight in task.trainable_weights} == set(model.checkpoint_report.new)


def test_tied_halves_share_their_layers(shared):
    alone = Encoder.from_pretrained(FOLDER / "bert")
    assert len(shared.weights) == len(alone.weights) + 2 * 8 + 4
    for ours, theirs in zip(shared.decoder.blocks, shared.encoder.blocks, strict=True):
        assert ours.attention is theirs.attention and ours.feed_forward_norm is theirs.feed_forward_norm
    # The decoder sees only earlier tokens, although its layers are those of the encoder.
    outputs, changed = to_numpy(shared(IDS)["decoder_sequence_output"]), dict(IDS)
    changed["decoder_token_ids"] = np.array([[0, 3, 9], [0, 9, 7]])
    other = to_numpy(shared(changed)["decoder_sequence_output"])
    np.testing.assert_allclose(other[:, :2], outputs[:, :2], atol=1e-6)
    assert np.abs(other[:, 2] - outputs[:, 2]).max() > 1e-3


def halves():
    return {
        "two": (BertEncoder(20, **SMALL), GPT2Encoder(24, **{**SMALL, "hidden_dim": 12, "num_layers": 2})),
        "tied": (TransformerEncoder(20, norm="pre", **SMALL), None),
    }


@pytest.mark.parametrize("name", ["two", "tied"])
def test_steps_with_a_cache_are_a_call_also_after_saving(name):
    model = ComposedEncoderDecoder(*halves()[name], tied=name == "tied")
    again = save_and_load(model)
    assert again.get_config() == model.get_config() and len(again.weights) == len(model.weights)
    expected = outputs_of(model, {key: IDS[key] for key in model.input})["decoder_sequence_output"]
    context = again.encode_context({key: IDS[key] for key in ("token_ids", "padding_mask")})
    cache, found = again.empty_cache(2, 3), []
    for place in range(3):
        vectors, cache = again.step(IDS["decoder_token_ids"][:, place : place + 1], cache, place, context=context)
        found.append(to_numpy(vectors))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)


def test_an_encoder_keeps_its_weights_and_a_decoder_is_a_copy():
    encoder, decoder = halves()["two"]
    model = EncoderDecoder.from_encoders(encoder, decoder)
    assert model.encoder is encoder
    kernel, copy = (half.blocks[1].feed_forward.inner.kernel for half in (decoder, model.decoder))
    np.testing.assert_array_equal(to_numpy(kernel), to_numpy(copy))
    copy.assign(0 * copy)
    assert to_numpy(kernel).any()
    assert model.context_projection.kernel.path in model.checkpoint_report.new
    both = EncoderDecoder.from_encoders(encoder, encoder)  # Two halves of one encoder that are not tied.
    assert both.encoder is encoder and both.decoder.blocks[0].attention is not encoder.blocks[0].attention


def test_a_saved_folder_has_no_new_weights(two, shared, tmp_path):
    for name, model in (("two", two), ("shared", shared)):
        model.save_pretrained(tmp_path / name)
        again = Encoder.from_pretrained(tmp_path / name)
        assert again.tied == model.tied and again.checkpoint_report.new == []
        np.testing.assert_array_equal(*(to_numpy(each(IDS)["decoder_sequence_output"]) for each in (model, again)))
        assert all(group.pretrained for group in layer_groups(again))


test_mistakes_are_errors = check_errors(
    (
        lambda: EncoderDecoder.from_encoders(BertEncoder(20, **SMALL), GPT2Encoder(20, **SMALL), tied=True),
        "Leave `decoder` out. Received: decoder=<GPT2Encoder",
    ),
    (lambda: EncoderDecoder.from_encoders(Bart(20, **SMALL)), "Pass its `encoder`. Received: encoder=<Bart"),
    (lambda: EncoderDecoder.from_encoders(BertEncoder(20, **SMALL), T5(20, **SMALL)), "Received: decoder=<T5"),
    (lambda: ComposedEncoderDecoder(BertEncoder(20, **SMALL), "bert"), "must be a `TransformerStack`"),
    (
        lambda: EncoderDecoder.from_encoders(BertEncoder(20, **SMALL), DebertaV2Encoder(20, **SMALL)),
        "plain blocks that can take one token at a time",
    ),
    (
        lambda: EncoderDecoder.from_encoders(BertEncoder(20, **SMALL), dropout=0.0),
        "for sources only, since an encoder has them already. Received: dropout=0.0",
    ),
    (
        lambda: ComposedEncoderDecoder(BertEncoder(20, **SMALL), dtype="bfloat16"),
        "Both halves must have the `dtype` of the model",
    ),
    (lambda: EncoderDecoder.from_encoders("minilm-l7"), "Did you mean 'minilm-l6'"),
    (
        lambda tmp_path: _composed(TransformerEncoder(20, **SMALL)).save_pretrained(tmp_path / "saved"),
        "cannot be written as a checkpoint",
    ),
)


def _composed(decoder):
    return ComposedEncoderDecoder(BertEncoder(20, **SMALL), decoder)

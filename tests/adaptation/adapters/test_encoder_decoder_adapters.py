"""Adapters of encoder-decoders: every kind in both halves, chosen halves, decoding with a cache, and mistakes."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation as kt
from keras_transfer.encoders import T5, Bart, BertEncoder, EncoderDecoder, GPT2Encoder, MPNetEncoder
from keras_transfer.tasks import Seq2SeqLM, TextClassifier
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import DIM, IDS, INNER, INPUTS, outputs, randomize, train, values
from tests.adapters import run_adapter_test
from tests.errors import check_errors
from tests.helpers import save_and_load

ATTENTIONS, SUBLAYERS, BLOCKS = 3, 5, 2  # of an encoder with one block and a decoder with one block
BOTTLENECK = 2 * DIM * 3 + DIM + 3
BIASES = 3 * DIM + DIM + INNER + DIM + 2 * DIM  # of a block of BART, which has 5 DIM more in cross-attention
KINDS = {
    "houlsby:3": (T5, SUBLAYERS * (BOTTLENECK + DIM), {}),
    "compacter:4,terms=2": (T5, 2**3 + SUBLAYERS * (2 * (DIM + 4) + DIM + 4), {}),
    "dora:r=2": (T5, ATTENTIONS * 2 * (2 * 2 * DIM + DIM), {"merges": True}),
    "ia3": (Bart, ATTENTIONS * 2 * DIM + BLOCKS * INNER, {"tolerance": 0, "merges": True}),
    "prefix:3": (T5, ATTENTIONS * 2 * 3 * DIM, {"tolerance": None}),
    "bitfit": (Bart, 2 * BIASES + 5 * DIM + 2 * DIM, {"merges": True}),
}


@pytest.mark.parametrize("spec", KINDS)
def test_a_kind_is_in_both_halves_and_in_cross_attention(spec, tmp_path):
    cls, parameters, options = KINDS[spec]
    run_adapter_test(
        lambda: models.writer(cls), spec, parameters, "decoder_block_0_adapters", tmp_path, **options, head=set()
    )


@pytest.mark.parametrize(
    ("targets", "places"),
    [
        ("query", ["block_0.attention", "decoder_block_0.attention", "decoder_block_0.cross_attention"]),
        ("encoder_.*", ["block_0.attention", "block_0.feed_forward"]),
        (r"decoder_block_0\.(query|value)", ["decoder_block_0.attention"]),
    ],
)
def test_targets_choose_a_half_or_cross_attention(targets, places):
    encoder = kt.add_adapters(models.writer().encoder, kt.LoRA(2, targets=targets))
    assert list(dict.fromkeys(slot.place.rpartition(".")[0] for slot in encoder.attached.slots)) == places


def test_the_places_of_query_key_and_value_in_cross_attention():
    for target, attribute, part in (
        ("query", "query", (0, 8)),
        ("key", "key_value", (0, 8)),
        ("value", "key_value", (8, 8)),
    ):
        encoder = kt.add_adapters(models.writer().encoder, kt.LoRA(2, targets=f"cross_attention.{target}"))
        [slot] = encoder.attached.slots
        assert slot.attribute == attribute and slot.adapters["default"].parts == {target: part}


@pytest.mark.core
@pytest.mark.parametrize("cls", [T5, Bart])
def test_steps_with_a_cache_use_the_adapters_for_all_sequences_of_a_source(cls):
    model = models.writer(cls)
    names = ["houlsby", "parallel", "lora", "ia3", "prefix"]
    for name in names:
        randomize(kt.add_adapters(model, name, name=name), name)
    kt.set_active_adapter(model, names)
    encoder, sources = model.encoder, {name: INPUTS[name] for name in ("token_ids", "padding_mask")}
    ids = np.stack([IDS[0, :3], IDS[1, :3] + 1, IDS[0, 1:4], IDS[0, 2:5]])  # two sequences for each source
    twice = {name: np.repeat(value, 2, axis=0) for name, value in sources.items()}
    expected = outputs(encoder, {**twice, "decoder_token_ids": ids, "decoder_padding_mask": np.ones_like(ids)})
    context, cache, steps = encoder.encode_context(sources), encoder.empty_cache(4, 3), []
    for place in range(3):
        vectors, cache = encoder.step(ids[:, place : place + 1], cache, place, context=context)
        steps.append(keras.ops.convert_to_numpy(vectors))
    np.testing.assert_allclose(np.concatenate(steps, 1), expected, atol=1e-5)


def test_generate_writes_what_merged_adapters_write(eagerly):
    model = randomize(kt.add_adapters(models.writer(), kt.LoRA(2, targets=["query", "value", "outer"])))
    sources = [row[row > 0].tolist() for row in IDS]
    found, plain = (each.generate(sources, max_new_tokens=6, num_beams=2) for each in (model, models.writer()))
    assert found != plain
    assert kt.merge_adapters(model).generate(sources, max_new_tokens=6, num_beams=2) == found


def test_adapters_are_chosen_by_name_and_only_the_active_ones_train():
    model = models.writer()
    plain = outputs(model)
    kt.add_adapters(model, kt.LoRA(2, targets="encoder_.*"), name="lower")
    kt.add_adapters(model, kt.LoRA(2, targets=r"decoder_.*"), name="upper")
    for name in ("lower", "upper"):
        randomize(model, name)
    upper, lower = outputs(model), outputs(kt.set_active_adapter(model, "lower"))
    both = outputs(kt.set_active_adapter(model, ["lower", "upper"]))
    assert min(np.abs(both - other).max() for other in (plain, lower, upper)) > 1e-5
    kt.set_active_adapter(model, "upper")
    before = values(model)
    after = values(train(model))
    moved = {path for path in before if (before[path] != after[path]).any()}
    assert moved and all(path.startswith("decoder_block_0/") and "/upper/" in path for path in moved)
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(save_and_load(model), "lower")), lower)
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(model, None)), plain)


def test_a_prefix_is_at_no_distance_for_relative_positions():
    encoder = kt.add_adapters(models.encoder(MPNetEncoder), "prefix:2")
    before = outputs(encoder)
    table = encoder.block_inputs.embeddings
    table.assign(table + 1)  # The softmax ignores what all keys have in common, except that a prefix does not have it.
    assert np.abs(outputs(encoder) - before).max() > 1e-4
    removed = kt.remove_adapters(encoder)
    same = outputs(removed)
    table.assign(table - 1)
    np.testing.assert_allclose(outputs(removed), same, atol=1e-5)


def test_the_head_of_a_language_model_is_pretrained_and_stays_frozen():
    model = kt.add_adapters(models.writer(Bart), "lora:r=2")
    [head] = [group for group in kt.layer_groups(model) if group.kind == "head"]
    assert head.pretrained and not head.trainable_parameters


@pytest.mark.parametrize(("setting", "value"), [("prefix", "a: "), ("logits", None)])
def test_a_file_of_a_task_with_other_settings_or_another_head_is_refused(setting, value, tmp_path):
    file = kt.save_adapters(kt.add_adapters(models.writer(Bart), "lora:r=2"), tmp_path / "a")
    encoder = models.writer(Bart).encoder
    other = Seq2SeqLM(encoder, **({setting: value} if value else {}))
    if value is None:
        other.get_layer("logits").bias.assign(other.get_layer("logits").bias + 1)
    message = f"Received: {setting}={value!r}" if value else "Received: head_weights="
    with pytest.raises(ValueError, match=message):
        kt.load_adapters(other, file)


def _adapted(part=lambda model: model):
    model = models.writer()
    kt.add_adapters(part(model), "lora:r=2")
    return model


def _classifier(model):
    return TextClassifier(model.encoder.encoder, num_classes=2)


def _composed():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    return EncoderDecoder.from_encoders(BertEncoder(20, **sizes), GPT2Encoder(20, **sizes))


test_mistakes_are_errors = check_errors(
    (
        lambda: kt.add_adapters(models.writer(), "prompt:2"),
        "does not support encoder-decoders ... Use `Prefix`. Received: encoder=<T5",
    ),
    (lambda: kt.add_adapters(models.writer(), "pals:4,num_heads=2"), "causal=['decoder_block_0']"),
    (
        lambda: kt.add_adapters(_composed(), "lora"),
        "Received: model=<ComposedEncoderDecoder ... encoder=<ComposedEncoderDecoder",
    ),
    (lambda: kt.add_adapters(models.writer(), "bitfit"), "requires an encoder with biases ... Received: encoder=<T5"),
    (lambda: kt.add_adapters(models.writer(), "lora:targets='cross.query'"), "Did you mean 'cross_attention.query'?"),
    (lambda: kt.add_adapters(_classifier(_adapted()), "lora", name="b"), "adapters that belong to a `T5`"),
    (lambda tmp_path: _classifier(_adapted()).save(tmp_path / "a.keras"), "Save and adapt that model"),
    (lambda tmp_path: _adapted(_classifier).save(tmp_path / "a.keras"), "adapters that belong to a `T5Encoder`"),
    (lambda tmp_path: _adapted().encoder.encoder.save_pretrained(tmp_path / "a"), "Received: encoder=<T5Encoder"),
)

"""Heads, neurons and blocks that are cut: their importance, what remains, files and exports, and what is refused."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import Importance, LoRA, add_adapters, freeze, head_importance, prune, trim_vocabulary
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import AlbertEncoder, DebertaV2Encoder, ModernBertEncoder, MPNetEncoder, XLNetEncoder
from keras_transfer.serving import export
from keras_transfer.tasks import MaskedLM, TextClassifier, TextRegressor, TokenClassifier
from tests.errors import check_errors
from tests.tasks import tiny

TEXTS, LABELS = ["good a b c d", "bad", "a good", "bad b c"], [1, 0, 1, 0]


def classifier(num_layers=2, cls=TextClassifier, encoder=None, of_encoder=(), **options):
    keras.utils.set_random_seed(0)
    options = {"num_classes": 2, **options} if cls is TextClassifier else options
    sizes = {"num_layers": num_layers, "num_heads": 4, "initializer_range": 0.3, "intermediate_dim": 8}
    encoder = tiny.encoder(**({} if encoder is None else {"cls": encoder}), **{**sizes, **dict(of_encoder)})
    return cls(encoder, tiny.preprocessor(), **options)


def answers(model):
    return ops.convert_to_numpy(model.predict(TEXTS, verbose=0))


def random_importance(model, seed=0):
    random = np.random.default_rng(seed)
    blocks = model.encoder.blocks
    heads = [random.random(block.attention.num_heads) for block in blocks]
    return Importance(heads, [random.random(block.feed_forward.intermediate_dim) for block in blocks])


# === Importance ===


def slopes(model, kernel, rows, step=1e-2):
    """The derivatives of the losses of texts with respect to a factor of rows of a kernel, by finite differences."""
    before, losses = ops.convert_to_numpy(kernel).copy(), []
    for factor in (1 + step, 1 - step):
        changed = before.copy()
        changed[rows] *= factor
        kernel.assign(changed)
        logits = answers(model).astype("float64")
        losses.append(np.log(np.exp(logits).sum(axis=1)) - logits[range(4), LABELS])
    kernel.assign(before)
    return (losses[0] - losses[1]) / (2 * step)


@pytest.mark.core
def test_importance_is_the_mean_of_the_absolute_slopes_of_the_losses_of_texts(eagerly):
    model = classifier()
    before = [ops.convert_to_numpy(weight) for weight in model.weights]
    found, block = head_importance(model, TEXTS, LABELS), model.encoder.blocks[0]
    assert [len(values) for values in (*found.heads, *found.neurons)] == [4, 4, 8, 8]
    for kernel, width, values in (
        (block.attention.output_dense.kernel, 4, found.heads[0][:3]),
        (block.feed_forward.outer.kernel, 1, found.neurons[0][:3]),
    ):
        for place, value in enumerate(values):
            expected = np.mean(np.abs(slopes(model, kernel, slice(place * width, (place + 1) * width))))
            assert value == pytest.approx(expected, rel=1e-2, abs=1e-5)
    for weight, old in zip(model.weights, before):
        np.testing.assert_array_equal(weight, old)


def test_a_regressor_and_a_tagger_have_importance_too(eagerly):
    regressor = classifier(cls=TextRegressor)
    assert all((values > 0).all() for values in head_importance(regressor, TEXTS, [0.1, 0.2, 0.3, 0.4]).heads)
    tagger = classifier(cls=TokenClassifier, label_names=["x", "y"])
    found = head_importance(tagger, [["good", "a"], ["bad"]], [["x", "y"], ["y"]], samples=1, seed=0)
    assert all((values > 0).all() for values in found.heads)


# === What remains ===


@pytest.mark.core
@pytest.mark.parametrize(
    ("encoder", "options"), [(None, {}), (DebertaV2Encoder, {"num_buckets": 4}), (ModernBertEncoder, {})]
)
def test_heads_and_neurons_without_an_effect_can_be_cut_and_the_answers_stay_equal(encoder, options, eagerly):
    model = classifier(encoder=encoder, of_encoder=options)
    attention, feed_forward = model.encoder.blocks[1].attention, model.encoder.blocks[0].feed_forward
    for dense, rows in ((attention.output_dense, slice(4, 12)), (feed_forward.outer, [0, 5])):
        kernel = ops.convert_to_numpy(dense.kernel).copy()
        kernel[rows] = 0
        dense.kernel.assign(kernel)
    small = prune(model, heads={1: [1, 2]}, neurons={0: [5, 0]})
    np.testing.assert_allclose(answers(small), answers(model), atol=1e-6)
    assert [block.attention.num_heads for block in small.encoder.blocks] == [4, 2]
    assert small.encoder.blocks[1].attention.query_key_value.kernel.shape == (16, 24)
    assert small.encoder.blocks[1].attention.output_dense.kernel.shape == (8, 16)
    assert [block.feed_forward.outer.kernel.shape for block in small.encoder.blocks] == [(6, 16), (8, 16)]


@pytest.mark.core
def test_a_fraction_cuts_the_least_important_of_all_blocks_and_leaves_one_in_each(eagerly):
    model = classifier(num_layers=3)
    heads = [np.array([1.0, 2, 3, 4]), np.array([4.0, 0, 0, 0]), np.array([2.0, 2, 2, 2])]
    small = prune(model, heads=0.5, importance=Importance(heads, [np.ones(8)] * 3))
    # Divided by their norms: 0.18, 0.37, 0.55, 0.73; 1, 0, 0, 0; 0.5, 0.5, 0.5, 0.5.
    assert small.encoder.num_heads == [2, 1, 3] and small.encoder.intermediate_dim == 8
    kept = ops.convert_to_numpy(small.encoder.blocks[0].attention.output_dense.kernel)
    whole = ops.convert_to_numpy(model.encoder.blocks[0].attention.output_dense.kernel)
    np.testing.assert_array_equal(kept, whole[8:])
    most = prune(model, heads=0.99, neurons=0.99, importance=random_importance(model))
    assert most.encoder.num_heads == [1, 1, 1] and most.encoder.intermediate_dim == 1
    assert answers(most).shape == (4, 2)
    uniform = prune(model, neurons=0.25, importance=random_importance(model), per_block=True)
    assert uniform.encoder.intermediate_dim == 6 and uniform.encoder.num_heads == 4


def test_nothing_cut_is_a_copy_and_blocks_can_be_left_out_with_heads(eagerly):
    model = classifier(num_layers=3)
    np.testing.assert_array_equal(answers(prune(model)), answers(model))
    small = prune(model, layers=[0, 2], heads={2: [0]})
    assert small.encoder.num_layers == 2 and small.encoder.num_heads == [4, 3]
    again = prune(small, layers=[1], neurons={1: [0]})
    assert again.encoder.num_heads == [3] and again.encoder.intermediate_dim == 7
    new, old = again.encoder.blocks[0].feed_forward.outer, model.encoder.blocks[2].feed_forward.outer
    np.testing.assert_array_equal(ops.convert_to_numpy(new.kernel), ops.convert_to_numpy(old.kernel)[1:])


# === Files ===


@pytest.mark.core
def test_a_pruned_task_trains_is_saved_trimmed_and_quantized(tmp_path, eagerly):
    model = prune(classifier(), heads={0: [1], 1: [0, 2]}, neurons={1: [3]})
    model.compile(keras.optimizers.Adam(1e-2))
    before = answers(model)
    model.fit(TEXTS, LABELS, epochs=2, verbose=0)
    assert tiny.difference([answers(model)], [before]) > 1e-3
    small = trim_vocabulary(model, TEXTS, verbose=0)
    np.testing.assert_allclose(answers(small), answers(model), atol=1e-5)
    small.quantize("int8")
    small.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(answers(loaded), answers(small), atol=1e-5)
    assert loaded.encoder.num_heads == [3, 2]


@pytest.mark.slow
def test_exports_have_the_smaller_kernels(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install keras_transfer[litert]")
    whole = classifier(of_encoder={"intermediate_dim": 512})
    small = prune(whole, heads={0: [1]}, neurons={0: range(400), 1: range(400)})
    for options in ({}, {"format": "litert"}, {"format": "litert", "quantization": "int8_dynamic"}):
        sizes = []
        for name, model in (("whole", whole), ("small", small)):
            folder = tmp_path / f"{name}-{len(options)}"
            export(model, folder, **options)
            sizes.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
        cut = 2 * 400 * (16 + 16 + 1) + 4 * (3 * 16 + 16 + 3)
        assert sizes[0] - sizes[1] > cut * (0.7 if len(options) == 2 else 3.5)


def test_a_masked_language_model_keeps_its_head(eagerly):
    model = classifier(cls=MaskedLM)
    small = prune(model, heads={0: [0]})
    for own, other in zip(small.weights[-4:], model.weights[-4:], strict=True):
        np.testing.assert_array_equal(own, other)


def test_only_what_transformers_can_read_is_written_as_a_folder(tmp_path, eagerly):
    model = classifier()
    uniform = prune(model, layers=[1], neurons={1: [0, 1]})
    uniform.save_pretrained(tmp_path / "uniform")
    loaded = TextClassifier.from_pretrained(tmp_path / "uniform")
    np.testing.assert_allclose(answers(loaded), answers(uniform), atol=1e-6)
    for cut in ({"heads": {0: [0], 1: [1]}}, {"neurons": {0: [0]}}):
        with pytest.raises(CheckpointError, match="Transformers cannot read an encoder whose heads are pruned"):
            prune(model, **cut).encoder.save_pretrained(tmp_path / "other")
    assert not (tmp_path / "other").exists()


# === LayerDrop ===


@pytest.mark.core
def test_layer_drop_skips_a_block_at_its_rate_in_training_and_never_at_inference(tmp_path, eagerly):
    model = classifier(of_encoder={"layer_drop": 0.5})
    plain, block = classifier(), model.encoder.blocks[0]
    plain.set_weights(model.get_weights())
    np.testing.assert_array_equal(answers(model), answers(plain))
    x = keras.random.normal((2, 3, 16), seed=0)
    outputs = [ops.convert_to_numpy(block(x, training=True)) for _ in range(40)]
    skipped = [bool((values == ops.convert_to_numpy(x)).all()) for values in outputs]
    assert 8 < sum(skipped) < 32
    run = next(values for values, skips in zip(outputs, skipped) if not skips)
    np.testing.assert_allclose(run, ops.convert_to_numpy(block(x)), atol=1e-6)
    first = ops.convert_to_numpy(block(x, training=True, first_only=True))
    assert first.shape == (2, 1, 16)
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").encoder.blocks[1].layer_drop == 0.5


def adapted():
    return add_adapters(classifier(), LoRA(2))


def frozen():
    model = classifier()
    freeze(model.encoder)
    return model


def xlnet(*args, max_sequence_length, **sizes):
    return XLNetEncoder(*args, **sizes)


made = functools.cache(classifier)  # A task for all mistakes, which change none.

test_what_cannot_be_cut_is_an_error = check_errors(
    (lambda: prune(made(), heads={0: [4]}), "The heads of block 0 are numbered from 0 to 3. ... heads=[4]"),
    (lambda: prune(made(), neurons={0: [-1]}), "The neurons of block 0 are numbered from 0 to 7."),
    (lambda: prune(made(), heads={2: [0]}), "Blocks are numbered from 0 to 1. ... block=2"),
    (lambda: prune(made(), heads={0: [0, 1, 2, 3]}), "At least one of the heads of block 0 must remain"),
    (lambda: prune(made(), layers=[2]), "`layers` must be blocks from 0 to 1"),
    (lambda: prune(made(), heads=0.5), "A fraction of heads requires the `importance` of this task"),
    (
        lambda: prune(made(), heads=0.5, importance=random_importance(made(3))),
        "requires the `importance` of this task",
    ),
    (lambda: prune(adapted(), heads={0: [0]}), "must be without adapters"),
    (lambda: prune(classifier(encoder=MPNetEncoder), heads={0: [0]}), "The heads of a `MPNetEncoder` have further"),
    (lambda: prune(classifier(encoder=xlnet), heads={0: [0]}), "The heads of a `XLNetEncoder` have further"),
    (lambda: prune(classifier(encoder=AlbertEncoder), heads={0: [0]}), "with different blocks"),
    (lambda: head_importance(frozen(), TEXTS, LABELS), "The blocks must train. Call `adaptation.unfreeze(task)` first"),
)

"""AWD-LSTM against its definition: where each dropout applies, its state, its layer groups, and in a task."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import AWDLSTMEncoder, Encoder
from keras_transfer.tasks import CausalLM, TextClassifier
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer
from tests.errors import check_errors
from tests.helpers import encoder_inputs, outputs_of, run_encoder_test

RATES = ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_dropout")
SIZES = {"vocabulary_size": 12, "embedding_dim": 4, "units": 6, "num_layers": 3}
IDS = np.random.default_rng(0).integers(0, 12, (3, 6))


def make(**options):
    keras.utils.set_random_seed(0)
    encoder = AWDLSTMEncoder(**{**SIZES, **dict.fromkeys(RATES, 0.0), **options})
    for k, weight in enumerate(encoder.trainable_weights):
        weight.assign(np.random.default_rng(k).normal(size=weight.shape))
    return encoder


def states_in_training(**options):
    """All hidden states of a training call."""
    encoder = make(**options)
    states = keras.Model(encoder.input, list(encoder.hidden_states))(encoder_inputs(encoder, IDS), training=True)
    return [numpy_of(state) for state in states]


def reference(encoder, ids):
    """The hidden states of one text by their definition, in double precision."""
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    x = numpy_of(encoder.token_embedding.embeddings).astype("float64")[ids]
    states = [x]
    for block in encoder.blocks:
        kernel, bias, recurrent = map(numpy_of, (block.kernel, block.bias, block.cell.recurrent_kernel))
        h, c, outputs = np.zeros(len(recurrent)), np.zeros(len(recurrent)), []
        for step in x:
            i, f, g, o = np.split(step @ kernel + h @ recurrent + bias, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        x = np.stack(outputs)
        states.append(x)
    return states


def test_it_is_a_well_behaved_encoder():
    run_encoder_test(AWDLSTMEncoder, {**SIZES, **dict.fromkeys(RATES, 0.0)})


@pytest.mark.core
def test_it_computes_its_definition_on_each_text_and_gives_zeros_at_padding():
    encoder = make(**dict.fromkeys(RATES, 0.5))
    states = outputs_of(keras.Model(encoder.input, list(encoder.hidden_states)), encoder_inputs(encoder, IDS, real=4))
    for row, ids in enumerate(IDS):
        for ours, theirs in zip(states, reference(encoder, ids[:4]), strict=True):
            np.testing.assert_allclose(ours[row, :4], theirs, atol=1e-5)
    assert [state.shape[-1] for state in states] == [4, 6, 6, 4] and not states[-1][:, 4:].any()


@pytest.mark.parametrize(
    ("rate", "zeros"),
    [
        ("embedding_dropout", [True, False, False, False]),
        ("input_dropout", [True, False, False, False]),
        ("hidden_dropout", [False, True, True, False]),
        ("output_dropout", [False, False, False, True]),
    ],
)
def test_each_dropout_applies_to_its_vectors(rate, zeros):
    assert [not state.any() for state in states_in_training(**{rate: 1.0})] == zeros


def test_embedding_dropout_drops_tokens_and_the_other_dropouts_dimensions_of_a_text():
    by_token = states_in_training(embedding_dropout=0.5)[0]
    for token in np.unique(IDS):
        assert len({bool(vector.any()) for vector in by_token[token == IDS]}) == 1
    for rate, place in (("input_dropout", 0), ("hidden_dropout", 1), ("output_dropout", 3)):
        gone = states_in_training(**{rate: 0.5})[place] == 0
        assert gone.any() and not gone.all()
        np.testing.assert_array_equal(gone, np.repeat(gone[:, :1], 6, axis=1))


def test_weight_dropout_drops_recurrent_weights():
    encoder = make()
    for block in encoder.blocks:
        block.cell.recurrent_kernel.assign(np.zeros(block.cell.recurrent_kernel.shape))
    expected = numpy_of(encoder(encoder_inputs(encoder, IDS))["sequence_output"])
    np.testing.assert_allclose(states_in_training(weight_dropout=1.0)[-1], expected, atol=1e-6)
    assert np.abs(states_in_training()[-1] - expected).max() > 1e-3


def test_texts_in_steps_have_the_vectors_of_whole_texts():
    encoder = make()
    whole = numpy_of(encoder(encoder_inputs(encoder, IDS))["sequence_output"])
    outputs, state = [], encoder.empty_state(batch_size=3)
    for part in np.split(IDS, 3, axis=1):
        vectors, state = encoder.step(part, state)
        outputs.append(numpy_of(vectors))
    np.testing.assert_allclose(np.concatenate(outputs, axis=1), whole, atol=1e-6)
    # Padding leaves the state as it is.
    _, padded = encoder.step(IDS[:, :2], state, padding_mask=np.zeros((3, 2), "int32"))
    for ours, theirs in zip(keras.tree.flatten(padded), keras.tree.flatten(state), strict=True):
        np.testing.assert_array_equal(numpy_of(ours), numpy_of(theirs))


def test_it_is_causal_and_a_classifier_over_it_has_a_layer_group_for_each_block():
    model = TextClassifier(make(), num_classes=2, pooling="max")
    names = ["embeddings", "block_0", "block_1", "block_2", "head"]
    assert [group.name for group in layer_groups(model)] == names and model.encoder.is_causal


@pytest.fixture
def folder(tmp_path):
    """A folder that a language model with all settings and a vocabulary has written."""
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", *"abcdefghij"])
    model = CausalLM(make(weight_dropout=0.3, temporal_penalty=0.5), TokenPreprocessor(tokenizer, Packing()), streams=2)
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_of_a_language_model_loads_as_a_task_and_as_an_encoder(folder):
    model = CausalLM.from_pretrained(folder)
    assert model.preprocessor.token_to_id("b") == 3
    for encoder in (model.encoder, AWDLSTMEncoder.from_pretrained(folder), Encoder.from_pretrained(folder)):
        assert type(encoder) is AWDLSTMEncoder and (encoder.weight_dropout, encoder.temporal_penalty) == (0.3, 0.5)
        for weight, expected in zip(encoder.trainable_weights, make().trainable_weights, strict=True):
            np.testing.assert_array_equal(numpy_of(weight), numpy_of(expected))
    classifier = TextClassifier.from_pretrained(folder, label_names=["x", "y"], pooling="max")
    assert classifier.encoder.units == 6
    # Written again, it is the same folder.
    model.save_pretrained(folder.parent / "again")
    for name in ("config.json", "model.safetensors"):
        assert (folder.parent / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_head_of_its_own_is_kept_by_folders(tmp_path):
    model = CausalLM(make(), tied=False, use_bias=False)
    model.save_pretrained(tmp_path / "model")
    again = CausalLM.from_pretrained(tmp_path / "model", preprocessor=None)
    assert (again.tied, again.use_bias) == (False, False)
    np.testing.assert_array_equal(*(numpy_of(each.output_embeddings.kernel) for each in (model, again)))


def test_a_folder_without_a_setting_or_with_other_sizes_is_a_clear_error(folder):
    with pytest.raises(CheckpointError, match=r"shape: rnns.0.weight_ih must be \(20, 4\), but is \(24, 4\)"):
        Encoder.from_pretrained(folder, units=5)
    (folder / "config.json").write_text((folder / "config.json").read_text().replace("hidden_size", "width"))
    with pytest.raises(CheckpointError, match="`hidden_size` is missing"):
        Encoder.from_pretrained(folder)


test_mistakes_are_clear_errors = check_errors(
    (lambda: make().step(IDS, None), "`state` must be what `empty_state(batch_size)` ... Received: state=None"),
    (lambda: make().step(IDS, make().empty_state(2)), "with the shapes [[(3, 6), (3, 6)], ... shapes=[[(2, 6), "),
    (lambda: make().step(IDS, make().empty_state(3)[:2]), "Received: shapes=[[(3, 6), (3, 6)], [(3, 6), (3, 6)]]"),
    (lambda: make().step(IDS, keras.tree.flatten(make().empty_state(3))), "`state` must be what ... Received: state=["),
    (
        lambda: TextClassifier(make(), num_classes=2, scalar_mix=True),
        "Received: inputs_shape=[(None",
    ),
)

"""ULMFiT's classifier: its head against NumPy, its chunks, padding, files and exports, and what each stage trains."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.adaptation import fine_tune, get_recipe, layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import AWDLSTMEncoder, AWDQRNNEncoder, RobertaEncoder
from keras_transfer.layers import SequencePooling
from keras_transfer.tasks import CausalLM, MaskedLM, TextClassifier
from keras_transfer.text import Packing, TokenPreprocessor, WindowPreprocessor, WordPieceTokenizer
from tests.errors import check_errors
from tests.helpers import save_and_load
from tests.tasks import tiny

RATES = ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_dropout")
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
TEXTS = ["a b c d e f g", "c a", "h g f", "b"]
LABELS = [0, 1, 0, 1]
HEAD = {"pooling": "concat", "hidden_activation": "relu", "hidden_dim": 5, "batch_norm": True}


def encoder(**options):
    keras.utils.set_random_seed(0)
    return AWDLSTMEncoder(12, embedding_dim=4, units=6, num_layers=2, **{**dict.fromkeys(RATES, 0.0), **options})


def classifier(encoder, **options):
    preprocessor = TokenPreprocessor(WordPieceTokenizer(VOCABULARY), Packing(start=["[CLS]"], end=["[SEP]"]))
    options = {**HEAD, "hidden_dropout": 0.4, **options}
    return TextClassifier(encoder, preprocessor, num_classes=2, **options)


def inputs(length=9):
    ids = np.random.default_rng(0).integers(4, 12, (3, length))
    return {"token_ids": ids, "padding_mask": (np.arange(length) < [[9], [4], [1]]).astype("int32")}


def of_head(model, states, mask):
    """The logits by their definition, in double precision: concat pooling, and two linear blocks."""
    norm = lambda x, layer: (  # noqa: E731
        numpy_of(layer.gamma) * (x - numpy_of(layer.moving_mean)) / np.sqrt(numpy_of(layer.moving_variance) + 1e-5)
        + numpy_of(layer.beta)
    )
    rows = [row[real == 1].astype("float64") for row, real in zip(states, mask)]
    x = np.stack([np.concatenate([row[-1], row.mean(axis=0), row.max(axis=0)]) for row in rows])
    hidden, logits = model.get_layer("hidden"), model.get_layer("logits")
    x = np.maximum(norm(x, model.get_layer("pooled_norm")) @ numpy_of(hidden.kernel) + numpy_of(hidden.bias), 0)
    return norm(x, model.get_layer("head_norm")) @ numpy_of(logits.kernel) + numpy_of(logits.bias)


@pytest.mark.core
def test_the_head_is_its_definition_on_states_read_in_chunks_however_a_text_is_padded():
    keras.utils.set_random_seed(0)
    model, random = TextClassifier(encoder(gradient_length=3), num_classes=2, **HEAD), np.random.default_rng(1)
    for name in ("pooled_norm", "head_norm"):
        layer = model.get_layer(name)
        layer.set_weights([random.uniform(0.5, 2.0, weight.shape) for weight in layer.get_weights()])
    data, chunks, state = inputs(), [], model.encoder.empty_state(3)
    for start in range(0, 9, 3):
        part = {name: values[:, start : start + 3] for name, values in data.items()}
        vectors, state = model.encoder.step(part["token_ids"], state, padding_mask=part["padding_mask"])
        chunks.append(numpy_of(vectors))
    expected = of_head(model, np.concatenate(chunks, axis=1), data["padding_mask"])
    np.testing.assert_allclose(numpy_of(model(data)), expected, atol=1e-5)
    longer = {name: np.pad(values, [[0, 0], [0, 6]]) for name, values in data.items()}
    np.testing.assert_allclose(numpy_of(model(longer)), expected, atol=1e-5)


def test_it_exports_from_raw_text_and_survives_files(tmp_path, eagerly):
    model = classifier(encoder(gradient_length=3))
    model.compile(keras.optimizers.SGD(0.1))
    start = model.get_layer("head_norm").get_weights()
    model.fit(TEXTS, LABELS, verbose=0)
    assert all((ours != theirs).any() for ours, theirs in zip(model.get_layer("head_norm").get_weights(), start))
    expected = model.predict_proba(TEXTS)
    again = save_and_load(model)
    assert again.get_config() == model.get_config() and again.encoder.blocks[0].gradient_length == 3
    np.testing.assert_array_equal(again.predict_proba(TEXTS), expected)
    answer = model.signatures()["serving_default"].function(text=keras.ops.convert_to_tensor(TEXTS))
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


class Watch(keras.callbacks.Callback):
    """Records at the end of each batch which layer groups have moved, and which were to train."""

    def on_train_begin(self, logs=None):
        self.found, self.values = [], self._values()

    def _values(self):
        return {group.name: [numpy_of(v) for v in group.variables] for group in layer_groups(self.model)}

    def on_train_batch_end(self, batch, logs=None):
        before, self.values = self.values, self._values()
        same = lambda name: all((a == b).all() for a, b in zip(before[name], self.values[name]))  # noqa: E731
        self.found.append([name for name in before if not same(name)])


def test_each_stage_moves_its_groups_and_leaves_the_others_bit_identical(eagerly):
    shared, names = encoder(), ["embeddings", "block_0", "block_1"]
    model, data, watch = CausalLM(shared), inputs(), Watch()
    recipe = get_recipe("ulmfit_lm", epochs=2, batch_size=3)
    optimizer = recipe.build_optimizer(model, 100)
    assert list(optimizer.rates.values()) == pytest.approx([2.6**-2, 2.6**-1, 1.0])
    config = optimizer.get_config()["optimizer"]["config"]
    assert (config["beta_1"], config["beta_2"], config["global_clipnorm"]) == (0.7, 0.99, 0.3)
    schedule = config["learning_rate"]["config"]
    assert (schedule["peak"], schedule["cut_fraction"], schedule["ratio"]) == (4e-3, 0.1, 32)
    fine_tune(model, data, recipe=recipe, callbacks=[watch], verbose=0)
    assert watch.found == [names] * 2
    learned = [numpy_of(weight) for weight in shared.weights]

    task = TextClassifier(shared, num_classes=2, **HEAD)
    for ours, theirs in zip(learned, shared.weights):
        np.testing.assert_array_equal(ours, numpy_of(theirs))
    recipe = get_recipe("ulmfit_classifier", epochs=6, batch_size=3, learning_rate=0.01)
    fine_tune(task, data, np.array([0, 1, 1]), recipe=recipe, callbacks=[watch], verbose=0)
    groups = [*names, "head"]
    assert watch.found == [groups[3 - min(number, 3) :] for number in range(6)]


@pytest.mark.report("The backward model contains weights of the forward one.", "course-nlp#19")
def test_a_backward_encoder_is_the_forward_one_on_reversed_texts():
    forward, backward = encoder(), encoder(reverse=True)
    backward.set_weights(forward.get_weights())
    data, lengths = inputs(), (9, 4, 1)
    turned = {**data, "token_ids": data["token_ids"].copy()}
    for row, length in enumerate(lengths):
        turned["token_ids"][row, :length] = data["token_ids"][row, :length][::-1]
    ours, theirs = (numpy_of(each["sequence_output"]) for each in (backward(data), forward(turned)))
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(ours[row, :length], theirs[row, :length][::-1], atol=1e-6)
    pool = lambda kind, states: numpy_of(SequencePooling(kind)(states, padding_mask=data["padding_mask"]))  # noqa: E731
    np.testing.assert_allclose(pool("concat_first", ours), pool("concat", theirs), atol=1e-6)


def in_windows():
    windows = WindowPreprocessor(tiny.preprocessor(sequence_length=8))
    return TextClassifier(tiny.encoder(), windows, num_classes=2, batch_norm=True, windows="mean")


test_mistakes_are_clear_errors = check_errors(
    (lambda: CausalLM(encoder(reverse=True)), "text forward ... Received: a AWDLSTMEncoder with reverse=True"),
    (lambda: MaskedLM(encoder(reverse=True)), "see only later ones"),
    (lambda: TextClassifier(encoder(reverse=True), num_classes=2, **HEAD), "Use `pooling='concat_first'`. Received: "),
    (lambda: in_windows(), "cannot be used with `windows`"),
    (lambda: encoder(reverse=True).step([[1]], None), "reads whole texts ... Received: reverse=True"),
)


DENSE = {"hidden_activation": "tanh"}


@pytest.mark.parametrize("option", [{"batch_norm": True}, {**DENSE, "hidden_dim": 5}, {**DENSE, "hidden_dropout": 0.4}])
def test_a_checkpoint_of_another_library_cannot_contain_the_head(option, tmp_path):
    encoder = tiny.encoder(num_layers=1)
    if "hidden_activation" in option:
        encoder = RobertaEncoder(40, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=8, pooler=False)
        option = {**option, "pooling": "first"}
    model = TextClassifier(encoder, num_classes=2, **option)
    with pytest.raises(CheckpointError, match=r"cannot be written with its `(batch_norm|hidden_dim|hidden_dropout)`"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


test_quasi_recurrent_layers_have_no_gradient_length = check_errors(
    (
        lambda: AWDQRNNEncoder(12, embedding_dim=4, units=6, gradient_length=3),
        "has no `gradient_length` and no `reverse` ... length=3",
    ),
)
test_a_contradiction_is_one_clear_error = check_errors(
    ({"hidden_activation": None}, "`hidden_dim` and `hidden_dropout` require `hidden_activation`"),
    ({"hidden_norm": True}, "`batch_norm=True` cannot be used with `hidden_norm=True`"),
    call=lambda options: classifier(encoder(), **options),
)

"""A sequence-to-sequence task over two pretrained encoders: training, answers, files, and the losses of its halves."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.encoders import BertEncoder, EncoderDecoder, GPT2Encoder
from keras_transfer.objectives import PrefixLM
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import Seq2SeqLM
from keras_transfer.text import BertPreprocessor
from tests.errors import check_errors
from tests.helpers import EAGER, eager, in_graph, save_and_load
from tests.tasks.tiny import VOCABULARY, preprocessor

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}
LETTERS = list("abcdefghij")


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    encoder = BertEncoder(len(VOCABULARY), **SIZES, max_sequence_length=16)
    own = preprocessor(sequence_length=16)
    model = Seq2SeqLM(EncoderDecoder.from_encoders(encoder, tied=True), own, max_new_tokens=6)
    model.compile(FusedAdamW(1e-2))
    random = np.random.default_rng(0)
    sources = [" ".join(random.choice(LETTERS, 3)) for _ in range(64)]
    targets = [source.split()[0] for source in sources]
    history = model.fit(sources, targets, epochs=30, batch_size=16, verbose=0).history
    return model, sources, targets, history["loss"]


def test_it_begins_with_the_first_token_of_a_text_and_learns(trained, eagerly):
    model, sources, targets, losses = trained
    assert model.start_token == model.preprocessor.token_to_id("[CLS]")
    assert losses[-1] < 0.5 * losses[0]
    written = model.generate(sources, batch_size=64)
    assert np.mean([ours == target for ours, target in zip(written, targets)]) > 0.5  # by chance 0.1
    beams = model.generate(sources[:4], num_beams=2, batch_size=4)
    assert np.mean([ours == target for ours, target in zip(beams, targets)]) > 0.2


def test_files_write_the_same(trained, tmp_path, eagerly):
    model, sources, *_ = trained
    again = save_and_load(model)
    assert again.get_config() == model.get_config() and len(again.weights) == len(model.weights)
    expected = model.generate(sources[:5], batch_size=64)
    assert again.generate(sources[:5], batch_size=64) == expected
    model.save_pretrained(tmp_path / "folder")
    loaded = Seq2SeqLM.from_pretrained(tmp_path / "folder", max_new_tokens=6)
    assert loaded.start_token == model.start_token and loaded.encoder.tied
    assert loaded.generate(sources[:5], batch_size=64) == expected


def test_its_signature_writes_what_generate_writes(trained):
    model, sources, *_ = trained
    with eager():
        expected = model.generate(sources[:5], batch_size=64)
    found = in_graph(model.signatures()["serving_default"], sources[:5])["target"]
    assert [text.decode() for text in found] == expected


def cross_entropy(logits, targets, weights):
    logits = logits.astype("float64") - logits.max(axis=-1, keepdims=True)
    values = np.log(np.exp(logits).sum(axis=-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (values * weights).sum() / weights.sum()


def test_the_losses_of_the_language_models_are_added():
    sizes = {**SIZES, "max_sequence_length": 8}
    first, second = GPT2Encoder(20, **sizes), GPT2Encoder(24, **{**sizes, "hidden_dim": 8})
    model = Seq2SeqLM(EncoderDecoder.from_encoders(first, second), language_model_weight=0.5)
    model.compile("sgd", jit_compile=False, run_eagerly=EAGER)
    inputs = {
        "token_ids": np.array([[5, 6, 7, 8], [9, 3, 0, 0]]),
        "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]]),
        "decoder_token_ids": np.array([[1, 4, 5], [1, 7, 0]]),
        "decoder_padding_mask": np.array([[1, 1, 1], [1, 1, 0]]),
    }
    targets, weights = np.array([[4, 5, 2], [7, 2, 0]]), inputs["decoder_padding_mask"].astype("float32")
    source = to_numpy(first(inputs)["sequence_output"]) @ to_numpy(first.token_embedding.embeddings).T
    alone = {name: inputs[f"decoder_{name}"] for name in ("token_ids", "padding_mask")}
    target = to_numpy(second(alone)["sequence_output"]) @ to_numpy(second.token_embedding.embeddings).T
    expected = cross_entropy(to_numpy(model(inputs)), targets, weights)
    expected += 0.5 * cross_entropy(target, targets, weights)
    expected += 0.5 * cross_entropy(source[:, :-1], inputs["token_ids"][:, 1:], inputs["padding_mask"][:, 1:])
    loss = model.evaluate(inputs, targets, sample_weight=weights, verbose=0, return_dict=True)["loss"]
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    before = to_numpy(first.token_embedding.embeddings)
    model.train_on_batch(inputs, targets, sample_weight=weights)
    assert np.abs(to_numpy(first.token_embedding.embeddings) - before)[6].max() > 0
    assert Seq2SeqLM.from_config(model.get_config()).language_model_weight == 0.5


def of_two_vocabularies(**options):
    """A task whose decoder has no segments, and fewer and other tokens than its encoder."""
    sizes = {**SIZES, "max_sequence_length": 16}
    words, sources = [*VOCABULARY[:5], "zu", "ba", *VOCABULARY[5:], "za"], [*VOCABULARY, *"vwxyz"]
    halves = EncoderDecoder.from_encoders(BertEncoder(len(sources), **sizes), GPT2Encoder(len(words), **sizes))
    own, targets = (BertPreprocessor(known, sequence_length=16) for known in (sources, words))
    return Seq2SeqLM(halves, own, **{"target_preprocessor": targets, "max_new_tokens": 4, **options})


def test_the_halves_may_have_two_vocabularies(eagerly):
    keras.utils.set_random_seed(0)
    model = of_two_vocabularies()
    assert model.start_token == model.target_preprocessor.token_to_id("[CLS]")
    model.compile(FusedAdamW(1e-2), run_eagerly=True)
    sources, targets = ["z b", "b c", "c a", "d"] * 2, ["zu", "za ba", "ba", "zu zu"] * 2
    losses = model.fit(sources, targets, epochs=4, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    again = save_and_load(model)
    assert again.target_preprocessor.vocabulary_size == len(VOCABULARY) + 3
    np.testing.assert_allclose(again.score(sources, targets), model.score(sources, targets), rtol=1e-5)
    assert again.generate(sources[:2]) == model.generate(sources[:2])


def test_an_objective_trains_an_encoder_with_segments_on_raw_texts(eagerly):
    encoder = EncoderDecoder.from_encoders(BertEncoder(len(VOCABULARY), **SIZES), tied=True)
    model = Seq2SeqLM(encoder, preprocessor(sequence_length=16), objective=PrefixLM())
    model.compile(FusedAdamW(1e-2), run_eagerly=True)
    losses = model.fit(["a b c d e f g h"] * 16, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


test_mistakes_are_errors = check_errors(
    (
        lambda: of_two_vocabularies(target_preprocessor=None),
        "The two halves have different vocabularies. Pass the preprocessor of the decoder as `target_preprocessor`.",
    ),
    (
        lambda: of_two_vocabularies(target_preprocessor=BertPreprocessor([*VOCABULARY, *"0123"], sequence_length=16)),
        "The vocabulary of `target_preprocessor` must not be larger than the encoder's embedding, which has",
    ),
    (
        lambda: of_two_vocabularies(target_preprocessor=str.split),
        "`target_preprocessor` must be a `TokenPreprocessor`. Received: target_preprocessor=<method",
    ),
    (
        lambda: of_two_vocabularies().generate([[4, len(VOCABULARY) + 5]]),
        f"Token ids must be from 0 to {len(VOCABULARY) + 4}. Received: ",
    ),
    (
        lambda: of_two_vocabularies(objective=PrefixLM()).dataset(["a b"]),
        "An objective makes sources and targets of the same tokens, so both must have one tokenizer",
    ),
)

"""Live against Transformers and sentence-transformers: real weights, all dimensions, and what we save."""

import importlib.util

import numpy as np
import pytest

from keras_transfer.checkpoints import load_preprocessor, resolve
from keras_transfer.encoders import BertEncoder, Encoder, RobertaEncoder, encode
from keras_transfer.text import BertPreprocessor
from tests.architecture import FIXTURES
from tests.checkpoints.folders import IDS, write_bert

pytestmark = pytest.mark.parity

TEXTS = [
    "What county is Modesto, California in?",
    "Yes.",
    "It is slow, unfunny & far too long: I wouldn't recommend it to anybody!",
]
PAIRS = (["How far is it from Denver to Aspen?", "Who was Galileo?"], ["About 160 miles.", "An astronomer from Pisa."])
SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "initializer_range": 0.3}


@pytest.fixture(autouse=True, scope="module")
def no_triton():
    """Skips the tests if triton is installed: its LLVM and TensorFlow's abort the process if both are loaded."""
    if importlib.util.find_spec("triton") is not None:
        pytest.skip("triton cannot be loaded beside TensorFlow: install the CPU build of torch")


@pytest.fixture(scope="module")
def theirs():
    """A function from a folder and our inputs to the outputs of Transformers' model."""
    reason = "compares with Transformers on torch: run `make test-parity`"
    torch = pytest.importorskip("torch", reason=reason, exc_type=ImportError)
    transformers = pytest.importorskip("transformers", reason=reason)

    def run(folder, inputs):
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
        names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
        names["language_ids"] = "langs"
        with torch.no_grad():
            return model(
                **{names[name]: torch.tensor(np.array(value)).long() for name, value in inputs.items()},
                output_hidden_states=True,
            )

    return run


@pytest.mark.parametrize("lowercase", [True, False])
def test_transformers_loads_the_tokenizer_that_we_save(lowercase, theirs, tmp_path):
    import transformers

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "The", "film", "##s", "café", "cafe", "?"]
    preprocessor = BertPreprocessor(vocabulary, sequence_length=10, lowercase=lowercase)
    encoder = BertEncoder(**SMALL)
    encoder.save_pretrained(tmp_path / "saved", preprocessor)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert type(transformers.AutoModel.from_pretrained(tmp_path / "saved")).__name__ == "BertModel"
    for texts in (["The films?", "café the film", "the film" * 9], (["the film"], ["The café films?"])):
        other = tokenizer(*(texts if isinstance(texts, tuple) else [texts]), padding="max_length", truncation=True)
        for key, value in preprocessor(texts).items():
            name = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}[key]
            np.testing.assert_array_equal(value, other[name])


def assert_equal(encoder, inputs, outputs, atol):
    """Every hidden state, the sequence at real tokens, and the pooled output."""
    real = np.array(inputs["padding_mask"]) == 1
    encoded = encode(encoder, inputs, hidden_states=True)
    states = [*encoded.hidden_states, encoded.sequence]
    for ours, other in zip(states, [*outputs.hidden_states, outputs.last_hidden_state], strict=True):
        np.testing.assert_allclose(np.array(ours)[real], other.numpy()[real], rtol=0, atol=atol)
    if encoded.pooled is not None:
        np.testing.assert_allclose(encoded.pooled, outputs.pooler_output.numpy(), rtol=0, atol=atol)


@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS, PAIRS], ids=["single", "padded batch", "pairs"])
def test_every_dimension_of_all_minilm_equals_transformers(minilm, theirs, texts):
    inputs = load_preprocessor(minilm, sequence_length=32)(texts)
    assert_equal(BertEncoder.from_pretrained(minilm), inputs, theirs(resolve(minilm), inputs), 1e-4)


def test_transformers_loads_all_minilm_as_we_save_it(minilm, theirs, tmp_path):
    BertEncoder.from_pretrained(minilm).save_pretrained(tmp_path / "saved")
    inputs = load_preprocessor(minilm, sequence_length=32)(TEXTS)
    before, after = theirs(resolve(minilm), inputs), theirs(tmp_path / "saved", inputs)
    np.testing.assert_array_equal(after.last_hidden_state, before.last_hidden_state)
    np.testing.assert_array_equal(after.pooler_output, before.pooler_output)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-6},
        {"activation": "relu", "num_segments": 3},
        {"activation": "silu", "pooler": False},
        {"num_segments": 0},
    ],
    ids=str,
)
def test_transformers_gives_the_same_outputs_for_a_bert_that_we_save(arguments, theirs, tmp_path):
    encoder = BertEncoder(**SMALL, **arguments)
    encoder.save_pretrained(tmp_path / "saved")
    inputs = {name: IDS[name] for name in encoder.input}
    assert_equal(encoder, inputs, theirs(tmp_path / "saved", inputs), 1e-5)


def test_transformers_gives_the_same_outputs_for_a_roberta_that_we_save(theirs, tmp_path):
    encoder = RobertaEncoder(**SMALL)
    encoder.save_pretrained(tmp_path / "saved")
    inputs = {"token_ids": np.array([[0, 6, 7, 2], [0, 9, 2, 1]], "int32"), "padding_mask": IDS["padding_mask"][::-1]}
    assert_equal(encoder, inputs, theirs(tmp_path / "saved", inputs), 1e-5)


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir()))
def test_transformers_gives_the_same_outputs_for_every_architecture_that_we_save(name, theirs, tmp_path):
    inputs = dict(np.load(FIXTURES / name / "outputs.npz"))
    for key in ("states", "sequence", "pooled"):
        inputs.pop(key, None)
    Encoder.from_pretrained(FIXTURES / name).save_pretrained(tmp_path / "saved")
    before, after = theirs(FIXTURES / name, inputs), theirs(tmp_path / "saved", inputs)
    np.testing.assert_array_equal(after.last_hidden_state, before.last_hidden_state)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"])
def test_every_activation_equals_that_of_transformers(activation, theirs, tmp_path):
    folder = write_bert(tmp_path / "bert", hidden_act=activation)
    assert_equal(BertEncoder.from_pretrained(folder), IDS, theirs(folder, IDS), 1e-5)


def test_sentence_transformers_gives_the_same_embeddings_for_what_we_save(minilm, tmp_path):
    reason = "compares with sentence-transformers on torch: run `make test-parity`"
    library = pytest.importorskip("sentence_transformers", reason=reason, exc_type=ImportError)
    BertEncoder.from_pretrained(minilm).save_pretrained(tmp_path / "saved", load_preprocessor(minilm))
    saved = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    original = library.SentenceTransformer(str(resolve(minilm)), device="cpu")
    assert [type(module).__name__ for module in saved] == ["Transformer", "Pooling", "Normalize"]
    np.testing.assert_allclose(saved.encode(TEXTS), original.encode(TEXTS), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("pooling", "normalize"), [("first", False), ("mean", False), ("max", True)])
def test_sentence_transformers_pools_as_the_encoder_says(pooling, normalize, minilm, tmp_path):
    from keras_transfer.layers import SequencePooling

    reason = "compares with sentence-transformers on torch: run `make test-parity`"
    library = pytest.importorskip("sentence_transformers", reason=reason, exc_type=ImportError)
    encoder = BertEncoder.from_pretrained(minilm, pooling=pooling, normalize=normalize)
    preprocessor = load_preprocessor(minilm)
    encoder.save_pretrained(tmp_path / "saved", preprocessor)
    encoded = encode(encoder, preprocessor(TEXTS))
    vectors = np.array(SequencePooling(pooling)(encoded.sequence, padding_mask=encoded.mask))
    if normalize:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    theirs = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors, theirs, rtol=0, atol=1e-4)

"""Live against Transformers: what its classes for tasks compute with the heads that we save."""

import importlib.util

import numpy as np
import pytest

from keras_transfer.encoders import BertEncoder, ElectraEncoder, XLNetEncoder
from keras_transfer.objectives import PermutationLanguageModel, TokenMasking
from keras_transfer.tasks import (
    BertPretraining,
    MaskedLM,
    PermutationLM,
    ReplacedTokenDetection,
    TextClassifier,
    TokenClassifier,
)
from keras_transfer.text import BertPreprocessor, Packing, TokenPreprocessor, WordPieceTokenizer
from tests.checkpoints.test_heads import HEADS, TASKS, load, logits_of
from tests.helpers import outputs_of

pytestmark = pytest.mark.parity

AUTO = {
    "classifier": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
    "masked_lm": "AutoModelForMaskedLM",
    "pretraining": "AutoModelForPreTraining",
    "replaced_token": "AutoModelForPreTraining",
    "multiple_choice": "AutoModelForMultipleChoice",
    "span": "AutoModelForQuestionAnswering",
}
NAMES = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "was", "good", "bad", "a", "so"]
SMALL = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "initializer_range": 0.3}


@pytest.fixture(autouse=True, scope="module")
def transformers():
    if importlib.util.find_spec("triton") is not None:
        pytest.skip("triton cannot be loaded beside TensorFlow: install the CPU build of torch")
    reason = "compares with Transformers on torch: run `make test-parity`"
    pytest.importorskip("torch", reason=reason, exc_type=ImportError)
    return pytest.importorskip("transformers", reason=reason)


def logits_of_theirs(transformers, head, folder, inputs):
    import torch

    model = getattr(transformers, AUTO[head]).from_pretrained(folder, attn_implementation="eager").eval()
    inputs = {name: np.array(value) for name, value in inputs.items()}
    padding = (inputs["padding_mask"] == 0).sum(axis=1) * (model.config.model_type == "xlnet")

    def shift(rows, direction):  # XLNet's head reads the last place, so that padding must be on the left.
        return np.stack([np.roll(row, direction * count, axis=0) for row, count in zip(rows, padding)])

    with torch.no_grad():
        tensors = {NAMES[name]: torch.tensor(shift(value, 1)).long() for name, value in inputs.items()}
        outputs = model(**tensors)
        is_span = head == "span"
        if head == "pretraining":
            return model.config, outputs.prediction_logits.numpy()
        logits = torch.stack([outputs.start_logits, outputs.end_logits], -1) if is_span else outputs.logits
        logits = logits.numpy()
    return model.config, shift(logits, -1) if logits.ndim == 3 else logits


@pytest.mark.parametrize("name", sorted(path.name for path in HEADS.iterdir()))
def test_transformers_gives_the_same_logits_for_a_head_that_we_save(name, transformers, tmp_path):
    head = name.partition("_")[2]
    model, inputs = load(TASKS[head], name), dict(np.load(HEADS / name / "outputs.npz"))
    for key in ("logits", "pair_logits", "targets", "pairs", "loss"):
        inputs.pop(key, None)
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + random.normal(scale=0.1, size=weight.shape))
    model.save_pretrained(tmp_path / "saved")
    _, expected = logits_of_theirs(transformers, head, tmp_path / "saved", inputs)
    logits, real = logits_of(model, inputs), inputs["padding_mask"] == 1
    keep = real if logits.shape[:2] == real.shape else slice(None)
    np.testing.assert_allclose(logits[keep], expected[keep], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "pair"), [("bert", "next_sentence_label"), ("albert", "sentence_order_label")])
def test_the_loss_of_the_whole_pretraining_is_that_of_transformers(name, pair, transformers, tmp_path):
    import torch

    model = load(BertPretraining, f"{name}_pretraining")
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + random.normal(scale=0.1, size=weight.shape))
    model.save_pretrained(tmp_path / "saved")
    theirs = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "saved").eval()
    inputs = {"token_ids": random.integers(5, 12, (8, 12)), "segment_ids": np.arange(12) // 6 * np.ones((8, 1), int)}
    inputs["padding_mask"] = (np.arange(12) < random.integers(4, 13, (8, 1))).astype(int)
    tokens = {"mask_id": 4, "special_ids": range(5), "vocabulary_size": 12}
    pairs = random.integers(0, 2, 8)
    hidden, targets = TokenMasking(0.3)(inputs, random, **tokens)
    labels, (rows, places) = np.full((8, 12), -100), np.nonzero(targets >= 0)
    labels[rows, hidden["mask_positions"][rows, places]] = targets[rows, places]
    with torch.no_grad():
        given = {NAMES[key]: torch.tensor(hidden[key]).long() for key in NAMES}
        expected = theirs(**given, labels=torch.tensor(labels), **{pair: torch.tensor(pairs)}).loss.item()
    model.compile(run_eagerly=True)
    found = model.test_on_batch(hidden, {"masked_tokens": targets, "segment_pair": pairs}, return_dict=True)
    assert found["loss"] == pytest.approx(expected, abs=1e-5)


def test_the_loss_and_the_gradient_of_electra_with_shared_tables_are_those_of_transformers(transformers, tmp_path):
    import tensorflow as tf
    import torch

    sizes = {"num_layers": 2, "intermediate_dim": 16, "embedding_dim": 6, "max_sequence_length": 12, "dropout": 0.0}
    small, large = (
        ElectraEncoder(len(WORDS), num_heads=2, hidden_dim=width, initializer_range=0.3, **sizes) for width in (4, 16)
    )
    task = ReplacedTokenDetection(large, generator=MaskedLM(small), share_embeddings=True)
    task.save_pretrained(tmp_path / "discriminator")
    task.generator.save_pretrained(tmp_path / "generator")
    generator = transformers.ElectraForMaskedLM.from_pretrained(tmp_path / "generator")
    discriminator = transformers.ElectraForPreTraining.from_pretrained(tmp_path / "discriminator")
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.tie_weights()

    random = np.random.default_rng(0)
    inputs = {"token_ids": random.integers(5, 12, (8, 12)), "segment_ids": np.arange(12) // 6 * np.ones((8, 1), int)}
    inputs["padding_mask"] = (np.arange(12) < random.integers(4, 13, (8, 1))).astype(int)
    hidden, targets = TokenMasking(0.3)(inputs, random, mask_id=4, special_ids=range(5), vocabulary_size=12)
    hidden = {name: tf.constant(values.astype("int32")) for name, values in hidden.items()}
    task.compile(run_eagerly=True)
    with tf.GradientTape() as tape:
        outputs = task(hidden, training=True)
        loss = task.compute_loss(hidden, targets, outputs)
    table = task.encoder.token_embedding.embeddings
    gradient = tf.convert_to_tensor(tape.gradient(loss, table.value))

    labels, (rows, places) = np.full((8, 12), -100), np.nonzero(targets >= 0)
    labels[rows, hidden["mask_positions"].numpy()[rows, places]] = targets[rows, places]
    read, drawn = {NAMES[key]: torch.tensor(hidden[key].numpy()).long() for key in NAMES}, outputs["token_ids"].numpy()
    replaced = torch.tensor((drawn != inputs["token_ids"]).astype(int))
    expected = [
        generator.train()(**read, labels=torch.tensor(labels)).loss,
        discriminator.train()(**{**read, "input_ids": torch.tensor(drawn).long()}, labels=replaced).loss,
    ]
    total = expected[0] + 50 * expected[1]
    total.backward()
    assert float(loss) == pytest.approx(total.item(), rel=1e-5)
    theirs = discriminator.electra.embeddings.word_embeddings.weight.grad.numpy()
    # In torch, the inputs add nothing to the gradient of the padding's row.
    np.testing.assert_allclose(gradient.numpy()[1:], theirs[1:], rtol=0, atol=1e-5 * abs(theirs).max())


def test_the_loss_of_a_permutation_language_model_is_that_of_transformers(transformers, tmp_path):
    import torch

    sizes = {**SMALL, "num_layers": 3}
    model = PermutationLM(XLNetEncoder(50, **sizes, two_streams=True))
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + random.normal(scale=0.1, size=weight.shape))
    model.save_pretrained(tmp_path / "saved")
    theirs = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "saved").eval()
    ids, place = random.integers(5, 50, (6, 24)), np.arange(24)
    lengths = random.integers(10, 25, (6, 1))
    ids[place == lengths - 2], ids[place == lengths - 1] = 4, 3
    inputs = {"token_ids": ids, "segment_ids": (place >= lengths // 2) + (place == lengths - 1).astype(int)}
    inputs["padding_mask"] = (place < lengths).astype(int)
    for objective in (PermutationLanguageModel(1 / 3), PermutationLanguageModel(1 / 4, reuse_length=8)):
        made, targets = objective(inputs, random, special_ids=range(5))
        order, positions, used = made["factorization_order"], made["mask_positions"], targets >= 0
        is_target = np.zeros((6, 25), bool)
        np.put_along_axis(is_target, positions, True, axis=1)  # -1 is the column that is left out.
        keys, queries = order[:, None], order[:, :, None]
        hidden = np.where(is_target[:, :24, None], keys >= queries, keys > queries)
        with torch.no_grad():
            outputs = theirs(
                **{NAMES[key]: torch.tensor(made[key]).long() for key in NAMES},
                perm_mask=torch.tensor(hidden).float(),
                target_mapping=torch.tensor(np.eye(25)[positions][..., :24]).float(),  # only zeros at unused places
                labels=torch.tensor(np.where(used, targets, -100)).long(),
            )
        logits = outputs_of(model, made)
        np.testing.assert_allclose(logits[used], outputs.logits.numpy()[used], rtol=0, atol=1e-5)
        model.compile(run_eagerly=True)
        found = model.test_on_batch(made, targets, return_dict=True)
        assert found["loss"] == pytest.approx(outputs.loss.item(), abs=1e-5)


@pytest.mark.parametrize("cls", [TextClassifier, TokenClassifier, MaskedLM])
def test_transformers_loads_a_new_head_with_its_names(cls, transformers, tmp_path):
    labels = {} if cls is MaskedLM else {"label_names": ["no", "perhaps", "yes"]}
    model = cls(BertEncoder(len(WORDS), **SMALL), preprocessor=BertPreprocessor(WORDS, sequence_length=8), **labels)
    model.save_pretrained(tmp_path / "saved")
    inputs = {name: np.array(value) for name, value in model.preprocessor(["the film was good", "so bad"]).items()}
    config, expected = logits_of_theirs(transformers, cls.checkpoint_head.name, tmp_path / "saved", inputs)
    if labels:
        assert config.id2label == dict(enumerate(labels["label_names"]))
        assert config.label2id == {name: i for i, name in enumerate(labels["label_names"])}
    real = inputs["padding_mask"] == 1
    logits = logits_of(model, inputs)
    keep = real if logits.shape[:2] == real.shape else slice(None)
    np.testing.assert_allclose(logits[keep], expected[keep], rtol=0, atol=1e-5)


def test_fill_mask_gives_the_answers_of_the_pipeline_of_transformers(transformers, tmp_path):
    model = MaskedLM(BertEncoder(len(WORDS), **SMALL), BertPreprocessor(WORDS, sequence_length=12))
    model.save_pretrained(tmp_path / "saved")
    pipeline = transformers.pipeline("fill-mask", str(tmp_path / "saved"), top_k=5, device="cpu")
    for text in ("the [MASK] was good", "so [MASK], a film"):
        [[answer]] = model.fill_mask(text)
        expected = [(found["token_str"], found["score"]) for found in pipeline(text)]
        assert [token for token, _ in answer] == [token for token, _ in expected]
        np.testing.assert_allclose([value for _, value in answer], [value for _, value in expected], atol=1e-5)


def test_transformers_pads_xlnet_so_that_its_head_reads_the_last_token(transformers, tmp_path):
    import torch

    packing = Packing([], ["[SEP]"], ["[SEP]", "[CLS]"], "[PAD]", segments=(0, 1, 2))
    model = TextClassifier(
        XLNetEncoder(len(WORDS), **SMALL),
        label_names=["no", "yes"],
        preprocessor=TokenPreprocessor(WordPieceTokenizer(WORDS), packing, sequence_length=8),
        pooling="last",
        hidden_activation="tanh",
    )
    model.save_pretrained(tmp_path / "saved")
    texts = ["the film was good", "so bad"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    with torch.no_grad():
        expected = theirs(**tokenizer(texts, padding=True, return_tensors="pt")).logits.numpy()
    np.testing.assert_allclose(np.array(model(texts)), expected, rtol=0, atol=1e-5)

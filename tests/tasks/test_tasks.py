"""Every task does what all of them must do."""

import keras
import pytest

from keras_transfer import tasks
from keras_transfer.encoders import ElmoEncoder, TransformerEncoder, XLNetEncoder
from keras_transfer.objectives import TokenMasking
from keras_transfer.text import ElmoPreprocessor, Packing, TokenPreprocessor, WordPieceTokenizer, word_vocabulary
from tests.task_harness import run_task_test
from tests.tasks.tiny import VOCABULARY, encoder, preprocessor

TEXTS = ["a good b", "bad", "c d e f g", "good bad a"]
WORDS = [text.split() for text in TEXTS]


def causal():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 32}
    made = TransformerEncoder(len(VOCABULARY), **sizes, norm="pre", causal=True, dropout=0.0)
    packing = Packing(pad="[PAD]")
    return made, TokenPreprocessor(WordPieceTokenizer(VOCABULARY), packing, sequence_length=16)


def two_streams():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    return XLNetEncoder(len(VOCABULARY), **sizes, two_streams=True, dropout=0.0)


def elmo():
    sizes = {"embedding_dim": 2, "filters": [(1, 4)], "projection_dim": 4, "units": 4, "num_layers": 1}
    made = ElmoEncoder(**sizes, max_characters=6, dropout=0.0)
    return made, ElmoPreprocessor(6, max_characters=6, vocabulary=word_vocabulary(TEXTS))


CASES = {
    "classes": (
        lambda: tasks.TextClassifier(encoder(), preprocessor(), label_names=["no", "yes"]),
        TEXTS,
        ["yes", "no", "no", "yes"],
        None,
        lambda task, x: task.predict_labels(x),
    ),
    "several labels": (
        lambda: tasks.TextClassifier(
            encoder(), preprocessor(), label_names=["no", "yes"], multi_label=True, thresholds=[0.4, 0.6]
        ),
        TEXTS,
        [["yes"], [], ["no"], ["no", "yes"]],
        None,
        lambda task, x: task.predict_labels(x),
    ),
    "siamese pairs": (
        lambda: tasks.TextClassifier(encoder(), preprocessor(), num_classes=2, siamese=True),
        (TEXTS, TEXTS[::-1]),
        [0, 1, 1, 0],
        None,
        lambda task, x: task.predict_labels(x),
    ),
    "numbers": (
        lambda: tasks.TextRegressor(encoder(), preprocessor(), num_targets=2, pooling="pooled"),
        TEXTS,
        [[0.1, 1.0], [0.2, 0.0], [0.3, 1.0], [0.4, 0.5]],
    ),
    "choices": (
        lambda: tasks.MultipleChoice(encoder(), preprocessor()),
        (TEXTS, [["a", "b c"], ["d", "e"], ["a b", "c"], ["f", "g h"]]),
        [0, 1, 1, 0],
        None,
        lambda task, x: task.predict_choices(x),
    ),
    "words": (
        lambda: tasks.TokenClassifier(encoder(), preprocessor(), label_names=["A", "B"]),
        WORDS,
        [["A"] * len(words) for words in WORDS],
        None,
        lambda task, x: task.predict_words(x),
    ),
    "vectors": (
        lambda: tasks.TextEmbedder(encoder(), preprocessor()),
        (TEXTS, ["good b", "bad c", "c d e f", "good bad"]),  # Equal texts in a batch would be no negatives.
        None,
    ),
    "next tokens": (lambda: tasks.CausalLM(*causal()), TEXTS, None),
    "words on both sides": (
        lambda: tasks.BidirectionalLM(*elmo(), num_sampled=4),
        TEXTS,
        None,
        None,
        lambda task, x: [row.tolist() for row in task.score(x).word_log_likelihoods],
    ),
    "hidden tokens": (
        lambda: tasks.MaskedLM(encoder(), preprocessor(), objective=TokenMasking(0.3, seed=4), activation="relu"),
        TEXTS,
        None,
        lambda task, x: task.predict_on_batch([f"{text} [MASK]" for text in x]),
        lambda task, x: task.fill_mask([f"{text} [MASK]" for text in x]),
    ),
    "tokens in an order": (
        lambda: tasks.PermutationLM(two_streams(), preprocessor()),
        TEXTS,
        None,
        lambda task, x: task.predict_on_batch([f"{text} [MASK]" for text in x]),
        lambda task, x: task.fill_mask([f"{text} [MASK]" for text in x]),
    ),
    "hidden tokens and pairs": (
        lambda: tasks.BertPretraining(encoder(), preprocessor()),
        (TEXTS, TEXTS[::-1]),
        [0, 1, 1, 0],
        lambda task, x: task.predict_on_batch(x)["segment_pair"],
        lambda task, x: task.score_pairs(x),
    ),
    "replaced tokens": (
        lambda: tasks.ReplacedTokenDetection(encoder(), preprocessor(), generator=tasks.MaskedLM(encoder())),
        TEXTS,
        None,
        lambda task, x: [[value for _, value in row] for row in task.detect(x)],
    ),
}


# One task of each family. The others have tests of their own of what depends on the backend.
CORE = ("classes", "choices", "words", "vectors", "next tokens", "hidden tokens")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.core] * (name in CORE)) for name in CASES])
def test_a_task(name):
    keras.utils.set_random_seed(0)
    run_task_test(*CASES[name])

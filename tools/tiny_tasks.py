"""A tiny model of every task with its data and its questions, for the test of the wheel and the files of a release.

This file needs nothing but keras_transfer, so that it also runs where only the wheel is installed.
"""

import dataclasses
import typing

import keras
import numpy as np

import keras_transfer as kt

WORDS = ["good", "bad", *"abcdefgh"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8}
TEXTS = ["a good b", "bad", "c d e f g h", "good bad a"]
PAIRS = (TEXTS, TEXTS[::-1])
SENTENCES = [text.split() for text in TEXTS]
MASKED = [f"{text} [MASK]" for text in TEXTS]
CHOICES = (TEXTS, [["a", "b c"], ["d", "e"], ["a b", "c"], ["f", "g h"]])
DIALOGUES = [(["a"], ["good"], "bad"), (["b"], ["c"], "d e")]


@dataclasses.dataclass(frozen=True)
class Case:
    """A task: a function that makes it, its data, and the columns of its questions, for `answers`.

    `checkpoint` says whether `save_pretrained` writes it, and `pairs` whether its export accepts pairs of texts.
    """

    make: typing.Callable
    x: object
    y: object
    questions: tuple = (TEXTS,)
    checkpoint: bool = True
    pairs: bool = False


def encoder(name="Bert", vocabulary=VOCABULARY, **options):
    return getattr(kt.encoders, f"{name}Encoder")(len(vocabulary), **{**SIZES, **options})


def preprocessor():
    return kt.text.BertPreprocessor(VOCABULARY, sequence_length=16)


def token_preprocessor(**packing):
    packing = packing or {"start": ["[CLS]"], "end": ["[SEP]"], "between": ["[SEP]"]}
    tokenizer = kt.text.WordPieceTokenizer(VOCABULARY)
    return kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(**packing, pad="[PAD]"), sequence_length=16)


def dialogue_model():
    vocabulary = ["[PAD]", "[UNK]", "<bos>", "<eos>", "<speaker1>", "<speaker2>", *WORDS]
    made = encoder("Transformer", vocabulary, norm="pre", causal=True, speakers=[2, 4, 5])
    tokenizer = kt.text.WordPieceTokenizer(vocabulary)
    return kt.tasks.DialogueModel(made, kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(pad="[PAD]"), 32))


def bidirectional_lm():
    sizes = {"embedding_dim": 2, "filters": [(1, 4)], "projection_dim": 4, "units": 4, "num_layers": 1}
    vocabulary = kt.text.word_vocabulary(TEXTS)
    made = kt.encoders.ElmoEncoder(**sizes, max_characters=6)
    return kt.tasks.BidirectionalLM(made, kt.text.ElmoPreprocessor(6, max_characters=6, vocabulary=vocabulary))


def seq2seq_lm():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "head_dim": 2, "intermediate_dim": 8}
    return kt.tasks.Seq2SeqLM(kt.encoders.T5(len(VOCABULARY), **sizes), token_preprocessor())


CASES = {
    "TextClassifier": Case(
        lambda: kt.tasks.TextClassifier(encoder(), preprocessor(), label_names=["x", "y"]), TEXTS, ["x", "y"] * 2
    ),
    "TextClassifier of several labels": Case(
        lambda: kt.tasks.TextClassifier(encoder(), preprocessor(), label_names=["x", "y"], multi_label=True),
        TEXTS,
        [["x"], ["y"], [], ["x", "y"]],
    ),
    "TextRegressor": Case(
        lambda: kt.tasks.TextRegressor(encoder(), preprocessor(), num_targets=1), TEXTS, [0.0, 1.0, 2.0, 3.0]
    ),
    "TokenClassifier": Case(
        lambda: kt.tasks.TokenClassifier(encoder(), preprocessor(), label_names=["O", "B-X"]),
        SENTENCES,
        [["O"] * len(sentence) for sentence in SENTENCES],
        questions=(SENTENCES,),
    ),
    "SpanExtractor": Case(
        lambda: kt.tasks.SpanExtractor(encoder("Roberta"), token_preprocessor()),
        (["a"] * 4, TEXTS),
        [(text.split()[0], 0) for text in TEXTS],
        questions=(["a"] * 4, TEXTS),
    ),
    "MultipleChoice": Case(
        lambda: kt.tasks.MultipleChoice(encoder(), preprocessor()), CHOICES, [0, 1, 1, 0], questions=CHOICES
    ),
    "TextEmbedder": Case(lambda: kt.tasks.TextEmbedder(encoder(), preprocessor()), PAIRS, None),
    "MaskedLM": Case(lambda: kt.tasks.MaskedLM(encoder(), preprocessor()), TEXTS, None, questions=(MASKED,)),
    "BertPretraining": Case(
        lambda: kt.tasks.BertPretraining(encoder(), preprocessor()), PAIRS, [0, 1, 1, 0], questions=PAIRS, pairs=True
    ),
    "PermutationLM": Case(
        lambda: kt.tasks.PermutationLM(encoder("XLNet", two_streams=True), preprocessor()),
        TEXTS,
        None,
        questions=(MASKED,),
        checkpoint=False,  # XLNet's folders hold another tokenizer.
    ),
    "ReplacedTokenDetection": Case(
        lambda: kt.tasks.ReplacedTokenDetection(
            encoder("Electra"), preprocessor(), generator=kt.tasks.MaskedLM(encoder("Electra"))
        ),
        TEXTS,
        None,
    ),
    "CausalLM": Case(lambda: kt.tasks.CausalLM(encoder("GPT2"), token_preprocessor()), TEXTS, None),
    "Seq2SeqLM": Case(seq2seq_lm, TEXTS, TEXTS[::-1], questions=PAIRS),
    "BidirectionalLM": Case(bidirectional_lm, TEXTS, None),
    "DialogueModel": Case(dialogue_model, DIALOGUES, None, questions=(["a", "b"], ["good", "bad"]), checkpoint=False),
}


def predictions(task, *columns):
    return task.predict(columns[0] if len(columns) == 1 else columns, verbose=0)


def word_predictions(task, sentences):
    return np.concatenate(task.predict(sentences, verbose=0))


def mask_scores(task, texts):
    return [[score for _, score in found[0]] for found in task.fill_mask(texts)]


ANSWERS = {
    "TextClassifier": predictions,
    "TextRegressor": predictions,
    "TokenClassifier": word_predictions,
    "SpanExtractor": lambda task, questions, contexts: [row["score"] for row in task.answer(questions, contexts)],
    "MultipleChoice": predictions,
    "TextEmbedder": lambda task, texts: task.embed(texts),
    "MaskedLM": mask_scores,
    "BertPretraining": lambda task, *pairs: task.score_pairs(pairs),
    "PermutationLM": mask_scores,
    "ReplacedTokenDetection": lambda task, texts: [score for row in task.detect(texts) for _, score in row],
    "CausalLM": lambda task, texts: task.score(texts).log_likelihoods,
    "Seq2SeqLM": lambda task, sources, targets: task.score(sources, targets),
    "BidirectionalLM": lambda task, texts: np.concatenate(task.score(texts).word_log_likelihoods),
    "DialogueModel": lambda task, history, candidates: task.rank(history, candidates),
}


def answers(task, questions):
    """Returns what a task answers to the columns of its questions, as an array of numbers."""
    return np.asarray(ANSWERS[type(task).__name__](task, *questions), "float64")


def trained(name):
    """Returns the task of a name after one step, the same each time."""
    keras.utils.set_random_seed(0)
    case = CASES[name]
    task = case.make()
    task.compile(keras.optimizers.AdamW(0.01))
    task.fit(case.x, case.y, batch_size=4, verbose=0)
    return task

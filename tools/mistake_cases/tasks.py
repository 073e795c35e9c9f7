"""Mistakes with the methods of each task."""

import numpy as np

import keras_transfer as kt
from mistake_cases.models import LABELS, NAMES, TEXTS, Mistake

QUESTION, CONTEXT = "who", "a good b"


def certain(models):
    """A classifier that is certain of every text."""
    model = models.classifier()
    kernel, bias = model.layers[-1].kernel, model.layers[-1].bias
    kernel.assign(np.zeros(kernel.shape))
    bias.assign([-60.0, 60.0])
    return models.watch(model)


def paired(models):
    """A classifier that was fitted on pairs."""
    model = models.bert_classifier()
    model.fit((TEXTS, TEXTS), LABELS, verbose=0)
    models.forget()
    return models.watch(model, None)


def single(models):
    """A classifier that was fitted on single texts."""
    model = models.bert_classifier()
    model.fit(TEXTS, LABELS, verbose=0)
    models.forget()
    return models.watch(model, None)


def embed(loss, x):
    return lambda models: models.embedder(loss).fit(*x, batch_size=2, verbose=0)


def ordered(change):
    """Trains a permutation LM on prepared data with a changed order."""

    def fit(models):
        model = models.permuted()
        inputs, targets = model.dataset(TEXTS, batch_size=4)[0]
        model.fit({**inputs, "factorization_order": change(inputs["factorization_order"])}, targets, verbose=0)

    return fit


MISTAKES = [
    # === Classification ===
    Mistake(
        "predict_labels of a model that is not a number", lambda m: m.nan().predict_labels(TEXTS), "NaN|not finite|nan"
    ),
    Mistake(
        "predict_proba of a model that is not a number", lambda m: m.nan().predict_proba(TEXTS), "NaN|not finite|nan"
    ),
    Mistake(
        "calibrate on texts that are all right", lambda m: certain(m).calibrate(TEXTS, [1] * 4), "right|temperature"
    ),
    Mistake("calibrate without texts", lambda m: m.classifier().calibrate([], []), "text|no "),
    Mistake("tune_thresholds of one label", lambda m: m.classifier().tune_thresholds(TEXTS, LABELS), "multi_label"),
    Mistake("single texts for a model of pairs", lambda m: paired(m).predict_labels(TEXTS), "pair"),
    Mistake(
        "a tuple of two texts as two texts",
        lambda m: single(m).predict_labels(("good", "bad")),
        "pair|list",
        lambda found: len(found) == 2,
    ),
    Mistake("an integer for predict_labels", lambda m: m.classifier().predict_labels(3), "text|string"),
    Mistake(
        "an unknown class in a report",
        lambda m: kt.analysis.report(m.classifier(label_names=NAMES), TEXTS, ["yes", "no", "maybe", "no"]),
        "maybe",
    ),
    Mistake(
        "a report of a regressor",
        lambda m: kt.analysis.report(m.regressor(), TEXTS, [0.1, 0.2, 0.3, 0.4]),
        "Regressor|classifier",
    ),
    Mistake("a report of no rows", lambda m: kt.analysis.report(m.classifier(), [], []), "no |at least"),
    # === Words ===
    Mistake("a list of words for predict_words", lambda m: m.tagger().predict_words(["good", "a"]), "list of|sentence"),
    Mistake("predict_labels of a tagger", lambda m: m.tagger().predict_labels(TEXTS), "predict_words"),
    Mistake("predict_labels of a regressor", lambda m: m.regressor().predict_labels(TEXTS), "`predict`"),
    Mistake("an integer for predict_words", lambda m: m.tagger().predict_words(3), "list"),
    Mistake(
        "a sentence without words",
        lambda m: m.tagger().fit([["good"], []], [["A"], []], verbose=0),
        "no words|empty",
        lambda history: len(history.history["loss"]) == 1,
    ),
    # === Questions ===
    Mistake(
        "one list for questions and contexts",
        lambda m: m.extractor().fit(TEXTS, LABELS, verbose=0),
        "questions.*contexts|tuple",
    ),
    Mistake(
        "an answer that is not in the context",
        lambda m: m.extractor().fit(([QUESTION], [CONTEXT]), [("bad", 2)], verbose=0),
        "bad.*good|context",
    ),
    Mistake(
        "an answer beyond the context",
        lambda m: m.extractor().fit(([QUESTION], [CONTEXT]), [("good", 90)], verbose=0),
        "90",
    ),
    Mistake(
        "an answer without its place",
        lambda m: m.extractor().fit(([QUESTION], [CONTEXT]), ["good"], verbose=0),
        "start|tuple|pair",
    ),
    Mistake("more questions than contexts", lambda m: m.extractor().answer([QUESTION] * 2, [CONTEXT]), "2.*1"),
    Mistake("answers: k=0", lambda m: m.extractor().answer([QUESTION], [CONTEXT], k=0), "k"),
    Mistake("a question that fills the window", lambda m: m.extractor().answer(["who " * 30], [CONTEXT]), "question"),
    Mistake("texts for predict of an extractor", lambda m: m.extractor().predict(([QUESTION], [CONTEXT])), "answer"),
    # === Choices ===
    Mistake("one choice", lambda m: m.choice().fit((["a"], [["b"]]), [0], verbose=0), "at least two.*1 choices"),
    Mistake(
        "choices of different numbers",
        lambda m: m.choice().fit((["a", "b"], [["a", "b"], ["a", "b", "c"]]), [0, 1], verbose=0),
        "choice|number",
    ),
    Mistake(
        "a label beyond the choices", lambda m: m.choice().fit((["a"], [["b", "c"]]), [2], verbose=0), "from 0 to 1.*2"
    ),
    Mistake("texts as choices", lambda m: m.choice().predict_choices((["a"], ["b"])), "list"),
    # === Embeddings ===
    Mistake("fit without a loss", lambda m: m.embedder().fit((TEXTS, TEXTS), verbose=0), "compile|loss"),
    Mistake(
        "one pair a batch and in-batch negatives",
        lambda m: m.embedder(kt.losses.MultipleNegativesRankingLoss()).fit((TEXTS, TEXTS), batch_size=1, verbose=0),
        "batch",
    ),
    Mistake(
        "a last batch of one pair and in-batch negatives",
        embed(kt.losses.MultipleNegativesRankingLoss(), ((TEXTS[:3], TEXTS[:3]),)),
        "batch",
        lambda history: history.history["loss"][0] > 0,
    ),
    Mistake("one column for pairs", embed(kt.losses.MultipleNegativesRankingLoss(), (TEXTS,)), "tuple|column"),
    Mistake("two columns for triplets", embed(kt.losses.TripletLoss(), ((TEXTS, TEXTS),)), "rows of 3 texts"),
    Mistake("labels for triplets", embed(kt.losses.TripletLoss(), ((TEXTS, TEXTS, TEXTS), LABELS)), "labels"),
    Mistake("no labels for cosine similarities", embed(kt.losses.CosineSimilarityLoss(), ((TEXTS, TEXTS),)), "labels"),
    Mistake(
        "a similarity of 5",
        embed(kt.losses.CosineSimilarityLoss(), ((TEXTS, TEXTS), [0.1, 5.0, 0.2, 0.3])),
        "between -1 and 1.*5.0",
    ),
    Mistake("k=0", lambda m: m.embedder().search(["a"], TEXTS, k=0), "`k`.*k=0"),
    Mistake("top_k of search", lambda m: m.embedder().search(["a"], TEXTS, top_k=2), "`k="),
    Mistake("encode of an embedder", lambda m: m.embedder().encode(TEXTS), "`embed`"),
    Mistake("k beyond the corpus", lambda m: m.embedder().search(["a"], TEXTS, k=9), "`k`.*k=9"),
    Mistake("an empty corpus", lambda m: m.embedder().search(["a"], [], k=1), "corpus"),
    Mistake("vectors of another size", lambda m: m.embedder().search(np.zeros((1, 3)), TEXTS, k=1), "size|3"),
    Mistake(
        "a MatryoshkaLoss size beyond the vectors",
        embed(kt.losses.MatryoshkaLoss(kt.losses.MultipleNegativesRankingLoss(), [64, 2]), ((TEXTS, TEXTS),)),
        "64",
    ),
    # === Language models ===
    Mistake("texts without a mask", lambda m: m.masked().fill_mask(["a b"]), r"\[MASK\]"),
    Mistake("masks: k=0", lambda m: m.masked().fill_mask(["a [MASK]"], k=0), "k"),
    Mistake("a label of several tokens", lambda m: m.masked().classify(TEXTS, {"x": "good bad", "y": "good"}), "token"),
    Mistake(
        "a template without a place",
        lambda m: m.masked().classify(TEXTS, {"x": "good", "y": "bad"}, template="a"),
        "template|label",
    ),
    Mistake("a masked LM on GPT-2", lambda m: kt.tasks.MaskedLM(m.decoder(), m.tokens()), "CausalLM|causal"),
    Mistake("a permutation LM on BERT", lambda m: kt.tasks.PermutationLM(m.bert(), m.pieces()), "query stream"),
    Mistake(
        "the objective of XLNet in a masked LM",
        lambda m: kt.tasks.MaskedLM(m.bert(), m.pieces(), objective=kt.objectives.PermutationLanguageModel()),
        "TokenMasking",
    ),
    Mistake(
        "hidden tokens in a permutation LM",
        lambda m: m.permuted(objective=kt.objectives.TokenMasking()),
        "PermutationLanguageModel",
    ),
    Mistake("an objective's name", lambda m: m.permuted(objective="permutation"), "objective='permutation'"),
    Mistake("an order in which all tokens are first", ordered(lambda order: order * 0), "must see another"),
    Mistake("an order of another length", ordered(lambda order: order[:, :2]), "integers.*like `token_ids`"),
    Mistake(
        "a query stream without an order",
        lambda m: (model := m.permuted()).encoder.query_stream(model.preprocessor(TEXTS)),
        "factorization_order",
    ),
    Mistake("BERT's pretraining on single texts", lambda m: m.pretraining().fit(TEXTS, LABELS, verbose=0), "pairs"),
    Mistake("a causal LM on BERT", lambda m: kt.tasks.CausalLM(m.bert(), m.pieces()), "causal"),
    Mistake("max_length below the prompt", lambda m: m.causal().generate(["a b c d"], max_length=2), "max_length"),
    Mistake("max_length beyond the positions", lambda m: m.causal().generate(["a"], max_length=99), "16"),
    Mistake("an empty prompt", lambda m: m.causal().generate([""], max_length=4), "empty|token"),
    Mistake("an unknown sampler", lambda m: m.causal().generate(["a"], sampler="gredy", max_length=4), "greedy"),
    Mistake("num_sequences=0", lambda m: m.causal().generate(["a"], num_sequences=0, max_length=4), "num_sequences"),
    Mistake(
        "an end token that is unknown",
        lambda m: m.causal().generate(["a"], end_token="<end>", max_length=4),
        "end_token",
    ),
    Mistake("labels of a causal LM", lambda m: m.causal().fit(TEXTS, LABELS, verbose=0), "Leave `y` out"),
    Mistake("a text of one token, which has no next", lambda m: m.causal().fit(["a", "b"], verbose=0), "token"),
    Mistake("no targets", lambda m: m.writer().fit(TEXTS, verbose=0), r"`fit\(sources, targets\)`"),
    Mistake("targets as a dict", lambda m: m.writer().fit(TEXTS, {"target": TEXTS}, verbose=0), "one column of texts"),
    Mistake("a source without a token", lambda m: m.writer().fit(["a", ""], ["a", "b"], verbose=0), "Each source"),
    Mistake("a target without a token", lambda m: m.writer().fit(["a", "b"], ["a", ""], verbose=0), "Each target"),
    Mistake("a source of only padding", lambda m: m.writer().generate(["a", ""]), "an empty source at position 1"),
    Mistake("sources and targets to generate", lambda m: m.writer().generate((["a"], ["b"])), "Sources must be one"),
    Mistake("generate(None)", lambda m: m.writer().generate(None), "Texts must be"),
    Mistake("a forced token out of range", lambda m: m.writer().generate(["a"], forced_first=99), "from 0 to 16"),
    Mistake(
        "more new tokens than allowed",
        lambda m: m.writer().generate(["a"], min_new_tokens=5, max_new_tokens=4),
        "min_new_tokens",
    ),
    Mistake("prefix=None", lambda m: m.writer(prefix=None), "prefix"),
    Mistake("start_token=1.5", lambda m: m.writer(start_token=1.5), "start_token"),
    Mistake(
        "a seq2seq LM on an encoder",
        lambda m: kt.tasks.Seq2SeqLM(m.writer().encoder.encoder, m.tokens()),
        "EncoderDecoder",
    ),
    Mistake("a loss of vectors for tokens", lambda m: m.writer().compile(loss="mse"), "must accept integers"),
    Mistake("a single label to choose from", lambda m: m.writer().classify(["a"], ["b"]), "label_names"),
    Mistake("generate of an encoder", lambda m: m.writer().encoder.generate(["a"]), "Seq2SeqLM"),
    Mistake(
        "weights of attention without targets",
        lambda m: kt.analysis.attention_weights(m.writer(), ["a"]),
        "Pass `targets`",
    ),
    Mistake("a detector without a generator", lambda m: m.detector(generator=False).fit(TEXTS, verbose=0), "generator"),
    Mistake("detect of an integer", lambda m: m.detector().detect(3), "list"),
    Mistake(
        "the vocabulary of a generator is another",
        lambda m: kt.tasks.ReplacedTokenDetection(
            m.bert(),
            m.pieces(),
            generator=kt.tasks.MaskedLM(
                kt.encoders.BertEncoder(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=8)
            ),
        ),
        "vocabulary",
    ),
    Mistake(
        "a generator with other embeddings shares those of the encoder",
        lambda m: kt.tasks.ReplacedTokenDetection(
            m.bert(),
            m.pieces(),
            generator=kt.tasks.MaskedLM(m.bert(hidden_dim=12)),
            share_embeddings=True,
        ),
        "same kinds and sizes",
    ),
    Mistake(
        "no generator shares the embeddings",
        lambda m: kt.tasks.ReplacedTokenDetection(m.bert(), m.pieces(), share_embeddings=True),
        "generator",
    ),
]

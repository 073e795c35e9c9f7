"""Arguments of tasks, `compile` and preprocessors that are wrong, or have another name in another library."""

import keras

import keras_transfer as kt
from mistake_cases.models import LABELS, NAMES, TEXTS, Mistake

tasks = kt.tasks


def load(cls=tasks.TextClassifier, **options):
    """A task from a folder, with options."""
    return lambda models: cls.from_pretrained(models.saved_encoder(), **options)


def compiled(kind, **options):
    """A task of `Models` that is compiled with options."""
    return lambda models: getattr(models, kind)(optimizer=None).compile(**options)


MISTAKES = [
    # === Names of other libraries ===
    Mistake("num_labels", load(num_labels=2), "num_classes"),
    Mistake("id2label", load(id2label={0: "a", 1: "b"}), "label_names"),
    Mistake("label2id", load(label2id={"a": 0, "b": 1}), "label_names"),
    Mistake("max_length of the tokenizer", load(num_classes=2, max_length=64), "sequence_length"),
    Mistake("max_seq_length", load(num_classes=2, max_seq_length=64), "sequence_length"),
    Mistake("num_labels in the constructor", lambda m: tasks.TextClassifier(m.bert(), num_labels=2), "num_classes"),
    Mistake("num_labels of a regressor", load(tasks.TextRegressor, num_labels=1), "num_targets"),
    Mistake("labels of a tagger as num_labels", load(tasks.TokenClassifier, num_labels=3), "label_names"),
    Mistake(
        "max_new_tokens with max_length",
        lambda m: m.causal().generate(["a"], max_new_tokens=3, max_length=8),
        "Pass either `max_length`",
    ),
    Mistake("min_length of generate", lambda m: m.causal().generate(["a"], min_length=3), "min_new_tokens"),
    Mistake("a forced token that is unknown", lambda m: m.causal().generate(["a"], forced_first="de_DE"), "de_DE"),
    Mistake("temperature of generate", lambda m: m.causal().generate(["a"], temperature=0.5), "Random|sampler"),
    Mistake("top_k of generate", lambda m: m.causal().generate(["a"], top_k=5), "TopK|sampler"),
    Mistake("top_p of generate", lambda m: m.causal().generate(["a"], top_p=0.5), "TopP|sampler"),
    Mistake("length_penalty of generate", lambda m: m.causal().generate(["a"], length_penalty=2.0), "BeamSearch"),
    Mistake("an argument that no library has", load(num_classes=2, color="red"), "no argument `color`"),
    # === Values ===
    Mistake("num_classes=1", load(num_classes=1), "at least 2"),
    Mistake("num_classes='2'", load(num_classes="2"), "num_classes"),
    Mistake("no size of the new head", load(), "num_classes"),
    Mistake("pooling='cls'", load(num_classes=2, pooling="cls"), "first"),
    Mistake("dropout=10", load(num_classes=2, dropout=10), "dropout", elsewhere="between 0 and 1.*rate=10"),
    Mistake("sequence_length=1", load(num_classes=2, sequence_length=1), "sequence_length"),
    Mistake("sequence_length=0", load(num_classes=2, sequence_length=0), "sequence_length"),
    Mistake("sequence_length beyond the positions", load(num_classes=2, sequence_length=64), "16"),
    Mistake("head='none'", load(num_classes=2, head="none"), "head"),
    Mistake("thresholds without multi_label", lambda m: m.classifier(thresholds=[0.5, 0.5]), "multi_label"),
    Mistake("windows='sum'", lambda m: m.bert_classifier(windows="sum"), "windows"),
    Mistake("siamese with windows", lambda m: m.bert_classifier(windows="mean", siamese=True), "siamese|windows"),
    Mistake(
        "an encoder's class instead of an encoder",
        lambda m: tasks.TextClassifier(kt.encoders.BertEncoder, num_classes=2),
        "encoder",
    ),
    Mistake(
        "a Sequential as an encoder",
        lambda m: tasks.TextClassifier(
            keras.Sequential([keras.Input((None,)), keras.layers.Embedding(9, 4)]), num_classes=2
        ),
        "keras.Model",
    ),
    Mistake(
        "a name instead of an encoder", lambda m: tasks.TextClassifier("minilm-l6", num_classes=2), "from_pretrained"
    ),
    Mistake(
        "a preprocessor with another vocabulary",
        lambda m: tasks.TextClassifier(
            m.bert(),
            kt.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *map(str, range(99))], sequence_length=8),
            num_classes=2,
        ),
        "vocabulary",
    ),
    Mistake(
        "a preprocessor without segments for BERT",
        lambda m: tasks.TextClassifier(m.bert(), m.tokens(), num_classes=2),
        "segment|BertPreprocessor",
    ),
    Mistake(
        "a regressor's default from a folder",
        lambda m: load(tasks.TextRegressor)(m).num_targets,
        "num_targets",
        lambda found: found == 1,
    ),
    Mistake("num_heads that does not divide hidden_dim", lambda m: m.bert(num_heads=3), "num_heads|hidden_dim"),
    Mistake("num_layers=0", lambda m: m.bert(num_layers=0), "num_layers"),
    Mistake("an unknown activation", lambda m: m.bert(activation="gelu_fst"), "gelu_fst"),
    Mistake(
        "batch_norm='no'",
        lambda m: tasks.TextClassifier(m.bert(), num_classes=2, hidden_activation="relu", batch_norm="no"),
        "True or False",
    ),
    Mistake("a QRNN of half units", lambda m: kt.layers.QRNN(1.5), "units"),
    # === compile ===
    Mistake("metrics=['f1']", compiled("classifier", metrics=["f1"]), "F1", lambda found: found is None),
    Mistake("metrics=['f2']", compiled("classifier", metrics=["f2"]), "f2"),
    Mistake("metrics='f2'", compiled("classifier", metrics="f2"), "f2"),
    Mistake("an unknown loss in a dict", compiled("classifier", loss={"logits": "focl"}), "focal"),
    Mistake("epochs=1.5", lambda m: m.classifier().fit(TEXTS, LABELS, epochs=1.5), "integer"),
    Mistake("validation_freq=0", lambda m: m.classifier().fit(TEXTS, LABELS, validation_freq=0), "integer"),
    Mistake(
        "a class as callback",
        lambda m: m.classifier().fit(TEXTS, LABELS, callbacks=[keras.callbacks.Callback]),
        r"\(\)",
    ),
    Mistake("accuracy of a regressor", compiled("regressor", metrics=["accuracy"]), "accuracy"),
    Mistake("a metric of probabilities", compiled("classifier", metrics=[keras.metrics.AUC()]), "logits"),
    Mistake(
        "a loss of probabilities",
        compiled("classifier", loss="sparse_categorical_crossentropy"),
        "logits",
        lambda found: found is None,
    ),
    Mistake("a loss of positive outputs", compiled("classifier", loss="poisson"), "logits"),
    Mistake(
        "a loss of one-hot labels",
        lambda m: (
            model := m.classifier(None),
            model.compile(loss="categorical_crossentropy"),
            model.fit(TEXTS, [0, 1, 0, 1], verbose=0),
        ),
        "one-hot|logits",
    ),
    Mistake("an unknown loss", compiled("classifier", loss="crossentropi"), "focal.*crossentropi"),
    Mistake(
        "an unknown optimizer",
        compiled("classifier", optimizer="adamm"),
        "adamm",
        elsewhere="optimizer identifier: adamm",
    ),
    Mistake(
        "a learning rate as optimizer",
        compiled("classifier", optimizer=1e-3),
        "FusedAdamW",
    ),
    Mistake("an optimizer's class", compiled("classifier", optimizer=keras.optimizers.Adam), r"\(\)"),
    Mistake("a learning rate below 0", compiled("classifier", optimizer=keras.optimizers.SGD(-1.0)), "at least 0"),
    Mistake(
        "fit without an optimizer",
        lambda m: (
            model := m.classifier(None),
            model.compile(optimizer=None),
            model.fit(TEXTS, [0, 1, 0, 1], verbose=0),
        ),
        r"`model.compile\(\)`",
    ),
    Mistake(
        "fit before compile",
        lambda m: m.classifier(None).fit(TEXTS, [0, 1, 0, 1], verbose=0),
        "compile",
        elsewhere=r"call `compile\(\)`",
    ),
    Mistake(
        "evaluate before compile",
        lambda m: m.classifier(None).evaluate(TEXTS, [0, 1, 0, 1], verbose=0),
        "compile",
        elsewhere=r"call `compile\(\)`",
    ),
    # === Preprocessors ===
    Mistake("a vocabulary without [UNK]", lambda m: kt.text.BertPreprocessor(["[PAD]", "[CLS]", "[SEP]", "a"]), "UNK"),
    Mistake(
        "a vocabulary with a token twice",
        lambda m: kt.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "a"]),
        "'a'",
    ),
    Mistake(
        "a vocabulary file that does not exist",
        lambda m: kt.text.BertPreprocessor("vocab.txt"),
        "vocab.txt",
        elsewhere="No such file.*vocab.txt",
    ),
    Mistake(
        "a fraction of 1.5 of masked tokens", lambda m: kt.objectives.TokenMasking(mask_selection_rate=1.5), "rate"
    ),
    Mistake(
        "a seed of a permutation that is a text", lambda m: kt.objectives.PermutationLanguageModel(seed="x"), "seed"
    ),
    Mistake("masks of a word", lambda m: kt.objectives.TokenMasking(units="word"), "'words'"),
    Mistake("a noise density of 15", lambda m: kt.objectives.SpanCorruption(15), "noise_density"),
    Mistake("masks of length 2", lambda m: kt.objectives.Denoising(replace_length=2), "replace_length"),
    Mistake("a prefix of most tokens", lambda m: kt.objectives.PrefixLM(0.9), "at most 0.5"),
    Mistake("blocks without tokens", lambda m: kt.objectives.SpanPrediction(block_length=0), "block_length"),
    Mistake(
        "rates of hidden tokens above 1",
        lambda m: kt.objectives.TranslationMasking(mask_token_rate=0.9, random_token_rate=0.2),
        "together",
    ),
    Mistake(
        "labels of a tagger that are equal",
        lambda m: tasks.TokenClassifier(m.words(), m.word_preprocessor(), label_names=["A", "A"]),
        "two different names",
    ),
    Mistake(
        "a threshold above 1",
        lambda m: m.classifier(label_names=["a", "b"], thresholds=[2.0, 0.5], multi_label=True),
        "threshold",
    ),
    Mistake(
        "names of labels that are equal in another form",
        lambda m: m.classifier(label_names=[*NAMES, "caf\u00e9", "cafe\u0301"]),
        "Unicode|NFC",
    ),
]

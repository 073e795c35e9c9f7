"""Writes small files of each kind into `saved`, with what they answer, for later versions to load.

    python tests/references/make_saved.py

Needs keras_transfer alone. The files were written at version 0.1.0, before its modules moved, and are not written
again: `tests/test_saved_files.py` imports the functions that ask a loaded model for its answers.
"""

import pathlib
import shutil
import zipfile

import keras
import numpy as np

import keras_transfer as kt

FOLDER = pathlib.Path(__file__).parent / "saved"
WORDS = ["good", "bad", *"abcdefgh"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8}
TEXTS = ["a good b", "bad", "c d e f g h", "good bad a"]
PAIRS = (TEXTS, TEXTS[::-1])
IDS = np.array([[2, 7, 9, 14, 3], [2, 11, 3, 0, 0]], "int32")


def encoder(name="Bert", **options):
    return getattr(kt.encoders, f"{name}Encoder")(len(VOCABULARY), **{**SIZES, **options})


def preprocessor():
    return kt.text.BertPreprocessor(VOCABULARY, sequence_length=16)


def token_preprocessor():
    tokenizer = kt.text.WordPieceTokenizer(VOCABULARY)
    packing = kt.text.Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], pad="[PAD]")
    return kt.text.TokenPreprocessor(tokenizer, packing, sequence_length=16)


# === Tasks: a model, and its answers ===


def fitted(model, x, y=None, **options):
    model.compile(optimizer=keras.optimizers.AdamW(0.01), **options)
    model.fit(x, y, verbose=0)
    return model


def text_classifier():
    return fitted(
        kt.tasks.TextClassifier(encoder(), preprocessor(), num_classes=2, pooling="concat"), TEXTS, [0, 1, 0, 1]
    )


def named_classifier():
    model = kt.tasks.TextClassifier(
        encoder("Roberta"), preprocessor=preprocessor(), label_names=["x", "y"], hidden_activation="tanh"
    )
    return fitted(model, TEXTS, ["x", "y", "x", "y"])


def several_labels():
    options = {"multi_label": True, "thresholds": [0.4, 0.6], "scalar_mix": True}
    model = kt.tasks.TextClassifier(encoder(), preprocessor=preprocessor(), label_names=["x", "y"], **options)
    return fitted(model, TEXTS, [["x"], ["y"], [], ["x", "y"]])


def windowed():
    return fitted(
        kt.tasks.TextClassifier(encoder("Roberta"), token_preprocessor(), num_classes=2, windows="mean"),
        [" ".join(TEXTS * 3)] * 2,
        [0, 1],
    )


def siamese():
    return fitted(kt.tasks.TextClassifier(encoder(), preprocessor(), num_classes=2, siamese=True), PAIRS, [0, 1, 0, 1])


def text_regressor():
    return fitted(kt.tasks.TextRegressor(encoder(), preprocessor(), num_targets=1), TEXTS, [0.0, 1.0, 2.0, 3.0])


def token_classifier():
    model = kt.tasks.TokenClassifier(encoder(), preprocessor(), label_names=["O", "B-X"])
    return fitted(model, [text.split() for text in TEXTS], [["O"] * len(text.split()) for text in TEXTS])


def chain():
    return kt.tasks.TokenClassifier(encoder(), preprocessor(), label_names=["O", "B-X", "I-X"], crf=True)


def span_extractor():
    return kt.tasks.SpanExtractor(encoder("Roberta"), token_preprocessor())


def text_embedder():
    return kt.tasks.TextEmbedder(encoder(), preprocessor())


def multiple_choice():
    return kt.tasks.MultipleChoice(encoder(), preprocessor())


def causal_lm():
    return fitted(kt.tasks.CausalLM(encoder("GPT2"), token_preprocessor()), TEXTS)


def masked_lm():
    return kt.tasks.MaskedLM(encoder(), preprocessor())


def replaced_tokens():
    return kt.tasks.ReplacedTokenDetection(
        encoder("Electra"), preprocessor(), generator=kt.tasks.MaskedLM(encoder("Electra"))
    )


def dialogue():
    vocabulary = ["[PAD]", "[UNK]", "<bos>", "<eos>", "<speaker1>", "<speaker2>", *WORDS]
    made = kt.encoders.TransformerEncoder(len(vocabulary), **SIZES, norm="pre", causal=True, speakers=[2, 4, 5])
    tokenizer = kt.text.WordPieceTokenizer(vocabulary)
    return kt.tasks.DialogueModel(made, kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(pad="[PAD]"), 32))


def word_vectors():
    vectors = kt.checkpoints.WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)))
    words = kt.text.WordPreprocessor(WORDS, sequence_length=8)
    return kt.tasks.TextClassifier(kt.encoders.WordVectorEncoder.from_vectors(vectors), words, num_classes=2)


def elmo():
    sizes = {"embedding_dim": 4, "filters": ((1, 4), (2, 4)), "num_highways": 1, "projection_dim": 5, "units": 6}
    made = kt.encoders.ElmoEncoder(**sizes, num_layers=1)
    return kt.tasks.TextClassifier(made, kt.text.ElmoPreprocessor(sequence_length=6), num_classes=2)


def logits(model):
    return model.predict(TEXTS, verbose=0)


def words(model):
    return np.concatenate(model.predict([text.split() for text in TEXTS], verbose=0))


TASKS = {
    text_classifier: logits,
    named_classifier: logits,
    several_labels: logits,
    windowed: lambda model: model.predict([" ".join(TEXTS * 3)], verbose=0),
    siamese: lambda model: model.predict(PAIRS, verbose=0),
    text_regressor: logits,
    token_classifier: words,
    chain: words,
    span_extractor: lambda model: np.array([row["score"] for row in model.answer(["a"] * 4, TEXTS)]),
    text_embedder: lambda model: model.embed(TEXTS, verbose=0),
    multiple_choice: lambda model: model.predict((["a", "b"], [TEXTS[:2], TEXTS[2:]]), verbose=0),
    causal_lm: lambda model: np.array(model.score(TEXTS).log_likelihoods),
    masked_lm: lambda model: np.array([score for _, score in model.fill_mask(["a [MASK] b"])[0][0]]),
    replaced_tokens: lambda model: np.array([score for row in model.detect(TEXTS) for _, score in row]),
    dialogue: lambda model: model.rank(["a", "b"], ["good", "bad"]),
    word_vectors: logits,
    elmo: logits,
}

# === Encoders, adapters, optimizers ===

ENCODERS = {
    "Albert": {"embedding_dim": 4},
    "Bert": {},
    "DebertaV2": {"num_buckets": 8},
    "DistilBert": {},
    "Electra": {"embedding_dim": 4},
    "GPT": {},
    "GPT2": {},
    "ModernBert": {"max_sequence_length": 32},
    "MPNet": {},
    "Roberta": {},
    "Transformer": {},
    "XLNet": {},
}
ADAPTERS = ["lora:r=2", "dora:r=2", "ia3", "houlsby:2", "pfeiffer:2", "parallel:2", "compacter:4,terms=2", "bitfit"]
ADAPTERS += ["prefix:2", "prompt:2", "pals:size=4,num_heads=2"]


def states(model):
    """Returns what an encoder computes for `IDS`."""
    inputs = {"token_ids": IDS, "segment_ids": 0 * IDS, "padding_mask": (IDS > 0).astype("int32")}
    return keras.ops.convert_to_numpy(model({name: inputs[name] for name in model.input})["sequence_output"])


def with_random_weights(model):
    """Returns a model whose weights of floats are all random, so that each of them counts."""
    random = np.random.default_rng(0)
    for weight in model.weights:
        if "float" in keras.backend.standardize_dtype(weight.dtype):
            weight.assign(keras.ops.convert_to_numpy(weight) + random.normal(scale=0.2, size=weight.shape))
    return model


def file_of(spec):
    """Returns the name of the files of adapters."""
    return "adapters_" + spec.partition(":")[0]


def optimizers():
    """Returns a dict from names to optimizers that have trained a classifier, whose slots a file contains."""
    return {
        "adamw": lambda model: keras.optimizers.AdamW(0.01),
        "layerwise": lambda model: kt.adaptation.LayerwiseOptimizer(
            keras.optimizers.AdamW(kt.adaptation.SlantedTriangular(0.01, total_steps=4), weight_decay=0.0),
            model,
            decay=0.5,
            penalty=kt.adaptation.L2SP(0.1),
        ),
    }


def save(model, name):
    """Saves a model as `name.keras`, compressed."""
    file = FOLDER / f"{name}.keras"
    model.save(file)
    with zipfile.ZipFile(file) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)


def main():
    FOLDER.mkdir(exist_ok=True)
    answers = {}
    for make, ask in TASKS.items():
        keras.utils.set_random_seed(0)
        model = make()
        save(model, make.__name__)
        answers[make.__name__] = ask(model)
    for name, options in ENCODERS.items():
        model = with_random_weights(encoder(name, **options))
        save(model, f"encoder_{name}")
        answers[f"encoder_{name}"] = states(model)
    for spec in ADAPTERS:
        keras.utils.set_random_seed(0)
        model = with_random_weights(kt.tasks.TextClassifier(encoder(), preprocessor(), num_classes=2))
        save(model, "adapters_none")  # the same for all of them
        kt.adaptation.add_adapters(model, spec)
        random = np.random.default_rng(1)
        for weight in model.trainable_weights:
            weight.assign(keras.ops.convert_to_numpy(weight) + random.normal(scale=0.2, size=weight.shape))
        answers[file_of(spec)] = logits(model)
        save(model, file_of(spec))
        kt.adaptation.save_adapters(model, FOLDER / f"{file_of(spec)}.safetensors")
    for name, make in optimizers().items():
        keras.utils.set_random_seed(0)
        model = kt.tasks.TextClassifier(encoder(dropout=0.0), preprocessor(), num_classes=2, dropout=0.0)
        model.compile(make(model), metrics=[])
        model.fit(TEXTS, [0, 1, 0, 1], verbose=0)
        save(model, f"optimizer_{name}")
        model.fit(TEXTS, [0, 1, 0, 1], verbose=0, shuffle=False)
        answers[f"optimizer_{name}"] = logits(model)
    keras.utils.set_random_seed(0)
    model = text_classifier()
    kt.serving.export(model, FOLDER / "served")
    shutil.make_archive(FOLDER / "served", "zip", FOLDER / "served")
    shutil.rmtree(FOLDER / "served")
    answers["served"] = model.predict_proba(TEXTS)
    np.savez_compressed(FOLDER / "answers.npz", **answers)


if __name__ == "__main__":
    main()

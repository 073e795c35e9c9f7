"""Time of exported classifiers without half of their heads and neurons, beside the whole one.

    pip install -e .[litert,benchmarks]
    python -m benchmarks.fine_tuning.pruning --data-dir DIR --results pruning --seeds 1 --exports made
    python -m benchmarks.inference.pruned_exports --exports made/trec6

All contenders compute logits of the same 1 and 32 packaged questions, padded to the longest, in one thread. `whole` and
`pruned` are SavedModels that accept ids. `small` is the pruned model with the vocabulary of the dataset, for LiteRT in
8 bits.
"""

import pathlib

import numpy as np

from benchmarks import harness

SIZES = (1, 32)


def savedmodel(name):
    def contender(exports):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        import tensorflow_text  # noqa: F401

        import keras_transfer as kt

        served = tf.saved_model.load(f"{exports}/{name}")
        preprocessor = kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2).preprocessor

        def encode(texts):
            ids = preprocessor(texts)
            longest = int(np.sum(ids["padding_mask"], axis=1).max())
            return {name: values[:, :longest] for name, values in ids.items()}

        return by_size(encode, lambda ids: served.signatures["tokens"](**ids), tf.constant)

    return contender


def small(exports):
    import tokenizers

    from keras_transfer.serving.exported import FORMATS

    folder = pathlib.Path(exports, "small")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()

    def encode(texts):
        rows = tokenizer.encode_batch(texts)
        ids = {"token_ids": [row.ids for row in rows], "segment_ids": [row.type_ids for row in rows]}
        return {**ids, "padding_mask": [row.attention_mask for row in rows]}

    return by_size(encode, FORMATS["litert"].open_model(folder, 1))


def by_size(encode, compute, convert=np.asarray):
    """Returns the measures of a contender: `compute` of the ids of 1 and 32 texts."""
    from keras_transfer.datasets import load_demo_questions

    measures = {}
    for size in SIZES:
        ids = encode(load_demo_questions().train.texts[:size])
        prepared = {name: convert(np.asarray(values, "int32")) for name, values in ids.items()}
        measures[f"{size} text{'s' * (size > 1)}"] = lambda prepared=prepared: compute(prepared)
    return measures


CONTENDERS = {"whole": savedmodel("whole"), "pruned": savedmodel("pruned"), "small": small}
OPTIONS = {
    "exports": {"required": True, "help": "folder of a dataset that `benchmarks.fine_tuning.pruning` has written"}
}

if __name__ == "__main__":
    harness.main(__doc__, CONTENDERS, options=OPTIONS)

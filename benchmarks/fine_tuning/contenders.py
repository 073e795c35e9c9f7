"""The contenders that classify texts, rate them or tag their words, fine-tuned on one dataset in one precision.

Each returns three functions: its test accuracy, the padded tokens of an epoch, and what it predicts for texts.
"""

from benchmarks.fine_tuning.training import BATCH, fit, keras_callback, keras_optimizer, torch_outputs, train_rows


def keras_transfer(data, folder, epochs, seed, clock, precision="float32"):
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(seed)
    options = {"sequence_length": data.length, "encoder": {"dtype": precision}}
    if data.words:
        model = kt.tasks.TokenClassifier.from_pretrained(folder, label_names=data.names, **options)
    else:
        task, head = kt.tasks.TextClassifier, {"num_classes": len(data.names)}
        if not data.names:
            task, head = kt.tasks.TextRegressor, {"num_targets": 1}
        model = task.from_pretrained(folder, **head, **options, pooling="pooled")

    def make_batches():
        if data.words:
            return kt.text.word_batches(
                *data.train, preprocessor=model.preprocessor, batch_size=BATCH, seed=seed, label_names=data.names
            )
        return kt.text.batches(*data.train, preprocessor=model.preprocessor, batch_size=BATCH, seed=seed)

    train = fit(model, make_batches, data, epochs, clock)
    return (
        lambda: model.evaluate(*data.test, batch_size=BATCH, verbose=0, return_dict=True)["accuracy"],
        lambda: sum(train[i][0]["padding_mask"].size for i in range(len(train))),
        lambda texts: model.predict(texts, verbose=0),
    )


def keras_hub(data, folder, epochs, seed, clock, precision="float32"):
    """KerasHub's plain recipe: `from_preset`, then `fit` and `evaluate` on strings, at one length."""
    import keras
    import numpy as np
    from keras_hub.models import BertTextClassifier, BertTextClassifierPreprocessor

    def columns(texts):
        return tuple(map(np.array, texts)) if isinstance(texts, tuple) else np.array(texts)

    keras.utils.set_random_seed(seed)
    preprocessor = BertTextClassifierPreprocessor.from_preset(folder, sequence_length=data.length)
    options = {"num_classes": len(data.names), "preprocessor": preprocessor, "dtype": precision}
    model = BertTextClassifier.from_preset(folder, **options)
    (texts, labels), (test_texts, test_labels) = data.train, data.test
    steps = -(-len(labels) // BATCH)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    metric = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    clock.begin_training()
    model.compile(keras_optimizer(keras.optimizers.AdamW, data, epochs * steps), loss=loss, metrics=[metric])
    model.fit(
        columns(texts),
        np.array(labels),
        batch_size=BATCH,
        epochs=epochs,
        verbose=0,
        callbacks=[keras_callback(clock)],
    )
    clock.end_training()
    test = columns(test_texts), np.array(test_labels)
    return (
        lambda: model.evaluate(*test, batch_size=BATCH, verbose=0, return_dict=True)["accuracy"],
        lambda: len(labels) * data.length,
        lambda texts: model.predict(columns(texts), batch_size=BATCH, verbose=0),
    )


def transformers(data, folder, epochs, seed, clock, precision="float32"):
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
    )

    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model_class = AutoModelForTokenClassification if data.words else AutoModelForSequenceClassification
    model = model_class.from_pretrained(folder, num_labels=len(data.names) or 1)  # one number: regression
    if precision != "float32":
        model.forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    collate = (DataCollatorForTokenClassification if data.words else DataCollatorWithPadding)(tokenizer)

    def encode(texts, labels=None):
        """Returns a dict for each text, and for words the position of each word's first token."""
        columns = texts if isinstance(texts, tuple) else (texts,)
        encoded = tokenizer(*columns, truncation=True, max_length=data.length, is_split_into_words=data.words)
        rows = [dict(zip(encoded, values)) for values in zip(*encoded.values())]
        first = None
        if data.words:
            ids = [encoded.word_ids(row) for row in range(len(rows))]
            first = [[at for at, word in enumerate(row) if word is not None and word != row[at - 1]] for row in ids]
        for index, row in enumerate(rows if labels is not None else ()):
            if data.words:
                row["labels"] = [-100] * len(row["input_ids"])
                for at, label in zip(first[index], labels[index]):
                    row["labels"][at] = label
            else:
                row["labels"] = labels[index]
        return rows, first

    def predict(texts):
        """Returns the logits of each text, or the logits of each word of each text."""
        rows, first = encode(texts)
        found = [logits for (logits,) in torch_outputs(model, tokenizer, rows)]
        return found if first is None else [logits[at] for logits, at in zip(found, first)]

    def accuracy():
        texts, labels = data.test
        right = total = 0
        for logits, label in zip(predict(texts), labels):
            best, label = (logits.argmax(-1).tolist(), label) if data.words else ([logits.argmax(-1)], [label])
            right += sum(one == other for one, other in zip(best, label))
            total += len(label)  # Words beyond the truncation have no prediction, and count as wrong.
        return float(right / total)

    padded = train_rows(model, collate, lambda: encode(*data.train)[0], data, epochs, seed, clock)
    return accuracy, lambda: padded / epochs, predict


CONTENDERS = {"keras_transfer": keras_transfer, "transformers": transformers, "keras_hub": keras_hub}

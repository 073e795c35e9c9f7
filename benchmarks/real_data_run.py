"""One run of `real_data.py` in a process of its own: fine-tunes one model on one dataset, and prints what it took."""

import time

START = time.perf_counter()  # before any library is imported
# ruff: noqa: E402

import json
import os
import pathlib
import random
import resource
import statistics
import sys
from typing import NamedTuple

BATCH, PREDICTED = 32, 1024
LENGTHS = {"rte": 256}  # Where texts are truncated; 128 in the other datasets.
RATES = {"ewt": 2e-4}  # Peak learning rates; 1e-4 in the other datasets.
DECAY, CLIP = 0.01, 1.0


class Data(NamedTuple):
    """A dataset: columns of texts or of lists of words, labels as integers or lists of integers, and label names."""

    train: tuple
    test: tuple
    names: list
    length: int
    rate: float
    words: bool


class Clock:
    """Records when steps and epochs end, in seconds since the start of the process."""

    def __init__(self):
        self.epochs = []  # for each, its begin and the ends of its steps

    def begin_epoch(self):
        self.epochs.append([time.perf_counter() - START])

    def end_step(self):
        self.epochs[-1].append(time.perf_counter() - START)

    def steady_epoch(self):
        """Returns the seconds of the last epoch, or of the first one as if its first step took as long as others."""
        last = self.epochs[-1]
        if len(self.epochs) > 1 or len(last) < 3:
            return last[-1] - last[0]
        return (last[-1] - last[1]) * (len(last) - 1) / (len(last) - 2)


# === Data ===


def read(name, folder, examples=None):
    """Returns a dataset; with `examples`, so many texts of each part."""
    folder = pathlib.Path(folder)
    columns = {"trec6": trec6, "sst2": sst2, "rte": rte, "ewt": ewt}[name](folder)
    if name in ("sst2", "ewt"):  # as if there were only 2,000 texts to train on
        columns[0] = sample(columns[0], 2000)
    if examples:
        columns = [sample(part, examples) for part in columns]
    names = sorted({label for part in columns for labels in part[-1] for label in flat(labels)})
    parts = [to_ids(part, {label: index for index, label in enumerate(names)}) for part in columns]
    return Data(*parts, names, LENGTHS.get(name, 128), RATES.get(name, 1e-4), name == "ewt")


def flat(labels):
    return [labels] if isinstance(labels, str) else labels


def sample(columns, count):
    """Returns `count` rows, always the same, of columns."""
    rows = random.Random(0).sample(range(len(columns[-1])), min(count, len(columns[-1])))
    return [[column[row] for row in rows] for column in columns]


def to_ids(columns, ids):
    """Returns `(texts, labels)` with labels as integers; texts are a tuple of two columns if they are pairs."""
    *texts, labels = columns
    labels = [ids[label] if isinstance(label, str) else [ids[tag] for tag in label] for label in labels]
    return texts[0] if len(texts) == 1 else tuple(texts), labels


def trec6(folder):
    parts = []
    for name in ("train_5500.label", "TREC_10.label"):
        lines = (folder / "trec6" / name).read_text("iso-8859-1").splitlines()
        parts.append([[line.split(" ", 1)[1] for line in lines], [line.split(":", 1)[0] for line in lines]])
    return parts


def table(path):
    """Returns the rows of a file of GLUE, without its head."""
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]


def sst2(folder):
    parts = [table(folder / "glue" / "SST-2" / f"{name}.tsv") for name in ("train", "dev")]
    return [[list(column) for column in zip(*rows)] for rows in parts]


def rte(folder):
    parts = [table(folder / "glue" / "RTE" / f"{name}.tsv") for name in ("train", "dev")]
    return [[list(column) for column in list(zip(*rows))[1:]] for rows in parts]


def ewt(folder):
    parts = []
    for name in ("train", "test"):
        text = (folder / "ud_english_ewt" / f"en_ewt-ud-{name}.conllu").read_text("utf-8")
        sentences = [
            [line.split("\t") for line in block.split("\n") if line[:1] != "#"] for block in text.split("\n\n")
        ]
        sentences = [[row for row in rows if row[0].isdigit()] for rows in sentences]  # no ranges and no empty nodes
        sentences = [rows for rows in sentences if rows]
        parts.append([[[row[column] for row in rows] for rows in sentences] for column in (1, 3)])
    return parts


# === Contenders: each returns its test accuracy, the padded tokens of an epoch, and a function that predicts ===


def keras_transfer(data, folder, epochs, seed, clock):
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(seed)
    if data.words:
        model = kt.tasks.TokenClassifier.from_pretrained(folder, label_names=data.names, sequence_length=data.length)
        train = kt.text.word_batches(*data.train, model.preprocessor, BATCH, seed=seed, label_names=data.names)
    else:
        model = kt.tasks.TextClassifier.from_pretrained(
            folder, num_classes=len(data.names), sequence_length=data.length, pooling="pooled"
        )
        train = kt.text.batches(*data.train, model.preprocessor, BATCH, seed=seed)
    model.compile(keras_optimizer(data, epochs * len(train)))
    model.fit(train, epochs=epochs, verbose=0, callbacks=[keras_callback(clock)])
    accuracy = model.evaluate(*data.test, batch_size=BATCH, verbose=0, return_dict=True)["accuracy"]

    def padded_tokens():
        return sum(train[i][0]["padding_mask"].size for i in range(len(train)))

    return accuracy, padded_tokens, lambda texts: model.predict(texts, batch_size=BATCH, verbose=0)


def keras_hub(data, folder, epochs, seed, clock):
    """KerasHub's plain recipe: `from_preset`, then `fit` and `evaluate` on strings, at one length."""
    import keras
    import numpy as np
    from keras_hub.models import BertTextClassifier, BertTextClassifierPreprocessor

    def columns(texts):
        return tuple(map(np.array, texts)) if isinstance(texts, tuple) else np.array(texts)

    keras.utils.set_random_seed(seed)
    preprocessor = BertTextClassifierPreprocessor.from_preset(folder, sequence_length=data.length)
    model = BertTextClassifier.from_preset(folder, num_classes=len(data.names), preprocessor=preprocessor)
    (texts, labels), (test_texts, test_labels) = data.train, data.test
    steps = -(-len(labels) // BATCH)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    metric = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    model.compile(keras_optimizer(data, epochs * steps), loss=loss, metrics=[metric])
    model.fit(
        columns(texts),
        np.array(labels),
        batch_size=BATCH,
        epochs=epochs,
        verbose=0,
        callbacks=[keras_callback(clock)],
    )
    scores = model.evaluate(columns(test_texts), np.array(test_labels), batch_size=BATCH, verbose=0, return_dict=True)
    return (
        scores["accuracy"],
        lambda: len(labels) * data.length,
        lambda texts: model.predict(columns(texts), batch_size=BATCH, verbose=0),
    )


def keras_optimizer(data, steps):
    import keras

    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps - steps // 10, warmup_target=data.rate, warmup_steps=steps // 10
    )
    optimizer = keras.optimizers.AdamW(rate, weight_decay=DECAY, global_clipnorm=CLIP)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def keras_callback(clock):
    import keras

    return keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: clock.begin_epoch(),
        on_train_batch_end=lambda batch, logs: clock.end_step(),
    )


def transformers(data, folder, epochs, seed, clock):
    """What `Trainer` with `train_sampling_strategy="group_by_length"` does, without its logging."""
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        get_cosine_schedule_with_warmup,
    )
    from transformers.trainer_pt_utils import LengthGroupedSampler

    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model_class = AutoModelForTokenClassification if data.words else AutoModelForSequenceClassification
    model = model_class.from_pretrained(folder, num_labels=len(data.names))
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
        order = sorted(range(len(rows)), key=lambda row: -len(rows[row]["input_ids"]))
        found = [None] * len(rows)
        model.eval()
        with torch.inference_mode():
            for start in range(0, len(order), BATCH):
                part = order[start : start + BATCH]
                inputs = tokenizer.pad([rows[row] for row in part], return_tensors="pt")
                for row, logits in zip(part, model(**inputs).logits.numpy()):
                    found[row] = logits if first is None else logits[first[row]]
        return found

    rows, _ = encode(*data.train)
    decayed = {"params": [weight for weight in model.parameters() if weight.ndim > 1], "weight_decay": DECAY}
    others = {"params": [weight for weight in model.parameters() if weight.ndim == 1], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([decayed, others], lr=data.rate, eps=1e-7, fused=True)
    steps = epochs * -(-len(rows) // BATCH)
    schedule = get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)
    generator = torch.Generator().manual_seed(seed)
    sampler = LengthGroupedSampler(BATCH, lengths=[len(row["input_ids"]) for row in rows], generator=generator)
    padded = 0
    model.train()
    for _ in range(epochs):
        clock.begin_epoch()
        order = list(sampler)
        for start in range(0, len(order), BATCH):
            inputs = collate([rows[row] for row in order[start : start + BATCH]])
            padded += inputs["input_ids"].numel()
            model(**inputs).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            clock.end_step()
    texts, labels = data.test
    right = total = 0
    for logits, label in zip(predict(texts), labels):
        best, label = (logits.argmax(-1).tolist(), label) if data.words else ([logits.argmax(-1)], [label])
        right += sum(one == other for one, other in zip(best, label))
        total += len(label)  # Words behind the truncation have no prediction, and count as wrong.
    return float(right / total), lambda: padded / epochs, predict


CONTENDERS = {"keras_transfer": keras_transfer, "transformers": transformers, "keras_hub": keras_hub}


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `dataset`, `contender`, `epochs`, `round` (the seed), `threads`, `examples`, `data_dir` and
            `folder`, the checkpoint's.
    """
    if run["threads"]:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: run["threads"]])
    data, clock = read(run["dataset"], run["data_dir"], run["examples"]), Clock()
    contender = CONTENDERS[run["contender"]]
    accuracy, padded_tokens, predict = contender(data, run["folder"], run["epochs"], run["round"], clock)
    figures = {
        "wall": time.perf_counter() - START,
        "cpu": time.process_time(),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "first_step": clock.epochs[0][1],
        "first_step_of_fit": clock.epochs[0][1] - clock.epochs[0][0],
        "steady_epoch": clock.steady_epoch(),
        "accuracy": accuracy,
        "padded": padded_tokens(),
    }
    texts = data.train[0]
    texts = tuple(column[:PREDICTED] for column in texts) if isinstance(texts, tuple) else texts[:PREDICTED]
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        predict(texts)
        times.append(time.perf_counter() - begin)
    return {**figures, "prediction": statistics.median(times[1:])}


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr  # keeps the output of libraries out of the answer
    print(json.dumps(main(json.loads(sys.argv[1]))), file=answers)

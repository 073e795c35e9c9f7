"""One run of `real_data.py` in a process of its own: fine-tunes one model on one dataset, and prints its cost."""

import time

START = time.perf_counter()  # before any library is imported
# ruff: noqa: E402

import itertools
import json
import os
import resource
import statistics
import sys

from benchmarks.fine_tuning import real_texts

BATCH, PREDICTED = 32, 1024
SIZES = {"sst2": 2000, "ewt": 2000}  # Where only some of the training data are used.
DECAY, CLIP = 0.01, 1.0


class Clock:
    """Records when steps and epochs end, in seconds since the start of the process, and what training takes.

    Training begins with the texts, when the model exists, and ends with the last step.
    """

    def __init__(self):
        self.epochs = []  # for each, its begin and the ends of its steps
        self.training = None  # seconds of wall and of CPU time

    def begin_training(self):
        self._began = time.perf_counter(), time.process_time()

    def end_training(self):
        wall, cpu = self._began
        self.training = time.perf_counter() - wall, time.process_time() - cpu

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


# === Contenders: each returns functions: its test accuracy, the padded tokens of an epoch, and what it predicts ===


def keras_transfer(data, folder, epochs, seed, clock):
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(seed)
    if data.words:
        model = kt.tasks.TokenClassifier.from_pretrained(folder, label_names=data.names, sequence_length=data.length)
    else:
        task, head = kt.tasks.TextClassifier, {"num_classes": len(data.names)}
        if not data.names:
            task, head = kt.tasks.TextRegressor, {"num_targets": 1}
        model = task.from_pretrained(folder, **head, sequence_length=data.length, pooling="pooled")

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
        lambda texts: model.predict(texts, batch_size=BATCH, verbose=0),
    )


def fit(model, make_batches, data, epochs, clock, loss="auto", make_epochs=None):
    """Trains a task of keras_transfer, and returns its batches.

    Args:
        model: Task.
        make_batches: Function that returns `Batches`.
        data: `real_texts.Data`.
        epochs: Integer.
        clock: `Clock`.
        loss: Loss of the task. Defaults to `"auto"`.
        make_epochs: Function that returns what `length_grouped` yields, given the batches. Defaults to `None`, for the
            order of the batches themselves.
    """
    import keras
    import numpy as np

    import keras_transfer as kt

    clock.begin_training()
    train = make_batches()
    kind = getattr(kt.adaptation, "FusedAdamW", keras.optimizers.AdamW)  # An older checkout lacks it.
    model.compile(keras_optimizer(kind, data, epochs * len(train)), loss=loss)
    options = {"verbose": 0, "callbacks": [keras_callback(clock)]}
    if make_epochs is None:
        model.fit(train, epochs=epochs, **options)
    else:
        for epoch, batches in enumerate(itertools.islice(make_epochs(train), epochs)):
            chosen = [(int(train.real[rows].max()), np.array(rows)) for rows in batches]
            model.fit(train.pinned(chosen), initial_epoch=epoch, epochs=epoch + 1, **options)
    clock.end_training()
    return train


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
    model.compile(keras_optimizer(keras.optimizers.AdamW, data, epochs * steps), loss=loss, metrics=[metric])
    model.fit(
        columns(texts),
        np.array(labels),
        batch_size=BATCH,
        epochs=epochs,
        verbose=0,
        callbacks=[keras_callback(clock)],
    )
    test = columns(test_texts), np.array(test_labels)
    return (
        lambda: model.evaluate(*test, batch_size=BATCH, verbose=0, return_dict=True)["accuracy"],
        lambda: len(labels) * data.length,
        lambda texts: model.predict(columns(texts), batch_size=BATCH, verbose=0),
    )


def keras_optimizer(kind, data, steps):
    import keras

    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps - steps // 10, warmup_target=data.rate, warmup_steps=steps // 10
    )
    optimizer = kind(rate, weight_decay=DECAY, global_clipnorm=CLIP)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def keras_callback(clock):
    import keras

    return keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: clock.begin_epoch(),
        on_train_batch_end=lambda batch, logs: clock.end_step(),
    )


def transformers(data, folder, epochs, seed, clock):
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


def torch_outputs(model, tokenizer, rows):
    """Returns a list of a model's outputs as arrays for each row of the tokenizer's inputs."""
    import torch

    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]["input_ids"]))
    found = [None] * len(rows)
    model.eval()
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            inputs = tokenizer.pad([rows[row] for row in part], return_tensors="pt")
            for row, *outputs in zip(part, *(values.numpy() for values in model(**inputs).to_tuple())):
                found[row] = outputs
    return found


def train_rows(model, collate, encode, data, epochs, seed, clock):
    """Trains a model of Transformers on the rows that `encode` returns, and returns the number of padded tokens."""
    padded = 0

    def prepare():
        rows = encode()

        def loss_of(batch):
            nonlocal padded
            inputs = collate([rows[row] for row in batch])
            padded += inputs["input_ids"].numel()
            return model(**inputs).loss

        return loss_of, [len(row["input_ids"]) for row in rows]

    train_torch(model, prepare, data, epochs, seed, clock)
    return padded


def train_torch(model, prepare, data, epochs, seed, clock):
    """Trains like `Trainer` with `train_sampling_strategy="group_by_length"`, but without its logging.

    Args:
        model: torch module.
        prepare: Function that returns a function, from a list of indices of rows to their loss, and the lengths of all
            rows, by which they are grouped.
        data: `real_texts.Data`.
        epochs: Integer.
        seed: Integer.
        clock: `Clock`.
    """
    import torch
    from transformers import get_cosine_schedule_with_warmup

    clock.begin_training()
    loss_of, lengths = prepare()
    decayed = {"params": [weight for weight in model.parameters() if weight.ndim > 1], "weight_decay": DECAY}
    others = {"params": [weight for weight in model.parameters() if weight.ndim == 1], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([decayed, others], lr=data.rate, eps=1e-7, fused=True)
    steps = epochs * -(-len(lengths) // BATCH)
    schedule = get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)
    model.train()
    grouped = length_grouped(lengths, seed)
    for _ in range(epochs):
        clock.begin_epoch()
        for rows in next(grouped):
            loss_of(rows).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            clock.end_step()
    clock.end_training()


def length_grouped(lengths, seed):
    """Yields a list for each epoch: the rows of each batch, in the order of `Trainer` when it groups by length.

    Args:
        lengths: List of integers. Length of each row.
        seed: Integer.
    """
    import torch
    from transformers.trainer_pt_utils import LengthGroupedSampler

    sampler = LengthGroupedSampler(BATCH, lengths=lengths, generator=torch.Generator().manual_seed(seed))
    while True:
        order = list(sampler)
        yield [order[start : start + BATCH] for start in range(0, len(order), BATCH)]


CONTENDERS = {"keras_transfer": keras_transfer, "transformers": transformers, "keras_hub": keras_hub}


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `dataset`, `contender`, `epochs`, `round` (the seed), `threads`, `examples`, `data_dir` and
            `folder`, the checkpoint's.
    """
    limit_threads(run["threads"])
    data, clock = real_texts.read(run["dataset"], run["data_dir"], run["examples"], SIZES), Clock()
    contender = CONTENDERS[run["contender"]]
    test_accuracy, padded_tokens, predict = contender(data, run["folder"], run["epochs"], run["round"], clock)
    accuracy = test_accuracy()
    figures = {
        **usage(),
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


def limit_threads(count):
    """Limits the process to `count` cores. `None` means all cores."""
    if count:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def usage():
    """Returns the cost of the process so far: seconds of wall and of CPU time, and its peak memory in MB."""
    return {
        "wall": time.perf_counter() - START,
        "cpu": time.process_time(),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def answer(main):
    """Does the run that the command line names, and prints its figures, and what it ran on."""
    answers, sys.stdout = sys.stdout, sys.stderr  # keeps the output of libraries out of the answer
    figures = main(json.loads(sys.argv[1]))
    from benchmarks import harness

    print(json.dumps({**figures, "machine": harness.machine()}), file=answers)


if __name__ == "__main__":
    answer(main)

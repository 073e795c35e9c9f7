"""How all contenders train: with the same hyper-parameters and clock, tasks of Keras and modules of torch."""

import functools
import itertools

from benchmarks.torch_steps import adamw_step

BATCH = 32
DECAY, CLIP = 0.01, 1.0

# === Keras ===


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
    import numpy as np

    import keras_transfer as kt

    clock.begin_training()
    train = make_batches()
    model.compile(keras_optimizer(kt.optimizers.FusedAdamW, data, epochs * len(train)), loss=loss)
    options = {"verbose": 0, "callbacks": [keras_callback(clock)]}
    if make_epochs is None:
        model.fit(train, epochs=epochs, **options)
    else:
        for epoch, batches in enumerate(itertools.islice(make_epochs(train), epochs)):
            chosen = [(int(train.real[rows].max()), np.array(rows)) for rows in batches]
            model.fit(train.pinned(chosen), initial_epoch=epoch, epochs=epoch + 1, **options)
    clock.end_training()
    return train


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


# === torch ===


def torch_outputs(model, tokenizer, rows):
    """Returns a list of a model's outputs as arrays for each row of the tokenizer's inputs."""
    import torch

    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]["input_ids"]))
    found = [None] * len(rows)
    model.eval()
    with torch.inference_mode():
        while order:
            # As few tokens as in `predict` of keras_transfer on a CPU.
            size = max(4, 1024 // len(rows[order[0]]["input_ids"]))
            part, order = order[:size], order[size:]
            inputs = tokenizer.pad([rows[row] for row in part], return_tensors="pt")
            for row, *outputs in zip(part, *(values.float().numpy() for values in model(**inputs).to_tuple())):
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
    from transformers import get_cosine_schedule_with_warmup

    clock.begin_training()
    loss_of, lengths = prepare()
    steps = epochs * -(-len(lengths) // BATCH)
    warmup = {"num_warmup_steps": steps // 10, "num_training_steps": steps}
    schedule = functools.partial(get_cosine_schedule_with_warmup, **warmup)
    step = adamw_step(model, data.rate, schedule, decay=DECAY, clip=CLIP, fused=True)
    model.train()
    grouped = length_grouped(lengths, seed)
    for _ in range(epochs):
        clock.begin_epoch()
        for rows in next(grouped):
            step(loss_of(rows))
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

"""Pairs of sentences as ids: their preparation, their batches, and a `Seq2SeqLM` that trains on them."""

import contextlib
import multiprocessing
import pathlib
import tempfile

import numpy as np

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
PADDING, START, END = 0, 2, 3


@contextlib.contextmanager
def prepared(run, prepare):
    """Yields the folder of a run's data, which `prepare(run, folder)` has filled: `run["prepared"]` or a temporary one.

    To prepare the data takes TensorFlow. To train on prepared data does not.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(run["prepared"] or name)
        if not (folder / "data.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            apart(prepare, run, folder)
        yield folder


def apart(function, *arguments):
    """Calls a function in a process of its own, because torch is slow beside TensorFlow in one process."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function.__name__} stopped with exit status {process.exitcode}; see above")


def batches(sources, targets, epochs, seed, multiple, size):
    """Yields the batches of all epochs as arrays: ids of sources, ids of the decoder, targets and weights.

    Pairs of similar length are in one batch, and the batches of an epoch are in random order.
    """
    random = np.random.default_rng(seed)
    lengths = np.array([[len(source), len(target)] for source, target in zip(sources, targets)])
    for _ in range(epochs):
        order = random.permutation(len(sources))
        order = order[np.lexsort((lengths[order, 1] // 2, lengths[order, 0] // 2))]
        starts = np.arange(0, len(order), size)
        for start in random.permutation(starts):
            rows = order[start : start + size]
            written = padded([targets[row] for row in rows], multiple)
            before = np.concatenate([np.full((len(rows), 1), START), written[:, :-1]], axis=1).astype("int32")
            weights = (written != PADDING).astype("float32")
            yield padded([sources[row] for row in rows], multiple), before, written, weights


def padded(rows, multiple):
    longest = -(-max(map(len, rows)) // multiple) * multiple
    return np.array([row + [PADDING] * (longest - len(row)) for row in rows], "int32")


def train(model, data):
    """Returns the loss of each training step of a compiled `Seq2SeqLM`, one for each batch that `batches` has."""
    return [model.train_on_batch(*given(model, *batch), return_dict=True)["loss"] for batch in data]


def given(model, sources, before, written, weights):
    """Returns what a `Seq2SeqLM` takes for a batch: inputs, targets and weights."""
    x = {"token_ids": sources, "padding_mask": (sources != PADDING).astype("int32")}
    x |= {"decoder_token_ids": before, "decoder_padding_mask": np.ones_like(before)}
    x |= {"segment_ids": np.zeros_like(sources)}
    return {tensor.name: x[tensor.name] for tensor in model.inputs}, written, weights


def written_texts(rows, pieces):
    """Returns the texts of rows of token ids."""
    rows = [[token for token in row if token not in (PADDING, START, END)] for row in rows]
    texts = ["".join(pieces[token] for token in row).replace("\N{LOWER ONE EIGHTH BLOCK}", " ") for row in rows]
    return [text.strip() for text in texts]

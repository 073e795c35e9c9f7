"""One run of `translation.py` in a process of its own: trains a small Transformer, and prints its BLEU and times."""

from benchmarks.fine_tuning import real_data_run  # first, since it records when the process starts

# ruff: isort: split

import contextlib
import json
import math
import multiprocessing
import pathlib
import tempfile
import time

import numpy as np
import sacrebleu

BATCH = 64
RATE, WARM_UP, CLIP, DECAY, SMOOTHING = 1e-3, 400, 1.0, 0.01, 0.1
BETA_2, EPSILON = 0.98, 1e-7
NEW_TOKENS = 50
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


def prepare(run, folder):
    """Writes the ids of the data and the pieces of the tokenizer into a folder."""
    import keras_transfer as kt

    data = kt.datasets.load_multi30k(run["data_dir"])
    train, test = data.train, data["test_2016_flickr"]
    texts = [*train.sources, *train.targets]
    tokenizer = kt.text.train_vocabulary(
        texts, "unigram", run["vocabulary_size"], special_tokens=SPECIAL, lowercase=False
    )
    columns = {"sources": train.sources, "targets": train.targets, "test": test.sources}
    ids = {name: [[*row, END] for row in tokenizer.tokenize(list(texts)).to_list()] for name, texts in columns.items()}
    found = {**ids, "references": list(test.targets), "pieces": list(tokenizer.vocabulary)}
    (folder / "data.json").write_text(json.dumps(found), "utf-8")


def build(run, folder, vocabulary_size):
    """Writes a model with random weights into a folder."""
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(run["seed"])
    encoder = kt.encoders.Bart(
        vocabulary_size,
        num_layers=run["num_layers"],
        num_heads=run["hidden_dim"] // 64 or 1,
        hidden_dim=run["hidden_dim"],
        intermediate_dim=4 * run["hidden_dim"],
        max_sequence_length=128,
        dropout=run["dropout"],
    )
    kt.tasks.Seq2SeqLM(encoder, start_token=START).save_pretrained(folder)


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


def rate(step, steps):
    """Returns the learning rate of a step: a warm-up, then a linear decay to 0."""
    return RATE * min((step + 1) / WARM_UP, max(0.0, (steps - step) / max(1, steps - WARM_UP)))


def keras_transfer(folder, data, steps, run):
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(run["seed"])
    model = kt.tasks.Seq2SeqLM.from_pretrained(str(folder), preprocessor=None)

    rates = np.array([rate(step, steps) for step in range(steps)], "float32")

    class Rate(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return keras.ops.take(rates, step)

        def get_config(self):
            return {}

    optimizer = kt.adaptation.FusedAdamW(
        Rate(), beta_2=BETA_2, epsilon=EPSILON, weight_decay=DECAY, global_clipnorm=CLIP
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, loss=kt.losses.SmoothedCrossentropy(SMOOTHING, reduction="mean_with_sample_weight"))
    losses = train(model, data)
    settings = {"max_new_tokens": NEW_TOKENS, "end_token": END, "num_beams": run["num_beams"]}
    return losses, lambda rows: model.generate(rows, batch_size=BATCH, **settings)


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


def transformers(folder, data, steps, run):
    import torch
    from transformers import BartForConditionalGeneration

    model = BartForConditionalGeneration.from_pretrained(folder, attn_implementation="sdpa")
    torch.manual_seed(run["seed"])
    model.train()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    decayed = {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": DECAY}
    others = {"params": [weight for weight in weights if weight.ndim == 1], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([decayed, others], lr=RATE, betas=(0.9, BETA_2), eps=EPSILON, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, steps) / RATE)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=SMOOTHING)
    losses = []
    for sources, before, written, _ in data:
        sources, before, written = (torch.from_numpy(values).long() for values in (sources, before, written))
        mask = (sources != PADDING).long()
        logits = model(input_ids=sources, attention_mask=mask, decoder_input_ids=before).logits
        loss = criterion(logits.flatten(0, 1), written.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())

    @torch.inference_mode()
    def generate(rows):
        model.eval()
        order, found = sorted(range(len(rows)), key=lambda row: len(rows[row])), {}
        settings = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "num_beams": run["num_beams"]}
        settings |= {"pad_token_id": PADDING, "decoder_start_token_id": START, "eos_token_id": END}
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            ids = torch.from_numpy(padded([rows[row] for row in part], 8)).long()
            written = model.generate(
                input_ids=ids,
                attention_mask=(ids != PADDING).long(),
                forced_bos_token_id=None,
                forced_eos_token_id=None,
                **settings,
            )
            found |= dict(zip(part, written[:, 1:].tolist()))
        return [found[row] for row in range(len(rows))]

    return losses, generate


CONTENDERS = {"keras_transfer": keras_transfer, "transformers": transformers}


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `contender`, `seed`, `threads`, `examples`, `data_dir`, `prepared` and the keys of
            `translation.SIZES`.
    """
    real_data_run.limit_threads(run["threads"])
    with prepared(run, prepare) as folder, tempfile.TemporaryDirectory() as made:
        data = json.loads((folder / "data.json").read_text("utf-8"))
        model = pathlib.Path(made) / "model"
        apart(build, run, model, len(data["pieces"]))
        rows, tested = (run["examples"] or run["pairs"]), run["examples"]
        columns = data["sources"][:rows], data["targets"][:rows]
        steps = run["epochs"] * math.ceil(len(columns[0]) / run["batch_size"])
        batched = batches(*columns, run["epochs"], run["seed"], run["length_multiple"], run["batch_size"])
        began = time.perf_counter(), time.process_time()
        losses, generate = CONTENDERS[run["contender"]](model, batched, steps, run)
        trained = time.perf_counter(), time.process_time()
        found = generate(data["test"][:tested])
    written = time.perf_counter(), time.process_time()
    texts = written_texts(found, data["pieces"])
    return {
        "bleu": sacrebleu.corpus_bleu(texts, [data["references"][:tested]]).score,
        "losses": [round(float(np.mean(part)), 4) for part in np.array_split(losses, 10)],
        "training": [round(after - before, 1) for before, after in zip(began, trained)],
        "generation": [round(after - before, 1) for before, after in zip(trained, written)],
        "example": texts[0],
        "steps": steps,
        **real_data_run.usage(),
    }


if __name__ == "__main__":
    real_data_run.answer(main)

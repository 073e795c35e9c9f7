"""One run of `translation.py` in a process of its own: trains a small Transformer, and prints its BLEU and times."""

from benchmarks import one_run  # first, since it records when the process starts

# ruff: isort: split

import functools
import json
import math
import pathlib
import tempfile
import time

import numpy as np
import sacrebleu

from benchmarks.generation import pairs
from benchmarks.generation.pairs import END, PADDING, SPECIAL, START
from benchmarks.torch_steps import adamw_step

BATCH = 64
RATE, WARM_UP, CLIP, DECAY, SMOOTHING = 1e-3, 400, 1.0, 0.01, 0.1
BETA_2, EPSILON = 0.98, 1e-7
NEW_TOKENS = 50


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

    optimizer = kt.optimizers.FusedAdamW(
        Rate(), beta_2=BETA_2, epsilon=EPSILON, weight_decay=DECAY, global_clipnorm=CLIP
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, loss=kt.losses.SmoothedCrossentropy(SMOOTHING, reduction="mean_with_sample_weight"))
    losses = pairs.train(model, data)
    settings = {"max_new_tokens": NEW_TOKENS, "end_token": END, "num_beams": run["num_beams"]}
    return losses, lambda rows: model.generate(rows, batch_size=BATCH, **settings)


def transformers(folder, data, steps, run):
    import torch
    from transformers import BartForConditionalGeneration

    model = BartForConditionalGeneration.from_pretrained(folder, attn_implementation="sdpa")
    torch.manual_seed(run["seed"])
    model.train()
    options = {"decay": DECAY, "clip": CLIP, "betas": (0.9, BETA_2), "eps": EPSILON, "fused": True}
    schedule = functools.partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda step: rate(step, steps) / RATE)
    step = adamw_step(model, RATE, schedule, **options)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=SMOOTHING)
    losses = []
    for sources, before, written, _ in data:
        sources, before, written = (torch.from_numpy(values).long() for values in (sources, before, written))
        mask = (sources != PADDING).long()
        logits = model(input_ids=sources, attention_mask=mask, decoder_input_ids=before).logits
        loss = criterion(logits.flatten(0, 1), written.flatten())
        step(loss)
        losses.append(loss.item())

    @torch.inference_mode()
    def generate(rows):
        model.eval()
        order, found = sorted(range(len(rows)), key=lambda row: len(rows[row])), {}
        settings = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "num_beams": run["num_beams"]}
        settings |= {"pad_token_id": PADDING, "decoder_start_token_id": START, "eos_token_id": END}
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            ids = torch.from_numpy(pairs.padded([rows[row] for row in part], 8)).long()
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
    one_run.limit_threads(run["threads"])
    with pairs.prepared(run, prepare) as folder, tempfile.TemporaryDirectory() as made:
        data = json.loads((folder / "data.json").read_text("utf-8"))
        model = pathlib.Path(made) / "model"
        pairs.apart(build, run, model, len(data["pieces"]))
        rows, tested = (run["examples"] or run["pairs"]), run["examples"]
        columns = data["sources"][:rows], data["targets"][:rows]
        steps = run["epochs"] * math.ceil(len(columns[0]) / run["batch_size"])
        batched = pairs.batches(*columns, run["epochs"], run["seed"], run["length_multiple"], run["batch_size"])
        began = time.perf_counter(), time.process_time()
        losses, generate = CONTENDERS[run["contender"]](model, batched, steps, run)
        trained = time.perf_counter(), time.process_time()
        found = generate(data["test"][:tested])
    written = time.perf_counter(), time.process_time()
    texts = pairs.written_texts(found, data["pieces"])
    return {
        "bleu": sacrebleu.corpus_bleu(texts, [data["references"][:tested]]).score,
        "losses": [round(float(np.mean(part)), 4) for part in np.array_split(losses, 10)],
        "training": [round(after - before, 1) for before, after in zip(began, trained)],
        "generation": [round(after - before, 1) for before, after in zip(trained, written)],
        "example": texts[0],
        "steps": steps,
        **one_run.usage(),
    }


if __name__ == "__main__":
    one_run.answer(main)

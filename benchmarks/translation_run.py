"""One run of `translation.py` in a process of its own: trains a small Transformer, and prints its BLEU and times."""

import real_data_run  # first, since it records when the process starts

# ruff: isort: split

import json
import math
import multiprocessing
import pathlib
import tempfile
import time

import numpy as np
import sacrebleu

BATCH, MULTIPLE = 64, 8  # Lengths are padded to a multiple, so that our step is compiled for few shapes.
RATE, WARM_UP, CLIP, DECAY, SMOOTHING = 1e-3, 400, 1.0, 0.01, 0.1
BETA_2, EPSILON = 0.98, 1e-7
NEW_TOKENS = 50
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
PADDING, START, END = 0, 2, 3


def prepare(run, folder):
    """Writes the ids of the data, the pieces of the tokenizer and a model with random weights into a folder."""
    import keras

    import keras_transfer as kt

    data = kt.datasets.load_multi30k(run["data_dir"])
    train, test = data.train, data["test_2016_flickr"]
    texts = [*train.sources, *train.targets]
    tokenizer = kt.text.train_vocabulary(
        texts, "unigram", run["vocabulary_size"], special_tokens=SPECIAL, lowercase=False
    )
    rows, tested = (run["examples"] or run["pairs"]), run["examples"]
    columns = {"sources": train.sources[:rows], "targets": train.targets[:rows], "test": test.sources[:tested]}
    ids = {name: [[*row, END] for row in tokenizer.tokenize(list(texts)).to_list()] for name, texts in columns.items()}
    found = {**ids, "references": list(test.targets[:tested]), "pieces": list(tokenizer.vocabulary)}
    (folder / "data.json").write_text(json.dumps(found), "utf-8")
    keras.utils.set_random_seed(run["seed"])
    encoder = kt.encoders.Bart(
        len(tokenizer.vocabulary),
        num_layers=run["num_layers"],
        num_heads=run["hidden_dim"] // 64 or 1,
        hidden_dim=run["hidden_dim"],
        intermediate_dim=4 * run["hidden_dim"],
        max_sequence_length=128,
        dropout=0.1,
    )
    kt.tasks.Seq2SeqLM(encoder, start_token=START).save_pretrained(folder / "model")


def batches(sources, targets, epochs, seed):
    """Yields the batches of all epochs as arrays: ids of sources, ids of the decoder, targets and weights.

    Pairs of similar length are in one batch, and the batches of an epoch are in random order.
    """
    random = np.random.default_rng(seed)
    lengths = np.array([[len(source), len(target)] for source, target in zip(sources, targets)])
    for _ in range(epochs):
        order = random.permutation(len(sources))
        order = order[np.lexsort((lengths[order, 1] // 2, lengths[order, 0] // 2))]
        starts = np.arange(0, len(order), BATCH)
        for start in random.permutation(starts):
            rows = order[start : start + BATCH]
            written = padded([targets[row] for row in rows])
            before = np.concatenate([np.full((len(rows), 1), START), written[:, :-1]], axis=1).astype("int32")
            yield padded([sources[row] for row in rows]), before, written, (written != PADDING).astype("float32")


def padded(rows):
    longest = -(-max(map(len, rows)) // MULTIPLE) * MULTIPLE
    return np.array([row + [PADDING] * (longest - len(row)) for row in rows], "int32")


def rate(step, steps):
    """Returns the learning rate of a step: a warm-up, then a linear decay to 0."""
    return RATE * min((step + 1) / WARM_UP, max(0.0, (steps - step) / max(1, steps - WARM_UP)))


def keras_transfer(folder, data, steps, seed):
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(seed)
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
    losses = []
    for sources, before, written, weights in data:
        x = {"token_ids": sources, "padding_mask": (sources != PADDING).astype("int32")}
        x |= {"decoder_token_ids": before, "decoder_padding_mask": np.ones_like(before)}
        losses.append(model.train_on_batch(x, written, weights, return_dict=True)["loss"])
    return losses, lambda rows: model.generate(rows, max_new_tokens=NEW_TOKENS, end_token=END, batch_size=BATCH)


def transformers(folder, data, steps, seed):
    import torch
    from transformers import BartForConditionalGeneration

    model = BartForConditionalGeneration.from_pretrained(folder, attn_implementation="sdpa")
    torch.manual_seed(seed)
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
        settings = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "num_beams": 1, "eos_token_id": END}
        settings |= {"pad_token_id": PADDING, "decoder_start_token_id": START}
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            ids = torch.from_numpy(padded([rows[row] for row in part])).long()
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
        run: Dict of `contender`, `seed`, `epochs`, `pairs`, `hidden_dim`, `num_layers`, `vocabulary_size`, `threads`,
            `examples` and `data_dir`.
    """
    real_data_run.limit_threads(run["threads"])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # In a process of its own, because torch is slow beside TensorFlow in one process.
        process = multiprocessing.get_context("spawn").Process(target=prepare, args=(run, folder))
        process.start()
        process.join()
        data = json.loads((folder / "data.json").read_text("utf-8"))
        steps = run["epochs"] * math.ceil(len(data["sources"]) / BATCH)
        given = batches(data["sources"], data["targets"], run["epochs"], run["seed"])
        began = time.perf_counter(), time.process_time()
        losses, generate = CONTENDERS[run["contender"]](folder / "model", given, steps, run["seed"])
        trained = time.perf_counter(), time.process_time()
        found = generate(data["test"])
    written = time.perf_counter(), time.process_time()
    rows = [[token for token in row if token not in (PADDING, START, END)] for row in found]
    texts = ["".join(data["pieces"][token] for token in row).replace("\N{LOWER ONE EIGHTH BLOCK}", " ") for row in rows]
    return {
        "bleu": sacrebleu.corpus_bleu([text.strip() for text in texts], [data["references"]]).score,
        "losses": [round(float(np.mean(part)), 4) for part in np.array_split(losses, 10)],
        "training": [round(after - before, 1) for before, after in zip(began, trained)],
        "generation": [round(after - before, 1) for before, after in zip(trained, written)],
        "example": texts[0].strip(),
        "steps": steps,
        **real_data_run.usage(),
    }


if __name__ == "__main__":
    real_data_run.answer(main)

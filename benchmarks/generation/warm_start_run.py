"""One run of `warm_start.py` in a process of its own: trains a translation model, and prints its BLEU and losses."""

from benchmarks import one_run  # first, since it records when the process starts

# ruff: isort: split

import json
import math
import time

import numpy as np
import sacrebleu

from benchmarks.generation import pairs
from benchmarks.generation.pairs import END, SPECIAL, START

BATCH, WARM_UP, LENGTH, PIECES, NEW_TOKENS = 32, 0.1, 40, 4000, 40
DECODER = {"num_layers": 2, "num_heads": 6, "hidden_dim": 384, "intermediate_dim": 1536, "max_sequence_length": 64}


def prepare(run, folder):
    """Writes the ids of the data and the pieces of the German tokenizer into a folder."""
    import keras_transfer as kt

    data = kt.datasets.load_multi30k(run["data_dir"])
    parts = {"train": data.train, "validation": data.validation, "test": data["test_2016_flickr"]}
    tokenizer = kt.text.train_vocabulary(
        list(data.train.targets), "unigram", PIECES, special_tokens=SPECIAL, lowercase=False
    )
    english = kt.checkpoints.load_preprocessor(run["folder"], sequence_length=LENGTH)
    found = {"pieces": list(tokenizer.vocabulary), "references": list(parts["test"].targets)}
    for name, part in parts.items():
        rows = english(list(part.sources))
        lengths = np.sum(rows["padding_mask"], axis=1)
        sources = [row[:length] for row, length in zip(np.array(rows["token_ids"]).tolist(), lengths)]
        targets = [[*row[: LENGTH - 1], END] for row in tokenizer.tokenize(list(part.targets)).to_list()]
        found[name] = sources, targets
    (folder / "data.json").write_text(json.dumps(found), "utf-8")


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `contender`, `pairs`, `rate`, `seed`, `steps`, `length_multiple`, `threads`, `examples`, `folder`,
            `data_dir` and `prepared`.
    """
    one_run.limit_threads(run["threads"])
    import keras

    import keras_transfer as kt

    with pairs.prepared(run, prepare) as folder:
        data = json.loads((folder / "data.json").read_text("utf-8"))
    tested = run["examples"]
    columns = [rows[: run["pairs"]] for rows in data["train"]]
    validation, (sources, _) = [rows[:tested] for rows in data["validation"]], data["test"]
    keras.utils.set_random_seed(run["seed"])
    encoder = kt.encoders.BertEncoder.from_pretrained(run["folder"])
    if run["contender"] == "random":
        encoder = type(encoder).from_config(encoder.get_config())
    decoder = kt.encoders.TransformerEncoder(len(data["pieces"]), **DECODER, causal=True)
    model = kt.tasks.Seq2SeqLM(kt.encoders.EncoderDecoder.from_encoders(encoder, decoder), start_token=START)
    of_epoch = math.ceil(len(columns[0]) / BATCH)
    epochs = math.ceil(run["steps"] / of_epoch)
    rate = kt.optimizers.schedules.LinearWarmupDecay(run["rate"], epochs * of_epoch, warmup_fraction=WARM_UP)
    model.compile(kt.optimizers.FusedAdamW(rate, weight_decay=0.01, global_clipnorm=1.0))
    began = time.perf_counter(), time.process_time()
    losses = pairs.train(model, pairs.batches(*columns, epochs, run["seed"], run["length_multiple"], BATCH))
    trained = time.perf_counter(), time.process_time()
    [held_out] = pairs.batches(*validation, 1, 0, run["length_multiple"], len(validation[0]))
    x, y, weights = pairs.given(model, *held_out)
    validation_loss = model.evaluate(x, y, sample_weight=weights, batch_size=BATCH, verbose=0, return_dict=True)["loss"]
    settings = {"max_new_tokens": NEW_TOKENS, "end_token": END}
    found = pairs.written_texts(model.generate(sources[:tested], batch_size=BATCH, **settings), data["pieces"])
    return {
        "bleu": sacrebleu.corpus_bleu(found, [data["references"][:tested]]).score,
        "validation_loss": validation_loss,
        "losses": [round(float(np.mean(part)), 4) for part in np.array_split(losses, 10)],
        "training": [round(after - before, 1) for before, after in zip(began, trained)],
        "example": found[0],
        **one_run.usage(),
    }


if __name__ == "__main__":
    one_run.answer(main)

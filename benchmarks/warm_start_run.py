"""One run of `warm_start.py` in a process of its own: trains a translation model, and prints its BLEU and losses."""

import real_data_run  # first, since it records when the process starts

# ruff: isort: split

import math
import time

import sacrebleu

BATCH, RATE, WARM_UP, LENGTH, PIECES, NEW_TOKENS = 32, 5e-4, 0.1, 40, 4000, 40
DECODER = {"num_layers": 2, "num_heads": 6, "hidden_dim": 384, "intermediate_dim": 1536, "max_sequence_length": 64}


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `contender`, `pairs`, `seed`, `steps`, `threads`, `examples`, `folder` and `data_dir`.
    """
    real_data_run.limit_threads(run["threads"])
    import keras

    import keras_transfer as kt

    data = kt.datasets.load_multi30k(run["data_dir"])
    tested = run["examples"]
    train, validation, test = data.train, data.validation, data["test_2016_flickr"]
    tokenizer = kt.text.train_vocabulary(list(train.targets), "unigram", PIECES, lowercase=False)
    packing = kt.text.Packing(["[CLS]"], ["[SEP]"], ["[SEP]"])
    german = kt.text.TokenPreprocessor(tokenizer, packing, sequence_length=LENGTH)
    english = kt.checkpoints.load_preprocessor(run["folder"], sequence_length=LENGTH)
    keras.utils.set_random_seed(run["seed"])
    encoder = kt.encoders.BertEncoder.from_pretrained(run["folder"])
    if run["contender"] == "random":
        encoder = type(encoder).from_config(encoder.get_config())
    decoder = kt.encoders.TransformerEncoder(len(tokenizer.vocabulary), **DECODER, causal=True)
    halves = kt.encoders.EncoderDecoder.from_encoders(encoder, decoder)
    model = kt.tasks.Seq2SeqLM(halves, english, target_preprocessor=german, max_new_tokens=NEW_TOKENS)
    columns = list(train.sources[: run["pairs"]]), list(train.targets[: run["pairs"]])
    of_epoch = math.ceil(len(columns[0]) / BATCH)
    epochs = math.ceil(run["steps"] / of_epoch)
    rate = kt.adaptation.LinearWarmupDecay(RATE, epochs * of_epoch, warmup_fraction=WARM_UP)
    model.compile(kt.adaptation.FusedAdamW(rate, weight_decay=0.01, global_clipnorm=1.0))
    began = time.perf_counter(), time.process_time()
    history = model.fit(*columns, batch_size=BATCH, epochs=epochs, verbose=0).history
    trained = time.perf_counter(), time.process_time()
    held_out = model.evaluate(list(validation.sources[:tested]), list(validation.targets[:tested]), verbose=0)
    found = model.generate(list(test.sources[:tested]), batch_size=BATCH)
    return {
        "bleu": sacrebleu.corpus_bleu(found, [list(test.targets[:tested])]).score,
        "validation_loss": held_out[0] if isinstance(held_out, list) else held_out,
        "losses": history["loss"],
        "training": [round(after - before, 1) for before, after in zip(began, trained)],
        "example": found[0],
        **real_data_run.usage(),
    }


if __name__ == "__main__":
    real_data_run.answer(main)

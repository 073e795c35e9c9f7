"""A large corpus of generated text: its build, the memory of training from it, and what starts and jumps cost.

    pip install -e .[benchmarks]
    python -m benchmarks.steps.large_corpus --folder /tmp/large --gigabytes 10

The text is drawn from 8,000 made-up words, with frequencies as in natural text, in lines of 20 to 60 words. The
measured process trains a causal Transformer (4 blocks, 256 wide, 8 rows of 128 tokens) on packed rows. It prints its
anonymous memory, the seconds from `fit` to the end of the first step, those to begin the next epoch and to jump to
batch 100,000, and how many times as fast batches are made as they are consumed. The same command continues a build that
was stopped.
"""

import argparse
import itertools
import pathlib
import time

import numpy as np

from benchmarks import harness

LENGTH, BATCH, STEPS = 128, 8, 50
WORDS, LINES = 8_000, 200_000


def main():
    """Writes the text, builds the corpus and trains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    write(args.folder / "text.txt", int(args.gigabytes * 2**30))
    corpus, preprocessor = build(args.folder, args.workers)
    train(corpus, preprocessor)


def words_of_text():
    """Returns the words, the most frequent ones first."""
    random, letters = np.random.default_rng(0), np.array(list("etaoinshrdlcumwfgypbvk"))
    drawn = ("".join(random.choice(letters, n)) for n in random.integers(3, 11, 10_000))
    return np.array(list(dict.fromkeys(drawn))[:WORDS], object)


def write(path, size):
    """Writes text, unless an earlier run has done so."""
    if path.exists() and path.stat().st_size >= size:
        return
    random, words = np.random.default_rng(1), words_of_text()
    frequencies = 1 / np.arange(10, len(words) + 10)
    frequencies /= frequencies.sum()
    with path.open("w") as file:
        while file.tell() < size:
            lengths = random.integers(20, 61, LINES)
            drawn = iter(words[random.choice(len(words), lengths.sum(), p=frequencies)])
            # An empty line after some lines ends a document.
            ends = random.choice(["\n", "\n\n"], LINES, p=[0.9, 0.1])
            file.writelines(
                " ".join(itertools.islice(drawn, length)) + end for length, end in zip(lengths.tolist(), ends)
            )


def build(folder, workers):
    """Returns the corpus, which is built unless it exists, and its preprocessor."""
    import keras_transfer as kt

    began = time.monotonic(), time.process_time()
    tokenizer = kt.text.WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words_of_text()])
    preprocessor = kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(end=["[SEP]"]), sequence_length=LENGTH)
    corpus = kt.text.Corpus.build(folder / "text.txt", preprocessor, folder / "corpus", workers=workers)
    seconds, cpu = time.monotonic() - began[0], time.process_time() - began[1]
    gigabytes = (folder / "text.txt").stat().st_size / 2**30
    print(f"{gigabytes:.1f} GB are {corpus.num_tokens:,} tokens, built in {seconds:.0f} s, {cpu:.0f} CPU s")
    return corpus, preprocessor


def train(corpus, preprocessor):
    """Trains some steps, and prints what they cost."""
    import keras

    import keras_transfer as kt

    sizes = {"num_layers": 4, "num_heads": 4, "hidden_dim": 256, "intermediate_dim": 1024, "dropout": 0.0}
    encoder = kt.encoders.TransformerEncoder(
        preprocessor.vocabulary_size, **sizes, max_sequence_length=LENGTH, norm="pre", causal=True
    )
    model = kt.tasks.CausalLM(encoder, preprocessor)
    model.compile(kt.optimizers.FusedAdamW(1e-3))

    times = []
    step = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: times.append(time.monotonic()))
    before, began = harness.memory().anonymous, time.monotonic()
    blocks = corpus.blocks(LENGTH, batch_size=BATCH, packing="stream", seed=0)
    model.fit(blocks, steps_per_epoch=STEPS, epochs=2, callbacks=[step], verbose=0)
    consumed = np.median(np.diff(times[STEPS // 2 : STEPS]))
    print(f"first step {times[0] - began:.1f} s after `fit`, a step every {1000 * consumed:.0f} ms")
    print(f"anonymous memory {harness.memory().anonymous / 1024:.2f} GB, before `fit` {before / 1024:.2f} GB")

    began = time.monotonic()
    blocks.on_epoch_end()
    blocks[0]
    print(f"beginning of an epoch and its first batch {time.monotonic() - began:.3f} s")
    began = time.monotonic()
    blocks.seek(100_000)
    blocks[0]
    print(f"seek(100_000) and its batch {time.monotonic() - began:.3f} s, of {len(blocks):,} batches in an epoch")
    began = time.monotonic()
    for index in range(500):
        blocks[index]
    print(f"batches are made {consumed / ((time.monotonic() - began) / 500):.1f} times as fast as they are consumed")


if __name__ == "__main__":
    main()

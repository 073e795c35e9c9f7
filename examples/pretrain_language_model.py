"""Pretrains a small language model on WikiText-2 from random weights, and prints its perplexity per word.

    pip install tokenizers
    python examples/pretrain_language_model.py --data-dir wikitext-2 --architecture transformer
    python examples/pretrain_language_model.py --data-dir wikitext-2 --architecture awd-lstm

The perplexity of the validation text is that of its words, with the token `<eos>` at the end of each line that is not
empty, so that it can be compared with models of whole words. A run that was stopped goes on with the same command.
"""

import argparse
import math
import pathlib
import time

import keras

import keras_transfer as kt

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data-dir", required=True, help="folder with wiki.train.tokens and wiki.valid.tokens")
parser.add_argument("--architecture", choices=["transformer", "awd-lstm"], default="transformer")
parser.add_argument("--output", type=pathlib.Path, help="folder, by default language_model_ and the architecture")
parser.add_argument("--vocabulary-size", type=int, default=6000)
parser.add_argument("--num-layers", type=int, default=2)
parser.add_argument("--dim", type=int, default=256)
parser.add_argument("--length", type=int, help="tokens of a row or window, by default 128, and 35 for awd-lstm")
parser.add_argument("--batch-size", type=int, help="by default 16, and 20 for awd-lstm")
parser.add_argument("--learning-rate", type=float, default=2e-3)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--lines", type=int, help="only so many lines of each part, to try the script")
args = parser.parse_args()
length, batch_size = (128, 16) if args.architecture == "transformer" else (35, 20)  # An LSTM needs many updates.
args.length, args.batch_size = args.length or length, args.batch_size or batch_size
output = args.output or pathlib.Path(f"language_model_{args.architecture}")
keras.utils.set_random_seed(0)

# === The texts as ids ===
data = kt.datasets.load_wikitext(args.data_dir)
lines = {part: [line for line in data[part] if line][: args.lines] for part in ("train", "validation")}
special = ["<pad>", "<unk>", "<s>", "<eos>", "<mask>"]  # A corpus writes the fourth at the end of each line.
tokenizer = kt.text.train_vocabulary(lines["train"], "byte_bpe", args.vocabulary_size, special_tokens=special)
preprocessor = kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(pad="<pad>"), sequence_length=args.length)
corpora = {
    part: kt.text.Corpus.build(lines[part], preprocessor, output / part, verbose=0) for part in ("train", "validation")
}
words = sum(len(line.split()) + 1 for line in lines["validation"])
pieces_per_word = corpora["validation"].num_tokens / words

# === The model and its batches ===
size = tokenizer.vocabulary_size
if args.architecture == "transformer":
    encoder = kt.encoders.TransformerEncoder(
        size,
        num_layers=args.num_layers,
        num_heads=max(heads for heads in range(1, max(args.dim // 64, 1) + 1) if args.dim % heads == 0),
        hidden_dim=args.dim,
        intermediate_dim=4 * args.dim,
        max_sequence_length=args.length,
        norm="pre",
        causal=True,
        dropout=0.0,  # Few epochs overfit nothing.
    )
    model = kt.tasks.CausalLM(encoder, preprocessor)
    train, validation = (
        corpora[part].blocks(args.length, batch_size=args.batch_size, packing="stream", shuffle=part == "train", seed=0)
        for part in ("train", "validation")
    )
else:
    encoder = kt.encoders.AWDLSTMEncoder(
        size,
        embedding_dim=args.dim,
        units=args.dim,
        num_layers=args.num_layers,
        embedding_dropout=0.0,  # Few epochs overfit nothing.
        input_dropout=0.0,
        hidden_dropout=0.0,
        output_dropout=0.0,
        weight_dropout=0.0,
    )
    model = kt.tasks.CausalLM(encoder, preprocessor, streams=args.batch_size)
    train, validation = (corpora[part].streams(args.batch_size, args.length) for part in ("train", "validation"))
print(f"{model.count_params():,} parameters, {corpora['train'].num_tokens:,} tokens, {pieces_per_word:.3f} a word")

# === Training ===
steps = args.epochs * len(train)
schedule = kt.optimizers.schedules.LinearWarmupDecay(args.learning_rate, total_steps=steps, warmup_fraction=0.05)
model.compile(kt.optimizers.FusedAdamW(schedule, weight_decay=0.01, global_clipnorm=1.0))
checkpoint = kt.callbacks.TrainingCheckpoint(output / "checkpoints", save_every=500, keep=1, signals=("SIGINT",))
began = time.time(), time.process_time()
model.fit(train, epochs=args.epochs, callbacks=[checkpoint], verbose=2)
if not checkpoint.stopped_by:
    print(f"trained in {time.time() - began[0]:.0f} s, {time.process_time() - began[1]:.0f} CPU s")
    loss = model.evaluate(validation, verbose=0, return_dict=True)["loss"]
    print(f"validation perplexity {math.exp(loss * pieces_per_word):.1f} per word, {math.exp(loss):.1f} per token")
    model.save(output / "model.keras")
    print(model.generate(["The film"], max_length=min(args.length, 30), sampler=kt.generation.TopP(0.9), seed=0)[0])

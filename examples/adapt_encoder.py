"""Adapts an encoder to the texts of a task without their labels (TAPT), and writes it as a checkpoint.

    python examples/adapt_encoder.py --data-dir aclImdb --output adapted
    python examples/pretrained_or_random.py --dataset imdb --data-dir aclImdb --model minilm-l6 adapted \\
        --kinds pretrained --epochs 3 --batch-size 32 --learning-rate 1e-4 --test-examples 2000

The head that predicts hidden tokens is new. It is trained first, over the frozen encoder, and then all weights are. It
prints the loss on the hidden tokens of other texts. A run that was stopped goes on with the same command.
"""

import argparse
import pathlib
import time

import keras
import numpy as np

import keras_transfer as kt

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data-dir", help="folder aclImdb of the movie reviews; defaults to packaged questions")
parser.add_argument("--model", default="minilm-l6", help="checkpoint without a head for hidden tokens")
parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("adapted"), help="folder for the encoder")
parser.add_argument("--texts", type=int, default=20_000)
parser.add_argument("--held-out", type=int, default=500)
parser.add_argument("--length", type=int, default=64, help="texts are cut after so many tokens")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--head-fraction", type=float, default=0.1, help="part of the run that trains the head alone")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--learning-rate", type=float, default=1e-4)
args = parser.parse_args()
keras.utils.set_random_seed(0)

data = kt.datasets.load_imdb(args.data_dir) if args.data_dir else kt.datasets.load_demo_questions()
order = np.random.default_rng(0).permutation(len(data.train.texts))[: args.held_out + args.texts]
texts = [data.train.texts[row].replace("<br />", " ") for row in order]
held_out, texts = texts[: args.held_out], texts[args.held_out :]

encoder = kt.encoders.Encoder.from_pretrained(args.model)
preprocessor = kt.checkpoints.load_preprocessor(args.model, sequence_length=args.length)
model = kt.tasks.MaskedLM(encoder, preprocessor)
recipe = kt.adaptation.get_recipe(
    "tapt",
    epochs=args.epochs,
    batch_size=args.batch_size,
    learning_rate=args.learning_rate,
    unfreezing="linear_probe",
    unfreezing_fraction=args.head_fraction,
    probe_learning_rate=1e-3,
)
checkpoints = args.output.with_name(f"{args.output.name}_checkpoints")
checkpoint = kt.callbacks.TrainingCheckpoint(checkpoints, save_every=50, keep=1, signals=("SIGINT",))
began = time.process_time()
kt.adaptation.fine_tune(model, texts, recipe=recipe, callbacks=[checkpoint], verbose=2)
if not checkpoint.stopped_by:
    print(f"trained in {time.process_time() - began:.0f} CPU s, since the last start")
    scores = model.evaluate(held_out, verbose=0, return_dict=True)
    print(f"loss {scores['loss']:.3f}, accuracy {100 * scores['accuracy']:.1f}% on hidden tokens of other texts")
    encoder.save_pretrained(args.output, preprocessor, overwrite=True)

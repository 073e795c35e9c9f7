"""Tags English words with their parts of speech: all-MiniLM-L6-v2 on Universal Dependencies, over several seeds.

    python examples/tag_words.py --data-dir DIR --seeds 0 1 2

`DIR` is the treebank https://github.com/UniversalDependencies/UD_English-EWT. With `--frozen`, the encoder is not
trained: a dense layer uses a learned weighted mean of all its layers, and `--plot FILE` draws the weights.
"""

import argparse
import time

import keras
import numpy as np

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="folder with en_ewt-ud-train.conllu and the other parts")
parser.add_argument("--seeds", type=int, nargs="+", default=[0])
parser.add_argument("--frozen", action="store_true")
parser.add_argument("--learning-rate", type=float, help="default: 2e-4, and 1e-2 with --frozen")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--plot", help="a .png file for the layers' weights of the last seed")
args = parser.parse_args()

data = kt.datasets.load_universal_dependencies(args.data_dir, field="upos")
peak = args.learning_rate or (1e-2 if args.frozen else 2e-4)

accuracies = []
for seed in args.seeds:
    keras.utils.set_random_seed(seed)
    start = time.time()
    model = kt.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=data.label_names, scalar_mix=args.frozen)
    if args.frozen:
        kt.adaptation.freeze(model, below="head")
    train = kt.text.word_batches(
        *data.train,
        preprocessor=model.preprocessor,
        batch_size=args.batch_size,
        seed=seed,
        label_names=data.label_names,
    )
    rate = kt.optimizers.schedules.LinearWarmupDecay(peak, total_steps=args.epochs * len(train))
    optimizer = kt.optimizers.FusedAdamW(rate, weight_decay=0.01, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer)
    model.fit(train, epochs=args.epochs, verbose=0)
    accuracies.append(100 * model.evaluate(*data.test, verbose=0, return_dict=True)["accuracy"])
    print(f"seed {seed}: test accuracy {accuracies[-1]:.2f}%, {time.time() - start:.0f} s", flush=True)
print(f"mean {np.mean(accuracies):.2f}%, standard deviation {np.std(accuracies):.2f}, over {len(accuracies)} seeds")
print(model.predict_words(["The old man the boats, and time flies like an arrow."]))
if args.frozen:
    print("weight of each layer, the embeddings first:", model.scalar_mix.mix.round(3))
if args.plot:
    model.scalar_mix.plot(["embeddings", *range(1, len(model.scalar_mix.mix))]).savefig(args.plot, dpi=150)

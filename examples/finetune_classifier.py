"""Fine-tunes all-MiniLM-L6-v2 on TREC-6 questions, over several seeds, and prints the test error of each.

    python examples/finetune_classifier.py --data-dir DIR --seeds 0 1 2 3 4

To choose hyper-parameters, pass `--dev`, which evaluates on a fifth of the training questions instead of the test set.
"""

import argparse
import time

import keras
import numpy as np

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="folder with train_5500.label and TREC_10.label")
parser.add_argument("--seeds", type=int, nargs="+", default=[0])
parser.add_argument("--learning-rate", type=float, default=1e-4)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--pooling", default="mean")
parser.add_argument("--dev", action="store_true")
args = parser.parse_args()

data = kt.datasets.load_trec6(args.data_dir)
train, test = data.train, data.test
if args.dev:
    order = np.random.default_rng(1234).permutation(len(train.texts))
    rest, held_out = np.sort(order[1090:]), np.sort(order[:1090])
    train, test = ([[column[i] for i in part] for column in train] for part in (rest, held_out))
texts, labels = train
test_texts, test_labels = test

recipe = kt.adaptation.get_recipe(  # AdamW, clipped gradients, and no weight decay for norms and biases
    "bert",
    learning_rate=args.learning_rate,
    schedule="cosine",
    frozen="embeddings",  # 5,500 questions are too few to train 30,000 words
    epochs=args.epochs,
    batch_size=args.batch_size,
)
print(recipe)

errors = []
for seed in args.seeds:
    keras.utils.set_random_seed(seed)
    start = time.time()
    model = kt.tasks.TextClassifier.from_pretrained(
        "minilm-l6", num_classes=len(data.label_names), pooling=args.pooling, dropout=args.dropout
    )
    kt.adaptation.fine_tune(model, texts, labels, recipe=recipe, verbose=0)
    accuracy = model.evaluate(test_texts, test_labels, verbose=0, return_dict=True)["accuracy"]
    errors.append(100 * (1 - accuracy))
    print(f"seed {seed}: test error {errors[-1]:.2f}%, {time.time() - start:.0f} s", flush=True)
print(f"mean {np.mean(errors):.2f}%, standard deviation {np.std(errors):.2f}, over {len(errors)} seeds")

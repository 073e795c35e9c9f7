"""The preprocessor of a model that contains several others, each of which reads texts in its own way."""

from keras_transfer.core.lazy import tf
from keras_transfer.text.preprocessor import Preprocessor, preprocess


class JointPreprocessor(Preprocessor):
    """Runs several preprocessors on the same texts, and returns all of their inputs, padded to the same length.

    The name of an input ends with the number of its preprocessor, such as `token_ids_1`. One more input,
    `padding_mask`, is 1 where any of the masks is, so that batches can be cut by it.

    Args:
        preprocessors: List of callables from texts to inputs. One that occurs several times is called once.
        name: String. Name of the layer. Defaults to `None`.
    """

    def __init__(self, preprocessors, name=None):
        super().__init__(name=name)
        self.preprocessors = list(preprocessors)

    def call(self, texts, sequence_length=None):
        made = {}
        for each in self.preprocessors:
            options = {"sequence_length": sequence_length} if isinstance(each, Preprocessor) else {}
            made[id(each)] = made.get(id(each)) or preprocess(each, texts, **options)
        found = {
            f"{name}_{number}": values
            for number, each in enumerate(self.preprocessors)
            for name, values in made[id(each)].items()
        }
        masks = [name for name in found if name.startswith("padding_mask_")]
        if not masks:  # All of them return strings.
            return found
        length = tf.reduce_max([tf.shape(found[name])[1] for name in masks])
        found = {name: _padded(values, length) for name, values in found.items()}
        return {**found, "padding_mask": tf.reduce_max([tf.cast(found[name], tf.int32) for name in masks], axis=0)}


def _padded(values, length):
    """Returns inputs `[batch, length, ...]` with zeros up to a length, and strings `[batch]` unchanged."""
    rank = values.shape.rank
    return values if rank < 2 else tf.pad(values, [[0, 0], [0, length - tf.shape(values)[1]], *[[0, 0]] * (rank - 2)])

"""The loop of an exported model, which continues requests of any size."""

from keras_transfer.core.lazy import tf
from keras_transfer.generation.generator import PROMPT_STEP

_POWERS = [2**power for power in range(16)]  # Larger batches keep their size.


class ExportedLoop:
    """Continues the prompts of a request with a loop that belongs to a graph of the TensorFlow backend.

    XLA compiles a loop for each shape of its inputs. With `jit_compile`, the number of prompts is therefore padded to a
    power of two, and their length and that of the sources to multiples of 16, if `context_length` allows it.
    """

    def __init__(self, generator, jit_compile=False, context_length=None):
        self.generator, self.jit_compile, self.context_length = generator, jit_compile, context_length

    def __call__(self, inputs):
        """Returns what the generator returns for the dict of tensors `inputs`, without the padding."""
        if not self.jit_compile:
            return self.generator.call(inputs)
        rows, length = tf.unstack(tf.shape(inputs["token_ids"]))
        more_rows = _missing_rows(rows)
        padded, before = {"until": inputs["until"]}, 0
        if "context" in inputs:
            longest = tf.shape(inputs["context"]["token_ids"])[1]
            after = -longest % PROMPT_STEP
            if self.context_length is not None:
                after = tf.maximum(tf.minimum(after, self.context_length - longest), 0)
            paddings = [[0, more_rows], [0, after]]
            padded["context"] = {name: tf.pad(value, paddings) for name, value in inputs["context"].items()}
        else:  # The first token of a target needs no padding.
            before = -length % PROMPT_STEP
        padded["token_ids"] = tf.pad(inputs["token_ids"], [[0, more_rows], [before, 0]])
        padded["until"] = inputs["until"] + before
        for name in ("first", "limit"):  # The further rows may use no place, so that they are finished.
            padded[name] = tf.pad(inputs[name] + before, [[0, more_rows]])
        # A new function for each trace, because what it computes may depend on the active adapters.
        found = tf.function(self.generator.call, jit_compile=True, autograph=False)(padded)
        return {"tokens": found["tokens"][:rows, before:], "end": found["end"][:rows] - before}


def _missing_rows(rows):
    """Returns how many rows are missing to the next power of two, an integer tensor."""
    place = tf.searchsorted(_POWERS, rows[None])[0]
    return tf.maximum(tf.gather(_POWERS, tf.minimum(place, len(_POWERS) - 1)) - rows, 0)

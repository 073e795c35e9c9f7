"""The interface of a language model for samplers: the scores of the next tokens, and when a text ends."""

import dataclasses

import keras
from keras import ops

from keras_transfer.encoders import carries_state
from keras_transfer.generation.constraints import Constraints


@dataclasses.dataclass
class Decoder:
    """A causal language model that continues a batch of prompts with a cache, or with a recurrent encoder's state.

    Texts are rows of `room` places. The prompts are aligned on the right and end at place `length - 1`, so that all
    rows take each step together. In a step, `column` is the place of the tokens that are to be chosen.

    Args:
        encoder: `TransformerStack` whose blocks are causal, an encoder-decoder with `step`, or a recurrent encoder with
            `empty_state` and `step`, whose state takes the place of the cache.
        output: Layer from the encoder's vectors to logits.
        stop_table: Integer tensor of shape `[states, vocabulary]`, from `stop_table`.
        context: What `encoder.encode_context` returned, for an encoder-decoder. It has one row for each prompt, which
            all rows of the prompt read, and no step changes it.

    Attributes:
        are_numbers: Boolean tensor. Whether all logits of the last step are numbers, and not NaN.
    """

    encoder: object
    output: object
    length: object
    room: object
    end_ids: tuple = ()
    constraints: Constraints | None = None
    stop_table: object = None
    context: object = None
    are_numbers: object = dataclasses.field(default=True, init=False)

    def encode_prompts(self, given, rows, count):
        """Returns vectors and the cache of the first `count` places of the prompts, with `rows` rows for each prompt.

        `given` is a dict of `token_ids` `[prompts, length]` and `first` `[prompts * rows]`, the place of each row's
        first token. The vectors are `None` if `count` is 0.
        """
        token_ids, vectors = given["token_ids"], None
        batch = ops.shape(token_ids)[0]
        if carries_state(self.encoder):
            cache = self.encoder.empty_state(batch)
        else:
            cache = self.encoder.empty_cache(batch, self.room)
        if not isinstance(count, int) or count > 0:
            vectors, cache = self._encode(token_ids[:, :count], cache, 0, given["first"][::rows])
        return vectors, repeat_rows(cache, rows)

    def step(self, token_ids, cache, column, first):
        """Returns vectors `[rows, dim]`, logits `[rows, vocabulary]` and the cache, given the tokens at a place."""
        vectors, cache = self._encode(token_ids[:, None], cache, column, first)
        logits = self.output(vectors[:, 0])
        self.are_numbers = ops.logical_not(ops.any(ops.isnan(logits)))
        return vectors[:, 0], logits, cache

    def _encode(self, token_ids, cache, start, first):
        if carries_state(self.encoder):
            return self._advance(token_ids, cache, start, first)
        context = {} if self.context is None else {"context": self.context}
        return self.encoder.step(token_ids, cache, start, first=first, **context)

    def _advance(self, token_ids, state, start, first):
        """Returns vectors and the state of a recurrent encoder after the real ones among some tokens."""
        # The number of tokens of exported models can be 0, but a loop over steps needs one.
        filler = 0 if isinstance(token_ids.shape[1], int) else 1
        token_ids = ops.pad(token_ids, [[0, 0], [filler, 0]])
        place = start - filler + ops.arange(ops.shape(token_ids)[1])
        real = ops.logical_and(place >= start, place >= first[:, None])
        vectors, state = self.encoder.step(token_ids, state, padding_mask=real)
        return vectors[:, filler:], state

    def constrain(self, scores, tokens, column, given):
        """Returns logits or log-probabilities `[rows, vocabulary]` after the constraints."""
        if self.constraints is None:
            return scores
        limits = {"limit": given["limit"], "length": self.length, "end_ids": self.end_ids}
        return self.constraints.apply(scores, tokens, column, given["first"], **limits)

    def first_stop_state(self, rows):
        """Returns the states of the stop strings before the first new token, for `rows` (a tensor of any shape)."""
        return ops.zeros_like(rows, dtype="int32")

    def ends(self, chosen, stop_state, column, limit):
        """Returns which rows end with the chosen tokens, and the new states of their stop strings.

        Args:
            chosen: Integer tensor of any shape, the tokens at `column`.
            stop_state: Integer tensor of the same shape, the states before them.
            limit: Integer tensor that broadcasts to this shape. Number of places that each row may use.
        """
        ended = ops.broadcast_to(column + 1 >= limit, ops.shape(chosen))
        for end_id in self.end_ids:
            ended = ops.logical_or(ended, chosen == end_id)
        if self.stop_table is not None:
            states, vocabulary = self.stop_table.shape
            stop_state = ops.take(ops.reshape(self.stop_table, (-1,)), stop_state * vocabulary + chosen, axis=0)
            ended = ops.logical_or(ended, stop_state == states - 1)
        return ended, stop_state


def write(values, column, new):
    """Returns `values` `[rows, room, ...]` with `new` `[rows, ...]` at place `column`."""
    start = (0, column, *[0] * (len(values.shape) - 2))
    return ops.slice_update(values, start, ops.expand_dims(new, 1))


def extend(values, room):
    """Returns values `[rows, length, ...]`, with zeros up to `room` places."""
    missing = room - ops.shape(values)[1]
    zeros = ops.zeros((ops.shape(values)[0], missing, *values.shape[2:]), values.dtype)
    return ops.concatenate([values, zeros], axis=1)


def take_rows(cache, rows):
    """Returns a cache (any structure of tensors) of the given rows (integer tensor `[count]`) of another."""
    return keras.tree.map_structure(lambda values: ops.take(values, rows, axis=0), cache)


def repeat_rows(cache, count):
    """Returns a cache in which each row occurs `count` times in sequence."""
    return cache if count == 1 else keras.tree.map_structure(lambda values: ops.repeat(values, count, axis=0), cache)

"""The loop that continues prompts, as a Keras model: compiled on every backend, once for each shape."""

import keras
import numpy as np
from keras import ops

from keras_transfer.generation.decoder import Decoder

# Prompts and continuations are padded to multiples of these, so that few shapes are compiled.
PROMPT_STEP, NEW_STEP = 16, 32


class Generator(keras.Model):
    """Continues prompts of one shape with one sampler.

    Args:
        encoder, output: As for `Decoder`.
        steps: Integer. Number of new tokens for which there is room.
        returns_state: Boolean. Whether a call returns its whole state, from which another call can continue. Otherwise
            it returns the value of `Sampler.result`.
        jit_compile: Boolean. Whether XLA compiles the loop, except on torch.

    Call arguments:
        - `token_ids`: Integers `[prompts, length]`. Prompts, aligned on the right.
        - `first`: Integers `[prompts]`. The place of each prompt's first token.
        - `limit`: Integers `[prompts]`. How many places each row may use, padding included.
        - `until`: Integer. The place at which this call stops.
        - `uniform`: Floats `[rows, steps]`. Random numbers from 0 to 1, for random samplers.
        - `stop_table`: Integers `[states, vocabulary]`, if there are stop strings.
        - `context`: Dict of `token_ids` and `padding_mask` `[prompts, source length]`, for an encoder-decoder.
        - `state`: The state of an earlier call, to continue from there.
    """

    def __init__(
        self,
        encoder,
        output,
        sampler,
        *,
        steps,
        num_sequences,
        end_ids,
        constraints,
        returns_state=False,
        jit_compile=True,
    ):
        super().__init__(dtype="float32", autocast=False)
        self.encoder = encoder
        self.output_layer = output
        self.sampler = sampler
        self.steps = steps
        self.num_sequences = num_sequences
        self.end_ids = end_ids
        self.constraints = constraints
        self.returns_state = returns_state
        self.jit_compile = jit_compile and keras.backend.backend() != "torch"
        self.built = True  # All weights belong to the encoder.

    def call(self, inputs, training=None):
        rows = self.sampler.num_rows(self.num_sequences)
        length = inputs["token_ids"].shape[1]
        length = ops.shape(inputs["token_ids"])[1] if length is None else length
        state = dict(inputs["state"]) if "state" in inputs else None
        context = None if state is None else state.pop("context", None)
        are_numbers = ops.convert_to_tensor(True) if state is None else state.pop("are_numbers")
        if context is None and "context" in inputs:
            context = self.encoder.encode_context(inputs["context"])
        decoder = Decoder(
            self.encoder,
            self.output_layer,
            length,
            length + self.steps,
            self.end_ids,
            self.constraints,
            inputs.get("stop_table"),
            context,
        )
        given = {
            **inputs,
            "first": ops.repeat(inputs["first"], rows, axis=0),
            "limit": ops.repeat(inputs["limit"], rows, axis=0),
        }
        state = self.sampler.start(decoder, given, rows) if state is None else state

        def advance(state, are_numbers):
            state = self.sampler.advance(decoder, given, state)
            return state, ops.logical_and(are_numbers, decoder.are_numbers)

        state, are_numbers = ops.while_loop(
            lambda state, _: ops.logical_and(self.sampler.goes_on(state), state["column"] < inputs["until"]),
            advance,
            (state, are_numbers),
        )
        state = state if self.returns_state else self.sampler.result(state, self.num_sequences)
        state = {**state, "are_numbers": are_numbers}
        return state if context is None or not self.returns_state else {**state, "context": context}


def align_right(rows, length):
    """Returns token ids as an array `[rows, length]`, zeros on the left, and the place of each row's first token."""
    token_ids = np.zeros((len(rows), length), "int32")
    for index, row in enumerate(rows):
        token_ids[index, length - len(row) :] = row
    return token_ids, np.array([length - len(row) for row in rows], "int32")


def round_up(number, step):
    """Returns the smallest multiple of `step` that is at least `number` and not 0."""
    return max(-(-number // step), 1) * step

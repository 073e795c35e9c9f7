"""The base class of samplers, and their names."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expect
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.generation.decoder import extend, write

_samplers = {}


class Sampler(SavedByArguments):
    """Chooses the tokens of a continuation; the base class of all samplers.

    A subclass implements `choose(logits, uniform)`. One that does not choose token by token overrides `start`,
    `advance`, `goes_on` and `result`, which the loop of `Generator` calls. `get_config` returns the attributes that are
    named like the constructor's arguments.

    All tensors with rows have one row for each sequence. The sequences of a prompt are neighbours.

    Example:
    ```python
    class SecondBest(keras_transfer.generation.Sampler):
        def choose(self, logits, uniform):
            return keras.ops.cast(keras.ops.top_k(logits, 2)[1][:, 1], "int32")

    encoder = keras_transfer.encoders.TransformerEncoder(
        20, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
    )
    keras_transfer.tasks.CausalLM(encoder).generate([[3, 4]], max_length=6, sampler=SecondBest())
    ```
    """

    is_random = False
    streams = True  # Whether a chosen token is final, so that it can be shown at once.

    def num_rows(self, num_sequences: int) -> int:
        """Returns the number of rows for each prompt.

        Args:
            num_sequences: Integer. Number of sequences to return for each prompt.

        Returns:
            An integer.

        Raises:
            ValueError: If the sampler cannot return this number of sequences.
        """
        rule = (
            f"`{type(self).__name__}` has one result for each prompt. For several, use a random sampler or "
            "`BeamSearch`."
        )
        expect(num_sequences <= 1 or self.is_random, rule, num_sequences=num_sequences)
        return num_sequences

    def choose(self, logits: Any, uniform: Any) -> Any:
        """Chooses the next tokens.

        Args:
            logits: Float32 tensor of shape `[rows, vocabulary]`.
            uniform: Float32 tensor of shape `[rows]` of random numbers from 0 to 1, or `None` if `is_random` is false.

        Returns:
            An int32 tensor of shape `[rows]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `choose`.")

    def start(self, decoder: Any, given: Mapping, rows: int) -> dict:
        """Returns the state before the first new token.

        Args:
            decoder: `Decoder`, which runs the model.
            given: Dict of `token_ids` `[prompts, length]`, and `first` and `limit` `[rows]` (see `Decoder.ends`).
            rows: Integer. Number of rows for each prompt.

        Returns:
            A dict of tensors with a scalar `column` (see `Decoder`).
        """
        # The last token of the prompt is left for the first step.
        cache = decoder.encode_prompts(given, rows, decoder.length - 1)[1]
        limit = given["limit"]
        return {
            "column": ops.convert_to_tensor(decoder.length, "int32"),
            "tokens": extend(ops.repeat(given["token_ids"], rows, axis=0), decoder.room),
            "cache": cache,
            "finished": limit <= decoder.length,
            "end": ops.zeros_like(limit) + decoder.length,
            "stop_state": decoder.first_stop_state(limit),
        }

    def advance(self, decoder: Any, given: Mapping, state: Mapping) -> dict:
        """Adds one token to each sequence.

        Args:
            decoder: `Decoder`, which runs the model.
            given: Dict of tensors that stay the same, such as `token_ids` `[prompts, length]`.
            state: Dict of tensors, from `start` or the last call.

        Returns:
            A dict of tensors, the new state.
        """
        column, tokens = state["column"], state["tokens"]
        last = ops.take(tokens, column - 1, axis=1)
        _, logits, cache = decoder.step(last, state["cache"], column - 1, given["first"])
        logits = decoder.constrain(logits, tokens, column, given)
        uniform = ops.take(given["uniform"], column - decoder.length, axis=1) if self.is_random else None
        return {**state, "cache": cache, **self.add(decoder, given, state, self.choose(logits, uniform))}

    def add(self, decoder: Any, given: Mapping, state: Mapping, chosen: Any) -> dict:
        """Writes the chosen tokens into the state.

        Args:
            decoder: `Decoder`, which runs the model.
            given: Dict of tensors that stay the same, such as `limit` `[rows]`.
            state: Dict of tensors.
            chosen: Integer tensor of shape `[rows]`. The chosen tokens.

        Returns:
            A dict of the entries of the state that change.
        """
        column, finished = state["column"], state["finished"]
        chosen = ops.where(finished, 0, chosen)
        ended, stop_state = decoder.ends(chosen, state["stop_state"], column, given["limit"])
        return {
            "column": column + 1,
            "tokens": write(state["tokens"], column, chosen),
            "finished": ops.logical_or(finished, ended),
            "end": ops.where(finished, state["end"], column + 1),
            "stop_state": stop_state,
        }

    def goes_on(self, state: Mapping) -> Any:
        """Returns whether any sequence is unfinished.

        Args:
            state: Dict of tensors.

        Returns:
            A boolean tensor.
        """
        return ops.logical_not(ops.all(state["finished"]))

    def result(self, state: Mapping, num_sequences: int) -> dict:
        """Returns the finished sequences.

        Args:
            state: Dict of tensors, the last state.
            num_sequences: Integer. Number of sequences to return for each prompt.

        Returns:
            A dict of `tokens`, of shape `[sequences, length]`, and `end`, of shape `[sequences]`, the position after
            the last token.
        """
        return {"tokens": state["tokens"], "end": state["end"]}


def register_name(name):
    """Returns a decorator that registers a class of samplers under a name for `get_sampler`, and for `.keras` files."""

    def register(cls):
        _samplers[name] = keras.saving.register_keras_serializable(package="keras_transfer")(cls)
        return cls

    return register


def get_sampler(sampler: Sampler | str) -> Sampler:
    """Returns a sampler, given the sampler itself or its name.

    Args:
        sampler: `Sampler`, or one of the strings `"greedy"`, `"random"`, `"top_k"`, `"top_p"`, `"min_p"`, `"typical"`,
            `"beam"` and `"contrastive"`, for a sampler with its default arguments.

    Returns:
        A `Sampler`.

    Raises:
        ValueError: If the name is unknown.

    Example:
    ```python
    keras_transfer.generation.get_sampler("top_p")
    ```
    """
    if isinstance(sampler, Sampler):
        return sampler
    rule = f"Invalid value for argument `sampler`. Expected a `Sampler` or one of {list(_samplers)}."
    expect(isinstance(sampler, str) and sampler in _samplers, rule, sampler=sampler)
    return _samplers[sampler]()

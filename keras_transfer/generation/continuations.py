"""One call of `generate`: rows of ids continued in batches of few shapes, and text reported as it becomes certain."""

import codecs
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_transfer.core.arrays import check_numbers
from keras_transfer.generation.generator import NEW_STEP, PROMPT_STEP, align_right, round_up


@dataclasses.dataclass
class Continuations:
    """Continues rows of ids with compiled loops, in batches of similar length.

    Args:
        generator: Callable `(sampler, steps, num_sequences, end_ids, constraints, shapes, returns_state=False)` that
            returns a compiled `Generator`.
        lengths: List of integers. For each row, the number of tokens at which its sequences end, prompt included.
        context_rows: List of rows of ids, one for each row to continue, that an encoder-decoder encodes. The rows to
            continue are then not padded to multiples of 16, because they are as short as one start token.
        context_length: Integer. Number of positions of the encoder, or `None` for any.
    """

    generator: Callable
    sampler: Any
    _: dataclasses.KW_ONLY
    num_sequences: int
    end_ids: tuple
    constraints: Any
    lengths: list
    seed: int | None
    batch_size: int
    stop_table: Any = None
    context_rows: list | None = None
    context_length: int | None = None

    def __post_init__(self):
        self.rows_each = self.sampler.num_rows(self.num_sequences)
        # By default, the draws follow `keras.utils.set_random_seed`.
        self.seed = np.random.randint(2**31) if self.seed is None else self.seed

    def __call__(self, rows, streams=None):
        """Returns the new ids of each sequence, as a list of lists."""
        if not rows:
            return []
        uniform = None
        if self.sampler.is_random:
            steps = round_up(max(self.lengths), NEW_STEP)
            uniform = np.empty((len(rows), self.rows_each, steps), "float32")
            for row in np.ndindex(uniform.shape[:2]):  # The length of a prompt changes no draw of another.
                uniform[row] = np.random.default_rng([self.seed, *row]).random(steps)
        found = [None] * len(rows)
        sorted_by = rows if self.context_rows is None else self.context_rows
        order = sorted(range(len(rows)), key=lambda index: len(sorted_by[index]))
        for begin in range(0, len(rows), self.batch_size):
            part = order[begin : begin + self.batch_size]
            for index, sequences in zip(part, self._continue(part, rows, uniform, streams)):
                found[index] = sequences
        return [ids for sequences in found for ids in sequences]

    def _continue(self, part, rows, uniform, streams):
        """Returns the new ids of one batch of prompts, a list of lists for each of them."""
        longest = max(len(rows[index]) for index in part)
        length = round_up(longest, PROMPT_STEP if self.context_rows is None else 1)
        steps = round_up(max(self.lengths[index] - len(rows[index]) for index in part), NEW_STEP)
        batch = min(self.batch_size, len(rows))
        filler = [part[0]] * (batch - len(part))  # A short last batch gets the shape of the others.
        token_ids, first = align_right([rows[index] for index in part + filler], length)
        limit = first + np.array([self.lengths[index] for index in part + filler], "int32")
        limit[len(part) :] = 0
        inputs = {"token_ids": token_ids, "first": first, "limit": limit, "until": np.int32(length + steps)}
        if uniform is not None:
            inputs["uniform"] = uniform[part + filler, :, :steps].reshape(-1, steps)
        if self.stop_table is not None:
            inputs["stop_table"] = self.stop_table
        shapes = tuple(value.shape for value in inputs.values())
        if self.context_rows is not None:
            inputs["context"] = _align_left([self.context_rows[index] for index in part + filler], self.context_length)
            shapes += ("context", inputs["context"]["token_ids"].shape)
        settings = (self.sampler, steps, self.num_sequences, self.end_ids, self.constraints, shapes)
        if streams is None:
            outputs = self.generator(*settings).predict_on_batch(inputs)
        else:
            outputs = self._stream(settings, inputs, [streams[index * self.num_sequences :] for index in part])
        check_numbers(np.where(outputs["are_numbers"], 0.0, np.nan).reshape(1))
        tokens, end = outputs["tokens"], outputs["end"]
        new = [ids[length:stop].tolist() for ids, stop in zip(tokens, end)]
        return [new[i * self.num_sequences : (i + 1) * self.num_sequences] for i in range(len(part))]

    def _stream(self, settings, inputs, streams):
        """Returns the outputs of a generator that runs token by token, and reports each token."""
        length = inputs["token_ids"].shape[1]
        generator, state = self.generator(*settings, returns_state=True), None
        for column in range(length, int(inputs["until"])):
            before = {} if state is None else {"state": state}
            state = generator.predict_on_batch({**inputs, "until": np.int32(column + 1), **before})
            for row in range(len(streams) * self.num_sequences):
                if state["end"][row] > column:
                    prompt, sequence = divmod(row, self.num_sequences)
                    streams[prompt][sequence].add(int(state["tokens"][row, column]), bool(state["finished"][row]))
            if state["finished"].all():
                break
        return state


def _align_left(rows, longest):
    """Returns rows of ids as the inputs of an encoder, padded to a multiple of `PROMPT_STEP`, or to its positions."""
    length = round_up(max(map(len, rows)), PROMPT_STEP)
    token_ids = np.zeros((len(rows), length if longest is None else min(length, longest)), "int32")
    padding_mask = np.zeros_like(token_ids)
    for index, row in enumerate(rows):
        token_ids[index, : len(row)], padding_mask[index, : len(row)] = row, 1
    return {"token_ids": token_ids, "padding_mask": padding_mask}


class TokenStream:
    """The pieces of one sequence, as far as they are certain. `begins`: whether it is a text without a prompt."""

    def __init__(self, on_token, index, pieces, stops, begins=False):
        self.on_token, self.index, self.pieces, self.stops, self.begins = on_token, index, pieces, stops, begins
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text, self.shown = "", 0

    def add(self, token, finished):
        """Takes the next token, and reports what is certain now."""
        if self.pieces is None:
            self.on_token(self.index, token)
            return
        self.text += self.decoder.decode(self.pieces[token], final=finished)
        text = cut(self.text, self.stops, self.begins)
        if not finished:  # The end may be the beginning of a stop string.
            held = max((end for stop in self.stops for end in range(len(stop)) if text.endswith(stop[:end])), default=0)
            text = text[: len(text) - held]
        if len(text) > self.shown:
            self.on_token(self.index, text[self.shown :])
            self.shown = len(text)


def text_of(ids, pieces):
    """Returns the text of ids, given what each token adds to it."""
    return b"".join(pieces[index] for index in ids).decode("utf-8", "replace")


def cut(text, stops, begins=False):
    """Returns a text up to its first stop string, and without a space before its first word if it has no prompt."""
    places = [text.find(stop) for stop in stops]
    text = text[: min((place for place in places if place >= 0), default=len(text))]
    return text.removeprefix(" ") if begins else text

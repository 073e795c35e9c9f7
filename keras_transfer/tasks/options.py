"""The arguments of `generate` as one object, resolved for a task and the checkpoint of its encoder."""

import dataclasses

from keras_transfer.core.expect import integer
from keras_transfer.generation import BeamSearch, get_sampler
from keras_transfer.tasks.id_rows import end_ids, named_token_id, target_preprocessor


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
    """The arguments that `generate` of a task received, except for the prompts. `Generates.generate` describes them."""

    max_new_tokens: int | None
    min_new_tokens: int | None
    num_beams: int | None
    sampler: object
    num_sequences: int
    end_token: object
    repetition_penalty: float | None
    no_repeat_ngram: int | None
    bad_words: list | None
    forced_first: object
    forced_last: object
    stop: object
    seed: int | None
    on_token: object
    batch_size: int
    max_length: int | None = None  # An encoder-decoder has none, because its targets have no prompts.

    def __post_init__(self):
        least, most, count = self.min_new_tokens, self.max_new_tokens, self.num_sequences
        if least is not None and most is not None and least > most:
            raise ValueError(
                "`min_new_tokens` must not be greater than `max_new_tokens`. "
                f"Received: min_new_tokens={least!r} and max_new_tokens={most!r}"
            )
        integer(1).check("num_sequences", count)

    @classmethod
    def of(cls, arguments):
        """Returns the options, given `locals()` at the start of `generate`."""
        return cls(
            **{field.name: arguments[field.name] for field in dataclasses.fields(cls) if field.name in arguments}
        )

    @property
    def stops(self):
        """List of strings. The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)

    def sampler_of(self, task, beams):
        """Returns the sampler for a task, given the `BeamSearch` arguments of its checkpoint."""
        if self.num_beams is None:
            found = task.sampler if self.sampler is None else get_sampler(self.sampler)
        elif self.sampler is not None:
            raise ValueError(
                "`num_beams` is short for `sampler=generation.BeamSearch(...)`, so only one of them can be passed. "
                f"Received: num_beams={self.num_beams!r} and sampler={self.sampler!r}"
            )
        else:
            found = get_sampler("greedy") if self.num_beams == 1 else BeamSearch(self.num_beams, **beams)
        if self.on_token is not None and not found.streams:
            raise ValueError(
                "`on_token` requires a sampler that decides token by token, such as `sampler='greedy'` or 'top_p'. "
                f"Received: {type(found).__name__}"
            )
        return found

    def end_ids_of(self, task):
        """Returns the ids of the tokens that end a sequence of a task, as a tuple."""
        if isinstance(self.end_token, str) and self.end_token == "auto":
            return end_ids(task)
        return () if self.end_token is None else _token_ids(task, self.end_token, "end_token")

    def constraints_of(self, task):
        """Returns the `Constraints` of a task, replaced by the given options."""
        penalty, bad, first, last = self.repetition_penalty, self.bad_words, self.forced_first, self.forced_last
        given = {
            "repetition_penalty": None if penalty is None else float(penalty),
            "no_repeat_ngram": self.no_repeat_ngram,
            "bad_words": None if bad is None else _bad_ids(task, bad),
            "min_new_tokens": self.min_new_tokens,
            "min_length": None if self.min_new_tokens is None else 0,
            "forced_first": None if first is None else _token_ids(task, first, "forced_first")[0],
            "forced_last": None if last is None else _token_ids(task, last, "forced_last"),
        }
        given = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(task.default_constraints(), **given)


def _token_ids(task, tokens, argument):
    """Returns the ids of the token or list of tokens that the user passed, as a tuple."""
    tokens, count = tokens if isinstance(tokens, (list, tuple)) else [tokens], task.output.shape[-1]
    found = tuple(named_token_id(target_preprocessor(task), token, argument) for token in tokens)
    if wrong := [token for token in found if not 0 <= token < count]:
        raise ValueError(f"`{argument}` must be an id from 0 to {count - 1}. Received: {argument}={wrong[0]}")
    return found


def _bad_ids(task, words):
    """Returns bad words as a tuple of tuples of ids."""
    found = []
    for word in words:
        if isinstance(word, str):
            tokenizer = getattr(target_preprocessor(task), "tokenizer", None)
            if not tokenizer:
                raise ValueError(f"`bad_words` must be ids if there is no preprocessor. Received: {word!r}")
            found += [tuple(row) for row in tokenizer.tokenize([word, f" {word}"]).to_list()]
        else:
            found.append(tuple(int(token) for token in word))
    return tuple(dict.fromkeys(found))

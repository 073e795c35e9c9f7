"""How a language model continues prompts: strings or ids in, strings or ids out."""

import collections
import dataclasses
import inspect
import json

import keras
import numpy as np
from keras import ops

from keras_transfer.generation.decoding import OF_SAMPLERS, generation_defaults, log_unused
from keras_transfer.generation.loops import (
    Continuations,
    ExportedLoop,
    Generator,
    TokenStream,
    cut,
    stop_table,
    text_of,
)
from keras_transfer.generation.samplers import BeamSearch, get_sampler
from keras_transfer.names import GENERATION_HINTS, check_arguments
from keras_transfer.tasks.base import Signature
from keras_transfer.tasks.continuations.id_rows import check_rows, is_texts, prepared_rows, token_rows
from keras_transfer.tasks.continuations.tokens import end_ids, named_token_id, target_preprocessor, text_pieces
from keras_transfer.text.preprocessors import TokenPreprocessor
from keras_transfer.text.strings import align_ragged_right, take_pieces

_COMPILED = 8  # Number of generators that are kept.
_DEFAULT_LENGTH = 256  # Number of tokens at which texts end if nothing else says it, as for recurrent encoders.


class Generates:
    """A mixin for language models: continuations of prompts.

    A subclass calls `prepare_generation` in its constructor, and has the attributes `sampler` and `max_length`.
    """

    def prepare_generation(self, output_embeddings):
        """Keeps the layer of the logits, and a dict for compiled loops."""
        # Keras has the layer already.
        object.__setattr__(self, "output_embeddings", output_embeddings)
        # Not a dict, because Keras would save the weights of an encoder at their places in the loops.
        object.__setattr__(self, "compiled_generators", collections.UserDict())

    def generate(
        self,
        prompts,
        *,
        max_length=None,
        max_new_tokens=None,
        min_new_tokens=None,
        num_beams=None,
        sampler=None,
        num_sequences=1,
        end_token="auto",
        repetition_penalty=None,
        no_repeat_ngram=None,
        bad_words=None,
        forced_first=None,
        forced_last=None,
        stop=(),
        seed=None,
        on_token=None,
        batch_size=8,
        **unknown,
    ):
        """Continues prompts, with a cache of keys and values or, for a recurrent encoder, with its state.

        A sequence ends with its end token, with a stop string, or at its maximum length. The loop is compiled once for
        each sampler and shape: prompts are padded to multiples of 16 tokens, continuations to multiples of 32. Prompts
        may differ in length, and results do not depend on the other prompts or on `batch_size`.

        Defaults come from the `generation_config.json` of the encoder's checkpoint, or else from its `config.json`:
        `eos_token_id`, `max_length`, `max_new_tokens`, `min_length`, `min_new_tokens`, `repetition_penalty`,
        `no_repeat_ngram_size`, `bad_words_ids`, `suppress_tokens`, `forced_bos_token_id` and `forced_eos_token_id`, and
        for `num_beams` also `length_penalty` and `early_stopping`, each with the meaning that it has in Transformers.
        Other settings, such as `do_sample`, are not read, and the first call logs a warning that names them.

        Args:
            prompts: A string or a list of strings, or prepared ids: a list of lists of integers, or a dict of
                `token_ids` and `padding_mask` [batch, length].
            max_length: Integer. Number of tokens at which a sequence ends, including the prompt. Defaults to the
                `max_length` of the task, or else of the checkpoint, or else the encoder's number of positions, or else
                256.
            max_new_tokens: Integer. Number of new tokens at which a sequence ends, in place of `max_length`. Defaults
                to `None`: that of the checkpoint, unless there is a `max_length` of the call or the task.
            min_new_tokens: Integer. Number of new tokens before which no sequence ends with an end token. Defaults to
                `None`: that of the checkpoint, or else `0`.
            num_beams: Integer. Number of beams of a `BeamSearch` with the `length_penalty` and `early_stopping` of the
                checkpoint, in place of `sampler`. `1` is greedy. Defaults to `None`.
            sampler: `generation.Sampler` or its name, such as `"top_p"`. Defaults to the sampler of the task.
            num_sequences: Integer. Number of sequences for each prompt, with a random sampler or `BeamSearch`. Defaults
                to `1`.
            end_token: String or integer, or a list of them, or None. The tokens that end a sequence. Defaults to
                `"auto"`: those of the checkpoint, or else the `eos_token` of the tokenizer, or else the last token that
                the preprocessor puts after texts, or else none.
            repetition_penalty: Float. Factor that makes tokens that occurred before less likely. `1.0` for no penalty.
                Defaults to `None`: that of the checkpoint, or else `1.0`.
            no_repeat_ngram: Integer. No sequence of this many tokens occurs twice. `0` for no restriction. Defaults to
                `None`: that of the checkpoint, or else `0`.
            bad_words: List of strings, or of lists of ids, that must not occur. A string is excluded as its tokens with
                and without a space before it. Defaults to `None`: those of the checkpoint, or else none.
            forced_first: String or integer. The token after the first one of a sequence, prompt included, so it only
                concerns prompts of one token. Defaults to `None`: that of the checkpoint, or else none.
            forced_last: String or integer, or a list of them. Tokens of which one is the last at the maximum length.
                Defaults to `None`: those of the checkpoint, or else none.
            stop: String or list of strings. The text ends before the first stop string, even if that begins or ends
                inside a token. Defaults to none.
            seed: Integer. Seed of random samplers. Defaults to `None`, which follows `keras.utils.set_random_seed`.
            on_token: Callable `(index, piece)`, called for each new piece of a sequence as soon as it is certain.
                `index` is the position of the sequence among all sequences. A piece is a string for texts, and a token
                id for ids. Defaults to `None`.
            batch_size: Integer. Number of prompts in a batch. Defaults to `8`.
            **unknown: Must be empty. Names of Transformers' arguments raise an error that says what to pass instead.

        Returns:
            The continuations without their prompts: a list of strings for a list of strings, and a string for a string.
            For ids, a list of lists of ids, which include the end token. If `num_sequences` is greater than 1, a list
            of these for each prompt.

        Raises:
            TypeError: If there is no argument of a name in `unknown`.
            ValueError: If a prompt is empty, or longer than the encoder's positions or than `max_length`; if an
                argument is out of range, or two exclude each other; or if strings are used without a preprocessor.

        Example:
        ```python
        encoder = keras_transfer.encoders.TransformerEncoder(
            20, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
        )
        model = keras_transfer.tasks.CausalLM(encoder)
        model.generate([[3, 4, 5], [6]], max_length=8, sampler=keras_transfer.generation.TopP(0.9), seed=0)
        ```
        """
        if unknown:
            known = [
                name for name in inspect.signature(Generates.generate).parameters if name not in ("self", "unknown")
            ]
            check_arguments(f"{type(self).__name__}.generate", unknown, known, GENERATION_HINTS)
        single = isinstance(prompts, (str, bytes))
        prompts = [prompts] if single else prompts
        raw = is_texts(prompts)
        rows = token_rows(self, prompts) if raw else prepared_rows(prompts)
        check_new_tokens(min_new_tokens, max_new_tokens)
        check_rows(self, rows, "prompt")
        found = self.continue_rows(
            rows,
            self._lengths(rows, max_length, max_new_tokens),
            raw=raw,
            min_new_tokens=min_new_tokens,
            num_beams=num_beams,
            sampler=sampler,
            num_sequences=num_sequences,
            end_token=end_token,
            repetition_penalty=repetition_penalty,
            no_repeat_ngram=no_repeat_ngram,
            bad_words=bad_words,
            forced_first=forced_first,
            forced_last=forced_last,
            stop=stop,
            seed=seed,
            on_token=on_token,
            batch_size=batch_size,
        )
        return found[0] if single else found

    def continue_rows(
        self,
        rows,
        lengths,
        *,
        raw,
        min_new_tokens,
        num_beams,
        sampler,
        num_sequences,
        end_token,
        repetition_penalty,
        no_repeat_ngram,
        bad_words,
        forced_first,
        forced_last,
        stop,
        seed,
        on_token,
        batch_size,
        context_rows=None,
    ):
        """Returns the continuations of rows of ids, as `generate` does, whose other arguments are these.

        Args:
            rows: List of integer arrays, the prompts.
            lengths: List of integers. For each prompt, the number of tokens at which a sequence ends, prompt included.
            raw: Boolean. Whether to return strings.
            context_rows: List of integer arrays, one for each prompt, that an encoder-decoder encodes. Defaults to
                `None`.
        """
        defaults = generation_defaults(self.encoder)
        self._log_unused(defaults, sampler is not None or num_beams is not None)
        sampler = self._sampler(sampler, num_beams, defaults)
        if not isinstance(num_sequences, int) or num_sequences < 1:
            raise ValueError(f"`num_sequences` must be an integer of at least 1. Received: {num_sequences!r}")
        if on_token is not None and not sampler.streams:
            raise ValueError(
                f"`on_token` requires a sampler that decides token by token. Received: {type(sampler).__name__}"
            )
        end = self._end_ids(end_token)
        first = None if forced_first is None else self._token_ids([forced_first], "forced_first")[0]
        given = {
            "repetition_penalty": None if repetition_penalty is None else float(repetition_penalty),
            "no_repeat_ngram": no_repeat_ngram,
            "bad_words": None if bad_words is None else self._bad_ids(bad_words),
            "min_new_tokens": min_new_tokens,
            "min_length": None if min_new_tokens is None else 0,
            "forced_first": first,
            "forced_last": None if forced_last is None else self._token_ids(forced_last, "forced_last"),
        }
        given = {name: value for name, value in given.items() if value is not None}
        constraints = dataclasses.replace(self.default_constraints(), **given)
        stops = [stop] if isinstance(stop, str) else list(stop)
        pieces = text_pieces(self) if raw or stops else None
        table = stop_table(stops, pieces) if stops else None
        options = (sampler, num_sequences, end, constraints, lengths, seed, batch_size, table, context_rows)
        positions = getattr(self.encoder, "max_sequence_length", None)
        run = Continuations(self.generator, *options, context_length=positions)
        streams = None
        if on_token is not None:
            count = len(rows) * num_sequences
            begins = context_rows is not None  # A target begins a text, so that its first word needs no space.
            streams = [TokenStream(on_token, index, pieces if raw else None, stops, begins) for index in range(count)]
        found = run(rows, streams)
        if raw:
            found = [cut(text_of(ids, pieces), stops, context_rows is not None) for ids in found]
        if num_sequences > 1:
            found = [found[i : i + num_sequences] for i in range(0, len(found), num_sequences)]
        return found

    def default_constraints(self):
        """Returns the `Constraints` of the encoder's checkpoint."""
        return generation_defaults(self.encoder).constraints

    def _sampler(self, sampler, num_beams, defaults):
        """Returns the sampler of a call of `generate`."""
        if num_beams is None:
            return self.sampler if sampler is None else get_sampler(sampler)
        if sampler is not None:
            raise ValueError(
                "`num_beams` is short for `sampler=generation.BeamSearch(...)`, so only one of them can be passed. "
                f"Received: num_beams={num_beams!r} and sampler={sampler!r}"
            )
        return get_sampler("greedy") if num_beams == 1 else BeamSearch(num_beams, **defaults.beams)

    def _log_unused(self, defaults, has_sampler):
        """Logs the settings of the checkpoint that are not read, each once for each task."""
        logged = getattr(self, "logged_defaults", frozenset())
        ignored = logged | (OF_SAMPLERS if has_sampler else frozenset())
        unused = {name: value for name, value in defaults.unused.items() if name not in ignored}
        log_unused(unused)
        object.__setattr__(self, "logged_defaults", logged | set(unused))

    def _lengths(self, rows, max_length, max_new_tokens):
        """Returns the number of tokens at which each row ends, of which its prompt is a part."""
        default = generation_defaults(self.encoder).max_new_tokens
        if max_new_tokens is None and (max_length is not None or self.max_length is not None or default is None):
            return [self._checked_length(max_length, rows)] * len(rows)
        if max_length is not None:
            raise ValueError(
                "Only one of `max_length`, which counts the tokens of the prompt, and `max_new_tokens` can be passed. "
                f"Received: max_length={max_length!r} and max_new_tokens={max_new_tokens!r}"
            )
        positions = getattr(self.encoder, "max_sequence_length", None)
        if max_new_tokens is None:
            lengths = [len(row) + default for row in rows]
            return lengths if positions is None else [min(length, positions) for length in lengths]
        if not isinstance(max_new_tokens, (int, np.integer)) or isinstance(max_new_tokens, bool) or max_new_tokens < 0:
            raise ValueError(
                f"`max_new_tokens` must be an integer of at least 0. Received: max_new_tokens={max_new_tokens!r}"
            )
        for index, row in enumerate(rows):
            if positions is not None and len(row) + max_new_tokens > positions:
                raise ValueError(
                    f"A prompt and its new tokens must fit in {positions} places, the encoder's number of positions. "
                    f"Received: max_new_tokens={max_new_tokens} and a prompt of {len(row)} tokens at position {index}"
                )
        return [len(row) + int(max_new_tokens) for row in rows]

    def _checked_length(self, max_length, rows):
        """Returns `max_length`, or its default, if it fits the prompts and the encoder."""
        positions = getattr(self.encoder, "max_sequence_length", None)
        default = self.max_length or generation_defaults(self.encoder).max_length or positions or _DEFAULT_LENGTH
        default = default if self.max_length or positions is None else min(default, positions)
        max_length = default if max_length is None else max_length
        if not isinstance(max_length, (int, np.integer)):
            raise ValueError(f"`max_length` must be an integer. Received: max_length={max_length!r}")
        if positions is not None and max_length > positions:
            raise ValueError(
                f"`max_length` must be at most {positions}, the encoder's number of positions. "
                f"Received: max_length={max_length}"
            )
        for index, row in enumerate(rows):
            if len(row) > max_length:
                raise ValueError(
                    "`max_length` counts the tokens of the prompt too, so it must not be smaller. Pass "
                    "`max_new_tokens` to count only new ones. "
                    f"Received: max_length={max_length} and a prompt of {len(row)} tokens at position {index}"
                )
        return int(max_length)

    def _end_ids(self, token):
        """Returns the ids of the tokens that end a sequence, as a tuple."""
        if token is None:
            return ()
        if isinstance(token, str) and token == "auto":
            return end_ids(self)
        return self._token_ids(token, "end_token")

    def _token_ids(self, tokens, argument):
        tokens = tokens if isinstance(tokens, (list, tuple)) else [tokens]
        found, count = (
            [named_token_id(target_preprocessor(self), token, argument) for token in tokens],
            self.output.shape[-1],
        )
        if wrong := [token for token in found if not 0 <= token < count]:
            raise ValueError(f"`{argument}` must be an id from 0 to {count - 1}. Received: {argument}={wrong[0]}")
        return tuple(found)

    def _bad_ids(self, words):
        """Returns bad words as a tuple of tuples of ids."""
        found = []
        for word in words:
            if isinstance(word, str):
                tokenizer = getattr(target_preprocessor(self), "tokenizer", None)
                if not tokenizer:
                    raise ValueError(f"`bad_words` must be ids if there is no preprocessor. Received: {word!r}")
                found += [tuple(row) for row in tokenizer.tokenize([word, f" {word}"]).to_list()]
            else:
                found.append(tuple(int(token) for token in word))
        return tuple(dict.fromkeys(found))

    def generator(self, sampler, steps, num_sequences, end, constraints, shapes, returns_state=False):
        """Returns the compiled loop of a sampler for inputs of given shapes."""
        config = json.dumps(keras.saving.serialize_keras_object(sampler), sort_keys=True)
        key = (config, steps, num_sequences, end, constraints, shapes, returns_state)
        self.head_adapters.check()
        kept = self.compiled_generators
        if key not in kept:
            if len(kept) >= _COMPILED:
                kept.pop(next(name for name in kept if name != "scorer"))
            kept[key] = Generator(
                self.encoder, self.output_embeddings, sampler, steps, num_sequences, end, constraints, returns_state
            )
        return kept[key]

    # === Export ===

    def exported_loop(self, steps, jit_compile=False):
        """Returns the `ExportedLoop` of an exported model, which writes up to `steps` tokens.

        Raises:
            ValueError: If the sampler is random.
        """
        if self.sampler.is_random:
            raise ValueError(
                "An exported model needs a sampler without random numbers, such as `sampler='greedy'` or 'beam'. "
                f"Received: {type(self.sampler).__name__}"
            )
        options = (self.sampler, steps, 1, end_ids(self), self.default_constraints())
        generator = Generator(self.encoder, self.output_embeddings, *options, jit_compile=False)
        return ExportedLoop(generator, jit_compile, getattr(self.encoder, "max_sequence_length", None))

    def signatures(self, pairs=False, jit_compile=False):
        """Returns the signatures of an exported model.

        Args:
            pairs: Must be `False`, because a `CausalLM` does not support pairs.
            jit_compile: Boolean. Whether XLA compiles the loop of `"serving_default"`. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text` to its `continuation`, with the task's `sampler` and `max_length`. If a
              prompt is too long, only its last tokens are read. The continuation of a prompt without tokens is "".
            - `"tokens"`: from the encoder's inputs to `logits`

        Raises:
            ValueError: If `pairs=True`, or if the sampler is random.
        """
        signatures = super().signatures(pairs)
        if not isinstance(self.preprocessor, TokenPreprocessor):
            return signatures
        max_length, pieces = self._checked_length(None, ()), text_pieces(self)
        new_only = None if self.max_length else generation_defaults(self.encoder).max_new_tokens
        start = [self.preprocessor.token_to_id(token) for token in self.preprocessor.packing.start]
        loop = self.exported_loop(max_length, jit_compile)

        def continue_text(text):
            ids = self.preprocessor.tokenize(text)
            token_ids, first = align_ragged_right(ids, start, max_length - 1)
            length = ops.shape(token_ids)[1]
            limit = first + max_length
            limit = limit if new_only is None else ops.minimum(limit, length + new_only)
            limit = ops.where(first < length, limit, 0)
            until = length + max_length
            found = loop({"token_ids": token_ids, "first": first, "limit": limit, "until": until})
            place = ops.arange(ops.shape(found["tokens"])[1])[None]
            new = ops.logical_and(place >= length, place < found["end"][:, None])
            return {"continuation": take_pieces(found["tokens"], new, pieces)}

        text = keras.KerasTensor((None,), "string")
        return {"serving_default": Signature(continue_text, {"text": text}), **signatures}


def check_new_tokens(least, most):
    """Raises a `ValueError` if `generate` is asked for more new tokens than it may write."""
    if least is not None and most is not None and least > most:
        raise ValueError(
            "`min_new_tokens` must not be greater than `max_new_tokens`. "
            f"Received: min_new_tokens={least!r} and max_new_tokens={most!r}"
        )

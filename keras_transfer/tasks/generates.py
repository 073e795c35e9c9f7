"""Generation: how a language model continues prompts, given and returned as strings or ids."""

import collections
import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_transfer.generation import (
    OF_SAMPLERS,
    Continuations,
    ExportedLoop,
    Generator,
    TokenStream,
    cut,
    generation_defaults,
    log_unused,
    stop_table,
    text_of,
)
from keras_transfer.tasks.id_rows import end_ids, lengths_of, rows_of, text_pieces, token_rows
from keras_transfer.tasks.options import GenerationOptions

_COMPILED = 8  # Number of compiled generators to keep.


_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class Generates(_Task):
    """A mixin for language models that continues prompts.

    A subclass calls `prepare_generation` in its constructor, and has the attributes `sampler` and `max_length`.
    """

    def prepare_generation(self, output_embeddings):
        """Stores the layer that returns logits, and a dict for compiled loops.

        Args:
            output_embeddings: Layer from the encoder's vectors `[batch, length, dim]` to logits `[batch, length,
                vocabulary]`.
        """
        # Keras has the layer already.
        object.__setattr__(self, "output_embeddings", output_embeddings)
        # A plain dict would be tracked by Keras, which would then save the encoder's weights as part of the loops.
        object.__setattr__(self, "compiled_generators", collections.UserDict())

    def generate(
        self,
        prompts: Any,
        *,
        max_length: int | None = None,
        max_new_tokens: int | None = None,
        min_new_tokens: int | None = None,
        num_beams: int | None = None,
        sampler: Any = None,
        num_sequences: int = 1,
        end_token: Any = "auto",
        repetition_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        bad_words: Sequence[Any] | None = None,
        forced_first: str | int | None = None,
        forced_last: Any = None,
        stop: str | Sequence[str] = (),
        seed: int | None = None,
        on_token: Callable[[int, Any], Any] | None = None,
        batch_size: int = 8,
    ) -> Any:
        """Continues prompts, with a cache of keys and values or, for a recurrent encoder, with its state.

        A sequence ends with its end token, with a stop string, or at its maximum length. The loop is compiled once for
        each sampler and shape: prompts are padded to multiples of 16 tokens, continuations to multiples of 32. Prompts
        may differ in length, and results do not depend on the other prompts or on `batch_size`.

        Defaults come from the `generation_config.json` of the encoder's checkpoint, or else from its `config.json`:
        `eos_token_id`, `max_length`, `max_new_tokens`, `min_length`, `min_new_tokens`, `repetition_penalty`,
        `no_repeat_ngram_size`, `bad_words_ids`, `suppress_tokens`, `forced_bos_token_id` and `forced_eos_token_id`, and
        for `num_beams` also `length_penalty` and `early_stopping`, each with the same meaning as in Transformers. Other
        settings, such as `do_sample`, are ignored, and the first call logs a warning that names them.

        Args:
            prompts: A string or a list of strings, or prepared ids: a list of lists of integers, or a dict of
                `token_ids` and `padding_mask` `[batch, length]`.
            max_length: Integer. Maximum number of tokens of a sequence, including the prompt. Defaults to `None`:
                the `max_length` of the task, or else of the checkpoint, or else the encoder's number of positions, or
                else 256.
            max_new_tokens: Integer. Number of new tokens at which a sequence ends, instead of `max_length`. Defaults to
                `None`: the checkpoint's value, unless the call or the task has a `max_length`.
            min_new_tokens: Integer. Number of new tokens before which no sequence ends with an end token. Defaults to
                `None`: the checkpoint's value, or else `0`.
            num_beams: Integer. Number of beams of a `BeamSearch` with the `length_penalty` and `early_stopping` of the
                checkpoint, instead of `sampler`. `1` is greedy. Defaults to `None`, which uses `sampler`.
            sampler: `generation.Sampler` or its name, such as `"top_p"`. Defaults to `None`, the sampler of the task.
            num_sequences: Integer. Number of sequences for each prompt, with a random sampler or `BeamSearch`. Defaults
                to `1`.
            end_token: String or integer, or a list of them, or `None`. The tokens that end a sequence. Defaults to
                `"auto"`: the checkpoint's tokens, or else the `eos_token` of the tokenizer, or else the last token that
                the preprocessor puts after texts, or else none.
            repetition_penalty: Float. Factor that makes tokens that occurred before less likely. `1.0` for no penalty.
                Defaults to `None`: the checkpoint's value, or else `1.0`.
            no_repeat_ngram: Integer. No sequence of this many tokens occurs twice. `0` for no restriction. Defaults to
                `None`: the checkpoint's value, or else `0`.
            bad_words: List of strings, or of lists of ids, that must not occur. A string is excluded both with and
                without a space before it. Defaults to `None`: the checkpoint's words, or else none.
            forced_first: String or integer. The token after the first one of a sequence, prompt included, so it only
                affects prompts of one token. Defaults to `None`: the checkpoint's token, or else none.
            forced_last: String or integer, or a list of them. Tokens, one of which comes last at the maximum length.
                Defaults to `None`: the checkpoint's tokens, or else none.
            stop: String or list of strings. The text ends before the first stop string, even if that begins or ends
                inside a token. Defaults to `()`, for none.
            seed: Integer. Seed of random samplers. Defaults to `None`, which follows `keras.utils.set_random_seed`.
            on_token: Callable `(index, piece)`, called for each new piece of a sequence as soon as it is certain.
                `index` is the position of the sequence among all sequences. A piece is a string for texts, and a token
                id for ids. Defaults to `None`.
            batch_size: Integer. Number of prompts in a batch. Defaults to `8`.

        Returns:
            The continuations without their prompts: a list of strings for a list of strings, and a string for a string.
            For ids, a list of lists of ids, which include the end token. If `num_sequences` is greater than 1, a list
            of these for each prompt.

        Raises:
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
        options = GenerationOptions.of(locals())
        rows, raw, single = rows_of(self, prompts, functools.partial(token_rows, self), "prompt")
        found = self.continue_rows(rows, lengths_of(self, rows, options), options, raw)
        return found[0] if single else found

    def continue_rows(self, rows: Any, lengths: Any, options: Any, raw: Any, context_rows: Any = None) -> list[Any]:
        """Returns the continuations of rows of ids, as `generate` does.

        Args:
            rows: List of integer arrays, the prompts.
            lengths: List of integers. For each prompt, the number of tokens at which a sequence ends, prompt included.
            options: `GenerationOptions`.
            raw: Boolean. Whether to return strings.
            context_rows: List of integer arrays, one for each prompt, that an encoder-decoder encodes. Defaults to
                `None`, for a decoder alone.

        Returns:
            List of strings or of lists of ids, one for each prompt, or a list of these if there are several sequences.
        """
        defaults = generation_defaults(self.encoder)
        self._log_unused(defaults, options.sampler is not None or options.num_beams is not None)
        count, stops, on_token = options.num_sequences, options.stops, options.on_token
        pieces = text_pieces(self) if raw or stops else None
        run = Continuations(
            self.generator,
            options.sampler_of(self, defaults.beams),
            num_sequences=count,
            end_ids=options.end_ids_of(self),
            constraints=options.constraints_of(self),
            lengths=lengths,
            seed=options.seed,
            batch_size=options.batch_size,
            stop_table=stop_table(stops, pieces) if stops else None,
            context_rows=context_rows,
            context_length=getattr(self.encoder, "max_sequence_length", None),
        )
        begins, streams = context_rows is not None, None  # A target begins a text: its first word needs no space.
        if on_token is not None:
            shown = pieces if raw else None
            streams = [TokenStream(on_token, index, shown, stops, begins) for index in range(len(rows) * count)]
        found = run(rows, streams)
        if raw:
            found = [cut(text_of(ids, pieces), stops, begins) for ids in found]
        return found if count == 1 else [found[i : i + count] for i in range(0, len(found), count)]

    def default_new_tokens(self) -> int | None:
        """Returns the `max_new_tokens` of the encoder's checkpoint.

        Returns:
            Integer, or `None` if the checkpoint does not specify it.
        """
        return generation_defaults(self.encoder).max_new_tokens

    def default_constraints(self) -> Any:
        """Returns the constraints that the encoder's checkpoint puts on generated tokens.

        Returns:
            `Constraints`.
        """
        return generation_defaults(self.encoder).constraints

    def _log_unused(self, defaults, has_sampler):
        """Logs a warning for the checkpoint settings that are ignored, each once for each task."""
        logged = getattr(self, "logged_defaults", frozenset())
        ignored = logged | (OF_SAMPLERS if has_sampler else frozenset())
        unused = {name: value for name, value in defaults.unused.items() if name not in ignored}
        log_unused(unused)
        object.__setattr__(self, "logged_defaults", logged | set(unused))

    def generator(
        self,
        sampler: Any,
        steps: int,
        num_sequences: int,
        end: tuple[int, ...],
        constraints: Any,
        shapes: Any,
        returns_state: bool = False,
    ) -> Generator:
        """Returns the compiled loop of a sampler for inputs of given shapes, which is kept for later calls.

        Args:
            sampler: `generation.Sampler`.
            steps: Integer. Number of tokens that the loop writes at most.
            num_sequences: Integer. Number of sequences for each prompt.
            end: Tuple of the ids of end tokens.
            constraints: `Constraints` on the tokens.
            shapes: Tuple of the shapes of the inputs.
            returns_state: Boolean. Whether the loop also returns its last state. Defaults to `False`.

        Returns:
            `Generator`.
        """
        config = json.dumps(keras.saving.serialize_keras_object(sampler), sort_keys=True)
        key = (config, steps, num_sequences, end, constraints, shapes, returns_state)
        self.discard_if_changed()
        kept = self.compiled_generators
        if key not in kept:
            if len(kept) >= _COMPILED:
                kept.pop(next(name for name in kept if name != "scorer"))
            kept[key] = Generator(
                *(self.encoder, self.output_embeddings, sampler),
                steps=steps,
                num_sequences=num_sequences,
                end_ids=end,
                constraints=constraints,
                returns_state=returns_state,
            )
        return kept[key]

    def exported_loop(self, steps: int, jit_compile: bool = False) -> ExportedLoop:
        """Returns the generation loop of an exported model.

        Args:
            steps: Integer. Number of tokens that the loop writes at most.
            jit_compile: Boolean. Whether XLA compiles the loop. Defaults to `False`.

        Returns:
            `ExportedLoop`.

        Raises:
            ValueError: If the sampler is random.
        """
        if self.sampler.is_random:
            raise ValueError(
                "An exported model needs a sampler without random numbers, such as `sampler='greedy'` or 'beam'. "
                f"Received: {type(self.sampler).__name__}"
            )
        generator = Generator(
            *(self.encoder, self.output_embeddings, self.sampler),
            steps=steps,
            num_sequences=1,
            end_ids=end_ids(self),
            constraints=self.default_constraints(),
            jit_compile=False,
        )
        return ExportedLoop(generator, jit_compile, getattr(self.encoder, "max_sequence_length", None))

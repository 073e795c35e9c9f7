"""What language models do with texts: continue prompts, given and returned as strings or ids, and score texts."""

import dataclasses
import functools
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.data import compiles_each_length
from keras_transfer.generation import (
    OF_SAMPLERS,
    PROMPT_STEP,
    BeamSearch,
    Continuations,
    ExportedLoop,
    Generator,
    TokenStream,
    cut,
    generation_defaults,
    get_sampler,
    log_unused,
    round_up,
    stop_table,
    text_of,
)
from keras_transfer.tasks.id_rows import (
    end_ids,
    lengths_of,
    named_token_id,
    prefix_ids,
    rows_of,
    target_preprocessor,
    text_pieces,
    token_rows,
)
from keras_transfer.tasks.likelihoods import target_log_likelihoods
from keras_transfer.text import count_words

_ROWS = 2048  # Number of rows whose contexts are compared with one another.
_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class Generates(_Task):
    """A mixin for language models that continues prompts.

    A subclass calls `prepare_generation` in its constructor, and has the attributes `sampler` and `max_length`.
    """

    def prepare_generation(self, output_embeddings):
        """Stores the layer that returns logits.

        Args:
            output_embeddings: Layer from the encoder's vectors `[batch, length, dim]` to logits `[batch, length,
                vocabulary]`.
        """
        # Keras has the layer already.
        object.__setattr__(self, "output_embeddings", output_embeddings)

    @expects(max_length=integer(1), max_new_tokens=integer(0), min_new_tokens=integer(0), num_sequences=integer(1))
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

        The prompts of a `Seq2SeqLM` are sources, each of which is encoded once, for all tokens and beams of its target.
        The sequence is then the target alone, which begins with the start token.

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
                `token_ids` and `padding_mask` `[batch, length]`. Strings for a `Seq2SeqLM` are truncated as in `fit`.
            max_length: Integer. Maximum number of tokens of a sequence, including the prompt. Defaults to `None`:
                the `max_length` of the task, or else of the checkpoint, or else the encoder's number of positions, or
                else 256.
            max_new_tokens: Integer. Number of new tokens at which a sequence ends, instead of `max_length`. Defaults to
                `None`: the value of a `Seq2SeqLM`, or else the checkpoint's, unless the call or the task has a
                `max_length`.
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
                affects prompts of one token, and the targets of a `Seq2SeqLM`. Defaults to `None`: the language of the
                targets or the checkpoint's token, or else none.
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
        rule = "`min_new_tokens` must not be greater than `max_new_tokens`."
        is_less = None in (min_new_tokens, max_new_tokens) or min_new_tokens <= max_new_tokens
        expect(is_less, rule, min_new_tokens=min_new_tokens, max_new_tokens=max_new_tokens)
        rows, context_rows, raw, single = self._prompt_rows(prompts)
        lengths = lengths_of(self, rows, max_length, max_new_tokens, min_new_tokens)
        defaults = generation_defaults(self.encoder)
        self._log_unused(defaults, sampler is not None or num_beams is not None)
        given = {
            "repetition_penalty": None if repetition_penalty is None else float(repetition_penalty),
            "no_repeat_ngram": no_repeat_ngram,
            "bad_words": None if bad_words is None else _bad_ids(self, bad_words),
            "min_new_tokens": min_new_tokens,
            "min_length": None if min_new_tokens is None else 0,
            "forced_first": None if forced_first is None else _token_ids(self, forced_first, "forced_first")[0],
            "forced_last": None if forced_last is None else _token_ids(self, forced_last, "forced_last"),
        }
        given = {name: value for name, value in given.items() if value is not None}
        stops = [stop] if isinstance(stop, str) else list(stop)
        pieces = text_pieces(self) if raw or stops else None
        run = Continuations(
            self.generator,
            _chosen_sampler(self, sampler, num_beams, defaults.beams, on_token),
            num_sequences=num_sequences,
            end_ids=end_ids(self) if end_token == "auto" else _token_ids(self, end_token, "end_token"),
            constraints=dataclasses.replace(self.default_constraints(), **given),
            lengths=lengths,
            seed=seed,
            batch_size=batch_size,
            stop_table=stop_table(stops, pieces) if stops else None,
            context_rows=context_rows,
            context_length=getattr(self.encoder, "max_sequence_length", None),
        )
        begins, streams = context_rows is not None, None  # A target begins a text: its first word needs no space.
        if on_token is not None:
            shown = pieces if raw else None
            streams = [TokenStream(on_token, index, shown, stops, begins) for index in range(len(rows) * num_sequences)]
        found = run(rows, streams)
        if raw:
            found = [cut(text_of(ids, pieces), stops, begins) for ids in found]
        if num_sequences > 1:
            found = [found[i : i + num_sequences] for i in range(0, len(found), num_sequences)]
        return found[0] if single else found

    def _prompt_rows(self, prompts):
        """Returns rows of ids, those that an encoder reads or `None`, and whether they were texts, or a single one."""
        rows, raw, single = rows_of(self, prompts, self._ids_of_texts, "prompt")
        return rows, None, raw, single

    def _ids_of_texts(self, texts, end=False):
        """Returns texts as rows of ids, with the preprocessor's tokens in front and, with `end`, behind."""
        return token_rows(self, texts, end)

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
        make = functools.partial(
            Generator,
            self.encoder,
            self.output_embeddings,
            sampler,
            steps=steps,
            num_sequences=num_sequences,
            end_ids=end,
            constraints=constraints,
            returns_state=returns_state,
        )
        return self.derived(key, make)

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
        rule = "An exported model needs a sampler without random numbers, such as `sampler='greedy'` or 'beam'."
        expect(not self.sampler.is_random, rule, sampler=self.sampler)
        generator = Generator(
            *(self.encoder, self.output_embeddings, self.sampler),
            steps=steps,
            num_sequences=1,
            end_ids=end_ids(self),
            constraints=self.default_constraints(),
            jit_compile=False,
        )
        return ExportedLoop(generator, jit_compile, getattr(self.encoder, "max_sequence_length", None))


def _chosen_sampler(task, sampler, num_beams, beams, on_token):
    """Returns the sampler of a call of `generate`, given the `BeamSearch` arguments of the checkpoint."""
    if num_beams is None:
        found = task.sampler if sampler is None else get_sampler(sampler)
    elif sampler is not None:
        raise ValueError(
            "`num_beams` is short for `sampler=generation.BeamSearch(...)`, so only one of them can be passed. "
            f"Received: num_beams={num_beams!r} and sampler={sampler!r}"
        )
    else:
        found = get_sampler("greedy") if num_beams == 1 else BeamSearch(num_beams, **beams)
    rule = "`on_token` requires a sampler that decides token by token, such as `sampler='greedy'` or 'top_p'."
    expect(on_token is None or found.streams, rule, sampler=found)
    return found


def _token_ids(task, tokens, argument):
    """Returns the ids of the token or list of tokens that the user passed, or of none for `None`, as a tuple."""
    tokens = [] if tokens is None else tokens if isinstance(tokens, (list, tuple)) else [tokens]
    found, count = (
        tuple(named_token_id(target_preprocessor(task), each, argument) for each in tokens),
        task.output.shape[-1],
    )
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


log = logging.getLogger("keras_transfer")


@dataclasses.dataclass
class Scores:
    """The likelihoods of texts under a language model.

    The first token of a text is not scored, since nothing predicts it. If the preprocessor puts a token in front of
    each text, that token is the first one, and all tokens of the text are scored. A token that it puts at the end is
    scored, too.

    Attributes:
        token_log_likelihoods: List of arrays `[scored tokens]`, the natural logarithm of each token's probability given
            the tokens before it.
        log_likelihoods: Array `[texts]`, the sum for each text.
        perplexity_per_token: Float. `exp(-sum / tokens)`, over the scored tokens of all texts.
        perplexity_per_word: Float. `exp(-sum / words)`, over the words of all texts, split at white space. Each
            character of a script without spaces between words, such as those of Chinese, Japanese and Thai, counts as
            a word. Use it to compare models with different tokenizers. `None` for prepared ids.
    """

    token_log_likelihoods: list
    log_likelihoods: np.ndarray
    perplexity_per_token: float
    perplexity_per_word: float | None


class Likelihood(_Task):
    """A mixin for language models that returns the likelihood of texts."""

    def score(self, texts: Any, *, prefix: str | int | None = None, batch_size: int = 8) -> Scores:
        """Returns the likelihood of texts, which are not truncated.

        Args:
            texts: A string or a list of strings, or prepared ids as lists of integers.
            prefix: String or integer. Token in front of each text, from which its first token is predicted. `"auto"`
                is the token that ends texts, as in the pretraining of GPT-2, or none if the preprocessor puts a token
                in front. Defaults to `None`, for none.
            batch_size: Integer. Number of texts in a batch. Defaults to `8`.

        Returns:
            `Scores`, with `token_log_likelihoods`, `log_likelihoods`, `perplexity_per_token` and `perplexity_per_word`.

        Raises:
            ValueError: If a text has no tokens, or more tokens than the encoder has positions, or if `prefix` is not a
                token or is used with prepared ids.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film"]
        encoder = keras_transfer.encoders.TransformerEncoder(
            len(vocabulary), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True
        )
        model = keras_transfer.tasks.CausalLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
        model.score(["The film"]).perplexity_per_token
        ```
        """

        def ids_of(each):
            first = () if prefix is None else prefix_ids(self, prefix)
            return [np.array([*first, *row], "int32") for row in self._ids_of_texts(each, end=True)]

        rows, raw, single = rows_of(self, texts, ids_of, "text")
        expect(raw or prefix is None or not rows, "`prefix` requires texts. Put the token in front of the ids.", prefix)
        texts = [texts] if single else texts
        found = check_numbers(self.token_log_likelihoods(rows, batch_size=batch_size))
        sums = np.array([values.sum(dtype="float64") for values in found])
        tokens = max(sum(map(len, found)), 1)
        if empty := [index for index, values in enumerate(found) if not len(values)]:
            log.warning(
                "%d of %d texts have no token that anything predicts, such as the one at position %d. Their "
                "log-likelihood is 0, which is no probability of 1.",
                *(len(empty), len(found), empty[0]),
            )
        words = max(sum(count_words(str(text)) for text in texts), 1) if raw else None
        return Scores(
            found,
            sums,
            float(np.exp(-sums.sum() / tokens)),
            None if words is None else float(np.exp(-sums.sum() / words)),
        )

    def token_log_likelihoods(
        self, rows: Sequence[np.ndarray], firsts: Sequence[int] | None = None, *, batch_size: int = 8
    ) -> list[np.ndarray]:
        """Returns the log-likelihood of each token in rows of ids, except for the first tokens of a row.

        Equal beginnings of 2,048 rows are multiplied with the vocabulary once, and rows whose contexts others contain
        are not computed.

        Args:
            rows: List of integer arrays.
            firsts: List of integers. The position of the first token that counts in each row, at least 1. Defaults to
                `None`, for 1.
            batch_size: Integer. Number of rows in a batch. Defaults to `8`.

        Returns:
            List of float32 arrays, one for each row.
        """
        firsts = [1] * len(rows) if firsts is None else firsts
        if len(rows) > _ROWS:  # What is below takes about 0.5 KB for each token of all rows.
            starts = range(0, len(rows), _ROWS)
            blocks = [(rows[start : start + _ROWS], firsts[start : start + _ROWS]) for start in starts]
            return [row for block in blocks for row in self.token_log_likelihoods(*block, batch_size=batch_size)]
        numbers: dict[Any, int] = {}  # The number of each different beginning.
        asked: dict[int, Any] = {}  # From such a number to the tokens that come next, and the numbers with these.
        paths = []
        for row, first in zip(rows, firsts):
            path, tokens = [-1], row.tolist()
            for token in tokens:
                path.append(numbers.setdefault((path[-1], token), len(numbers)))
            for place in range(first, len(tokens)):
                asked.setdefault(path[place], {})[tokens[place]] = path[place + 1]
            paths.append(path)
        left, parts = {*asked}, []  # A context is computed in the longest row that has it.
        for path, row in sorted(zip(paths, rows), key=lambda each: -len(each[1])):
            if ends := [end for end in range(1, len(row)) if path[end] in left]:
                parts.append((row[: ends[-1]], ends, [asked[path[end]] for end in ends]))
                left -= {path[end] for end in ends}
        parts.sort(key=lambda part: len(part[0]))

        def batches():
            positions, is_fixed = getattr(self.encoder, "max_sequence_length", None), compiles_each_length()
            for start in range(0, len(parts), batch_size):
                part = parts[start : start + batch_size]
                length = round_up(len(part[-1][0]), PROMPT_STEP if is_fixed else 1)
                length = length if positions is None else min(length, positions)
                size = min(batch_size, len(parts)) if is_fixed else len(part)
                ids, mask = (np.zeros((size, length), "int32") for _ in range(2))
                for place, (row, *_) in enumerate(part):
                    ids[place, : len(row)], mask[place, : len(row)] = row, 1
                inputs = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
                at = np.array([(place, end - 1) for place, (_, ends, _) in enumerate(part) for end in ends]).T
                targets = [[*each] for *_, found in part for each in found]
                yield {name: inputs[name] for name in self.input}, tuple(at), targets

        values = np.zeros(len(numbers), "float32")
        order = [number for *_, found in parts for each in found for number in each.values()]
        values[order] = np.concatenate([np.zeros(0, "float32"), *target_log_likelihoods(self, batches())])
        return [values[path[first + 1 :]] for path, first in zip(paths, firsts)]

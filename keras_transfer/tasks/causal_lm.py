"""A language model that processes text from left to right, predicts the next token, and generates text."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.encoders import carries_state, decodes_with_cache, encode
from keras_transfer.generation import generation_defaults, get_sampler
from keras_transfer.layers import OutputEmbeddings
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.generates import Generates, Likelihood
from keras_transfer.tasks.id_rows import check_rows, max_length_of, text_pieces, token_rows
from keras_transfer.tasks.in_context import InContext, check_different
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, Task, texts_named
from keras_transfer.tasks.token_targets import NextTokenReader, NextTokens, check_streams
from keras_transfer.text import TokenPreprocessor, align_ragged_right, take_pieces


def check_causal(encoder):
    """Raises a `ValueError` if tokens of an encoder see later ones, or if it cannot continue a text step by step."""
    if getattr(encoder, "reverse", False):
        raise ValueError(
            "`encoder` must process text forward. For a backward language model, train a forward one on reversed ids: "
            f"`Corpus.streams(reverse=True)`. Received: a {type(encoder).__name__} with reverse=True"
        )
    steps = decodes_with_cache(encoder) or carries_state(encoder)
    if not (getattr(encoder, "is_causal", False) and steps):
        raise ValueError(
            "`encoder` must have tokens that see only earlier ones, and decode with a cache or a state, such as "
            "`GPT2Encoder`, `TransformerEncoder(causal=True)` or `AWDLSTMEncoder`. Use a `MaskedLM` for encoders such "
            f"as BERT. Received: {type(encoder).__name__}"
        )


def causal_head(encoder, advice="", use_bias=False):
    """Returns the layer that turns an encoder's outputs into logits with its token embeddings."""
    width, outputs = encoder.token_embedding.output_dim, encode(encoder).sequence.shape[-1]
    rule = f"The token embeddings must be as wide as the encoder's outputs, because they are the head.{advice}"
    expect(outputs == width, rule, widths=(width, outputs))
    return OutputEmbeddings(encoder.token_embedding, use_bias=use_bias, dtype=encoder.dtype_policy, name="logits")


def checked_max_length(encoder, max_length):
    """Returns `max_length`, or raises a `ValueError` if it does not fit the encoder's positions."""
    positions = getattr(encoder, "max_sequence_length", None)
    if max_length is not None and (max_length < 1 or (positions is not None and max_length > positions)):
        allowed = "at least 1" if positions is None else f"from 1 to {positions}, the encoder's number of positions"
        raise ValueError(f"`max_length` must be {allowed}. Received: max_length={max_length}")
    return max_length


@keras.saving.register_keras_serializable(package="keras_transfer")
class CausalLM(Generates, InContext, Likelihood, Task):
    """A causal language model: an encoder whose tokens see only earlier ones, and its token embeddings as the head.

    `fit` and `evaluate` accept raw texts without labels: at each position, the target is the next token. A long text is
    truncated to the `sequence_length` of the preprocessor. The loss is the mean over the tokens of a batch.
    `metrics.Perplexity` is computed over all tokens. Both ignore padding. `score` returns the likelihood of texts,
    `generate` continues them, and `classify` labels them by likelihood.

    Args:
        encoder: Encoder whose tokens see only earlier ones, such as `GPT2Encoder`, `TransformerEncoder(causal=True)` or
            `AWDLSTMEncoder`. It must be a `TransformerStack`, or a recurrent encoder with `is_causal`, `empty_state`
            and `step`.
        preprocessor: `text.TokenPreprocessor`, or `None` for prepared ids. Defaults to `None`.
        sampler: `generation.Sampler` or its name. How `generate` and exported models choose tokens. Defaults to
            `"greedy"`.
        max_length: Integer. Maximum number of tokens of a text in `generate` and exported models, including the prompt.
            Defaults to `None`: the encoder's number of positions, or 256 for an encoder without such a limit.
        streams: Integer. Number of texts of `Corpus.streams`, if a recurrent encoder trains on them window by window.
            Each window then begins in the state after the previous one, through which no gradient flows (truncated
            back-propagation). Training and evaluation have separate states, which are reset when an epoch begins. Other
            data, `generate` and exports do not use them. Defaults to `None`, for no states.
        tied: Boolean. Whether the head shares the token embeddings. Otherwise, it is a dense layer with separate
            weights. Defaults to `True`.
        use_bias: Boolean. Whether the head has a bias for each token. Defaults to `None`, for a bias only if
            `tied=False`.
        name: String. Name of the model. Defaults to `None`.

    Outputs:
        Logits `[batch, length, vocabulary]`, float32. The logits at a position predict the next token.

    Raises:
        ValueError: If the tokens of `encoder` see later ones, or if its token embeddings differ in width from its
            outputs while `tied=True`; if `preprocessor` does not match it; or if an argument is out of range.

    Example:
    ```python
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "was", "good", "bad"]
    encoder = keras_transfer.encoders.TransformerEncoder(
        len(vocabulary), num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=32, norm="pre", causal=True
    )
    model = keras_transfer.tasks.CausalLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-2))
    model.fit(["The film was good", "The film was bad"], epochs=2)
    model.generate(["The film"], max_length=6)
    ```

    Source: https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf
    """

    reads = ("sequence_output",)
    purpose = Purpose("text-generation", "continues texts", 'generate(["A text"])', "AutoModelForCausalLM")
    answers = ("generate", "classify", "score")
    checkpoint_head = TaskHead(name="causal_lm", check_encoder=check_causal)

    @expects(streams=integer(1))
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        sampler: Any = "greedy",
        max_length: int | None = None,
        streams: int | None = None,
        tied: bool = True,
        use_bias: bool | None = None,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_causal(encoder)
        rule = "`streams` requires a recurrent encoder, such as `AWDLSTMEncoder`."
        expect(streams is None or carries_state(encoder), rule, streams=streams, encoder=encoder)
        count = encoder.token_embedding.input_dim
        use_bias = not tied if use_bias is None else bool(use_bias)
        if tied:
            logits = causal_head(encoder, " Pass `tied=False` for a head with separate weights.", use_bias)
        else:
            logits = keras.layers.Dense(count, use_bias=use_bias, dtype="float32", name="logits")

        # === Functional model ===
        labels = NextTokens(count)
        settings |= {"sampler": get_sampler(sampler), "max_length": checked_max_length(encoder, max_length)}
        settings |= {"use_bias": use_bias}
        options: dict[str, Any] = {"settings": settings, "name": name}
        head = Head(logits(encode(encoder).sequence), labels)
        super().__init__(encoder, NextTokenReader(preprocessor), head, **options)
        self.prepare_generation(logits)
        self.carried_state = None if streams is None else CarriedState(encoder, streams, name="carried_state")

    def call(self, inputs, training=None, mask=None):
        if not (isinstance(inputs, dict) and "begins" in inputs):
            return super().call(inputs, training=training, mask=mask)
        check_streams(inputs["begins"].shape[0], self.streams)
        return self.output_embeddings(self.carried_state(inputs, training=training))

    # === Export ===

    def signatures(self, pairs: bool = False, jit_compile: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because a `CausalLM` does not support pairs. Defaults to `False`.
            jit_compile: Boolean. Whether XLA compiles the loop of `"serving_default"`. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `text` to its `continuation`, with the task's `sampler` and `max_length`. A
              prompt that is too long is truncated to its last tokens. The continuation of a prompt without tokens is
              "".
            - `"tokens"`: from the encoder's inputs to `logits`

        Raises:
            ValueError: If `pairs=True`, or if the sampler is random.
        """
        signatures = super().signatures(pairs)
        if not isinstance(self.preprocessor, TokenPreprocessor):
            return signatures
        max_length, pieces = max_length_of(self), text_pieces(self)
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

        return {"serving_default": Signature(continue_text, texts_named("text")), **signatures}

    # === Labels by likelihood ===

    def _score_labels(self, prompts, words, batch_size):
        starts = [start for start, _ in prompts]
        wholes = [start + word for start in starts for word in words]
        rows = token_rows(self, wholes)
        check_rows(self, rows, "text with its examples")
        begins = token_rows(self, starts)
        if empty := [word for word, row in zip(words, rows) if np.array_equal(row, begins[0])]:
            raise ValueError(f"Each label must have at least one token. Received: the label {empty[0]!r} without any")
        check_different(words, rows[: len(words)])
        firsts = []
        for index, start in enumerate(begins):
            part = rows[index * len(words) : (index + 1) * len(words)]
            firsts += [max(min(_common_length(start, row) for row in part), 1)] * len(words)
        values = self.token_log_likelihoods(rows, firsts, batch_size=batch_size)
        return np.array([each.sum(dtype="float64") for each in values]).reshape(len(starts), len(words))


def _common_length(first, second):
    """Returns the number of ids with which two arrays both begin."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


@keras.saving.register_keras_serializable(package="keras_transfer")
class CarriedState(keras.layers.Layer):
    """Keeps the state of an encoder after a window of several texts, with which it processes their next window.

    Training and evaluation have separate states. Training checkpoints contain them, but model files do not.
    """

    def __init__(self, encoder, num_streams, **kwargs):
        super().__init__(trainable=False, **kwargs)
        object.__setattr__(self, "encoder", encoder)  # Keras must not track its weights here.
        self.num_streams = num_streams
        empty = encoder.empty_state(num_streams)
        self.states = [
            [
                self.add_weight(
                    values.shape,
                    "zeros",
                    keras.backend.standardize_dtype(values.dtype),
                    trainable=False,
                    autocast=False,
                    name=f"{kind}_{i}",
                )
                for i, values in enumerate(keras.tree.flatten(empty))
            ]
            for kind in ("training", "evaluation")
        ]
        self.structure = keras.tree.map_structure(lambda values: None, empty)
        self.built = True

    @property
    def weights(self):
        """An empty list: the states are `variables`, like the states of random seeds, but are not exported."""
        return []

    def call(self, inputs, training=False):
        """Returns what `step` returns for a window, given a dict of its inputs with `begins`."""
        check_streams(ops.shape(inputs["begins"])[0], self.num_streams)
        kept = self.states[0 if training else 1]
        goes_on = ops.equal(inputs["begins"], 0)[:, 0]
        state = [_rows_where(goes_on, values.value) for values in kept]
        state = keras.tree.pack_sequence_as(self.structure, state)
        vectors, state = self.step(inputs, state)
        for values, new in zip(kept, keras.tree.flatten(state)):
            values.assign(new)
        return vectors

    def step(self, inputs, state):
        """Returns the vectors of a window, `[num_streams, length, dim]`, and the state after it."""
        return self.encoder.step(inputs["token_ids"], state, padding_mask=inputs["padding_mask"])

    def save_own_variables(self, store):
        """Stores nothing, because the state belongs to a position in the texts of a run."""

    def load_own_variables(self, store):
        """Loads nothing, because nothing was stored."""


def _rows_where(is_kept, values):
    """Returns values `[rows, ...]`, with zeros in the rows that are not kept."""
    is_kept = ops.reshape(is_kept, (-1, *[1] * (len(values.shape) - 1)))
    return ops.where(is_kept, values, ops.zeros_like(values))

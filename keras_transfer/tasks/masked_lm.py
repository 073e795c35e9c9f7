"""Masked language models: tasks that predict hidden tokens, and answer by filling masks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import FLAG, expect, expects, integer
from keras_transfer.data import LENGTH_STEP, compiles_each_length
from keras_transfer.encoders import dense_on, encode
from keras_transfer.keras_internals import predict_batch
from keras_transfer.layers import OutputEmbeddings, TakePositions
from keras_transfer.objectives import TokenMasking, word_starts_of
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.id_rows import in_batches
from keras_transfer.tasks.in_context import InContext, check_different
from keras_transfer.tasks.likelihoods import target_log_likelihoods
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import Reader, for_backend
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, Task, of_part, texts_named
from keras_transfer.tasks.token_targets import HiddenTokens
from keras_transfer.text import to_list

_EXPORTED = 5  # Number of candidate tokens that an exported model returns for each mask.
_TOGETHER = 4096  # Number of texts whose masked rows are in memory at once.


class MaskReader(Reader):
    """Accepts texts for a task that predicts the tokens at mask tokens, which a batch of texts contains."""

    @property
    def mask_token(self):
        """String. The mask token of the vocabulary, or `None`."""
        return getattr(getattr(self.preprocessor, "tokenizer", None), "mask_token", None)

    def __init__(self, preprocessor):
        super().__init__(preprocessor)
        self.instead = f"`fill_mask(texts)` for texts in which {self.mask_token!r} marks the hidden tokens"

    def inputs(self, x):
        self.require()
        return for_backend(self.preprocessor.encode_masked(x, "longest"))


class FillsMasks(InContext):
    """A mixin for tasks whose reader finds the mask tokens in texts. It predicts the tokens at their positions."""

    reads_ahead = True

    # === Prediction ===

    @expects()
    def fill_mask(self, texts: Any, *, k: int = 5, batch_size: int = 32) -> list[list[list[tuple[str, float]]]]:
        """Returns the most likely tokens for the mask tokens in texts.

        The mask token, such as "[MASK]" or "<mask>", is the only special token that these texts may contain. Everything
        else is plain text.

        Args:
            texts: A string, or a list, array or table column of strings, each with at least one mask token.
            k: Integer. Number of tokens to return for each mask token. Defaults to `5`.
            batch_size: Integer. Number of texts in a batch. Defaults to `32`.

        Returns:
            For each text, a list with one list of `(token, probability)` for each mask token, the most likely first.

        Raises:
            ValueError: If a text has no mask token, if a mask token is truncated, or if `k` is out of range.

        Example:
        ```python
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film"]
        encoder = keras_transfer.encoders.BertEncoder(7, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
        model = keras_transfer.tasks.MaskedLM(encoder, keras_transfer.text.BertPreprocessor(words))
        [[[(token, probability), _]]] = model.fill_mask(["the [MASK]"], k=2)
        ```
        """
        self.reader.require()
        integer(1, self.preprocessor.vocabulary_size).check("k", k)  # The embedding may have more rows.
        mask, answers, vocabulary = self.reader.mask_token, [], self.preprocessor.vocabulary
        for part, inputs in in_batches(self, texts, batch_size):
            places = np.asarray(inputs["mask_positions"]) >= 0
            for at, (text, found) in enumerate(zip(part, places.sum(axis=1)), len(answers)):
                if not (count := text.count(mask)):
                    raise ValueError(f"Every text must contain {mask!r}. Received: {text!r:.100} at position {at}")
                if count != found:
                    raise ValueError(
                        f"{mask!r} must be within the first {self.preprocessor.sequence_length} tokens of a text. "
                        f"Shorten the text. Received: {count - found} behind them, in the text at position {at}"
                    )
            found = self._best(predict_batch(self, inputs), k)
            tokens, values = (check_numbers(ops.convert_to_numpy(part)).tolist() for part in found)
            for row, real in enumerate(places):
                found = [zip(tokens[row][place], values[row][place]) for place in np.flatnonzero(real)]
                answers.append([[(vocabulary[token], value) for token, value in each] for each in found])
        return answers

    # === In-context use ===

    def _score_labels(self, prompts, words, batch_size):
        self.reader.require()
        mask, limit = self.reader.mask_token, self.preprocessor.sequence_length
        everything = [*words, *(part for prompt in prompts for part in prompt)]
        if found := [part for part in everything if mask is not None and mask in part]:
            raise ValueError(
                f"Texts, labels, examples and the template must not contain {mask!r}, which takes the place of "
                f"'{{label}}'. Received: {found[0]!r:.200}"
            )
        scores = np.zeros((len(prompts), len(words)))
        tokens = self._tokens_of_labels(prompts[0][0] if prompts else "", words)
        texts = [f"{before}{mask}{after}" for before, after in prompts]
        for start in range(0, len(texts), batch_size):
            part = texts[start : start + batch_size]
            counts = np.asarray(self.preprocessor.tokenize_masked(part).row_lengths())
            counts = counts + self.preprocessor.num_special_tokens
            if counts.max() > limit:
                raise ValueError(
                    f"Each text with its examples must have at most {limit} tokens, the `sequence_length` of the "
                    f"preprocessor. Received: {counts.max()} tokens at position {start + counts.argmax()}"
                )
            logits = predict_batch(self, self.reader.inputs(part))
            logits = ops.convert_to_numpy(logits).astype("float64")[:, 0]
            logits -= logits.max(axis=1, keepdims=True)
            scores[start : start + batch_size] = logits[:, tokens] - np.log(np.exp(logits).sum(axis=1))[:, None]
        return scores

    def _tokens_of_labels(self, before, words):
        """Returns the token of each label after the start of a prompt."""
        mask, unknown = self.reader.mask_token, self.preprocessor.unk_id
        start, *rows = self.preprocessor.tokenize_masked([f"{before}{text}" for text in (mask, *words)]).to_list()
        for word, row in zip(words, rows):
            if len(row) != len(start) or row[:-1] != start[:-1] or row[-1] == unknown:
                own = [self.preprocessor.vocabulary[index] for index in row[len(start) - 1 :]]
                raise ValueError(
                    "The template has one mask token for '{label}', so each label must be a single token. Pass a dict "
                    "from labels to words that are tokens. "
                    f"Received: {word!r}, which becomes {own}"
                )
        check_different(words, [row[-1:] for row in rows])
        return [row[-1] for row in rows]

    def _texts_without_content(self):
        return [text for text in super()._texts_without_content() if text != self.reader.mask_token]

    def _best(self, logits, k):
        """Returns the ids of the most likely tokens of the vocabulary, and their probabilities, from logits."""
        probabilities, tokens = ops.top_k(ops.softmax(logits[..., : self.preprocessor.vocabulary_size]), k)
        return ops.cast(tokens, "int32"), probabilities

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because the task does not support pairs. Defaults to `False`.

        Returns:
            Dict with one `Signature`, `"serving_default"`: from `text`, in which the mask token marks hidden tokens, to
            `token` strings, `token_id` and `probability`, each `[batch, places, 5]`, the most likely first. Unused
            places have "", -1 and 0.

        Raises:
            ValueError: If `pairs=True`.
        """
        super().signatures(pairs)  # It raises the error for pairs.

        def fill(text):
            inputs = self.reader.inputs(text)
            real = inputs["mask_positions"][:, :, None] >= 0
            tokens, probabilities = self._best(
                self(inputs, training=False), min(_EXPORTED, self.preprocessor.vocabulary_size)
            )
            tokens, probabilities = ops.where(real, tokens, -1), ops.where(real, probabilities, 0.0)
            return {"token": self.preprocessor.to_tokens(tokens), "token_id": tokens, "probability": probabilities}

        return {"serving_default": Signature(fill, texts_named("text"))}


class HiddenTokenTask(Task):
    """Base class of the tasks whose objective hides tokens."""

    objective = of_part("labels", "objective", "The objective, such as `objectives.TokenMasking`.")

    def predict_on_batch(self, x: Any) -> Any:
        """Returns the outputs for one batch. Raw text is prepared as in a call of the model.

        Args:
            x: Raw text in memory or a dict of prepared inputs: one batch.

        Returns:
            Float array of logits, or a dict of such arrays.
        """
        return super().predict_on_batch(self.reader.inputs(x) if self.reader.accepts(x) else x)


def check_reads_ahead(encoder):
    """Raises a `ValueError` if the tokens of an encoder see only earlier or only later ones."""
    backward = getattr(encoder, "reverse", False)
    if getattr(encoder, "is_causal", False) or backward:
        raise ValueError(
            "A hidden token is predicted from the tokens on both sides, but the tokens of this encoder see only "
            f"{'later' if backward else 'earlier'} ones. Use a `CausalLM`. Received: {type(encoder).__name__}"
        )


def tokens_of(encoder):
    """Returns an encoder's token embedding layer, and its symbolic token vectors."""
    table = getattr(encoder, "token_embedding", None)
    sequence = None if table is None else encode(encoder).sequence
    rule = "`encoder` must have a `token_embedding` and return a vector for each token."
    expect(sequence is not None, rule, encoder=encoder)
    return table, sequence


@dataclasses.dataclass
class PseudoScores:
    """The pseudo-log-likelihoods of texts under a masked language model (Salazar et al. 2020).

    Attributes:
        token_log_likelihoods: List of arrays `[tokens]`, the natural logarithm of each token's probability given all
            other tokens of its text. Special tokens have none.
        log_likelihoods: Array `[texts]`, the sum for each text.
        pseudo_perplexity: Float. `exp(-sum / tokens)`, over the tokens of all texts. Do not compare it with the
            perplexity of a causal language model, which sees only earlier tokens.
    """

    token_log_likelihoods: list
    log_likelihoods: np.ndarray
    pseudo_perplexity: float


@keras.saving.register_keras_serializable(package="keras_transfer")
class MaskedLM(FillsMasks, HiddenTokenTask):
    """A masked language model: an encoder, a dense layer with a norm, and the token embeddings as output embeddings.

    `fit` and `evaluate` accept raw text without labels. The objective hides some tokens: different ones in each epoch
    of `fit`, and the same ones in each evaluation. Logits are computed only for these tokens, which makes a step
    cheaper. The loss is the mean over these tokens, and `accuracy` is the fraction that the model predicts correctly.

    `from_pretrained` loads the pretraining head of the checkpoint, so `fit` continues the pretraining. A checkpoint
    without this head requires `head="new"`. `save_pretrained` writes the head back.

    Args:
        encoder: Encoder of this library with a `token_embedding`, or a KerasHub backbone.
        preprocessor: `text.TokenPreprocessor` whose vocabulary has a mask token, or `None` for prepared ids. Defaults
            to `None`.
        objective: `objectives.TokenMasking`. Defaults to `None`, which hides 15% of the tokens.
        activation: String or callable. Activation of the dense layer. Defaults to `None`, the activation of the
            encoder.
        layer_norm_epsilon: Float. Epsilon of the layer norm. Defaults to `None`, the value of the encoder.
        use_bias: Boolean. Whether the dense layer and the norm have a bias. (The output embeddings always have one.)
            Defaults to `True`.
        name: String. Name of the model. Defaults to `None`.

    Inputs: The inputs of the encoder, and `mask_positions`, integers `[batch, places]`, negative at unused places.

    Outputs:
        Logits `[batch, places, vocabulary_size]`, float32.

    Raises:
        ValueError: If the encoder has no token embeddings or returns no vector for each token, if its tokens see only
            earlier ones, if `preprocessor` does not match the encoder, or if `objective` belongs to another task. If
            the vocabulary has no mask token, training and filling masks raise the error.

    Example:
    ```python
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "ends", "begins"]
    preprocessor = keras_transfer.text.BertPreprocessor(words, sequence_length=8)
    encoder = keras_transfer.encoders.BertEncoder(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    model = keras_transfer.tasks.MaskedLM(encoder, preprocessor)
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit(["The film begins", "The film ends"])
    model.fill_mask(["The [MASK] ends"], k=2)
    ```

    Source: https://arxiv.org/abs/1810.04805
    """

    reads = ("sequence_output",)
    purpose = Purpose("fill-mask", "predicts hidden tokens", 'fill_mask(["A {mask}."])', "AutoModelForMaskedLM")
    answers = ("fill_mask", "classify", "score")
    checkpoint_head = TaskHead(name="masked_lm", check_encoder=check_reads_ahead)

    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        objective: Any = None,
        activation: str | Callable[..., Any] | None = None,
        layer_norm_epsilon: float | None = None,
        use_bias: bool = True,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_reads_ahead(encoder)
        table, sequence = tokens_of(encoder)
        check_masks(preprocessor)
        head = TokenHead(encoder, table, activation, layer_norm_epsilon, use_bias)

        # === Functional model ===
        positions = keras.Input((None,), dtype="int32", name="mask_positions")
        outputs = head(sequence, positions)
        inputs = {**encoder.input, "mask_positions": positions}
        objective = TokenMasking() if objective is None else objective
        reader, labels = MaskReader(preprocessor), HiddenTokens(table.input_dim, objective)
        settings |= {"activation": head.activation, "layer_norm_epsilon": head.layer_norm_epsilon}
        super().__init__(encoder, reader, Head(outputs, labels), inputs=inputs, settings=settings, name=name)
        self.token_head = head

    # === Likelihood ===

    @expects(batch_size=integer(1), within_word=FLAG)
    def score(self, texts: Any, *, batch_size: int = 64, within_word: bool = False) -> PseudoScores:
        """Returns the pseudo-log-likelihood of texts: each token is masked alone, and predicted from all others.

        A text of n tokens requires n rows. Equal rows are computed once: two sentences that differ in one token share
        the row in which it is masked.

        Args:
            texts: A string, or a list, array or table column of strings.
            batch_size: Integer. Number of masked rows in a batch. Defaults to `64`.
            within_word: Boolean. Whether the later tokens of the same word are masked, too (punctuation marks are words
                of their own). The sum over the tokens then no longer overrates long, rare words, whose ends are easy to
                guess from their beginnings (Kauf and Ivanova 2023). Defaults to `False`.

        Returns:
            `PseudoScores`, with `token_log_likelihoods`, `log_likelihoods` and `pseudo_perplexity`.

        Raises:
            ValueError: If `texts` contains anything but strings, if a text has no tokens or does not fit the
                `sequence_length` of the preprocessor, or if there is no preprocessor.

        Example:
        ```python
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "ends"]
        encoder = keras_transfer.encoders.BertEncoder(8, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
        model = keras_transfer.tasks.MaskedLM(encoder, keras_transfer.text.BertPreprocessor(words))
        model.score(["the film ends", "the ends film"]).log_likelihoods
        ```

        Source: https://arxiv.org/abs/1910.14659, https://arxiv.org/abs/2305.10588
        """
        self.reader.require()
        is_list = self.reader.accepts(texts) and not isinstance(texts, tuple)
        expect(is_list, "`texts` must be a list of strings.", received=type(texts).__name__)
        texts, limit = to_list(texts), self.preprocessor.sequence_length - self.preprocessor.num_special_tokens
        rows = [np.array(row, "int32") for row in self.preprocessor.tokenize(texts).to_list()] if texts else []
        rule = f"Each text must have 1 to {limit} tokens. Pass a preprocessor with a larger `sequence_length`."
        for place, row in enumerate(rows):
            expect(0 < len(row) <= limit, rule, received=f"{len(row)} tokens at position {place}")
        found = []
        for start in range(0, len(rows), _TOGETHER):
            found += self._pseudo_log_likelihoods(rows[start : start + _TOGETHER], batch_size, within_word)
        sums = np.array([values.sum(dtype="float64") for values in check_numbers(found)])
        return PseudoScores(found, sums, float(np.exp(-sums.sum() / max(sum(map(len, found)), 1))))

    def _pseudo_log_likelihoods(self, rows, batch_size, within_word):
        """Returns the log-likelihood of each token of rows of ids, given the others, a list of arrays."""
        starts = word_starts_of(self.preprocessor, punctuation=True) if within_word else None
        hidden: dict[Any, Any] = {}  # From a masked row and its place to the tokens that it hides, and of which texts.
        for text, row in enumerate(rows):
            ends = [at for at in range(1, len(row)) if starts is None or starts[row[at]]] + [len(row)]
            ends = np.array(ends)[np.searchsorted(ends, np.arange(len(row)), side="right")]
            for place, end in enumerate(ends):
                masked = row.copy()
                masked[place:end] = self.preprocessor.mask_id
                tokens = hidden.setdefault((masked.tobytes(), place), {})
                tokens.setdefault(row[place], []).append((text, place))
        keys, size = sorted(hidden, key=lambda key: len(key[0])), min(batch_size, len(hidden))
        is_fixed, limit = compiles_each_length(), self.preprocessor.sequence_length

        def batches():
            for start in range(0, len(keys), size):
                part = keys[start : start + size]
                count, targets = len(part), [[*hidden[key]] for key in part]
                part += part[:1] * (size - count if is_fixed else 0)
                inputs = self.preprocessor.encode_ids([np.frombuffer(ids, "int32") for ids, _ in part])
                length = inputs["token_ids"].shape[1]
                extra = min(-length % LENGTH_STEP, limit - length) if is_fixed else 0
                inputs = {name: np.pad(inputs[name], [[0, 0], [0, extra]]) for name in self.encoder.input}
                places = np.array([[place] for _, place in part], "int32") + self.preprocessor.num_start_tokens
                yield {**inputs, "mask_positions": places}, (np.arange(count), 0), targets

        found = [np.zeros(len(row), "float32") for row in rows]
        for key, values in zip(keys, target_log_likelihoods(self, batches())):
            for value, owners in zip(values, hidden[key].values()):
                for text, place in owners:
                    found[text][place] = value
        return found


class TokenHead:
    """The layers from token vectors to logits at some positions, which use the token embedding, `table`.

    An activation or an epsilon of `None` is the encoder's. `use_bias` is for the dense layer and the norm.

    Call arguments:
        sequence: Symbolic vectors `[batch, length, dim]`.
        positions: Symbolic integers `[batch, places]`. Defaults to `None`, all positions.
    """

    def __init__(self, encoder, table, activation=None, layer_norm_epsilon=None, use_bias=True):
        if activation is None:
            activation = getattr(encoder, "activation", "gelu")
        if layer_norm_epsilon is None:
            layer_norm_epsilon = getattr(encoder, "layer_norm_epsilon", 1e-12)
        self.activation, self.layer_norm_epsilon = activation, layer_norm_epsilon
        dtype = encoder.dtype_policy
        norm = {"epsilon": layer_norm_epsilon, "center": use_bias, "dtype": dtype, "name": "head_norm"}
        self.take = TakePositions(dtype=dtype, name="masked_tokens")
        self.layers = (
            dense_on(encoder, table.output_dim, activation, use_bias=use_bias, name="head_dense"),
            keras.layers.LayerNormalization(**norm),
            OutputEmbeddings(table, use_bias=True, dtype=dtype, name="logits"),
        )

    def __call__(self, sequence, positions=None):
        outputs = sequence if positions is None else self.take(sequence, positions)
        for layer in self.layers:
            outputs = layer(outputs)
        return outputs


def check_masks(preprocessor):
    """Raises a `ValueError` if a preprocessor (unless it is `None`) cannot mask tokens."""
    rule = "`preprocessor` must be a `text.TokenPreprocessor` with a mask token."
    expect(preprocessor is None or hasattr(preprocessor, "encode_masked"), rule, preprocessor=preprocessor)

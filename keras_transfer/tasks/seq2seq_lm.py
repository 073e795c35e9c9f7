"""A language model that writes a target text for a source text."""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead, open_checkpoint
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import TEXT, expect, expects, integer, number
from keras_transfer.core.names import listed
from keras_transfer.distribute import factors_of_means, share_of_loss
from keras_transfer.encoders import EncoderDecoder, encode
from keras_transfer.generation import generation_defaults, get_sampler
from keras_transfer.layers import OutputEmbeddings, table_of
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.generates import Generates
from keras_transfer.tasks.id_rows import named_token_id, prepared_rows, rows_of, text_pieces
from keras_transfer.tasks.likelihoods import target_log_likelihoods
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.reader import encode_texts
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.target_texts import LabelsAsTargets, SequenceReader, TargetTexts, check_target_preprocessor
from keras_transfer.tasks.task import Signature, Task, of_part, texts_named
from keras_transfer.text import TokenPreprocessor, is_language_code, take_pieces, without_first_space

_NEW_TOKENS = 64  # Maximum length of a target if neither the user nor the checkpoint specifies one.


def _check_encoder(encoder):
    """Raises a `ValueError` if an encoder is not an encoder-decoder."""
    rule = "`encoder` must be an `EncoderDecoder`, such as `T5` or `Bart`. Use a `CausalLM` for a decoder alone."
    expect(isinstance(encoder, EncoderDecoder) and "decoder_token_ids" in encoder.input, rule, encoder=encoder)


@keras.saving.register_keras_serializable(package="keras_transfer")
class Seq2SeqLM(Generates, LabelsAsTargets, Task):
    """An encoder-decoder that writes a target text for a source text: summaries, translations and text-to-text tasks.

    `fit(sources, targets)` and `evaluate` accept two columns of raw texts, which are truncated to the `sequence_length`
    of the preprocessor. The decoder receives the target, shifted to the right by a start token, and predicts the next
    token at each position. The loss is the mean over the tokens of a batch, without padding.
    `compile(loss="label_smoothing")` smooths the targets. `generate` writes the texts, and `score` returns the
    likelihood of given ones.

    With an `objective`, the model is pretrained: `fit` accepts raw texts without targets, `Corpus.blocks(...)`, a dict
    of `token_ids` and `padding_mask`, and a `tf.data.Dataset` or a loader with batches of texts or of such dicts. The
    objective makes a source and a target from each text: different ones in each epoch of `fit`, and the same ones in
    each evaluation.

    Args:
        encoder: `EncoderDecoder`, such as `T5` or `Bart`.
        preprocessor: `text.TokenPreprocessor` of sources and targets, or `None` for prepared ids. Defaults to `None`.
        target_preprocessor: `text.TokenPreprocessor` of targets that are tokenized differently from sources, as in
            Marian, or that are in another language, as in mBART. Defaults to `None`: the preprocessor of the sources,
            in the language with which the checkpoint's generation begins, if there is one.
        prefix: String. Text in front of each source, such as `"summarize: "`. Defaults to `""`.
        tied: Boolean. Whether the head shares the token embeddings. Otherwise it has a separate table, as in T5 1.1.
            Defaults to `True`.
        start_token: Integer or string. The token with which the decoder begins. Defaults to `None`: the language with
            which targets end, as in mBART, or else the checkpoint's start token, or else the padding token. If the
            halves are two encoders, the last choice is the first token that the preprocessor puts in front of a text,
            such as `"[CLS]"`.
        sampler: `generation.Sampler` or its name. How `generate` and exported models choose tokens. Defaults to
            `"greedy"`.
        max_new_tokens: Integer. Maximum number of tokens that `generate` and exported models write. Defaults to `None`,
            the checkpoint's value, or else 64.
        objective: `objectives.SpanCorruption`, `objectives.Denoising`, `objectives.PrefixLM`,
            `objectives.SpanPrediction` or another `objectives.SequenceObjective` that makes targets from texts.
            Defaults to `None`, which requires targets.
        language_model_weight: Float. Weight of the language-model losses of the decoder, without cross-attention, and
            of a causal encoder, which are added to the loss of the targets. It preserves what pretrained language
            models have learned (Ramachandran et al. 2017 use `1.0`). Defaults to `0.0`, without these losses.
        name: String. Name of the model. Defaults to `None`.

    Inputs:
        Dict of `token_ids`, `padding_mask`, `decoder_token_ids` and `decoder_padding_mask`.

    Outputs:
        Logits `[batch, decoder_length, vocabulary]`, float32. The logits at a position predict the next token.

    Raises:
        ValueError: If `encoder` is not an `EncoderDecoder`; if a preprocessor does not match it; if `start_token` is
            not in the vocabulary; if `objective` makes no targets; or if an argument is out of range.

    Example:
    ```python
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"]
    encoder = keras_transfer.encoders.T5(
        len(vocabulary), num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32, head_dim=8
    )
    model = keras_transfer.tasks.Seq2SeqLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-2))
    model.fit(["a b c", "b c"], ["c b a", "c b"], epochs=2)
    model.generate(["a b"], max_new_tokens=4)
    ```

    Source: https://arxiv.org/abs/1910.10683
    """

    purpose = Purpose(
        "text-generation", "reads a text and writes another one", 'generate(["A text."])', "AutoModelForSeq2SeqLM"
    )
    answers = ("generate", "classify", "score")
    checkpoint_head = TaskHead(name="seq2seq", check_encoder=_check_encoder, found=("start_token",))
    head_is_pretrained = True
    max_length = None  # `max_new_tokens` limits targets.
    objective = of_part("labels", "objective", "The objective, such as `objectives.SpanCorruption`, or `None`.")
    target_preprocessor = of_part("reader", "target_preprocessor")

    @expects(prefix=TEXT, language_model_weight=number(0))
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        target_preprocessor: Callable[..., Any] | None = None,
        prefix: str = "",
        tied: bool = True,
        start_token: str | int | None = None,
        sampler: Any = "greedy",
        max_new_tokens: int | None = None,
        objective: Any = None,
        language_model_weight: float = 0.0,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Checks ===
        _check_encoder(encoder)
        positions = getattr(encoder, "max_sequence_length", None)
        rule = f"`max_new_tokens` must be at least 1{f' and below {positions}' if positions else ''}."
        fits = max_new_tokens is None or 0 < max_new_tokens < (positions or np.inf)
        expect(fits, rule, max_new_tokens=max_new_tokens)
        if target_preprocessor is None:
            target_preprocessor = in_language_of_checkpoint(encoder, preprocessor)
        check_target_preprocessor(encoder, preprocessor, target_preprocessor)

        # === Layers ===
        table, options = encoder.decoder.token_embedding, {"dtype": encoder.dtype_policy, "name": "logits"}
        if tied:
            logits = OutputEmbeddings(table, use_bias=encoder.output_bias, scale=encoder.output_scale, **options)
        elif encoder.output_scale is not None:
            raise ValueError(
                "A separate head expects unscaled vectors. Create the encoder with `scale_outputs=False`. "
                "Received: tied=False and scale_outputs=True"
            )
        else:
            logits = keras.layers.Dense(table.input_dim, use_bias=encoder.output_bias, **options)

        # === Functional model ===
        start = start_id(encoder, preprocessor if target_preprocessor is None else target_preprocessor, start_token)
        with_positions = "decoder_positions" in encoder.input
        labels = TargetTexts(table.input_dim, objective)
        reader = SequenceReader(preprocessor, prefix, start, target_preprocessor, with_positions)
        settings |= {"start_token": start, "sampler": get_sampler(sampler)}
        outputs = logits(encoder.output["decoder_sequence_output"])
        super().__init__(encoder, reader, Head(outputs, labels), settings=settings, name=name)
        self.prepare_generation(logits)
        if encoder.initial_output_bias is not None:
            logits.bias.assign(encoder.initial_output_bias)
        # Keras must not track this layer, whose inner layers the model already has.
        object.__setattr__(self, "_language_models", LanguageModelLoss(encoder, logits, dtype="float32"))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Returns the loss of the targets, plus the language-model losses if `language_model_weight` is not 0."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        (factor,) = factors_of_means(self.labels.count_of(x, y, sample_weight))
        loss = factor * loss
        if not self.language_model_weight:
            return loss
        return loss + self.language_model_weight * self._language_models(x, y, sample_weight, training=training)

    # === Answers ===

    def _prompt_rows(self, prompts):
        def tokenize(sources):  # They are truncated as in `fit`.
            self.reader.require()
            return prepared_rows(self.reader.sources(self.reader.columns(sources)))

        rows, raw, single = rows_of(self, prompts, tokenize, "source")
        return [np.array([self.reader.start_id], "int32")] * len(rows), rows, raw, single

    def default_constraints(self) -> Any:
        """Returns the constraints that the checkpoint and the language of the targets put on generated tokens.

        Returns:
            `Constraints`. Targets that begin with a language code begin with the code of their own language.
        """
        found, own = super().default_constraints(), language_id(self.target_preprocessor)
        return found if own is None else dataclasses.replace(found, forced_first=own)

    def default_new_tokens(self) -> int:
        """Returns the maximum number of new tokens: the task's, or else the checkpoint's, or else 64.

        Returns:
            Integer, limited by the decoder's number of positions.
        """
        found = generation_defaults(self.encoder)
        of_checkpoint = found.max_new_tokens or (found.max_length and found.max_length - 1)
        positions = getattr(self.encoder, "max_sequence_length", None)
        count = self.max_new_tokens or of_checkpoint or _NEW_TOKENS
        return count if positions is None else min(count, positions - 1)

    def score(self, sources: Any, targets: Any, *, batch_size: int = 8) -> np.ndarray:
        """Returns the log-likelihood of each target given its source.

        Args:
            sources: A string or a list of strings.
            targets: A string or a list of strings, one for each source. They are truncated as in `fit`. A warning says
                how many are too long, and how many have no tokens but the special ones.
            batch_size: Integer. Number of rows in a batch. Defaults to `8`.

        Returns:
            Float array `[rows]`, the sums over the tokens of each target.

        Raises:
            ValueError: If the task has no preprocessor, or if sources and targets differ in number.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"]
        encoder = keras_transfer.encoders.T5(7, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
        model = keras_transfer.tasks.Seq2SeqLM(encoder, keras_transfer.text.BertPreprocessor(vocabulary))
        model.score(["a b", "a b"], ["b a", "c"])
        ```
        """
        sources, targets = ([each] if isinstance(each, (str, bytes)) else list(each) for each in (sources, targets))
        if not sources and not targets:
            return np.zeros(0)
        data = self.dataset(sources, targets, batch_size=batch_size)
        owners = [np.zeros(0, int)]

        def batches():
            for batch in data.planned():
                part = data.pinned([batch])
                inputs, ids, weights = part[0]
                places = np.nonzero(weights)
                owners.append(np.asarray(part.order)[places[0]])
                yield {name: inputs[name] for name in self.input}, places, ids[places][:, None]

        values = np.concatenate([np.zeros(0, "float32"), *target_log_likelihoods(self, batches())])
        return check_numbers(np.bincount(np.concatenate(owners), values, len(data.real)))

    # === Export and config ===

    def signatures(self, pairs: bool = False, jit_compile: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because a `Seq2SeqLM` does not support pairs. Defaults to `False`.
            jit_compile: Boolean. Whether XLA compiles the loop of `"serving_default"`. Defaults to `False`.

        Returns:
            Dict of `Signature`s: `"serving_default"`, from `text` to the `target` that `generate` writes, with the
            task's `sampler` and `max_new_tokens`; and `"tokens"`, from the inputs of the model to `logits`.

        Raises:
            ValueError: If `pairs=True`, or if the sampler is random.
        """
        # Outputs are as long as the target, whose length differs from the length of the source.
        signatures = {
            name: dataclasses.replace(signature, shared_axes=1, input_axes=1)
            for name, signature in super().signatures(pairs).items()
        }
        if not isinstance(self.preprocessor, TokenPreprocessor):
            return signatures
        steps, pieces = self.default_new_tokens(), text_pieces(self)
        loop = self.exported_loop(steps, jit_compile)

        def write(text):
            inputs = encode_texts(self.reader, self.prefix + text if self.prefix else text)
            rows = ops.shape(inputs["token_ids"])[0]
            start = ops.full((rows, 1), self.reader.start_id, "int32")
            given = {"token_ids": start, "first": ops.zeros((rows,), "int32")}
            limit = ops.full((rows,), 1 + steps, "int32")
            context = {name: inputs[name] for name in ("token_ids", "padding_mask")}
            found = loop({**given, "limit": limit, "until": 1 + steps, "context": context})
            place = ops.arange(ops.shape(found["tokens"])[1])[None]
            new = ops.logical_and(place >= 1, place < found["end"][:, None])
            return {"target": without_first_space(take_pieces(found["tokens"], new, pieces))}

        return {"serving_default": Signature(write, texts_named("text")), **signatures}

    @classmethod
    @expects(sequence_length=integer(1))
    def from_pretrained(
        cls,
        source: Any,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        sequence_length: int | None = None,
        preprocessor: Any = "auto",
        **arguments: Any,
    ) -> Self:
        """Builds the task on a pretrained encoder-decoder, with its preprocessors and the head of the checkpoint.

        The targets of a Marian model have a separate tokenizer, and the targets of mBART have their own language.

        Args:
            source: String or path. A checkpoint folder, the name of a downloaded Hugging Face model, or another form
                that `Encoder.from_pretrained` describes.
            source_language: String. Language code of the sources, such as `"en_XX"` for mBART. Defaults to `None`, the
                language of the checkpoint.
            target_language: String. Language code of the targets, such as `"de_DE"` for mBART and `">>deu<<"` for a
                multilingual Marian model. Defaults to `None`, the language of the checkpoint, if it has one.
            sequence_length: Integer. Number of tokens to which texts are truncated. Defaults to `None`, the value of
                the checkpoint.
            preprocessor: `text.TokenPreprocessor` of the sources, or `None` for prepared ids. Defaults to `"auto"`, the
                preprocessors of the checkpoint.
            **arguments: Arguments of the task's constructor, and `encoder` and `head` of `Task.from_pretrained`.

        Returns:
            The task, not compiled.

        Raises:
            ValueError: If the tokenizer has no such language, if a language or `sequence_length` is passed together
                with a preprocessor, or if an argument is invalid.
            TypeError: If the task has no argument of a name in `arguments`.
            CheckpointError: If the checkpoint cannot be read, does not match, has no preprocessor for the task, or has
                no head while `arguments` do not ask for a new one.
        """
        checkpoint, length = open_checkpoint(source), sequence_length
        if isinstance(preprocessor, str) and preprocessor == "auto":
            preprocessor, target = load_both(checkpoint, sequence_length, source_language, target_language)
            arguments, length = {"target_preprocessor": target, **arguments}, None
        elif source_language is not None or target_language is not None:
            raise ValueError(
                "Languages apply to the preprocessor of the checkpoint. Use `preprocessor.with_language(...)` instead. "
                f"Received: source_language={source_language!r}, target_language={target_language!r}, "
                f"preprocessor={preprocessor!r:.100}"
            )
        return super().from_pretrained(checkpoint, sequence_length=length, preprocessor=preprocessor, **arguments)

    def generation_settings(self) -> dict[str, Any]:
        """Returns the generation settings that `save_pretrained` writes instead of the checkpoint's.

        Returns:
            Dict of settings of `generation_config.json`.
        """
        settings, language = {"decoder_start_token_id": self.start_token}, language_id(self.target_preprocessor)
        return settings if language is None else {**settings, "forced_bos_token_id": language}


class LanguageModelLoss(keras.layers.Layer):
    """The mean loss of the decoder as a language model, and of the encoder if it is one (Ramachandran et al. 2017).

    The decoder runs once more without cross-attention, and the encoder predicts the next token of the source. This is a
    layer without weights, so that the layers that it calls know whether the model is in training. It returns a scalar,
    the sum of the losses, each of which is the mean over its tokens.

    Call arguments:
        inputs: Dict of the inputs of the model.
        targets: Integer tensor of shape `[batch, decoder_length]`.
        weights: Tensor that broadcasts to the targets. Defaults to `None`, the padding mask of the decoder.
    """

    def __init__(self, encoder, logits, **kwargs):
        super().__init__(**kwargs)
        # Keras must not track these layers, which the model already has.
        object.__setattr__(self, "both", encoder)
        object.__setattr__(self, "logits", logits)
        self.built = True

    def call(self, inputs, targets, weights=None, training=None):
        weights = inputs["decoder_padding_mask"] if weights is None else weights
        loss = _mean(self.logits(self.both.decode_alone(inputs)), targets, weights)
        encoder = self.both.encoder
        width = encoder.output["sequence_output"].shape[-1]
        if encoder.is_causal and encoder.token_embedding.output_dim == width:  # It is a language model, too.
            vectors = encode(encoder, inputs).sequence[:, :-1]
            table = ops.cast(table_of(encoder.token_embedding), vectors.dtype)
            ids, mask = (ops.convert_to_tensor(inputs[name])[:, 1:] for name in ("token_ids", "padding_mask"))
            weights = ops.max(ops.cast(weights, "float32"), axis=1, keepdims=True)  # A row has one weight.
            mask = weights * ops.cast(mask, "float32")
            loss = loss + _mean(ops.matmul(vectors, ops.transpose(table)), ids, mask)
        return loss


def _mean(logits, targets, weights):
    losses = keras.losses.sparse_categorical_crossentropy(targets, ops.cast(logits, "float32"), from_logits=True)
    weights = ops.broadcast_to(ops.cast(weights, "float32"), ops.shape(losses))
    count = ops.sum(ops.cast(weights != 0, "float32"))  # Weights scale the loss. Only padding is left out.
    (factor,) = factors_of_means(count)
    return share_of_loss(factor * ops.sum(losses * weights) / ops.maximum(count, 1e-7))


def load_both(checkpoint, sequence_length, source_language, target_language):
    """Returns a checkpoint's preprocessors of sources and targets. The second is `None` if both are the same.

    A length or language of `None` is the checkpoint's.
    """
    sources = checkpoint.preprocessor(sequence_length)
    tokenizer = getattr(sources, "tokenizer", None)
    codes, is_pair = getattr(tokenizer, "language_codes", []), getattr(tokenizer, "has_own_targets", False)
    for name, language in (("source_language", source_language), ("target_language", target_language)):
        known = [] if is_pair and name == "source_language" else codes  # Marian's codes name the target language.
        if language is not None and language not in known:
            expected = f"must be one of {listed(known)}" if known else "cannot be chosen, because there are no codes"
            raise ValueError(f"`{name}` {expected} for {checkpoint.source}. Received: {name}={language!r}")
    if is_pair:
        targets = checkpoint.preprocessor(sequence_length, target=True)
        return sources if target_language is None else sources.with_language(target_language), targets
    if not codes:
        return sources, None
    if target_language is not None:
        targets = sources.with_language(target_language)
    else:
        targets = checkpoint.preprocessor(sequence_length, target=True)
        targets = None if targets.language == sources.language else targets
    return sources if source_language is None else sources.with_language(source_language), targets


def in_language_of_checkpoint(encoder, preprocessor):
    """Returns the preprocessor of targets in the language with which the checkpoint's generation begins, or `None`."""
    if getattr(preprocessor, "language", None) is None or preprocessor.tokenizer.has_own_targets:
        return None
    if not preprocessor.tokenizer.is_loaded:  # A `.keras` file contains the preprocessor of targets separately.
        return None
    found = generation_defaults(encoder)
    for index in (found.constraints.forced_first, found.start_id):
        token = "" if index is None or index >= preprocessor.vocabulary_size else preprocessor.vocabulary[index]
        if is_language_code(token):
            return preprocessor.with_language(token)
    return None


def language_id(preprocessor):
    """Returns the id of the language code that targets begin with, given their preprocessor, or `None`."""
    if not isinstance(preprocessor, TokenPreprocessor) or preprocessor.language not in preprocessor.packing.start:
        return None
    return preprocessor.token_to_id(preprocessor.language)


def start_id(encoder, preprocessor, token):
    """Returns the id of the token that the decoder begins with."""
    if (
        token is None
        and isinstance(preprocessor, TokenPreprocessor)
        and preprocessor.language in preprocessor.packing.end
    ):
        token = preprocessor.language
    if token is not None:
        found, count = named_token_id(preprocessor, token, "start_token"), encoder.decoder.token_embedding.input_dim
        if not 0 <= found < count:
            raise ValueError(f"`start_token` must be an id from 0 to {count - 1}. Received: start_token={token}")
        return found
    found = generation_defaults(encoder).start_id
    if found is not None:
        return found
    files = encoder.attached.files if encoder.checkpoints_have_start else {}
    config = files.get("config.json", {})
    if config and encoder.default_start is not None and "decoder_start_token_id" not in config:
        return encoder.default_start
    if {"config.json", "generation_config.json"} & {*files}:
        raise ValueError(
            "The checkpoint lacks `decoder_start_token_id`, the first input of its decoder. Pass `start_token`, such "
            "as the id of '</s>' for BART. Received: start_token=None"
        )
    if not isinstance(preprocessor, TokenPreprocessor):
        return 0
    first = [] if encoder.starts_with_padding else preprocessor.packing.start[:1]
    return preprocessor.token_to_id(first[0]) if first else preprocessor.pad_id

"""A language model that takes part in a dialogue and has a persona."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.data import LENGTH_STEP, UNUSED, Batches, Contents, Layout
from keras_transfer.encoders import encode, initializer_on, select_inputs
from keras_transfer.generation import cut, get_sampler, text_of
from keras_transfer.keras_internals import predict_batch
from keras_transfer.metrics import Perplexity
from keras_transfer.tasks.causal_lm import causal_head, check_causal, checked_max_length
from keras_transfer.tasks.generates import Generates, Likelihood
from keras_transfer.tasks.heads import merge_parts
from keras_transfer.tasks.id_rows import max_length_of, text_pieces, token_preprocessor
from keras_transfer.tasks.labels import JointLabels, Mean
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Task, of_part
from keras_transfer.tasks.token_targets import NextTokenReader, NextTokens
from keras_transfer.text import check_batch_size, dialogue_inputs, warn_of_truncation


def check_speakers(encoder):
    """Raises a `ValueError` if an encoder is not causal or has no speaker embeddings."""
    check_causal(encoder)
    if getattr(encoder, "speakers", None) is None:
        raise ValueError(
            "`encoder` must have `speakers`, the ids of the tokens that separate the utterances. Create it with "
            f"`speakers=[...]`. Received: a {type(encoder).__name__} with speakers=None"
        )


class DialogueReader(NextTokenReader):
    """Accepts a list of tuples `(persona, history, reply)` or `(persona, history, reply, candidates)`.

    `speakers` are the ids of the tokens that begin a sequence and delimit utterances, as in the encoder.
    """

    takes_pairs = False

    def __init__(self, preprocessor, speakers, num_candidates, special_tokens):
        super().__init__(preprocessor, "`reply` or `rank` for texts")
        self.speakers, self.num_candidates, self.special_tokens = speakers, num_candidates, special_tokens

    def accepts(self, x):
        return is_examples(x) or super().accepts(x)

    def columns(self, x):
        if not is_examples(x):
            raise ValueError(
                "A `DialogueModel` expects a list of examples, tuples `(persona, history, reply)` or `(persona, "
                f"history, reply, candidates)`. Received: {type(x).__name__} {x!r:.100}"
            )
        return [checked_example(example, index) for index, example in enumerate(x)]

    def batch_of(self, parts):
        return (list(parts),)

    def batches(self, columns, y, sample_weight=None, **options):
        rule = "A `DialogueModel` makes its targets from the examples. Leave `y` and `sample_weight` out."
        expect(y is None and sample_weight is None, rule, y=y, sample_weight=sample_weight)
        return self.candidates(with_candidates(columns, self.num_candidates), **options)

    def inputs(self, x):
        return self.in_one_batch(x)

    def restore(self, data, predict):
        """Returns a dict of outputs for inputs `[batch, candidates, length]`, or otherwise the logits of each text."""
        if data.inputs["padding_mask"].ndim == 3:
            restore = data.restorer()
            return restore(predict(data))
        return super().restore(data, predict)

    def candidates(self, examples, batch_size, shuffle):
        """Returns examples `(persona, history, candidates)` as `Batches`, and warns if dialogues were cut.

        Each item is `(inputs, targets, weights)`. The inputs are `[batch, candidates, length]`, and the last candidate
        is the reply. Targets and weights belong to the reply, `[batch, length]`.
        """
        rows, cut = self.rows(examples, self.preprocessor.sequence_length)
        warn_of_truncation(self.preprocessor, cut, len(rows))
        check_batch_size(self.preprocessor, batch_size, len(rows), False)
        longest = max(len(words) for row in rows for words, _ in row)
        longest = -(-longest // LENGTH_STEP) * LENGTH_STEP
        token_ids = np.full((len(rows), len(rows[0]), longest), self.preprocessor.pad_id, "int32")
        padding_mask = np.zeros_like(token_ids)
        targets = np.full((len(rows), longest), UNUSED, "int32")
        for i, row in enumerate(rows):
            for part, (words, _) in enumerate(row):
                token_ids[i, part, : len(words)] = words
                padding_mask[i, part, : len(words)] = 1
            _, reply_targets = row[-1]
            targets[i, : len(reply_targets)] = reply_targets
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        weights = (targets >= 0).astype("float32")
        contents = Contents(Layout("parts"), per_token=True)
        labels = np.maximum(targets, 0)
        return Batches.of(inputs, labels, weights, contents, batch_size=batch_size, shuffle=shuffle)

    def special_ids(self):
        """Returns the ids of the special tokens, in their order."""
        return [token_preprocessor(self).token_to_id(token) for token in self.special_tokens]

    def rows(self, examples, length):
        """Returns the rows of examples `(persona, history, candidates)`, and the number of examples that were cut.

        A row is a list of pairs of lists, the ids and the targets of each candidate, which may be `None`. All
        candidates of an example follow the same persona and history, which are cut so that the longest candidate fits.
        """
        begin, end, *speakers = self.special_ids()
        if [begin, *speakers] != list(self.speakers):
            raise ValueError(
                f"`speakers` of the encoder must be the ids of {[self.special_tokens[0], *self.special_tokens[2:]]}, "
                f"{[begin, *speakers]}. Received: speakers={self.speakers}"
            )
        texts = sorted({text for example in examples for part in example for text in part if text is not None})
        ids_of = dict(zip(texts, self.preprocessor.tokenize(texts).to_list())) if texts else {}
        special = {"bos": begin, "eos": end, "speakers": tuple(speakers), "ignored": UNUSED}
        rows, cut = [], 0
        for example in examples:
            whole = [[None if text is None else ids_of[text] for text in texts] for texts in example]
            persona, history, replies = _fit(*whole, length)
            found = [dialogue_inputs(persona, history, reply, **special) for reply in replies]
            rows.append([(inputs.words, inputs.targets) for inputs in found])
            cut += [persona, history, replies] != whole
        return rows, cut


class Replies(JointLabels, NextTokens):
    """The tokens of replies, from which the logits learn. The scores learn that the last candidate is the right one."""

    def __init__(self, count, next_utterance_weight):
        super().__init__(count)
        self.next_utterance_weight = next_utterance_weight
        self.perplexity, self.hits = Perplexity(), keras.metrics.Mean(name="hits_at_1")
        self._token_loss = self.loss()
        self._utterance_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def means(self, x, y, y_pred, sample_weight):
        rule = "A `DialogueModel` trains on examples of dialogues, or on inputs [batch, candidates, length]."
        expect(isinstance(y_pred, dict), rule, outputs=y_pred)
        if y is None or sample_weight is None:
            raise ValueError(
                "Prepared data must contain targets, and sample weights that are 1 at the tokens of the reply and 0 "
                f"elsewhere, both [batch, length]. Received: {'y' if y is None else 'sample_weight'}=None"
            )
        scores = y_pred["next_utterance"]
        right = ops.zeros_like(scores[:, 0], dtype="int32") + (ops.shape(scores)[1] - 1)
        tokens = self._token_loss(y, y_pred["logits"], sample_weight)
        utterances = self._utterance_loss(right, scores)
        return [
            Mean(tokens, ops.sum(ops.cast(sample_weight != 0, "float32"))),
            Mean(utterances, ops.shape(scores)[0], self.next_utterance_weight),
        ]

    def update_metrics(self, x, y, y_pred, sample_weight):
        self.perplexity.update_state(y, y_pred["logits"], sample_weight)
        scores = y_pred["next_utterance"]
        self.hits.update_state(ops.all(scores[:, -1:] > scores[:, :-1], axis=1))


@keras.saving.register_keras_serializable(package="keras_transfer")
class DialogueModel(Generates, Likelihood, Task):
    """A dialogue model: a causal language model of replies with a second head that finds the right reply.

    Its input is a sequence of a persona, the utterances so far and a reply, with a delimiter before each utterance. The
    embedding of the speaker is added to the embedding of each token (`layers.SpeakerEmbedding`). The language-model
    head learns the tokens of the reply. The next-utterance head scores candidate replies from the vector of their last
    token. The loss is the sum of both cross-entropies.

    `fit` and `evaluate` accept a list of examples without labels: tuples `(persona, history, reply, candidates)` of a
    list of sentences, a list of utterances, a string, and a list of replies to choose from, which may be left out.
    Missing candidates are drawn from the other replies. The metrics are the perplexity of the replies, and `hits_at_1`,
    the fraction of examples in which the right reply has the highest score. Pass `model.dataset(examples)` as
    `validation_data`.

    Args:
        encoder: `TransformerStack` with causal blocks and `speakers`, the ids of `bos` and of both delimiters, such as
            `TransformerEncoder(..., causal=True, speakers=[2, 4, 5])`.
        preprocessor: `text.TokenPreprocessor` whose vocabulary contains the special tokens, or `None` for prepared ids.
            Defaults to `None`.
        sampler: `generation.Sampler` or its name. How `reply` and `generate` choose tokens. Defaults to `"greedy"`.
        max_length: Integer. Maximum number of tokens of a reply and the dialogue before it. Defaults to
            `None`, the encoder's number of positions.
        num_candidates: Integer, at least 2. Number of replies that the next-utterance head compares. Defaults to `2`.
        next_utterance_weight: Float. Factor of the loss of the next-utterance head. Defaults to `1.0`.
        special_tokens: List of four strings: the tokens that begin and end a sequence, and the delimiters of the
            partner and of the replying speaker. Defaults to `("<bos>", "<eos>", "<speaker1>", "<speaker2>")`.
        name: String. Name of the model. Defaults to `None`.

    Call arguments:
        inputs: Dict of `token_ids` and `padding_mask` `[batch, candidates, length]`, where the last candidate is the
            reply, or `[batch, length]`.

    Outputs:
        Dict of `logits` `[batch, length, vocabulary]` of the reply, and `next_utterance` `[batch, candidates]`,
        float32. For inputs `[batch, length]`, only the logits.

    Raises:
        ValueError: If the encoder is not causal or has no `speakers`, if `preprocessor` does not match it, or if an
            argument is out of range.

    Example:
    ```python
    vocabulary = ["[PAD]", "[UNK]", "<bos>", "<eos>", "<speaker1>", "<speaker2>", "how", "are", "you", "fine", "hi"]
    preprocessor = keras_transfer.text.TokenPreprocessor(
        keras_transfer.text.WordPieceTokenizer(vocabulary), keras_transfer.text.Packing(pad="[PAD]")
    )
    encoder = keras_transfer.encoders.TransformerEncoder(
        11, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32, norm="pre", causal=True, speakers=[2, 4, 5]
    )
    model = keras_transfer.tasks.DialogueModel(encoder, preprocessor)
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-2))
    model.fit([(["you are fine"], ["hi"], "how are you"), (["hi"], ["how are you"], "fine")], epochs=2, verbose=0)
    model.reply(["how are you"], persona=["hi"], max_length=16)
    ```

    Source: https://arxiv.org/abs/1901.08149
    """

    reads = ("sequence_output",)
    answers = ("generate", "reply", "score", "rank")
    checkpoint_head = TaskHead(name="dialogue", check_encoder=check_speakers)  # No checkpoint contains this head.

    num_candidates = of_part("reader", "num_candidates")
    next_utterance_weight = of_part("labels", "next_utterance_weight")
    special_tokens = of_part("reader", "special_tokens")

    @expects(num_candidates=integer(2))
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        sampler: Any = "greedy",
        max_length: int | None = None,
        num_candidates: int = 2,
        next_utterance_weight: float = 1.0,
        special_tokens: Sequence[str] = ("<bos>", "<eos>", "<speaker1>", "<speaker2>"),
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())

        # === Layers ===
        check_speakers(encoder)
        are_four = len(special_tokens) == len({*special_tokens}) == 4
        expect(are_four, "`special_tokens` must be four different tokens.", special_tokens=special_tokens)
        encoded, logits = encode(encoder), causal_head(encoder)
        initializer = initializer_on(encoder)

        # === Functional model ===
        reader = DialogueReader(preprocessor, encoder.speakers, num_candidates, list(special_tokens))
        labels = Replies(encoder.token_embedding.input_dim, next_utterance_weight)
        settings |= {"sampler": get_sampler(sampler), "max_length": checked_max_length(encoder, max_length)}
        super().__init__(encoder, reader, Head(logits(encoded.sequence), labels), settings=settings, name=name)
        self.prepare_generation(logits)
        self.next_utterance = keras.layers.Dense(
            1, kernel_initializer=initializer, dtype="float32", name="next_utterance"
        )
        self.next_utterance.build((None, encoder.token_embedding.output_dim))
        self.perplexity, self.hits = labels.perplexity, labels.hits  # Keras tracks them.

    @property
    def further_heads(self):
        """List of the layers that are not part of the functional model."""
        return [self.next_utterance]

    # === Training ===

    def call(self, inputs, training=None, mask=None):
        inputs, candidates = merge_parts(select_inputs(inputs, self.input), self.input)
        if candidates is None:
            return super().call(inputs, training=training, mask=mask)
        vectors = ops.convert_to_tensor(self.encoder(inputs, training=training)["sequence_output"])
        last = ops.sum(ops.cast(inputs["padding_mask"], "int32"), axis=1) - 1
        last = ops.take_along_axis(vectors, ops.maximum(last, 0)[:, None, None], axis=1)[:, 0]
        scores = ops.reshape(self.next_utterance(last), (-1, candidates))
        replies = ops.reshape(vectors, (-1, candidates, *ops.shape(vectors)[1:]))[:, -1]
        return {"logits": self.output_embeddings(replies), "next_utterance": scores}

    # === Prediction ===

    def _ids_of_texts(self, texts, end=False):
        raise ValueError(
            "A `DialogueModel` continues and scores prepared ids, with the delimiters of the speakers. Use `reply` or "
            f"`rank` for strings. Received: {texts!r:.100}"
        )

    @expects(max_length=integer(1))
    def reply(
        self,
        history: Sequence[str],
        *,
        persona: Sequence[str] = (),
        max_length: int | None = None,
        sampler: Any = None,
        repetition_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        bad_words: Sequence[Any] = (),
        stop: str | Sequence[str] = (),
        seed: int | None = None,
    ) -> str:
        """Returns a reply to a dialogue.

        The oldest utterances are ignored if they would leave less than a quarter of `max_length` for the reply.

        Args:
            history: List of strings. The utterances so far, oldest first. The last one is the partner's.
            persona: List of strings. Sentences about the replying speaker. Defaults to `()`, for none.
            max_length: Integer. Maximum number of tokens of the reply and the dialogue before it.
                Defaults to `None`, the `max_length` of the task.
            sampler: `generation.Sampler` or its name, such as `"top_p"`. Defaults to `None`, the sampler of the task.
            repetition_penalty: Float. Factor that makes tokens that occurred before less likely. Defaults to `None`:
                the checkpoint's value, or else `1.0`.
            no_repeat_ngram: Integer. No sequence of this many tokens occurs twice. Defaults to `None`: the checkpoint's
                value, or else `0`, for no restriction.
            bad_words: List of strings, or of lists of ids, that must not occur. Defaults to `()`, for none.
            stop: String or list of strings. The reply ends before the first stop string. Defaults to `()`, for none.
            seed: Integer. Seed of random samplers. Defaults to `None`, which follows `keras.utils.set_random_seed`.

        Returns:
            String.

        Raises:
            ValueError: If `history` or `persona` is not a list of strings, if the task has no preprocessor, or if an
                argument is out of range.
        """
        checked_example((persona, history, ""), 0)
        length = min(max_length_of(self, max_length) * 3 // 4, token_preprocessor(self).sequence_length)
        [[(prompt, _)]], _ = self.reader.rows([(persona, history, [None])], length)
        special = self.reader.special_ids()
        [found] = self.generate(
            [prompt],
            max_length=max_length,
            sampler=sampler,
            end_token=special[1],
            repetition_penalty=repetition_penalty,
            no_repeat_ngram=no_repeat_ngram,
            bad_words=[*bad_words, *([token] for token in special if token != special[1])],
            stop=stop,
            seed=seed,
        )
        text = text_of([token for token in found if token not in special], text_pieces(self))
        return cut(text, [stop] if isinstance(stop, str) else stop).strip()

    def rank(self, history: Sequence[str], candidates: Sequence[str], *, persona: Sequence[str] = ()) -> np.ndarray:
        """Returns the scores of the next-utterance head for candidate replies to a dialogue.

        Args:
            history: List of strings. The utterances so far, oldest first. The last one is the partner's.
            candidates: List of strings. Replies to compare.
            persona: List of strings. Sentences about the replying speaker. Defaults to `()`, for none.

        Returns:
            Float32 array `[candidates]`, the logits. The most likely reply has the highest one.

        Raises:
            ValueError: If an argument is not a list of strings, or if there are no candidates.
        """
        checked_example((persona, history, "", candidates), 0)
        if not len(candidates):
            raise ValueError("`candidates` must contain at least one reply. Received: no candidates")
        inputs = self.reader.candidates([(persona, history, list(candidates))], 1, False)[0][0]
        return check_numbers(np.asarray(predict_batch(self, inputs)["next_utterance"][0]))


_FIELDS = ("persona", "history", "reply", "candidates")


def is_examples(x):
    """Returns whether `x` is a list of examples: tuples of a persona, a history, a reply and optional candidates."""
    return isinstance(x, list) and len(x) > 0 and isinstance(x[0], tuple) and len(x[0]) in (3, 4)


def checked_example(example, index):
    """Returns the persona, the history, the reply and the candidates of an example."""
    found = dict(zip(_FIELDS, (*example, ())[:4] if isinstance(example, tuple) and len(example) in (3, 4) else ()))
    for name in _FIELDS:
        value = found.get(name)
        texts = [value] if name == "reply" else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            expected = "a string" if name == "reply" else "a list of strings"
            raise ValueError(
                "Examples must be tuples `(persona, history, reply)` or `(persona, history, reply, candidates)`. "
                f"`{name}` must be {expected}. Received: {value!r:.100} at position {index}"
            )
    return tuple(found.values())


def with_candidates(examples, count):
    """Returns examples with `count` candidates each. The last candidate is the reply, and the others are wrong.

    The wrong candidates are the first of an example's own candidates. If there are too few, others are drawn from the
    replies and the candidates of all examples. Each call draws the same candidates.
    """
    replies = sorted({text for _, _, reply, candidates in examples for text in (reply, *candidates)})
    random = np.random.default_rng(0)
    found = []
    for persona, history, reply, candidates in examples:
        wrong = [text for text in dict.fromkeys(candidates) if text != reply][: count - 1]
        if len(replies) < count:
            raise ValueError(
                f"Each reply needs {count - 1} wrong candidates: its own, or the replies of other examples. Add "
                "examples with different replies, or use a smaller `num_candidates`. "
                f"Received: {len(replies) - 1} for {reply!r:.100}"
            )
        while len(wrong) < count - 1:
            text = replies[random.integers(len(replies))]
            wrong += [text] if text not in (reply, *wrong) else []
        found.append((persona, history, [*wrong, reply]))
    return found


def _fit(persona, history, replies, length):
    """Returns the components of a dialogue, truncated to at most `length` tokens in total.

    The oldest utterances are cut first, but never the last one. Next are the last sentences of the persona, as long as
    the persona takes up more than half of the available tokens, and then the start of the last utterance. The ends of
    replies are cut only if less than half of `length` would be left for the dialogue before them.
    """

    def size(sentences, utterances):
        return sum(map(len, sentences)) + sum(len(ids) + 1 for ids in utterances)

    free = length - (2 if None in replies else 3)  # bos, the delimiter of the reply and eos are always there.
    longest = max(0 if ids is None else len(ids) for ids in replies)
    available = max(free - longest, min(size(persona, history), free // 2), 0)
    while len(history) > 1 and size(persona, history) > available:
        history = history[1:]
    while persona and size(persona, history) > available and size(persona, []) > available // 2:
        persona = persona[:-1]
    excess = max(size(persona, history) - available, 0)
    history = [ids[excess:] for ids in history]
    limit = max(free - size(persona, history), 0)
    return persona, history, [None if ids is None else ids[:limit] for ids in replies]

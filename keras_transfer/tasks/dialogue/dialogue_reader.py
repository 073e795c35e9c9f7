"""The data of a `DialogueModel`: examples of dialogues, each with the right reply and several wrong ones."""

from keras_transfer.tasks.continuations import token_preprocessor
from keras_transfer.tasks.dialogue.dialogue_data import (
    checked_example,
    dialogue_batches,
    dialogue_rows,
    is_examples,
    with_candidates,
)
from keras_transfer.tasks.language import NextTokenReader
from keras_transfer.text.preprocessors import warn_of_truncation


class DialogueReader(NextTokenReader):
    """Accepts a list of tuples `(persona, history, reply)` or `(persona, history, reply, candidates)`.

    Args:
        preprocessor: Preprocessor, as for `Reader`.
        speakers: List of the ids of the tokens that begin a sequence and delimit utterances, as in the encoder.
        num_candidates: Integer. Number of replies in each example.
        special_tokens: List of strings, as for `DialogueModel`.
    """

    def __init__(self, preprocessor, speakers, num_candidates, special_tokens):
        super().__init__(preprocessor)
        self.speakers, self.num_candidates, self.special_tokens = speakers, num_candidates, special_tokens

    def accepts(self, x):
        return is_examples(x) or super().accepts(x)

    def check(self, x, method):
        if method.startswith("predict") and self.accepts(x):
            raise ValueError(
                f"`{method}` requires prepared inputs. Use `reply` or `rank` for texts. Received: {x!r:.100}"
            )

    def columns(self, x):
        if not is_examples(x):
            raise ValueError(
                "A `DialogueModel` expects a list of examples, tuples `(persona, history, reply)` or `(persona, "
                f"history, reply, candidates)`. Received: {type(x).__name__} {x!r:.100}"
            )
        return [checked_example(example, index) for index, example in enumerate(x)]

    def batch_of(self, parts):
        return (list(parts),)

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "A `DialogueModel` makes its targets from the examples. Leave `y` and `sample_weight` out. "
                "Received: y or sample_weight"
            )
        return self.candidates(with_candidates(columns, self.num_candidates), batch_size, shuffle)

    def inputs(self, x):
        return self.in_one_batch(x)

    def restore(self, data, predict):
        """Returns a dict of outputs for inputs `[batch, candidates, length]`, or otherwise the logits of each text."""
        if data.inputs["padding_mask"].ndim == 3:
            restore = data.restorer()
            return restore(predict(data))
        return super().restore(data, predict)

    def candidates(self, examples, batch_size, shuffle):
        """Returns examples `(persona, history, candidates)` as batches, and warns if dialogues were cut."""
        rows, cut = self.rows(examples, self.preprocessor.sequence_length)
        warn_of_truncation(self.preprocessor, cut, len(rows))
        return dialogue_batches(rows, self.preprocessor, batch_size, shuffle)

    def special_ids(self):
        """Returns the ids of the special tokens, in their order."""
        return [token_preprocessor(self).token_to_id(token) for token in self.special_tokens]

    def rows(self, examples, length):
        """Returns what `dialogue_rows` returns for examples `(persona, history, candidates)`."""
        begin, end, *speakers = self.special_ids()
        if [begin, *speakers] != list(self.speakers):
            raise ValueError(
                f"`speakers` of the encoder must be the ids of {[self.special_tokens[0], *self.special_tokens[2:]]}, "
                f"{[begin, *speakers]}. Received: speakers={self.speakers}"
            )
        texts = sorted({text for example in examples for part in example for text in part if text is not None})
        ids_of = dict(zip(texts, self.preprocessor.tokenize(texts).to_list())) if texts else {}
        special = {"bos": begin, "eos": end, "speakers": tuple(speakers)}
        return dialogue_rows(examples, ids_of, special, length)

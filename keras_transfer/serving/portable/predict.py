"""Answers of the exported model in this folder, without TensorFlow or Keras.

    pip install numpy tokenizers RUNTIME
    python predict.py "What is a yeti?" "Who wrote Hamlet?"

To use the model in your own program, copy the folder and call `Model(folder).predict(texts)`.
"""

import json
import os
import pathlib
import sys
import threading
import unicodedata

import numpy as np

_INPUTS = "token_ids", "segment_ids", "padding_mask", "answer_mask"


def _is_list(row, count=None):
    return isinstance(row, (list, tuple, np.ndarray)) and count in (None, len(row))


def _are_texts(row, count=None):
    return _is_list(row, count) and all(isinstance(text, str) for text in row)


_IS_ROW = {
    "texts": lambda row: isinstance(row, str),
    "lists of words": _are_texts,
    "pairs of texts": lambda row: _are_texts(row, 2),
    "contexts and their choices": lambda row: (
        _is_list(row, 2) and isinstance(row[0], str) and _are_texts(row[1]) and len(row[1]) > 0
    ),
}


def open_model(folder, num_threads):
    """Stands for the function of the format, from its file, which an export contains here."""
    raise NotImplementedError


class Model:
    """The exported model of a folder. Several threads can share one.

    Args:
        folder: String or path. Defaults to the folder of this file.
        num_threads: Integer. Number of threads that a batch is computed with. Defaults to `None`, for all cores.
        open_model: Function that returns the one that computes a batch. Defaults to that of the folder's format.
    """

    def __init__(self, folder=None, num_threads=None, open_model=open_model):
        import tokenizers

        folder = pathlib.Path(folder or pathlib.Path(__file__).parent)
        self.facts, self.labels = (json.loads((folder / f"{n}.json").read_text("utf-8")) for n in ("export", "labels"))
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True  # "[SEP]" in a text is five characters, not a token.
        self.compute = open_model(folder, num_threads or os.cpu_count())
        self._lock = threading.Lock()  # Threads share the tokenizer's truncation.

    def predict(self, texts, batch_size=32, prompt_name=None):
        """Returns the answers to texts.

        Args:
            texts: List of strings. Of pairs `(text, text_pair)` for a model that was trained on pairs, of lists of
                words for one that labels words, of `(context, [choice, ...])` for one that chooses, and of `(question,
                context)` for one that finds answers in a context.
            batch_size: Integer. Number of rows that are computed at once. Defaults to `32`.
            prompt_name: String. Prompt in front of each text of an embedder, by its name, such as `"query"`. Defaults
                to `None`, for its default prompt.

        Returns:
            Dict of the answers, one entry for each text; probabilities, values and vectors are NumPy arrays:
            - of a classifier: `label` strings, `label_id` and `probabilities` [texts, classes]; with several labels for
              a text `labels`, lists of strings, and `probabilities`
            - of a regressor: `values` [texts, targets]
            - of a model that labels words: `labels` and `probabilities`, a list and an array [words, labels] a text
            - of an embedder: `embedding` [texts, dim]
            - of a model that chooses: `choice`, a string, `choice_id` and `probabilities`, an array [choices] a text
            - of a model that finds answers: `answer`, a string, `start` and `end`, its characters in the context, -1 if
              there is no answer, and `score`, its probability

        Raises:
            ValueError: If the model does not accept such texts, if a word has no token, or if a question is too long.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise ValueError(f"`batch_size` must be a positive integer. Received: batch_size={batch_size!r}")
        texts = self._checked(texts)
        groups = self.encode(texts, prompt_name)
        outputs = iter(self.run([row for rows in groups for row in rows], batch_size=batch_size))
        outputs = [[next(outputs) for _ in rows] for rows in groups]
        return getattr(self, f"_{self.facts['answers']}")(texts, groups, outputs)

    def encode(self, texts, prompt_name=None):
        """Returns the tokens of each text, a list of one or more rows, which are `tokenizers.Encoding`s."""
        prompts = self.facts["prompts"]
        if prompt_name is not None and prompt_name not in prompts:
            raise ValueError(f"`prompt_name` must be one of {sorted(prompts)}. Received: prompt_name={prompt_name!r}")
        with self._lock:
            return self._encode(texts, self.facts["prompt"] if prompt_name is None else prompts[prompt_name])

    def _encode(self, texts, prompt):
        kind, limit = self.facts["answers"], self.facts["max_length"]
        if kind == "spans":
            return [self._windows(question, context) for question, context in texts]
        if kind == "choices":
            self.tokenizer.enable_truncation(limit)
            return [self.tokenizer.encode_batch([(context, choice) for choice in found]) for context, found in texts]
        if kind == "words":  # The rows of a long sentence overlap by a quarter.
            self.tokenizer.enable_truncation(limit, stride=(limit - len(self.tokenizer.encode(""))) // 4)
            prefix = self.facts["word_prefix"]
            words = [[word if word.startswith(" ") else prefix + word for word in words] for words in texts]
            return [[row, *row.overflowing] for row in self.tokenizer.encode_batch(words, is_pretokenized=True)]
        self.tokenizer.enable_truncation(limit)
        texts = (
            [prompt + text for text in texts]
            if prompt
            else [text if isinstance(text, str) else tuple(text) for text in texts]
        )
        return [[row] for row in self.tokenizer.encode_batch(texts)]

    def run(self, rows, output=None, batch_size=32):
        """Returns an output of the model for each row of `encode`, as a list of arrays without padding.

        Args:
            rows: List of `tokenizers.Encoding`s.
            output: String, the name of an output, such as `"logits"`. Defaults to `None`, for what is answered with.
            batch_size: As for `predict`.
        """
        output, found = output or self.facts["output"], [None] * len(rows)
        by_length = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
        for start in range(0, len(rows), batch_size):
            batch = by_length[start : start + batch_size]
            for row, values in zip(batch, self.compute(self._inputs([rows[row] for row in batch]))[output]):
                found[row] = values[: len(rows[row])] if values.ndim > 1 else values
                if not np.isfinite(found[row]).all():
                    raise ValueError(f"The outputs of the model must be finite numbers. Received: {found[row]}")
        return found

    def _inputs(self, rows):
        """Returns the inputs of a batch: int32 arrays [rows, length], padded on the right."""
        shape = len(rows), max(map(len, rows))
        inputs = {name: np.zeros(shape, "int32") for name in _INPUTS}
        inputs["token_ids"] += self.facts["pad_id"]
        for index, row in enumerate(rows):
            inputs["token_ids"][index, : len(row)] = row.ids
            inputs["segment_ids"][index, : len(row)] = row.type_ids
            inputs["padding_mask"][index, : len(row)] = 1
            if self.facts["answers"] == "spans":
                inputs["answer_mask"][index, : len(row)] = [part == 1 for part in row.sequence_ids]
                inputs["answer_mask"][index, 0] = 1  # The first token stands for no answer.
        return {name: inputs[name] for name in self.facts["inputs"]}

    def _checked(self, texts):
        """Returns texts as a list, and raises a `ValueError` if they are not what the model takes."""
        kind = self.facts["rows"]
        if isinstance(texts, (str, dict, set)) or hasattr(texts, "columns") or not hasattr(texts, "__iter__"):
            raise ValueError(f"This model expects a list of {kind}. Received: {type(texts).__name__} {texts!r:.100}")
        if isinstance(texts, tuple) and kind != "texts" and not all(isinstance(row, tuple) for row in texts):
            raise ValueError(
                f"This model expects a list of {kind}. `list(zip(...))` makes rows of columns. Received: a tuple"
            )
        texts = list(texts)
        for number, row in enumerate(texts):
            if not _IS_ROW[kind](row):
                raise ValueError(f"This model expects a list of {kind}. Received at position {number}: {row!r:.100}")
            try:
                str(row if isinstance(row, str) else [*map(str, row)]).encode("utf-8")
            except UnicodeEncodeError:
                raise ValueError(
                    f"Texts must be Unicode without lone surrogates. Received at position {number}"
                ) from None
        return texts

    # === Answers ===

    def _classes(self, texts, groups, outputs):
        probabilities = self._array(outputs)
        best = probabilities.argmax(-1)
        return {"label": [self.labels[i] for i in best], "label_id": best, "probabilities": probabilities}

    def _several_classes(self, texts, groups, outputs):
        probabilities = self._array(outputs)
        chosen = probabilities >= np.array(self.facts["thresholds"], "float32")
        names = [[name for name, is_chosen in zip(self.labels, row) if is_chosen] for row in chosen]
        return {"labels": names, "probabilities": probabilities}

    def _values(self, texts, groups, outputs):
        return {"values": self._array(outputs)}

    def _embedding(self, texts, groups, outputs):
        return {"embedding": self._array(outputs)}

    def _words(self, texts, groups, outputs):
        found = []
        for number, (words, rows, probabilities) in enumerate(zip(texts, groups, outputs)):
            places = word_places(rows, self.facts["max_length"])
            if len(places) != len(words):
                read = {word for row in rows for word in row.word_ids}
                word = next(place for place in range(len(words)) if place not in read)
                raise ValueError(
                    "Each word must have a token, but the tokenizer drops words of only spaces, control characters or "
                    f"accents. Remove them. Received at position {number}: {words[word]!r}, word {word}"
                )
            shape = len(places), len(self.labels)
            found.append(np.array([probabilities[row][place] for row, place in places]).reshape(shape))
        return {"labels": [[self.labels[i] for i in row.argmax(-1)] for row in found], "probabilities": found}

    def _choices(self, texts, groups, outputs):
        logits = [np.concatenate(found) for found in outputs]
        best = [int(row.argmax()) for row in logits]
        chosen = [choices[i] for (_, choices), i in zip(texts, best)]
        return {"choice": chosen, "choice_id": best, "probabilities": [_softmax(row) for row in logits]}

    def _spans(self, texts, groups, outputs):
        answers = {"answer": [], "start": [], "end": [], "score": []}
        for (_, context), rows, logits in zip(texts, groups, outputs):
            step = self._step(rows[0].sequence_ids.count(1))
            settings = self.facts["max_answer_length"], self.facts["no_answer_threshold"]
            start, end, score = best_span([*zip(rows, logits)], step, *settings)
            while self.facts["strip_accents"] and 0 < end < len(context) and unicodedata.category(context[end]) == "Mn":
                end += 1  # The tokenizer drops accents, which belong to the letter before them.
            for name, value in zip(answers, (context[start:end] if end > 0 else "", start, end, score)):
                answers[name].append(value)
        return answers

    def _array(self, outputs):
        rows = [row for rows in outputs for row in rows]
        return np.stack(rows) if rows else np.zeros((0, self.facts["width"]), "float32")

    def _windows(self, question, context):
        """Returns the rows of a question: windows of its context that overlap."""
        self.tokenizer.no_truncation()
        limit = self.facts["max_length"]
        free = limit - len(self.tokenizer.encode(question, ""))
        if free < 1:
            raise ValueError(
                f"A question must be short enough for a context within {limit} tokens. Shorten it. "
                f"Received: {question!r}"
            )
        self.tokenizer.enable_truncation(limit, stride=free - self._step(free), strategy="only_second")
        row = self.tokenizer.encode(question, context)
        return [row, *row.overflowing]

    def _step(self, free):
        """Returns the distance in tokens between the starts of windows with `free` tokens of a context."""
        half, overlap = (free + 1) // 2, self.facts["overlap"]
        if overlap is None:
            return min(self.facts["doc_stride"], half)
        return free - overlap if free > overlap else half


def word_places(rows, limit):
    """Returns the row and the position in it where each word of a sentence is read, given the rows of the sentence.

    A word is read at its first token, in the row whose middle is nearest.
    """
    words, places = rows[0].word_ids, {}
    start = next((place for place, word in enumerate(words) if word is not None), 0)
    free = limit - words.count(None)
    step = free - free // 4
    for number, row in enumerate(rows):
        for place, word in enumerate(row.word_ids):
            if word is not None:
                places.setdefault(word, number * step + place - start)
    nearest = {word: (2 * place - (free - 1) + step) // (2 * step) for word, place in places.items()}
    nearest = {word: min(max(row, 0), len(rows) - 1) for word, row in nearest.items()}
    return [(nearest[word], places[word] - step * nearest[word] + start) for word in sorted(places)]


def best_span(windows, step, max_length, no_answer_threshold):
    """Returns the first character of the best answer, the one after its last, and its probability.

    Args:
        windows: List of pairs of a row and its logits [length, 2].
        step: Integer. Number of tokens of the context between the starts of two windows.
        no_answer_threshold: Float, or `None` for a question that has an answer.
    """
    found, scores = [np.zeros((0, 4), int)], [np.zeros(0)]  # The spans in tokens and characters, and their scores.
    for number, (row, logits) in enumerate(windows):
        offsets, places = np.array(row.offsets), np.flatnonzero(np.array(row.sequence_ids, float) == 1)
        first, last = np.triu_indices(len(places))
        start, end = offsets[places[first], 0], offsets[places[last], 1]
        possible = (last - first < max_length) & (end > start)
        spans = np.stack([first + number * step, last - first, start, end], axis=1)
        found.append(spans[possible])
        scores.append((logits[places[first], 0] + logits[places[last], 1])[possible])
    spans, place = np.unique(np.concatenate(found), axis=0, return_inverse=True)
    best = np.full(len(spans), -np.inf)
    np.maximum.at(best, place.ravel(), np.concatenate(scores))  # A span may be in several windows.
    if no_answer_threshold is not None:  # It comes first, because the task prefers it among equal scores.
        spans = np.concatenate([[[-1, -1, -1, -1]], spans])
        best = np.append(min(logits[0].sum() for _, logits in windows) - no_answer_threshold, best)
    if not len(best):
        return -1, -1, 0.0
    return *map(int, spans[best.argmax(), 2:]), float(_softmax(best).max())


def _softmax(values):
    values = np.exp(values - values.max())
    return values / values.sum()


if __name__ == "__main__":
    model = Model()
    if model.facts["rows"] not in ("texts", "lists of words"):
        sys.exit(f"Call `Model().predict(...)` with a list of {model.facts['rows']}.")
    for text in sys.argv[1:]:
        answer = model.predict([text.split() if model.facts["rows"] == "lists of words" else text])
        print(json.dumps({name: np.asarray(values[0]).tolist() for name, values in answer.items()}, ensure_ascii=False))

"""Answers of the exported model in this folder, without TensorFlow or Keras.

    pip install numpy tokenizers ai-edge-litert   # or onnxruntime: `export.json` names the format
    python predict.py "What is a yeti?" "Who wrote Hamlet?"

A program of your own copies the folder and calls `Model(folder).predict(texts)`.
"""

import json
import os
import pathlib
import sys
import threading

import numpy as np

_INPUTS = "token_ids", "segment_ids", "padding_mask", "answer_mask"

_IS_ROW = {
    "texts": lambda row: isinstance(row, str),
    "lists of words": lambda row: isinstance(row, (list, tuple)) and all(isinstance(word, str) for word in row),
    "pairs of texts": lambda row: isinstance(row, (list, tuple)) and [*map(type, row)] == [str, str],
    "contexts and their choices": lambda row: isinstance(row, (list, tuple)) and [*map(type, row)][:1] == [str],
}


class Model:
    """The exported model of a folder. Several threads can share one.

    Args:
        folder: String or path. Defaults to the folder of this file.
        num_threads: Integer. Number of threads that a batch is computed with. Defaults to `None`, for all cores.
    """

    def __init__(self, folder=None, num_threads=None):
        import tokenizers

        folder = pathlib.Path(folder or pathlib.Path(__file__).parent)
        self.facts, self.labels = (json.loads((folder / f"{n}.json").read_text("utf-8")) for n in ("export", "labels"))
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True  # A text that contains "[SEP]" contains five characters.
        self.compute = RUNTIMES[self.facts["format"]](folder, num_threads or os.cpu_count())
        self._lock = threading.RLock()  # The tokenizer has one truncation.

    def predict(self, texts, batch_size=32):
        """Returns the answers to texts.

        Args:
            texts: List of strings. Of pairs `(text, text_pair)` for a model that was trained on pairs, of lists of
                words for one that labels words, of `(context, [choice, ...])` for one that chooses, and of `(question,
                context)` for one that finds answers in a context.
            batch_size: Integer. Number of rows that are computed at once. Defaults to `32`.

        Returns:
            Dict of the answers, one entry for each text:
            - of a classifier: `label` strings, `label_id` and `probabilities` [texts, classes]; with several labels for
              a text `labels`, lists of strings, and `probabilities`
            - of a regressor: `values` [texts, targets]
            - of a model that labels words: `labels` and `probabilities`, a list and an array [words, labels] a text
            - of an embedder: `embedding` [texts, dim]
            - of a model that chooses: `choice`, a string, `choice_id` and `probabilities`, an array [choices] a text
            - of a model that finds answers: `answer`, a string, `start` and `end`, its characters in the context, -1 if
              there is no answer, and `score`, its probability

        Raises:
            ValueError: If the texts are not what the model takes, if a word has no token, or if a question is too long.
        """
        texts = self._checked(texts)
        groups = self.encode(texts)
        outputs = iter(self.run([row for rows in groups for row in rows], batch_size=batch_size))
        outputs = [[next(outputs) for _ in rows] for rows in groups]
        return getattr(self, f"_{self.facts['answers']}")(texts, groups, outputs)

    def encode(self, texts):
        """Returns the tokens of each text, a list of one or more rows, which are `tokenizers.Encoding`s."""
        with self._lock:
            return self._encode(texts)

    def _encode(self, texts):
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
        prompt = self.facts["prompt"]
        return [[row] for row in self.tokenizer.encode_batch([prompt + text for text in texts] if prompt else texts)]

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
                inputs["answer_mask"][index, 0] = 1  # stands for no answer
        return {name: inputs[name] for name in self.facts["inputs"]}

    def _checked(self, texts):
        """Returns texts as a list, and raises a `ValueError` if they are not what the model takes."""
        kind = self.facts["rows"]
        texts = texts if isinstance(texts, str) else list(texts)
        wrong = [texts] if isinstance(texts, str) else [row for row in texts if not _IS_ROW[kind](row)]
        if wrong:
            raise ValueError(f"This model takes a list of {kind}. Received: {wrong[0]!r:.100}")
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
        for words, rows, probabilities in zip(texts, groups, outputs):
            places = word_places(rows, self.facts["max_length"])
            if len(places) != len(words):
                raise ValueError(f"Each word must have a token. Received a word without one, in {words}")
            shape = len(places), len(self.labels)
            found.append(np.array([probabilities[row][place] for row, place in places]).reshape(shape))
        return {"labels": [[self.labels[i] for i in row.argmax(-1)] for row in found], "probabilities": found}

    def _choices(self, texts, groups, outputs):
        logits = [np.concatenate(found) for found in outputs]
        best = [int(row.argmax()) for row in logits]
        chosen = [choices[i] for (_, choices), i in zip(texts, best)]
        return {"choice": chosen, "choice_id": best, "probabilities": [_softmax(row) for row in logits]}

    def _spans(self, texts, groups, outputs):
        settings = self.facts["max_answer_length"], self.facts["no_answer_threshold"]
        spans = [best_span([*zip(rows, logits)], *settings) for rows, logits in zip(groups, outputs)]
        answers = [context[max(start, 0) : max(end, 0)] for (_, context), (start, end, _) in zip(texts, spans)]
        start, end, score = zip(*spans) if spans else ((), (), ())
        return {"answer": answers, "start": list(start), "end": list(end), "score": list(score)}

    def _array(self, outputs):
        rows = [row for rows in outputs for row in rows]
        return np.stack(rows) if rows else np.zeros((0, self.facts["width"]), "float32")

    def _windows(self, question, context):
        """Returns the rows of a question: windows of its context that overlap."""
        self.tokenizer.no_truncation()
        limit, overlap = self.facts["max_length"], self.facts["overlap"]
        room = limit - len(self.tokenizer.encode(question, ""))
        if room < 1:
            raise ValueError(f"A question must leave room for a context in {limit} tokens. Received: {question!r}")
        half = (room + 1) // 2
        step = min(self.facts["doc_stride"], half) if overlap is None else room - overlap if room > overlap else half
        self.tokenizer.enable_truncation(limit, stride=room - step, strategy="only_second")
        row = self.tokenizer.encode(question, context)
        return [row, *row.overflowing]


def word_places(rows, limit):
    """Returns the row and the position in it where each word of a sentence is read, given the rows of the sentence.

    A word is read at its first token, in the row whose middle is nearest.
    """
    words, places = rows[0].word_ids, {}
    start = next((place for place, word in enumerate(words) if word is not None), 0)
    room = limit - words.count(None)
    step = room - room // 4
    for number, row in enumerate(rows):
        for place, word in enumerate(row.word_ids):
            if word is not None:
                places.setdefault(word, number * step + place - start)
    nearest = {word: (2 * place - (room - 1) + step) // (2 * step) for word, place in places.items()}
    nearest = {word: min(max(row, 0), len(rows) - 1) for word, row in nearest.items()}
    return [(nearest[word], places[word] - step * nearest[word] + start) for word in sorted(places)]


def best_span(windows, max_length, no_answer_threshold):
    """Returns the first character of the best answer, the one after its last, and its probability.

    Args:
        windows: List of pairs of a row and its logits [length, 2].
        max_length: Integer. Number of tokens of the longest answer.
        no_answer_threshold: Float, or `None` for a question that has an answer.
    """
    found = [np.zeros((0, 3))]  # the characters and the score of each span
    for row, logits in windows:
        offsets = np.array(row.offsets)
        is_context = (np.array(row.sequence_ids, "float") == 1) & (offsets[:, 1] > offsets[:, 0])
        places = np.flatnonzero(is_context)
        first, last = (places[index] for index in np.triu_indices(len(places)))
        first, last = first[last - first < max_length], last[last - first < max_length]
        found.append(np.stack([offsets[first, 0], offsets[last, 1], logits[first, 0] + logits[last, 1]], axis=1))
    spans, place = np.unique(np.concatenate(found)[:, :2], axis=0, return_inverse=True)
    scores = np.full(len(spans), -np.inf)
    np.maximum.at(scores, place.ravel(), np.concatenate(found)[:, 2])  # A span may be in several windows.
    if no_answer_threshold is not None:
        spans = np.concatenate([spans, [[-1, -1]]])
        none = min(logits[0].sum() for _, logits in windows) - no_answer_threshold
        scores = np.append(scores, none)
    if not len(scores):
        return -1, -1, 0.0
    best = scores.argmax()
    return *map(int, spans[best]), float(_softmax(scores)[best])


def _softmax(values):
    values = np.exp(values - values.max())
    return values / values.sum()


def _litert(folder, num_threads):
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(str(folder / "model.tflite"), num_threads=num_threads).get_signature_runner()
    lock = threading.Lock()  # An interpreter has one set of buffers.

    def locked(inputs):
        with lock:
            return run(**inputs)

    return locked


def _onnx(folder, num_threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs)))


RUNTIMES = {"litert": _litert, "onnx": _onnx}


if __name__ == "__main__":
    model = Model()
    for text in sys.argv[1:]:
        answer = model.predict([text.split() if model.facts["rows"] == "lists of words" else text])
        print(json.dumps({name: np.asarray(values[0]).tolist() for name, values in answer.items()}, ensure_ascii=False))

"""What `attribute` asks: the inputs of each row, the outputs that count, and the words that its tokens belong to."""

import string
import unicodedata
from typing import Any, NamedTuple

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.data import real_lengths, windows_in_memory
from keras_transfer.tasks import (
    CausalLM,
    Seq2SeqLM,
    SpanExtractor,
    TextClassifier,
    TextRegressor,
    TokenClassifier,
    input_names,
)
from keras_transfer.text import TokenPreprocessor, WordLevelPreprocessor, WordPreprocessor, character_offsets


class Question(NamedTuple):
    """Rows of a task's inputs, and what is asked about each.

    Attributes:
        inputs: Dict of arrays `[rows, length, ...]`.
        places: Integer array `[rows, outputs, axes]`. The places, behind the first axis, of the outputs that count.
        targets: List of strings. What these outputs stand for.
        tokens: List of lists of strings. The tokens of each row.
        words: List of lists of strings. The words of each row.
        owners: List of integer arrays `[tokens]`. The word of each token, -1 for special tokens.
        fixed: List of boolean arrays `[tokens]`, true for tokens that a baseline keeps.
    """

    inputs: dict
    places: Any
    targets: list
    tokens: list
    words: list
    owners: list
    fixed: list


def ask(task, x, target):
    """Returns the `Question` about texts, given the target as the user passes it."""
    kinds = {
        TextClassifier: _about_texts,
        TextRegressor: _about_texts,
        TokenClassifier: _about_words,
        SpanExtractor: _about_answers,
        CausalLM: _about_continuations,
        Seq2SeqLM: _about_targets,
    }
    task.reader.require()
    question = next(about for kind, about in kinds.items() if isinstance(task, kind))(task, x, target)
    return question._replace(inputs={name: question.inputs[name] for name in input_names(task)})


def each(target, count):
    """Returns the targets of all rows as a list, given one of them or one for each."""
    if not isinstance(target, (list, np.ndarray)):
        return [target] * count
    rule = "`target` must be one target for all rows, or a list with one for each."
    expect(len(target) == count, rule, rows=count, targets=len(target))
    return list(target)


def as_columns(x):
    """Returns a single text, or a single pair of texts, as columns."""
    if isinstance(x, tuple):
        return tuple([part] if isinstance(part, str) else part for part in x)
    return [x] if isinstance(x, str) else x


# === One answer for each text ===


def classes_of(task, outputs, target):
    """Returns the places of classes, or of numbers, as an integer array `[rows]`, and their names."""
    names = task.label_names or [*map(str, range(outputs.shape[-1]))]
    count, given = len(names), each(target, len(outputs))
    found = []
    for row, (values, one) in enumerate(zip(outputs, given)):
        one = int(values.argmax()) if one is None else names.index(one) if one in names else one
        is_place = isinstance(one, (int, np.integer)) and not isinstance(one, bool) and 0 <= one < count
        rule = f"`target` must be one of {names}, or a number from 0 to {count - 1}."
        expect(is_place, rule, target=one, row=row)
        found.append(int(one))
    return np.array(found), [names[place] for place in found]


def _about_texts(task, x, target):
    rule = "Gradients and `occlusion` require one row of tokens for each text. Use `erasure`, `lime` or `shap`."
    plain = task.windows is None and not task.siamese
    expect(plain, rule, windows=task.windows, siamese=task.siamese)
    columns = task.reader.columns(x)
    inputs = task.reader.batches(columns, None, batch_size=64, shuffle=False).inputs
    expect("text" not in inputs, f"The encoder accepts strings. {rule}", encoder=task.encoder)
    places, names = classes_of(task, task.predict(inputs, verbose=0), target)
    texts = columns if isinstance(columns, tuple) else (columns,)
    return Question(inputs, places[:, None, None], names, *named(task.preprocessor, inputs, texts))


# === Words ===


def _about_words(task, x, target):
    rule = "A tagger with `crf=True` scores sequences of labels. Use `method='erasure'`."
    expect(not task.crf, rule, crf=task.crf)
    sentences = task.reader.columns(x)
    given = [tagged(task, sentences, row, one) for row, one in enumerate(each(target, len(sentences)))]
    data = task.reader.batches(sentences, None, batch_size=64, shuffle=False)
    layout, inputs = data.contents.layout, data.inputs
    labels = task.predict(sentences, verbose=0)
    first = np.cumsum([0, *layout.counts])
    chosen = [first[row] + word for row, (word, _) in enumerate(given)]
    rows, positions = layout.row[chosen], layout.position[chosen]
    places, names = classes_of(task, np.stack([labels[i][w] for i, (w, _) in enumerate(given)]), [c for _, c in given])
    inputs = {name: values[rows] for name, values in inputs.items()}
    found = named(task.preprocessor, inputs, None)
    names = [f"{sentences[i][word]}: {name}" for i, ((word, _), name) in enumerate(zip(given, names))]
    for i, row in enumerate(rows):  # The words are those of the sentence, as far as they are read in this row.
        own = np.flatnonzero(layout.row == row)
        own = own[(own >= first[i]) & (own < first[i + 1])]
        starts = layout.position[own]
        owner = np.searchsorted(starts, np.arange(len(found[0][i])), side="right") - 1
        found[2][i] = np.where((found[2][i] >= 0) & (owner >= 0), owner, -1)
        found[1][i] = [sentences[i][place - first[i]] for place in own]
    return Question(inputs, np.stack([positions, places], axis=1)[:, None], names, *found)


def tagged(task, sentences, row, target):
    """Returns the word and the label, or `None` for the predicted one, that a target of a tagger names."""
    word, label = target if isinstance(target, tuple) and len(target) == 2 else (target, None)
    rule = "`target` of a tagger must be the position of a word in its sentence, or `(position, label)`."
    is_place = isinstance(word, (int, np.integer)) and not isinstance(word, bool) and 0 <= word < len(sentences[row])
    expect(is_place, rule, target=target, row=row, words=len(sentences[row]))
    return int(word), label


# === Answers ===


def _about_answers(task, x, target):
    rule = "A `SpanExtractor` explains the answer that it gives. Leave `target` out."
    expect(target is None, rule, target=target)
    questions, contexts = task.reader.columns(x)
    windows = windows_in_memory(task.preprocessor, questions, contexts, task.doc_stride, task.overlap)
    logits, rows, places, names = task.predict(windows.inputs, verbose=0), [], [], []
    for example, context in enumerate(contexts):
        best = -np.inf, 0, 0, 0
        for row in np.flatnonzero(windows.example == example):
            inside = windows.starts[row] >= 0
            sums = np.where(inside, logits[row, 0], -np.inf)[:, None] + np.where(inside, logits[row, 1], -np.inf)
            sums = np.where(np.triu(np.tril(np.ones_like(sums), task.max_answer_length - 1)) > 0, sums, -np.inf)
            start, end = np.unravel_index(sums.argmax(), sums.shape)
            best = max(best, (sums[start, end], row, start, end))
        _, row, start, end = best
        rows.append(row)
        places.append([(0, start), (1, end)])
        names.append(context[windows.starts[row, start] : windows.ends[row, end]])
    inputs = {name: values[rows] for name, values in windows.inputs.items()}
    return Question(inputs, np.array(places), names, *named(task.preprocessor, inputs, None))


# === Generated texts ===


def _texts_of(task, x, target):
    texts = list(task.reader.columns(x))
    return texts, task.generate(texts) if target is None else each(target, len(texts))


def _about_continuations(task, x, target):
    """Each token of a continuation is a row, after the tokens before it."""
    preprocessor = task.preprocessor
    texts, continuations = _texts_of(task, x, target)
    start = [preprocessor.token_to_id(token) for token in preprocessor.packing.start]
    rows, chosen = [], []
    for prompt, further in zip(texts, continuations):
        whole = [*start, *_ids(preprocessor, f"{prompt}{further}")]
        known = _shared([*start, *_ids(preprocessor, prompt)], whole)
        for place in range(max(known, 1), len(whole)):
            rows.append(whole[:place])
            chosen.append((place - 1, whole[place]))
    rule = "There is no generated token to explain. Pass `target`, a continuation of each text."
    expect(rows, rule, continuations=continuations)
    length = max(map(len, rows))
    ids = np.array([[*row, *[0] * (length - len(row))] for row in rows], "int32")
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], "int32")
    inputs = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
    names = [preprocessor.vocabulary[token - preprocessor.tokenizer.first_id] for _, token in chosen]
    return Question(inputs, np.array(chosen)[:, None], names, *named(preprocessor, inputs, None))


def _ids(preprocessor, text):
    return preprocessor.tokenize([text]).to_list()[0]


def _shared(one, other):
    """Returns how many of the first ids are the same."""
    return next((place for place, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _about_targets(task, x, target):
    """Each token of a target is a row, which reads the source and the tokens before it."""
    sources, targets = _texts_of(task, x, target)
    data = task.dataset(sources, targets, batch_size=len(sources))
    inputs, ids, weights = data.pinned([(data.options.lengths[-1], np.arange(len(sources)))])[0]
    owner, position = np.nonzero(np.asarray(weights) > 0)
    inputs = {name: np.asarray(values)[owner] for name, values in inputs.items()}
    own = task.target_preprocessor or task.preprocessor
    tokens = np.asarray(ids)[owner, position]
    names = [own.vocabulary[token - own.tokenizer.first_id] for token in tokens]
    places = np.stack([position, tokens], axis=1)[:, None]
    texts = (np.array([task.reader.prefix + sources[row] for row in owner], object),)
    return Question(inputs, places, names, *named(task.preprocessor, inputs, texts))


# === Tokens and words ===


def named(preprocessor, inputs, columns):
    """Returns the tokens, the words, the word of each token and what a baseline keeps, for each row of inputs.

    Args:
        columns: Tuple of columns of texts, of which the rows are made, or `None` if words come from tokens alone.
    """
    lengths = real_lengths(inputs)
    if isinstance(preprocessor, TokenPreprocessor):
        return _of_pieces(preprocessor, inputs["token_ids"], lengths, columns)
    if isinstance(preprocessor, WordLevelPreprocessor) and columns is not None:
        words = [row[:length] for row, length in zip(preprocessor.words(columns[0]), lengths)]
    else:
        words = [[str(token) for token in row[:length]] for row, length in zip(inputs["token_ids"], lengths)]
    owners = [np.arange(len(row)) for row in words]
    return words, [list(row) for row in words], owners, [np.zeros(len(row), bool) for row in words]


def _of_pieces(preprocessor, ids, lengths, columns):
    tokenizer, special = preprocessor.tokenizer, {*preprocessor.special_ids} - {preprocessor.unk_id}
    texts, starts = tokenizer.token_bytes(), tokenizer.word_starts()
    offsets = [_offsets(tokenizer, column) for column in columns or ()]
    tokens, words, owners, fixed = [], [], [], []
    for row, (own, length) in enumerate(zip(ids, lengths)):
        own = own[:length].tolist()
        kept = np.array([token in special for token in own], bool)
        owner, pieces, column = np.full(length, -1), [], -1
        for place, token in enumerate(own):
            if kept[place]:
                continue
            piece = texts[token - tokenizer.first_id]
            first = place == 0 or kept[place - 1]
            column += first
            after = first or is_punctuation(texts[own[place - 1] - tokenizer.first_id])
            if first or starts[token - tokenizer.first_id] or is_punctuation(piece) or after:
                pieces.append((column, []))
            pieces[-1][1].append(place)
            owner[place] = len(pieces) - 1
        tokens.append([tokenizer.vocabulary[token - tokenizer.first_id] for token in own])
        words.append(_surfaces(pieces, own, texts, tokenizer.first_id, [part[row] for part in offsets]))
        owners.append(owner)
        fixed.append(kept)
    return tokens, words, owners, fixed


def is_punctuation(piece):
    """Returns whether the bytes of a token are only punctuation."""
    text = piece.decode("utf-8", "replace").strip()
    return bool(text) and all(c in string.punctuation or unicodedata.category(c).startswith("P") for c in text)


def _offsets(tokenizer, texts):
    """Returns for each text the text, its ids, and the first and the last character of each, if these are known."""
    if not tokenizer.has_offsets:
        return [None] * len(texts)
    ids, starts, ends = (part.to_list() for part in tokenizer.tokenize_with_offsets(list(texts)))
    return list(zip(texts, ids, starts, ends))


def _surfaces(pieces, ids, texts, first_id, offsets):
    """Returns the words of a row: as they stand in the text where that is known, or the joined tokens."""
    found, before = [], {}
    for column, places in pieces:
        begin = before.setdefault(column, places[0])
        source = offsets[column] if column < len(offsets) else None
        of_text = slice(places[0] - begin, places[-1] + 1 - begin)
        if source is not None and source[1][of_text] == [ids[place] for place in places]:
            found.append(source[0][source[2][of_text][0] : source[3][of_text][-1]])
        else:
            found.append(b"".join(texts[ids[place] - first_id] for place in places).decode("utf-8", "replace").strip())
    return found


def split_text(preprocessor, text):
    """Returns `(start, end)` of each word of a text."""
    splits = preprocessor if isinstance(preprocessor, WordLevelPreprocessor) else WordPreprocessor()
    return character_offsets(text, splits.words([text])[0])

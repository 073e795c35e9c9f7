"""What `attribute` asks: the inputs of each row, the outputs that count, and the words that its tokens belong to."""

import contextlib
import itertools
import string
import unicodedata
from typing import Any, NamedTuple

import numpy as np

from keras_transfer.analysis.scores import softmax
from keras_transfer.core.expect import NotApplicableError, expect
from keras_transfer.data import real_lengths, windows_in_memory
from keras_transfer.tasks import CausalLM, Seq2SeqLM, SpanExtractor, TokenClassifier, check_rows, input_names
from keras_transfer.text import TokenPreprocessor, WordLevelPreprocessor, WordPreprocessor, character_offsets


class Question(NamedTuple):
    """Rows of a task's inputs, and what is asked about each.

    Args:
        inputs: Dict of arrays `[rows, length, ...]`.
        places: Integer array `[rows, outputs, axes]`. The places, behind the first axis, of the outputs that count.
        targets: List of strings. What these outputs stand for.
        tokens, words: Lists of lists of strings.
        owners: List of integer arrays `[tokens]`. The word of each token, or -1 for tokens that are never left out.
    """

    inputs: dict
    places: Any
    targets: list
    tokens: list
    words: list
    owners: list


def ask(task, x, target):
    """Returns the `Question` about texts, given the target as the user passes it."""
    task.reader.require()
    kinds = {TokenClassifier: _about_words, SpanExtractor: _about_answers, CausalLM: _about_continuations}
    kinds[Seq2SeqLM] = _about_targets
    about = [about for kind, about in kinds.items() if isinstance(task, kind)] or [_about_texts]
    question = about[0](task, x, target)
    return question._replace(inputs={name: question.inputs[name] for name in input_names(task)})


def _each(target, count):
    """Returns the targets of all rows as a list, given one of them or one for each."""
    if not isinstance(target, (list, np.ndarray)):
        return [target] * count
    rule = "`target` must be one target for all rows, or a list with one for each."
    expect(len(target) == count, rule, rows=count, targets=len(target))
    return list(target)


def _is_place(value, count):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < count


def _classes(task, outputs, target):
    """Returns the places of classes, or of numbers, as an integer array `[rows]`, and their names."""
    names = task.label_names or [*map(str, range(outputs.shape[-1]))]
    found = []
    for row, (values, one) in enumerate(zip(outputs, _each(target, len(outputs)))):
        one = values.argmax() if one is None else names.index(one) if one in names else one
        rule = f"`target` must be one of {names}, or a number from 0 to {len(names) - 1}."
        expect(_is_place(one, len(names)), rule, target=one, row=row)
        found.append(int(one))
    return np.array(found), [names[place] for place in found]


def tags_of(task, sentences, target):
    """Returns the position of a word in each sentence, the place of a label for it, and the names of both.

    By default, it is the word with the most likely label that is not the most frequent one, such as "O".
    """
    words, labels, logits = [], [], task.predict(sentences, verbose=0)
    tags = [found.argmax(axis=-1) for found in logits]
    if task.crf:  # The labels of the most likely sequences.
        tags = [np.array([task.label_names.index(tag) for _, tag in row], int) for row in task.predict_words(sentences)]
    common = np.bincount(np.concatenate(tags), minlength=1).argmax()
    for row, one in enumerate(_each(target, len(sentences))):
        error = NotApplicableError if one is None else ValueError
        if one is None and len(sentences[row]):
            sure = softmax(logits[row])[np.arange(len(tags[row])), tags[row]]
            one = np.argmax(sure + (tags[row] != common))
        word, label = one if isinstance(one, tuple) and len(one) == 2 else (one, None)
        rule = "`target` of a tagger must be the position of a word in its sentence, or `(position, label)`."
        fits = _is_place(word, len(sentences[row]))
        expect(fits, rule, error=error, target=one, row=row, words=len(sentences[row]))
        words.append(word)
        labels.append(tags[row][word] if label is None else label)
    outputs = [found[word] for found, word in zip(logits, words)]
    places, names = _classes(task, np.stack(outputs), labels)
    return words, places, [f"{words[at]}: {name}" for words, at, name in zip(sentences, words, names)]


def _about_texts(task, x, target):
    rule = "Gradients and `occlusion` require one row of tokens for each text. Use `erasure`, `lime` or `shap`."
    plain = task.windows is None and not task.siamese
    expect(plain, rule, error=NotApplicableError, windows=task.windows, siamese=task.siamese)
    columns = task.reader.columns(x)
    inputs = task.reader.batches(columns, None, batch_size=64, shuffle=False).inputs
    accepts_strings = f"The encoder accepts strings. {rule}"
    expect("text" not in inputs, accepts_strings, error=NotApplicableError, encoder=task.encoder)
    places, names = _classes(task, task.predict(inputs, verbose=0), target)
    texts = columns if isinstance(columns, tuple) else (columns,)
    return Question(inputs, places[:, None, None], names, *named(task.preprocessor, inputs, texts))


def _about_words(task, x, target):
    rule = "A tagger with `crf=True` scores sequences of labels. Use `method='erasure'`."
    expect(not task.crf, rule, error=NotApplicableError, crf=task.crf)
    sentences = task.reader.columns(x)
    asked, places, names = tags_of(task, sentences, target)
    data = task.reader.batches(sentences, None, batch_size=64, shuffle=False)
    layout = data.contents.layout
    chosen = np.cumsum([0, *layout.counts])[:-1] + asked
    inputs = {name: values[layout.row[chosen]] for name, values in data.inputs.items()}
    tokens, _, owners = named(task.preprocessor, inputs)
    words, positions = [], layout.position[chosen]
    for row, sentence in enumerate(sentences):  # A long sentence has several rows, and each reads some of its words.
        counts = np.ones(len(sentence), int)
        if isinstance(task.preprocessor, TokenPreprocessor):
            counts = np.asarray(task.preprocessor.tokenizer.word_pieces(sentence).row_lengths())
        ends, real = np.cumsum(counts), owners[row] >= 0
        place = np.flatnonzero(real) - positions[row] + ends[asked[row]] - counts[asked[row]]
        found = np.searchsorted(ends, place, side="right")
        owners[row][real] = found - found[0]
        words.append(sentence[found[0] : found[-1] + 1])
    return Question(inputs, np.stack([positions, places], axis=1)[:, None], names, tokens, words, owners)


def ask_without(model, x, target, kind):
    """Returns the `Question` about the words of texts, and a function that returns the outputs without some words."""
    rule = "Words can be deleted for classifiers, regressors, taggers and a `Seq2SeqLM`. Use 'occlusion'."
    expect(not isinstance(model, (SpanExtractor, CausalLM)), rule, model=type(model).__name__)
    model.reader.require()
    columns = model.reader.columns(x)
    columns = columns if isinstance(columns, tuple) else (columns,)
    is_tagger, count = isinstance(model, TokenClassifier), len(columns[0])
    expect(count > 0, "`x` must contain at least one text.", x=x)
    if is_tagger:
        words = [list(row) for row in columns[0]]
        asked, classes, names = tags_of(model, words, target)
    else:
        cut = [word_spans(model.preprocessor, list(column)) for column in columns]
        spans = [[(i, *span) for i, own in enumerate(row) for span in own] for row in zip(*cut)]
        words = [[columns[i][row][start:end] for i, start, end in own] for row, own in enumerate(spans)]

    def left(row, places):
        if is_tagger:
            return ([word for place, word in enumerate(words[row]) if place not in places],)
        texts = [column[row] for column in columns]
        for place in sorted(places, reverse=True):
            column, start, end = spans[row][place]
            before, after = texts[column][:start].rstrip(), texts[column][end:]
            texts[column] = before + after if before else after.lstrip()
        return texts

    def predict(rows, places):
        texts = tuple(map(list, zip(*map(left, rows, places))))
        if isinstance(model, Seq2SeqLM):
            found = model.score(texts[0], [names[row] for row in rows])
            found = np.asarray(getattr(found, "log_likelihoods", found))
            return found if kind is None else np.exp(found)
        outputs = model.predict(texts if len(texts) > 1 else texts[0], verbose=0)
        if is_tagger:  # The place of a word is smaller without the words before it.
            at = [asked[row] - sum(place < asked[row] for place in own) for row, own in zip(rows, places)]
            outputs = np.stack([found[place] for found, place in zip(outputs, at)])
        if kind is None:
            return outputs
        return softmax(outputs) if kind == "softmax" else 1 / (1 + np.exp(-outputs))

    def outputs(rows, places):
        return predict(rows, places)[np.arange(len(rows)), classes[np.asarray(rows)]]

    owners = [np.arange(len(own)) for own in words]
    if is_tagger:
        for owner, word in zip(owners, asked):  # Without the word, there is nothing to label.
            owner[word] = -1
    elif isinstance(model, Seq2SeqLM):
        names, outputs = _texts_of(model, x, target)[1], predict
    else:
        classes, names = _classes(model, predict(range(count), [()] * count), target)
    return Question({}, None, names, words, words, owners), outputs


def _about_answers(task, x, target):
    rule = "A `SpanExtractor` explains the answer that it gives. Leave `target` out."
    expect(target is None, rule, target=target)
    questions, contexts = task.reader.columns(x)
    windows = windows_in_memory(task.preprocessor, questions, contexts, task.doc_stride, task.overlap)
    logits = task.predict(windows.inputs, verbose=0)

    def best(row):
        firsts, lasts = np.where(windows.starts[row] >= 0, logits[row], -np.inf)
        sums = firsts[:, None] + lasts
        sums[np.tril(np.triu(np.ones_like(sums)), task.max_answer_length - 1) == 0] = -np.inf
        return sums.max(), row, *np.unravel_index(sums.argmax(), sums.shape)

    found = [max(map(best, np.flatnonzero(windows.example == example))) for example in range(len(contexts))]
    rows = np.array([row for _, row, _, _ in found])
    places = np.array([[(0, start), (1, end)] for _, _, start, end in found])
    names = [text[windows.starts[row, i] : windows.ends[row, j]] for text, (_, row, i, j) in zip(contexts, found)]
    inputs = {name: values[rows] for name, values in windows.inputs.items()}
    return Question(inputs, places, names, *named(task.preprocessor, inputs))


def _texts_of(task, x, target):
    """Returns prompts or sources, and the texts that follow them."""
    texts = list(task.reader.columns(x))
    targets = task.generate(texts) if target is None else _each(target, len(texts))
    rule = "`target` of a model that generates must be a text, or a list with one for each."
    expect(all(isinstance(one, str) for one in targets), rule, target=target)
    return texts, targets


def _about_continuations(task, x, target):
    """Each token of a continuation is a row, after the tokens before it."""
    preprocessor = task.preprocessor
    texts, continuations = _texts_of(task, x, target)
    start = [preprocessor.token_to_id(token) for token in preprocessor.packing.start]
    wholes = preprocessor.tokenize([f"{text}{more}" for text, more in zip(texts, continuations)]).to_list()
    wholes = [[*start, *whole] for whole in wholes]
    check_rows(task, [np.array(whole, "int32") for whole in wholes], "text with its continuation")
    rows, chosen = [], []
    for prompt, whole in zip(preprocessor.tokenize(texts).to_list(), wholes):
        prompt = [*start, *prompt]
        known = next((i for i, (a, b) in enumerate(zip(prompt, whole)) if a != b), min(len(prompt), len(whole)))
        for place in range(max(known, 1), len(whole)):
            rows.append(whole[:place])
            chosen.append((place - 1, whole[place]))
    rule = "There is no generated token to explain. Pass `target`, a continuation of each text."
    expect(rows, rule, error=NotApplicableError, continuations=continuations)
    length = max(map(len, rows))
    ids = np.array([[*row, *[0] * (length - len(row))] for row in rows], "int32")
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows], "int32")
    inputs = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
    names = [preprocessor.vocabulary[token - preprocessor.tokenizer.first_id] for _, token in chosen]
    return Question(inputs, np.array(chosen)[:, None], names, *named(preprocessor, inputs))


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


def named(preprocessor, inputs, columns=()):
    """Returns the tokens, the words and the word of each token of each row, given the texts if words come from them."""
    lengths = real_lengths(inputs)
    if isinstance(preprocessor, TokenPreprocessor):
        return _of_pieces(preprocessor, inputs["token_ids"], lengths, columns)
    if isinstance(preprocessor, WordLevelPreprocessor) and columns:
        words = [list(row[:length]) for row, length in zip(preprocessor.words(columns[0]), lengths)]
    else:
        words = [[str(token) for token in row[:length]] for row, length in zip(inputs["token_ids"], lengths)]
    return words, words, [np.arange(len(row)) for row in words]


def _of_pieces(preprocessor, ids, lengths, columns):
    tokenizer, special = preprocessor.tokenizer, [*{*preprocessor.special_ids} - {preprocessor.unk_id}]
    cut, found = _cutter(tokenizer), []
    texts = [list(column) for column in columns if tokenizer.has_offsets]
    known = [_pieces_of(tokenizer, column) for column in texts]
    for row, length in enumerate(lengths):
        own, owner, words = ids[row, :length], np.full(length, -1), []
        ends = np.flatnonzero(np.diff(np.isin(own, special), prepend=True, append=True)).reshape(-1, 2)
        for column, (begin, end) in enumerate(ends):
            part = own[begin:end].tolist()
            begins, surfaces = cut(part)
            if column < len(known) and known[column][row][0][: len(part)] == part:  # It reads the text from its start.
                spans = known[column][row][1][: len(surfaces)]
                surfaces = [texts[column][row][start:stop] for start, stop in spans]
            owner[begin:end] = len(words) + np.repeat(np.arange(len(surfaces)), np.diff(begins))
            words += surfaces
        found.append(([tokenizer.vocabulary[token - tokenizer.first_id] for token in own], words, owner))
    tokens, words, owners = map(list, zip(*found))
    return tokens, words, owners


def word_spans(preprocessor, texts):
    """Returns the lists of `(start, end)` of the words of texts: those that `named` returns, wherever it can."""
    spans = [None] * len(texts)
    if isinstance(preprocessor, TokenPreprocessor):
        with contextlib.suppress(NotImplementedError):  # Its pieces are unknown.
            spans = [own for _, own in _pieces_of(preprocessor.tokenizer, texts)]
    splits = preprocessor if isinstance(preprocessor, WordLevelPreprocessor) else WordPreprocessor()
    rows = zip(texts, spans)
    return [character_offsets(text, splits.words([text])[0]) if own is None else own for text, own in rows]


def _pieces_of(tokenizer, texts):
    """Returns the ids of each text, and the `(start, end)` of its words, `None` if its pieces do not stand in it."""
    cut, found = _cutter(tokenizer), []
    if not tokenizer.has_offsets:
        for text, ids in zip(texts, tokenizer.tokenize(texts).to_list()):
            try:
                found.append((ids, character_offsets(text, cut(ids)[1])))
            except ValueError:
                found.append((ids, None))
        return found
    for ids, starts, ends in zip(*(part.to_list() for part in tokenizer.tokenize_with_offsets(texts))):
        begins = cut(ids)[0]
        found.append((ids, [(starts[begin], ends[end - 1]) for begin, end in itertools.pairwise(begins)]))
    return found


def _cutter(tokenizer):
    """Returns a function of ids to where words begin, and their end, and the words. Punctuation marks are words."""
    pieces, starts, first_id = tokenizer.token_bytes(), tokenizer.word_starts(), tokenizer.first_id

    def cut(ids):
        texts = [pieces[token - first_id] for token in ids]
        alone = [*map(_is_punctuation, texts)]
        is_new = [i == 0 or alone[i - 1] or alone[i] or starts[token - first_id] for i, token in enumerate(ids)]
        begins = [*np.flatnonzero(is_new), len(ids)]
        words = [b"".join(texts[begin:end]) for begin, end in itertools.pairwise(begins)]
        return begins, [word.decode("utf-8", "replace").strip() for word in words]

    return cut


def _is_punctuation(piece):
    """Returns whether the bytes of a token are only punctuation."""
    text = piece.decode("utf-8", "replace").strip()
    return bool(text) and all(c in string.punctuation or unicodedata.category(c).startswith("P") for c in text)

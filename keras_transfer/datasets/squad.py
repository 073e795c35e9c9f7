"""Questions about paragraphs, with answers and their places: SQuAD 1.1 and 2.0."""

import itertools
import os
import pathlib
from typing import NamedTuple

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import get, read_json_lines, read_whole_json, shorten
from keras_transfer.datasets.sources import existing_file
from keras_transfer.datasets.splits import from_rows, shown_by_columns


class Answer(NamedTuple):
    """An answer, and its place in the context.

    Attributes:
        text: String.
        start: Integer. Position of its first character in the context.
    """

    text: str
    start: int


@shown_by_columns
class Questions(NamedTuple):
    """Questions, the contexts that contain their answers, and the answers.

    Attributes:
        ids: List of strings. Numbers as ids become strings.
        questions: List of strings.
        contexts: List of strings.
        answers: List of lists of `Answer`s, one from each annotator. Empty for a question that its context does not
            answer.
        titles: List of strings. Titles of the articles of the contexts, or `""` if the file has none.
    """

    ids: list
    questions: list
    contexts: list
    answers: list
    titles: list


def load_squad(path: str | os.PathLike) -> Questions:
    """Reads a file of SQuAD 1.1 (Rajpurkar et al. 2016) or 2.0 (Rajpurkar et al. 2018).

    Args:
        path: Path of an official file, such as `dev-v1.1.json`, or of a file with one question in each row, as Hugging
            Face's datasets write them: JSON Lines, or a list.

    Returns:
        `Questions`, in the order of the file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not complete or has another format; if an answer is not at its place in the context;
            or if a question has no answer, but is not marked as impossible.

    Example:
    ```python
    data = keras_transfer.datasets.load_squad("squad1.1/dev-v1.1.json")
    text, start = data.answers[0][0]
    data.contexts[0][start : start + len(text)]  # text
    ```

    Source: https://rajpurkar.github.io/SQuAD-explorer
    """
    path = existing_file(path, "squad2.0" if "2.0" in pathlib.Path(path).name else "squad1.1")
    found = []
    for article in _articles(path):
        title = str(article.get("title", "")) if isinstance(article, dict) else ""
        for paragraph in get(article, "paragraphs", f"{path}, article {title!r}", list):
            context = get(paragraph, "context", f"{path}, article {title!r}")
            for question in get(paragraph, "qas", f"{path}, article {title!r}", list):
                where = f"{path}, question {get(question, 'id', f'{path}, article {title!r}', object)!r}"
                text, answers = get(question, "question", where), _answers(question, context, where)
                found.append((str(question["id"]), text, context, answers, title))
    return from_rows(Questions, found)


def _articles(path):
    """Returns the articles of a file. One question in each row, as in Hugging Face's form, is an article of its own."""
    try:
        data = read_whole_json(path)
    except ValueError:
        try:
            data = [row for _, row in read_json_lines(path)]  # Each line has one question.
        except ValueError:
            data = None
        if data is None:
            raise
    rows = data if isinstance(data, list) and data else get(data, "data", path, list)
    if not (rows and isinstance(rows[0], dict)) or "paragraphs" in rows[0]:
        return rows
    expected = "questions with their contexts and answers. For a table, use `read_table`"
    received = f"rows with {shorten(list(rows[0]))}"
    expect({"question", "context", "answers"} <= rows[0].keys(), f"Expected {expected}.", received=received, where=path)
    return [
        {"title": row.get("title", ""), "paragraphs": [{"context": row.get("context"), "qas": [row]}]} for row in rows
    ]


def _answers(question, context, where):
    answers, given = [], question.get("answers")
    if isinstance(given, dict):  # Hugging Face's form: a list of texts, and a list of their places.
        texts, starts = get(given, "text", where, list), get(given, "answer_start", where, list)
        given = [{"text": text, "answer_start": start} for text, start in itertools.zip_longest(texts, starts)]
        question = {"is_impossible": not given, **question, "answers": given}
    for answer in get(question, "answers", where, list):
        text, start = get(answer, "text", where), get(answer, "answer_start", where, int)
        found = context[start : start + len(text)] if start >= 0 else ""
        expected = f"the answer {shorten(text)} at position {start} of the context"
        expect(text and found == text, f"Expected {expected}.", found, where=where)
        answers.append(Answer(text, start))
    is_impossible = question.get("is_impossible", False)
    rule, received = "Expected answers, or `is_impossible`.", f"{len(answers)} answers and {is_impossible=}"
    expect(bool(answers) != bool(is_impossible), rule, received=received, where=where)
    return answers

"""Dialogues of two people, each with a persona: PersonaChat, in the format of ConvAI2."""

import os
from typing import NamedTuple

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import read_lines
from keras_transfer.datasets.sources import existing_file

PERSONAS = ("your persona: ", "partner's persona: ")


class Turn(NamedTuple):
    """An utterance of the partner, and the reply.

    Attributes:
        text: String. The utterance of the partner.
        reply: String. The reply of the speaker with the persona.
        candidates: List of strings. Replies to choose from, including the true one, as in the file. Empty in files
            without candidates.
    """

    text: str
    reply: str
    candidates: list


class DialogueExample(NamedTuple):
    """A reply, and the persona and history that it depends on.

    Attributes:
        persona: List of strings. Sentences about the one who replies.
        history: List of strings. All utterances so far, oldest first. The last one is the partner's.
        reply: String.
        candidates: List of strings, as in `Turn`.
    """

    persona: list
    history: list
    reply: str
    candidates: list


class Dialogue(NamedTuple):
    """A dialogue between a speaker with a persona and a partner.

    Attributes:
        persona: List of strings. Sentences about the one who replies.
        partner_persona: List of strings. Sentences about the partner. Empty in files without them.
        turns: List of `Turn`s.
    """

    persona: list
    partner_persona: list
    turns: list

    def examples(self) -> list:
        """Returns the dialogue's turns as examples.

        Returns:
            A list of `DialogueExample`s, one for each turn.
        """
        examples, history = [], []
        for turn in self.turns:
            history = [*history, turn.text]
            examples.append(DialogueExample(self.persona, history, turn.reply, turn.candidates))
            history = [*history, turn.reply]
        return examples


def load_personachat(path: str | os.PathLike) -> list:
    """Reads a file of PersonaChat (Zhang et al. 2018) in the format of ConvAI2.

    Each line has a number, which starts at 1 in each dialogue. The first lines have the persona. The others have an
    utterance of the partner, a tab and the reply, and in files with candidates two tabs and the candidates, separated
    by `|`. The texts are tokenized and in lower case, as in the files.

    Args:
        path: Path of a file, such as `valid_self_original.txt` or `valid_self_original_no_cands.txt`.

    Returns:
        List of `Dialogue`s.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line has a different format or an unexpected number, or if a dialogue has no turns.

    Example:
    ```python
    with open("valid.txt", "w") as file:
        file.write("1 your persona: i like football.\\n")
        file.write("2 how are you ?\\tpretty fine .\\n3 where are you ?\\tin nyc .\\n")
    dialogue = keras_transfer.datasets.load_personachat("valid.txt")[0]
    dialogue.examples()[1].history  # ["how are you ?", "pretty fine .", "where are you ?"]
    ```

    Source: https://arxiv.org/abs/1801.07243
    """
    path = existing_file(path, "personachat")
    dialogues, last = [], 0
    for count, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {count}"
        number, _, content = line.partition(" ")
        in_order = number == "1" or (dialogues and number == str(last + 1))
        expect(in_order, f"Expected a line with the number {last + 1} or 1.", line, where=where)
        if number == "1":
            _check_turns(dialogues, where)
            dialogues.append(Dialogue([], [], []))
        last = int(number)
        _add(dialogues[-1], content, where)
    expect(dialogues, "Expected at least one dialogue.", received="no lines", where=path)
    _check_turns(dialogues, f"{path}, end")
    return dialogues


def _add(dialogue, content, where):
    for sentences, prefix in zip((dialogue.persona, dialogue.partner_persona), PERSONAS):
        if content.startswith(prefix):
            sentences.append(content.removeprefix(prefix))
            return
    text, *rest = content.split("\t")
    expect(len(rest) in (1, 3) and rest[0], "Expected an utterance, a tab and a reply.", content, where=where)
    dialogue.turns.append(Turn(text, rest[0], rest[2].split("|") if len(rest) == 3 else []))


def _check_turns(dialogues, where):
    has_turns = not dialogues or dialogues[-1].turns
    expect(has_turns, "Expected a reply in the dialogue before.", received="a dialogue without replies", where=where)

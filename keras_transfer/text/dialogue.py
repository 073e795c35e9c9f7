"""Packs a persona, the utterances of a dialogue and a reply into one sequence of tokens."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple


class DialogueInputs(NamedTuple):
    """The inputs of a language model for a reply: lists of tokens, and of integers for `positions`.

    `segments` has the delimiter of the speaker of each word. `targets` has the next word if it belongs to the reply,
    and otherwise the value to ignore.
    """

    words: list
    segments: list
    positions: list
    targets: list


def dialogue_inputs(
    persona: Sequence,
    history: Sequence,
    reply: Sequence[str] | None = None,
    *,
    bos: Any = "<bos>",
    eos: Any = "<eos>",
    speakers: Sequence = ("<speaker1>", "<speaker2>"),
    ignored: Any = None,
) -> DialogueInputs:
    """Returns the words, segments, positions and targets of a dialogue, in the format of TransferTransfo.

    The words are `bos`, the persona, all utterances, the reply and `eos`. A delimiter before each utterance names its
    speaker. The second speaker replies, and the two take turns. Segments repeat the delimiter for each word. The
    persona has the segment of the first speaker, as in the tutorial.

    Args:
        persona: List of sentences about the speaker who replies, each a list of tokens (strings or ids).
        history: List of utterances, each a list of tokens. The last one is the partner's.
        reply: List of tokens. Defaults to `None`, for a sequence that ends where the reply begins.
        bos: Token that begins the sequence. Defaults to `"<bos>"`.
        eos: Token that ends the sequence. Defaults to `"<eos>"`.
        speakers: Tuple of two tokens, the delimiters of the partner and of the speaker who replies. Defaults to
            `("<speaker1>", "<speaker2>")`.
        ignored: Target of words that are not followed by a word of the reply. Defaults to `None`.

    Returns:
        A `DialogueInputs`, whose lists have the same length.

    Example:
    ```python
    persona, history = [["i", "like", "football"]], [["how", "are", "you", "?"]]
    inputs = keras_transfer.text.dialogue_inputs(persona, history, ["great", "!"])
    inputs.words[-4:]  # ["<speaker2>", "great", "!", "<eos>"]
    inputs.targets[-4:]  # ["great", "!", "<eos>", None]
    ```

    Source: https://arxiv.org/abs/1901.08149, section 4; Ruder et al. 2019, "Transfer Learning in Natural Language
    Processing" (NAACL tutorial).
    """
    partner, own = speakers
    parts = [(partner, [bos, *chain(*persona)])]
    for turn, utterance in enumerate(history):
        speaker = partner if (len(history) - turn) % 2 else own
        parts.append((speaker, [speaker, *utterance]))
    parts.append((own, [own] if reply is None else [own, *reply, eos]))
    words = list(chain(*(part for _, part in parts)))
    segments = [speaker for speaker, part in parts for _ in part]
    answer = parts[-1][1][1:]
    targets = [ignored] * (len(words) - len(answer) - 1) + [*answer, ignored]
    return DialogueInputs(words, segments, list(range(len(words))), targets)

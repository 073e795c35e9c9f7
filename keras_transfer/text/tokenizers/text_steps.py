"""The normalization steps before SentencePiece splits texts, in the graph and in a `tokenizer.json`."""

import base64

from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.strings.normalizer import MARK, lower
from keras_transfer.text.tensorflow import tf
from keras_transfer.text.tokenizer_files.settings import steps_of
from keras_transfer.text.tokenizers.sentencepiece_model import SPACE
from keras_transfer.text.tokenizers.unigram_words import WHITE_SPACE

_TWO_SPACES = " {2,}"
_SPACES = r"\s{2,}|[\n\r\t]"


def _replace(pattern, replacement):
    def step(texts):
        return tf.strings.regex_replace(texts, pattern, replacement)

    return step


def _form(name):
    return lambda texts: import_tensorflow_text().normalize_utf8(texts, name)


STEPS = {
    "quotes": _replace("``|''", '"'),
    **{name: _form(name) for name in ("NFC", "NFD", "NFKC", "NFKD")},
    "strip_accents": _replace(MARK, ""),
    "lowercase": lower,
    "collapse_spaces": _replace(_TWO_SPACES, " "),
    "collapse_white_space": _replace(rf"[{WHITE_SPACE}]{{2,}}|[\n\r\t]", " "),
    "strip_left": _replace(f"^[{WHITE_SPACE}]+", ""),
    "strip_right": _replace(f"[{WHITE_SPACE}]+$", ""),
}


def _replacing(kind, pattern, content=" "):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


_SIDES = ("strip_left", "strip_right")
# What stands for a step in a `tokenizer.json`.
_PARTS = {
    "quotes": [_replacing("String", quotes, '"') for quotes in ("``", "''")],
    **{name: [{"type": name}] for name in ("NFC", "NFD", "NFKC", "NFKD")},
    "strip_accents": [{"type": "StripAccents"}],
    "lowercase": [{"type": "Lowercase"}],
    "collapse_spaces": [_replacing("Regex", _TWO_SPACES)],
    "collapse_white_space": [_replacing("Regex", _SPACES)],
    **{name: [{"type": "Strip", **{side: side == name for side in _SIDES}}] for name in _SIDES},
}
MODEL_STEP = "model"  # the compiled normalization
SPACE_STEPS = {"collapse_spaces", "collapse_white_space", *_SIDES}


def read_steps(normalizer, keep_spaces=False):
    """Returns the steps of a `normalizer` and the compiled normalization of SentencePiece, empty for none.

    Args:
        keep_spaces: Boolean. Whether the steps on white space matter. They do not if texts are split at white space
            afterwards.
    """
    steps, charsmap = [], b""
    for part in steps_of(normalizer):
        if part["type"] == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"] or "")
            found = [MODEL_STEP] if charsmap else []
        elif part["type"] == "Strip":
            found = [side for side in _SIDES if part.get(side, True)]
        else:
            plain = _replacing("Regex", _TWO_SPACES) if part == _replacing("Regex", _TWO_SPACES, SPACE) else part
            found = [step for step, parts in _PARTS.items() if plain in parts] or _refuse(part)
        found = [step for step in found if keep_spaces or step not in SPACE_STEPS]
        found = [] if found == ["quotes"] and "quotes" in steps else found
        if MODEL_STEP in steps and not {*found} <= SPACE_STEPS:
            _refuse(part)
        steps += found
    return steps[:-1] if steps[-1:] == [MODEL_STEP] else steps, charsmap


def write_steps(steps, charsmap):
    """Returns the `normalizer` of steps and of the compiled normalization of SentencePiece."""
    compiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode("ascii")}
    steps = [*steps, *([MODEL_STEP] if charsmap and MODEL_STEP not in steps else [])]
    parts = [part for step in steps for part in ([compiled] if step == MODEL_STEP else _PARTS[step])]
    return {"type": "Sequence", "normalizers": parts} if parts else None


def _refuse(part):
    raise ValueError(
        f"The normalizer has an unknown step, or one in another place around 'Precompiled'. Received: {part!r:.300}"
    )

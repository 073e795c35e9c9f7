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
MODEL_STEP = "model"  # the compiled normalization
SPACE_STEPS = {"collapse_spaces", "collapse_white_space", "strip_left", "strip_right"}


def read_steps(normalizer, keep_spaces=False):
    """Returns the steps of a `normalizer` and the compiled normalization of SentencePiece, empty for none.

    Args:
        keep_spaces: Boolean. Whether the steps on white space matter. They do not if texts are split at white space
            afterwards.
    """
    steps, charsmap = [], b""
    for part in steps_of(normalizer):
        kind, pattern = part["type"], _pattern(part)
        if kind == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"] or "")
            found = [MODEL_STEP] if charsmap else []
        elif kind == "Strip":
            found = ["strip_left"] * part.get("strip_left", True) + ["strip_right"] * part.get("strip_right", True)
        elif pattern == ("Regex", _TWO_SPACES) and part["content"] in (" ", SPACE):
            found = ["collapse_spaces"]
        elif pattern == ("Regex", _SPACES) and part["content"] == " ":
            found = ["collapse_white_space"]
        elif pattern in (("String", "``"), ("String", "''")) and part["content"] == '"':
            found = ["quotes"] if "quotes" not in steps else []
        elif kind in ("NFC", "NFD", "NFKC", "NFKD"):
            found = [kind]
        elif kind in ("StripAccents", "Lowercase"):
            found = ["strip_accents" if kind == "StripAccents" else "lowercase"]
        else:
            _refuse(part)
        found = [step for step in found if keep_spaces or step not in SPACE_STEPS]
        if MODEL_STEP in steps and not {*found} <= SPACE_STEPS:
            _refuse(part)
        steps += found
    return steps[:-1] if steps[-1:] == [MODEL_STEP] else steps, charsmap


def write_steps(steps, charsmap):
    """Returns the `normalizer` of steps and of the compiled normalization of SentencePiece."""
    compiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode("ascii")}
    names = {"strip_accents": "StripAccents", "lowercase": "Lowercase"}
    regex = {"collapse_spaces": _TWO_SPACES, "collapse_white_space": _SPACES}
    parts = []
    for step in [*steps, *([MODEL_STEP] if charsmap and MODEL_STEP not in steps else [])]:
        if step == "quotes":
            parts += [{"type": "Replace", "pattern": {"String": text}, "content": '"'} for text in ("``", "''")]
        elif step in regex:
            parts.append({"type": "Replace", "pattern": {"Regex": regex[step]}, "content": " "})
        elif step in ("strip_left", "strip_right"):
            parts.append({"type": "Strip", **{side: side == step for side in ("strip_left", "strip_right")}})
        else:
            parts.append(compiled if step == MODEL_STEP else {"type": names.get(step, step)})
    return {"type": "Sequence", "normalizers": parts} if parts else None


def _refuse(part):
    raise ValueError(
        f"The normalizer has an unknown step, or one in another place around 'Precompiled'. Received: {part!r:.300}"
    )


def _pattern(part):
    """Returns the kind and the text of the pattern that a step replaces."""
    [pattern] = part.get("pattern", {"": ""}).items()
    return pattern

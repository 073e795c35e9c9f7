"""The normalization steps before SentencePiece splits texts, in the graph and in a `tokenizer.json`."""

import base64

from keras_transfer.text.normalizer import lower
from keras_transfer.text.preprocessor import import_tensorflow_text

_TWO_SPACES = " {2,}"
_SPACES = r"\s{2,}|[\n\r\t]"


def _replace(pattern, replacement):
    def step(texts):
        import tensorflow as tf

        return tf.strings.regex_replace(texts, pattern, replacement)

    return step


def _form(name):
    return lambda texts: import_tensorflow_text().normalize_utf8(texts, name)


STEPS = {
    "quotes": _replace("``|''", '"'),
    **{name: _form(name) for name in ("NFC", "NFD", "NFKC", "NFKD")},
    "strip_accents": _replace(r"\pM", ""),
    "lowercase": lower,
}


def read_steps(normalizer):
    """Returns the steps of a `normalizer` and the compiled normalization of SentencePiece, empty for none.

    Raises:
        ValueError: If the normalizer has other steps, or steps after the compiled normalization.
    """
    steps, charsmap = [], b""
    for part in _flatten(normalizer):
        kind = part["type"]
        if kind == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"] or "")
        elif kind == "Strip" or _pattern(part) in (("Regex", _TWO_SPACES), ("Regex", _SPACES)):
            pass  # Texts are split at white space anyway.
        elif _pattern(part) in (("String", "``"), ("String", "''")) and part["content"] == '"':
            steps += ["quotes"] if "quotes" not in steps else []
        elif kind in ("NFC", "NFD", "NFKC", "NFKD") and not charsmap:
            steps.append(kind)
        elif kind in ("StripAccents", "Lowercase") and not charsmap:
            steps.append("strip_accents" if kind == "StripAccents" else "lowercase")
        else:
            raise ValueError(f"The normalizer has an unknown step, or one after 'Precompiled'. Received: {part!r:.300}")
    return steps, charsmap


def write_steps(steps, charsmap):
    """Returns the `normalizer` of steps and of the compiled normalization of SentencePiece."""
    parts = []
    for step in steps:
        if step == "quotes":
            parts += [{"type": "Replace", "pattern": {"String": text}, "content": '"'} for text in ("``", "''")]
        else:
            parts.append({"type": {"strip_accents": "StripAccents", "lowercase": "Lowercase"}.get(step, step)})
    if charsmap:
        parts.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode("ascii")})
    return {"type": "Sequence", "normalizers": parts} if parts else None


def _flatten(normalizer):
    if normalizer is None:
        return []
    if normalizer["type"] == "Sequence":
        return [found for part in normalizer["normalizers"] for found in _flatten(part)]
    return [normalizer]


def _pattern(part):
    """Returns the kind and the text of the pattern that a step replaces."""
    [pattern] = part.get("pattern", {"": ""}).items()
    return pattern

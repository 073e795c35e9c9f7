"""The front matter of a model card: a dict as YAML, which any parser reads back as the same dict."""

import re

# What YAML 1.1 or 1.2 reads as something other than a string, such as the language code of Norwegian.
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")


def to_yaml(value, indent=""):
    """Returns a dict, list, string, number, boolean or None as lines of YAML.

    Strings are plain where this is safe, and in double quotes otherwise, with escapes for all that is not printable.

    Args:
        value: Dict with strings as keys, or list. Their values are dicts, lists, strings, finite numbers or booleans.
        indent: String. Spaces before each line. Defaults to `""`.

    Returns:
        A string that ends with a newline.
    """
    items = value.items() if isinstance(value, dict) else [("-", item) for item in value]
    lines = []
    for key, item in items:
        start = "- " if isinstance(value, list) else f"{_string(key)}: "
        if isinstance(item, (dict, list)) and item:
            block = to_yaml(item, indent + "  ")
            is_list = isinstance(value, list)  # whose items follow the dash
            lines.append(f"{indent}- {block.lstrip()}" if is_list else f"{indent}{_string(key)}:\n{block}")
        else:
            lines.append(f"{indent}{start}{_scalar(item)}\n")
    return "".join(lines)


def _scalar(value):
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _string(value) if isinstance(value, str) else _number(value)


def _number(value):
    """Returns a number as YAML 1.1 and 1.2 read it: `1e-05` would be a string."""
    text = str(value)  # `repr` of a NumPy number names its type.
    mantissa, e, exponent = text.partition("e")
    return text if not e else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+d}"


def _string(text):
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character):
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"

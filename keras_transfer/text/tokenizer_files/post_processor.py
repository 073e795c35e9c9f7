"""Reads and writes the packing in the `post_processor` of a `tokenizer.json`."""

from keras_transfer.core.expect import expect
from keras_transfer.text.tokenizer_files.settings import steps_of


def read_post_processor(processor, has_segments=True):
    """Returns the tokens before, between and after texts that a post-processor describes, and the segments or `None`.

    Args:
        has_segments: Boolean. Whether the model reads the segments, which are otherwise arbitrary.
    """
    processors = [step for step in steps_of(processor) if step["type"] != "ByteLevel"]  # It adds no tokens.
    rule = f"The post-processor must be one of {sorted(_READERS)}."
    kinds = [step["type"] for step in processors]
    expect(len(kinds) <= 1 and set(kinds) <= _READERS.keys(), rule, processor=processor)
    return _READERS[kinds[0]](processors[0], has_segments) if kinds else ([], [], [], None)


def write_post_processor(packing, tokenizer):
    """Returns the post-processor of a packing, as a dict."""
    first, second, *last = packing.segments or (0, 0)

    def items(tokens, segment):
        return [{"SpecialToken": {"id": token, "type_id": segment}} for token in tokens]

    def with_last(template):
        if last:
            template[-1]["SpecialToken"]["type_id"] = last[0]
        return template

    def text(name, segment):
        return [{"Sequence": {"id": name, "type_id": segment}}]

    start = items(packing.start, first)
    tokens = sorted({*packing.start, *packing.between, *packing.end})
    return {
        "type": "TemplateProcessing",
        "single": with_last([*start, *text("A", first), *items(packing.end, first)]),
        "pair": with_last(
            [
                *start,
                *text("A", first),
                *items(packing.between, first),
                *text("B", second),
                *items(packing.end, second),
            ]
        ),
        "special_tokens": {
            token: {"id": token, "ids": [tokenizer.token_to_id(token)], "tokens": [token]} for token in tokens
        },
    }


def _bert(processor, has_segments):
    cls, sep = processor["cls"][0], processor["sep"][0]
    return [cls], [sep], [sep], (0, 1)


def _roberta(processor, has_segments):
    cls, sep = processor["cls"][0], processor["sep"][0]
    return [cls], [sep, sep], [sep], None


def _template(processor, has_segments):
    single, pair = (_pieces(processor, name, has_segments) for name in ("single", "pair"))
    names = [name for name, _ in pair]
    start, rest = names[: names.index("$A")], names[names.index("$A") + 1 :]
    between, end = rest[: rest.index("$B")], rest[rest.index("$B") + 1 :]
    types = [type_id for _, type_id in pair]
    first, second = dict(pair)["$A"], dict(pair)["$B"]
    segments = [first, second]
    if end and types[-1] != second:
        segments.append(types[-1])
    last = segments[2:]
    expected = [first] * (len(start) + 1 + len(between)) + [second] * (1 + len(end) - len(last)) + last
    alone = [first] * (len(start) + 1 + len(end) - len(last)) + last
    if types != expected or single != list(zip([*start, "$A", *end], alone, strict=True)):
        raise ValueError(
            "A pair must be packed like a single text, with more tokens between the texts. "
            f"Received: single={single}, pair={pair}"
        )
    return start, between, end, None if len(set(segments)) == 1 else tuple(segments)


def _pieces(processor, name, has_segments):
    """Returns the tokens of a template, including "$A" and "$B", with their segments."""
    pieces = []
    for item in processor[name]:
        [(kind, piece)] = item.items()
        special = kind == "SpecialToken"
        tokens = processor["special_tokens"][piece["id"]]["tokens"] if special else [f"${piece['id']}"]
        pieces += [(token, piece["type_id"] if has_segments else 0) for token in tokens]
    return pieces


_READERS = {"BertProcessing": _bert, "RobertaProcessing": _roberta, "TemplateProcessing": _template}

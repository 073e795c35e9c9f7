"""Reads and writes what a tokenizer needs from the files of SentencePiece: pieces, scores and the normalization."""

import dataclasses
import enum
import struct

from keras_transfer.core.expect import expect

UNIGRAM, BPE = 1, 2  # `model_type`
SPACE = "\u2581"  # stands for a space in pieces
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]


class PieceType(enum.IntEnum):
    """The type of a piece. Text only becomes pieces that are normal or defined by the user."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclasses.dataclass
class SentencePieceModel:
    """A SentencePiece model.

    Attributes:
        pieces: List of `(piece, score, type)`, in the order of the model's ids.
        charsmap: Bytes. The compiled normalization, empty for none.
        add_dummy_prefix: Boolean. Whether a text begins with a space.
        remove_extra_whitespaces: Boolean. Whether spaces at the ends of a text, and all but the first of consecutive
            spaces, are removed.
        model_type: Integer, `UNIGRAM` or `BPE`.

    Source: https://github.com/google/sentencepiece (`sentencepiece_model.proto`).
    """

    pieces: list
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    model_type: int = UNIGRAM

    @classmethod
    def from_bytes(cls, serialized):
        """Returns the model in the contents of a `.model` file."""
        model, trainer, spec = cls([]), {}, {}
        try:
            for field, value in _fields(serialized):
                if field == 1:
                    piece = {3: PieceType.NORMAL, 2: b"\0\0\0\0", **dict(_fields(value))}
                    score = struct.unpack("<f", piece[2])[0]
                    model.pieces.append((piece[1].decode("utf-8"), score, PieceType(piece[3])))
                elif field == 2:
                    trainer = dict(_fields(value))
                    model.model_type = trainer.get(3, UNIGRAM)
                elif field == 3:
                    spec = dict(_fields(value))
                    model.charsmap, model.add_dummy_prefix = spec.get(2, b""), bool(spec.get(3, 1))
                    model.remove_extra_whitespaces = bool(spec.get(4, 1))
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise ValueError(f"The file must be a SentencePiece model. Received: {error!r}") from error
        if not model.pieces:
            raise ValueError("The file must be a SentencePiece model. Received: no pieces")
        _check_spaces(model, trainer, spec)
        return model

    def to_bytes(self):
        """Returns the contents of a `.model` file."""
        pieces = b"".join(
            _bytes_field(
                1, _bytes_field(1, piece.encode("utf-8")) + b"\x15" + struct.pack("<f", score) + _number(3, type)
            )
            for piece, score, type in self.pieces
        )
        unknown = next(index for index, (_, _, type) in enumerate(self.pieces) if type == PieceType.UNKNOWN)
        # There are no tokens for the start and the end of a text or for padding.
        trainer = _number(3, self.model_type) + _number(40, unknown)
        trainer += b"".join(_number(field, -1) for field in (41, 42, 43))
        trainer += _bytes_field(45, self.pieces[unknown][0].encode("utf-8"))
        if any(type == PieceType.BYTE for _, _, type in self.pieces):
            trainer += _number(35, 1)  # `byte_fallback`
        normalizer = _bytes_field(2, self.charsmap) + _number(3, self.add_dummy_prefix)
        normalizer += _number(4, self.remove_extra_whitespaces)
        return pieces + _bytes_field(2, trainer) + _bytes_field(3, normalizer)


def _check_spaces(model, trainer, spec):
    """Raises a `ValueError` if a model has settings with which its pieces would not be found as SentencePiece does."""
    settings = {"treat_whitespace_as_suffix": bool(trainer.get(24, 0)), "escape_whitespaces": bool(spec.get(5, 1))}
    normal = [piece for piece, _, type in model.pieces if type == PieceType.NORMAL]
    inside = [] if trainer.get(22, 1) else [piece for piece in normal if SPACE in piece.lstrip(SPACE)]
    rule = (
        "The SentencePiece model must have a space in front of each word. Train it with "
        "treat_whitespace_as_suffix=False and escape_whitespaces=True."
    )
    expect(settings == {"treat_whitespace_as_suffix": False, "escape_whitespaces": True}, rule, settings=settings)
    rule = (
        "The pieces of a unigram model must not contain a space behind another character, because texts are split "
        "at spaces first. Train the model with split_by_whitespace=True."
    )
    if model.model_type == UNIGRAM:
        expect(not inside, rule, inside=inside[:3])


def normalized(charsmap, character):
    """Returns what a compiled normalization makes of a character.

    Args:
        charsmap: Bytes. The size of a double-array trie, the trie, and the strings that its values point to.
        character: String of one character, or of several that are normalized together.

    Source: https://github.com/s-yata/darts-clone.
    """
    size = int.from_bytes(charsmap[:4], "little")
    units = memoryview(charsmap)[4 : 4 + size].cast("I") if charsmap else [0]
    at, unit = _offset(units[0]), 0
    for byte in character.encode("utf-8"):
        at ^= byte
        unit = units[at] if at < len(units) else 0
        if unit & 0x800000FF != byte:
            return character
        at ^= _offset(unit)
    if not unit >> 8 & 1:
        return character
    begin = 4 + size + (units[at] & 0x7FFFFFFF)
    return charsmap[begin : charsmap.index(b"\0", begin)].decode("utf-8")


def _offset(unit):
    return (unit >> 10) << ((unit & 0x200) >> 6)


def _fields(data):
    """Yields the number and the value of each field of a protocol buffer."""
    at = 0
    while at < len(data):
        key, at = _read_number(data, at)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_number(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        elif wire == 2:
            size, at = _read_number(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"unknown wire type {wire}")
        if at > len(data):
            raise ValueError("the file ends early")
        yield field, value


def _read_number(data, at):
    number, shift = 0, 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def _write_number(number):
    number &= 2**64 - 1  # negative numbers have all 64 bits
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def _number(field, number):
    return _write_number(field << 3) + _write_number(int(number))


def _bytes_field(field, data):
    return _write_number(field << 3 | 2) + _write_number(len(data)) + data

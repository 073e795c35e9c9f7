"""The `.sgm` files of WMT's test sets: segments in documents."""

import html
import itertools
import os
import re

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import read_text
from keras_transfer.datasets.parallel_texts import ParallelTexts, checked_texts
from keras_transfer.datasets.sources import existing_file

TAG = re.compile(r"<(?P<close>/?)(?P<name>refset|doc|seg)\b(?P<attributes>[^>]*)>", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""([a-z]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))""", re.IGNORECASE)
ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-f]+);", re.IGNORECASE)


def read_sgm(
    source_path: str | os.PathLike,
    target_path: str | os.PathLike,
    *,
    reference: str | None = None,
    skip_empty: bool = False,
) -> ParallelTexts:
    """Reads a test set of WMT from its two `.sgm` files, of sources and of references.

    A source and its target have the same document and the same number. Character references such as `&amp;` and `&#39;`
    become characters, and line ends within a text become spaces.

    Args:
        source_path: Path of the file of the sources, such as `newstest2014-deen-src.de.sgm`, or a compressed one.
        target_path: Path of the file of the references, such as `newstest2014-deen-ref.en.sgm`.
        reference: String. Which translation to read, a `sysid` or `refid`, if the documents have several. To compare
            texts with all of them, read each and combine the targets: `list(zip(first.targets, second.targets))`.
            Defaults to `None`, for files with one.
        skip_empty: Boolean. See `read_parallel`. Defaults to `False`.

    Returns:
        `ParallelTexts`, in the order of the sources.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If a tag is not closed or is at the wrong place; if a segment has no number or the number of
            another; if the documents have several translations and `reference` is none of them; if the files do not
            have the same segments; if a text is empty; or if a file is not in UTF-8.

    Example:
    ```python
    for kind, text in {"src": "Ein Hund &amp; Co.", "ref": "A dog &amp; co."}.items():
        with open(f"test-{kind}.sgm", "w") as file:
            file.write(f'<{kind}set><doc docid="news"><seg id="1">{text}</seg></doc></{kind}set>')
    keras_transfer.datasets.read_sgm("test-src.sgm", "test-ref.sgm").targets  # ["A dog & co."]
    ```

    Source: https://www.statmt.org/wmt14/translation-task.html
    """
    paths = existing_file(source_path), existing_file(target_path)
    sources, targets = _one(_read(paths[0]), paths[0], None), _one(_read(paths[1]), paths[1], reference)
    for (path, found), (other, theirs) in itertools.permutations(zip(paths, (sources, targets))):
        missing = next((key for key in found if key not in theirs), None)
        if missing is not None:
            raise ValueError(
                f"{other}: Expected segment {missing[1]} of document {missing[0]!r}, as in {path}, line "
                f"{found[missing][1]}. The file may have been cut. Received: {len(theirs):,} segments"
            )
    keys = list(sources)
    rows = [(sources[key][0], targets[key][0]) for key in keys]

    def where(row, column):
        return f"{paths[column]}, line {(sources, targets)[column][keys[row]][1]}"

    return checked_texts(rows, where, paths[0], skip_empty)


def _one(versions, path, reference):
    """Returns one of several translations of the same documents."""
    merged = {key: segment for segments in versions.values() for key, segment in segments.items()}
    if reference is None and len(merged) == sum(map(len, versions.values())):  # Each document has one translation.
        return dict(sorted(merged.items(), key=lambda item: item[1][1]))
    rule = f"{path}: Pass `reference`, one of the translations {list(versions)}."
    expect(reference in versions, rule, reference=reference)
    return versions[reference]


def _read(path):
    """Returns a dict from the names of translations to dicts from `(document, number)` to `(text, line)`."""
    text = read_text(path)
    versions, line, place = {}, 1, 0
    of_set, document, opened = None, None, None  # These are the open elements.
    for tag in TAG.finditer(text):
        line, place = line + text.count("\n", place, tag.start()), tag.start()
        where = f"{path}, line {line}"
        attributes = {name.lower(): "".join(values) for name, *values in ATTRIBUTE.findall(tag["attributes"])}
        kind = tag["close"] + tag["name"].lower()
        if kind.endswith("refset") and document is None:
            of_set = attributes.get("refid")
            continue
        expected = _expected(document, opened)
        tags = " or ".join(f"<{each}>" for each in expected)
        expect(kind in expected, f"Expected {tags}.", received=tag[0], where=where)
        if kind == "doc":
            document = attributes.get("docid", "")
            version = of_set or attributes.get("refid") or attributes.get("sysid", "")
        elif kind == "/doc":
            document = None
        elif kind == "seg":
            opened = (attributes.get("id"), tag.end(), line)
            expect(opened[0] is not None, "Expected a segment with an id.", received=tag[0], where=where)
        else:
            segments, key = versions.setdefault(version, {}), (document, opened[0])
            received = f"segment {opened[0]} again, as in line {segments.get(key, [0, 0])[1]}"
            expected = f"the next segment of document {document!r}"
            expect(key not in segments, f"Expected {expected}.", received=received, where=f"{path}, line {opened[2]}")
            segments[key] = (_plain(text[opened[1] : tag.start()]), opened[2])
            opened = None
    is_whole = opened is None and document is None
    rule = f"Expected <{_expected(document, opened)[-1]}>. The file may have been cut."
    expect(is_whole, rule, text[-40:], where=path)
    expect(versions, "Expected at least one segment.", text[:80], where=path)
    return versions


def _expected(document, opened):
    """Returns the tags that may follow: in a segment, in a document, and outside."""
    if opened is not None:
        return ["/seg"]
    return ["doc"] if document is None else ["seg", "/doc"]


def _plain(text):
    return ENTITY.sub(lambda entity: html.unescape(entity[0]), " ".join(text.split()))

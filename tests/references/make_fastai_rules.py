"""Writes what the rules of fastai 1 make of texts: `python tests/references/make_fastai_rules.py transform.py`.

The file is `fastai/text/transform.py` of https://github.com/fastai/fastai1. Only its functions on strings are used.
"""

import html
import json
import pathlib
import re
import sys
from collections.abc import Collection

TEXTS = [
    "The film was GREAT!!!! I LOVED it, a lot.",
    "ha ha ha ha ha said no, no, no, no, NO",
    "",
    "  Two  spaces and a\ttab\nand a line<br />break",
    'caf&eacute; &amp; co. #39;s @-@ made 1 @,@ 000 @.@ 5 <unk> \\"quoted\\" and/or #1 c:\\path',
    "A I USA iPhone McDonald \u00c9a \u00c9A \u01c5x",
    "the the the the the end",
    "aaaa.... zzz 1111111 &lt;p&gt;",
]


def rules(path):
    """The functions of the file, which needs spaCy and torch as a whole."""
    lines = pathlib.Path(path).read_text("utf-8").splitlines()
    place = {name: next(i for i, line in enumerate(lines) if line.startswith(name)) for name in ("BOS,EOS", "TK_MAJ,")}
    first = next(i for i, line in enumerate(lines) if line.startswith("def spec_add_spaces"))
    last = next(i for i, line in enumerate(lines) if line.startswith("defaults.text_pre_rules"))
    names = {"re": re, "html": html, "Collection": Collection}
    exec("\n".join([*(lines[i] for i in place.values()), *lines[first:last]]), names)
    return names


def main(path):
    names, found = rules(path), []
    for text in TEXTS:
        prepared = f"xxbos {text}"
        for name in ("fix_html", "replace_rep", "replace_wrep", "spec_add_spaces", "rm_useless_spaces"):
            prepared = names[name](prepared)
        words = names["deal_caps"](names["replace_all_caps"](prepared.split()))
        found.append([text, " ".join(words)])
    target = pathlib.Path(__file__).with_name("fastai_rules.json")
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

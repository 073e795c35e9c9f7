"""The reference has an entry for each public name, in the page of its subpackage."""

import collections
import re

import keras_transfer as kt
from tests.pages import DOCS


def test_each_public_name_has_one_entry_in_the_page_of_its_subpackage():
    for subpackage in (name for name in kt.__all__ if hasattr(getattr(kt, name), "__all__")):
        page = (DOCS / "reference" / f"{subpackage}.md").read_text("utf-8")
        entries = collections.Counter(re.findall(rf"^::: keras_transfer\.{subpackage}\.(\w+)$", page, re.MULTILINE))
        assert entries == collections.Counter(getattr(kt, subpackage).__all__), subpackage

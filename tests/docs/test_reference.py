"""The reference has an entry for each public name, in the page of its subpackage."""

import collections
import re

import keras_transfer as kt
from tests.pages import DOCS


def test_each_public_name_has_one_entry_in_the_page_of_its_subpackage():
    subpackages = {name: getattr(kt, name) for name in kt.__all__ if hasattr(getattr(kt, name), "__all__")}
    subpackages["optimizers.schedules"] = kt.optimizers.schedules
    for name, subpackage in subpackages.items():
        page = (DOCS / "reference" / f"{name.split('.')[0]}.md").read_text("utf-8")
        entries = collections.Counter(re.findall(rf"^::: keras_transfer\.{name}\.(\w+)$", page, re.MULTILINE))
        public = [each for each in subpackage.__all__ if f"{name}.{each}" not in subpackages]
        assert entries == collections.Counter(public), name

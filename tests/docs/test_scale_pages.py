"""The code of the pages in `docs/scale` runs."""

import numpy as np
import pytest

from tests import half_precision
from tests.pages import few_questions, run_page


@pytest.mark.slow
@pytest.mark.skipif(not half_precision.works(), reason="TensorFlow's matrix product in half precision ends the process")
def test_the_script_in_the_page_on_precision_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 16)
    names = run_page("scale/precision.md")
    assert {policy: model.dtype_policy.name for policy, model in names["models"].items()} == {
        "float32": "float32",
        "mixed_bfloat16": "mixed_bfloat16",
    }
    for ours, theirs in zip(names["exact"].get_weights(), names["model"].get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# What is certain about the variables of a page after its script has run.
PAGES = {
    "scale/memory": lambda names: names["model"].optimizer.iterations == 2,  # an update for two of four batches
    "scale/tpu": lambda names: str(names["report"]).startswith("Nothing against 16 rows on 8 TPU cores"),
    "scale/many_machines": lambda names: names["model"].optimizer.iterations == 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_script_in_a_page_runs(page, tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    assert PAGES[page](run_page(f"{page}.md"))

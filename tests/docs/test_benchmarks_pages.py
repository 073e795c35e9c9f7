"""The code of the pages in `docs/benchmarks` runs."""

from tests.pages import run_page


def test_the_script_in_the_page_on_performance_runs(small_minilm, eagerly):
    names = run_page("benchmarks/performance.md")
    assert names["model"].dtype_policy.name == names["precision"].policy

"""The page on reports of other libraries is written from the tests, and no report is in it twice."""

import collections

from tools.reports_page import PAGE, page, reports


def test_the_page_is_that_of_the_tests():
    assert PAGE.read_text("utf-8") == page(), "run `python -m tools.reports_page`"


def test_it_has_at_least_120_reports_and_each_once():
    counts = collections.Counter(number for _, numbers, _, _ in reports() for number in numbers)
    assert len(counts) >= 120 and set(counts.values()) == {1}

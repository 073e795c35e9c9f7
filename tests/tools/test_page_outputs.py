"""`tools/page_outputs.py` writes what the blocks of a page print and log below them."""

import logging

import pytest

from tools.page_outputs import with_outputs

pytestmark = pytest.mark.slow

PAGE = """# Title

```python
{code}
```
{output}
Text.
"""


def written(code, output=""):
    """The output that the tool writes below a block, or `None` for no output."""
    page = with_outputs(PAGE.format(code=code, output=output), {"log": logging.getLogger("keras_transfer.tests")})
    _, block, rest = page.partition(f"```python\n{code}\n```\n")
    assert block and rest.endswith("\nText.\n")
    return rest[: -len("\nText.\n")] or None


def text(*lines):
    return "\n".join(["", "```text", *lines, "```", ""])


def test_what_a_block_prints_and_logs_is_below_it_in_order_and_replaces_what_was_there():
    assert written("print(1)\nlog.warning('two')\nprint(3)") == text("1", "two", "3")
    assert written("log.warning('new')", text("old")) == text("new")
    assert written("log.info('not shown by default')", text("old")) is None
    assert written("x = 1") is None


def test_a_progress_bar_replaces_its_earlier_state_and_has_no_times():
    code = "print('1/2 ━━ 1s 5ms/step - loss: 2.0\\r2/2 ━━ 1s 5ms/step - loss: 1.0')"
    assert written(code) == text("2/2 ━━ - loss: 1.0")

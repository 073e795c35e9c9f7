"""Pages in `docs` have links that lead somewhere and code that runs; guides say when, what one sees, and what next."""

import ast
import re

from tests.errors import rule
from tests.pages import DOCS, REPOSITORY
from tools.page_outputs import BLOCK

GUIDES = ("tasks", "adaptation", "pretraining", "models", "data", "evaluation", "production", "scale")
# Pages of these folders that are tables to look things up in.
LISTS = {"models/architectures", "data/datasets", "evaluation/metrics"}
PAGES = sorted(str(path.relative_to(DOCS))[:-3] for path in DOCS.rglob("*.md"))
FENCE = re.compile(r"^( *)```.*?^\1```[ ]*$", re.MULTILINE | re.DOTALL)


def read(page):
    return (DOCS / f"{page}.md").read_text("utf-8")


def slug(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def paragraphs(text):
    """Paragraphs of prose, without code, tables, headings, lists of links and HTML."""
    text = FENCE.sub("", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    parts = (part.strip() for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text))
    return [part for part in parts if part and not part.startswith(("|", "#", "<", ":::", "!!!", "???"))]


def guides():
    return [page for page in PAGES if page.split("/")[0] in GUIDES and page not in LISTS]


@rule
def test_a_guide_says_when_to_use_it_shows_output_and_leads_on():
    for page in guides():
        text = read(page)
        if not re.search(r"^#+ When (?:not )?to use", text, re.MULTILINE):
            yield f"{page} has no section 'When to use ...'"
        if "```text" not in text:
            yield f"{page} has no block with the output that one sees"
        if not re.search(r"^## Next", text, re.MULTILINE):
            yield f"{page} has no section 'Next'"
        yield from (f"{page}: {part[:60]}..." for part in paragraphs(text) if len(part.split()) > 90)


@rule
def test_the_links_of_a_page_lead_to_files_and_headings_that_exist():
    for page in [*PAGES, "README", "CONTRIBUTING", "CHANGELOG"]:
        path = REPOSITORY / f"{page}.md" if page.isupper() else DOCS / f"{page}.md"
        text = FENCE.sub("", path.read_text("utf-8"))
        for link in re.findall(r"\]\(((?!http)[^)\s]+)\)", text):
            name, _, heading = link.partition("#")
            target = path.parent / name if name else path
            if not target.exists():
                yield f"{page}: {link}"
            elif heading and not name.startswith("../reference/"):
                titles = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
                if heading not in {slug(title) for title in titles}:
                    yield f"{page}: {link}"


def test_lines_have_at_most_120_characters_outside_of_code_tables_and_pictures():
    longer = {}
    for page in set(PAGES) - {"benchmarks/quality"}:  # A script writes that page.
        lines = FENCE.sub("", read(page)).splitlines()
        longer[page] = [line for line in lines if len(line) > 120 and not line.lstrip().startswith(("|", "!["))]
    assert {page: lines for page, lines in longer.items() if lines} == {}


@rule
def test_a_block_of_python_is_valid_and_says_why_it_is_not_run():
    for page in PAGES:
        text = read(page)
        if "```py\n" in text:
            yield f"{page}: blocks that do not run are ```python below a comment `not run: REASON`"
        for match in BLOCK.finditer(text):
            ast.parse("\n".join(line.removeprefix(match["indent"]) for line in match["code"].splitlines()), page)
        if len(re.findall(r"^ *```python$", text, re.MULTILINE)) != len(BLOCK.findall(text)):
            yield f"{page} has a block that is not found"


def test_the_scripts_of_all_pages_can_be_run_one_after_the_other():
    folders = []
    for path in (REPOSITORY / "README.md", *DOCS.rglob("*.md")):
        for match in BLOCK.finditer(path.read_text("utf-8")):
            if match["reason"]:
                continue
            for call in (node for node in ast.walk(ast.parse(match["code"])) if isinstance(node, ast.Call)):
                name = getattr(call.func, "attr", "")
                if name == "export" and ast.unparse(call.func.value).endswith("serving"):
                    assert "overwrite=True" in ast.unparse(call), path
                if name == "TrainingCheckpoint":
                    folders.append(ast.unparse(call.args[0]))
    assert folders and len(folders) == len(set(folders))


def test_the_code_of_every_page_is_run_by_a_test():
    tests = "\n".join(path.read_text("utf-8") for path in REPOSITORY.glob("tests/**/test_*.py"))
    for page in PAGES:
        if any(not match["reason"] for match in BLOCK.finditer(read(page))):
            run = re.search(rf'"{re.escape(page)}(?:\.md)?"', tests)
            assert run, f"no test runs the code of {page}.md"

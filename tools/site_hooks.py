"""What the site adds to the pages in `docs`: the examples, the pages at the top of the repository, and `llms.txt`.

MkDocs calls these functions while it builds (`hooks` in `mkdocs.yml`). Coding assistants read `llms.txt`, which lists
all pages with one sentence each, `llms-full.txt`, which contains all guides, and a Markdown copy next to each page.
"""

import ast
import pathlib
import posixpath
import re

import markdownify
from mkdocs.structure.files import File, InclusionLevel

REPOSITORY = pathlib.Path(__file__).parents[1]
TOP_PAGES = {"CONTRIBUTING.md": "development/contributing.md", "CHANGELOG.md": "development/changelog.md"}
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
PAGE_LINK = re.compile(r"(?<=\]\()((?!\w+:)[^)\s#]+)\.html(?=[)#\s])")
_written = []


def example_page(path):
    """The source of a page that shows an example."""
    summary = ast.get_docstring(ast.parse(path.read_text("utf-8"))).splitlines()[0]
    return f"# {path.stem.replace('_', ' ').capitalize()}\n\n{summary}\n\n```python\n{path.read_text('utf-8')}```\n"


def moved(target):
    """The page of the site for a file of the repository outside of `docs`, or `None`."""
    name = posixpath.relpath(target, "..") if target.startswith("../") else None
    if name in TOP_PAGES:
        return TOP_PAGES[name]
    if name and re.fullmatch(r"examples/\w+\.py", name):
        return name[:-3] + ".md"
    if name and name.startswith("docs/"):
        return name.removeprefix("docs/")
    return None


def on_files(files, config):
    for source, page in TOP_PAGES.items():
        files.append(File.generated(config, page, content=(REPOSITORY / source).read_text("utf-8")))
    lines = ["# Examples", "", "Scripts that run from the command line. `--help` lists their options.", ""]
    for path in sorted((REPOSITORY / "examples").glob("*.py")):
        page = example_page(path)
        lines.append(f"- [{path.name}]({path.stem}.md): {page.splitlines()[2]}")
        page = File.generated(config, f"examples/{path.stem}.md", content=page, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    files.append(File.generated(config, "examples/index.md", content="\n".join(lines) + "\n"))
    return files


def on_page_markdown(markdown, page, config, files):
    """Replaces links to files outside of `docs` by links to their pages."""
    source = page.file.src_uri
    # The links of pages from the top of the repository start there.
    original = {value: f"../{key}" for key, value in TOP_PAGES.items()}.get(source, source)

    def replace(match):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(original), match[1]))
        found = None if re.match(r"\w+:", match[1]) else moved(target)
        return posixpath.relpath(found, posixpath.dirname(source)) if found else match[1]

    return LINK.sub(replace, markdown)


def on_page_content(html, page, config, files):
    """Keeps the Markdown of each page: its source, or for the reference what was made of the docstrings."""
    text = page.markdown
    if ":::" in text:
        text = re.sub(r"\[¶\]\([^)]*\)", "", markdownify.markdownify(html, heading_style="ATX"))
        text = PAGE_LINK.sub(r"\1.md", text)
    _written.append((page, re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"))
    return html


def first_sentence(text):
    """The beginning of the first paragraph of a page, without its formatting."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for part in re.split(r"\n\s*\n", text):
        if part.strip() and not part.lstrip().startswith(("#", "|", "`" * 3, "<", "!", ">", "-")):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(part.split()))
            return re.split(r"(?<=[.:]) ", plain)[0]
    return ""


def on_post_build(config):
    site = pathlib.Path(config.site_dir)
    lines, whole = [f"# {config.site_name}", "", f"> {config.site_description}", ""], []
    section = None
    # The order of the navigation; pages outside of it come last.
    pages = sorted(_written, key=lambda pair: (pair[0].parent is None and not pair[0].is_homepage, _position(pair[0])))
    for page, text in pages:
        copy = site / page.file.src_uri
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, "utf-8")
        title = page.parent.title if page.parent else ("Home" if page.is_homepage else "Examples")
        if title != section:
            section = title
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{page.title}]({page.file.src_uri}): {first_sentence(text)}")
        if ":::" not in page.markdown:
            whole.append(f"<!-- {page.file.src_uri} -->\n\n{text}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (site / "llms-full.txt").write_text("\n".join(whole), "utf-8")
    _written.clear()


def _position(page):
    """The number of pages before this one in the navigation."""
    count = 0
    while page.previous_page is not None:
        page, count = page.previous_page, count + 1
    return count

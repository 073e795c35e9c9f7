"""Writes the page on reports of other libraries from the tests that show the right behavior.

    python -m tools.reports_page    # writes docs/development/reports.md

A test is marked `@pytest.mark.report("what its users reported", "repository#number", ...)`.
"""

import ast
import pathlib

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "development" / "reports.md"
OWNERS = {
    "Annif": "NatLibFi",
    "BERT-NER": "kamalkraj",
    "Megatron-Bridge": "NVIDIA-NeMo",
    "adapters": "adapter-hub",
    "addons": "tensorflow",
    "allennlp": "allenai",
    "alpaca-lora": "tloen",
    "bert": "google-research",
    "bilm-tf": "allenai",
    "captum": "pytorch",
    "course-nlp": "fastai",
    "delft": "kermitt2",
    "fastai": "fastai",
    "flair": "flairNLP",
    "hub": "tensorflow",
    "jiant": "nyu-mll",
    "keras": "keras-team",
    "keras-hub": "keras-team",
    "masakhane-ner": "masakhane-io",
    "multifit": "n-waves",
    "peft": "huggingface",
    "sentence-transformers": "huggingface",
    "serving": "tensorflow",
    "setfit": "huggingface",
    "simpletransformers": "ThilinaRajapakse",
    "squash-generation": "martiansideofthemoon",
    "tensorflow": "tensorflow",
    "text": "tensorflow",
    "tokenizers": "huggingface",
    "torchtune": "pytorch",
    "transformers": "huggingface",
    "trl": "huggingface",
}
TOP = """# Reports of other libraries that cannot happen here

Users of other libraries have reported the following in public. Each line names the reports, and the test of this
repository that fails if it happens here. `python -m tools.reports_page` writes the page from the tests.

There are {count} reports.

| what users reported | where | test |
| --- | --- | --- |
"""


def reports():
    """Returns `(what, numbers, path, test)` for each marked test, sorted by what was reported."""
    found = []
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        source = path.read_text("utf-8")
        if "mark.report(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.report":
                    what, *numbers = map(ast.literal_eval, mark.args)
                    found.append((what, numbers, path.relative_to(REPOSITORY).as_posix(), node.name))
    return sorted(found)


def link(report):
    """Returns a link to a report such as `keras#1`, or its name if the owner of the repository is not known."""
    name, number = report.split("#")
    return f"[{report}](https://github.com/{OWNERS[name]}/{name}/issues/{number})" if name in OWNERS else report


def page():
    """Returns the text of the page."""
    found = reports()
    lines = [f"| {what} | {', '.join(map(link, numbers))} | `{path}::{test}` |" for what, numbers, path, test in found]
    return TOP.format(count=sum(len(numbers) for _, numbers, _, _ in found)) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

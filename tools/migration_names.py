"""Writes the table of arguments in `docs/migration/names.md` from the table with which errors are explained."""

import pathlib

from keras_transfer.core.names import tables_of_names

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "migration" / "names.md"
BEGIN, END = "| argument elsewhere | argument here | what to pass |\n| --- | --- | --- |\n", "\n\n"


def table():
    """The rows of the table in Markdown, one for each argument here, and one for each sentence without one."""
    lines = {}
    for names, own, sentence in tables_of_names()["arguments"]:
        if own == "encoder={}":
            own = "encoder"
        sentence = sentence.lstrip(", ").replace("{}", own).replace("{{", "{").replace("}}", "}")
        lines.setdefault((own, sentence), []).extend(f"`{name}`" for name in names.split())
    return "\n".join(
        f"| {', '.join(dict.fromkeys(names))} | {f'`{own}`' if own else 'none'} | {sentence} |"
        for (own, sentence), names in lines.items()
    )


def written():
    """The page with the table."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")

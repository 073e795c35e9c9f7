"""`keras-transfer compare`: recipes on the user's texts, over several seeds, as a table."""

import pathlib
import types

from keras_transfer import adaptation, experiments, tasks
from keras_transfer.cli.labelled_texts import FORM, read_parts, with_validation
from keras_transfer.cli.scores import check_writable, describe_recipe, warn_of_few_steps
from keras_transfer.core.files import atomic_file, atomic_files
from keras_transfer.core.names import listed


def compare(methods, results, markdown, plot, **options):
    """Compares recipes on labeled texts, and prints the table."""
    check_writable("--results", results, new_folders=True)
    check_writable("--markdown", markdown)
    check_writable("--plot", plot)
    if plot is not None:
        _check_picture(plot)
    if len(set(methods)) < len(methods):
        raise ValueError(f"`--methods` must not repeat a recipe. Received: {' '.join(methods)}")
    given, form = types.SimpleNamespace(**options), {name: options[name] for name in FORM}
    columns = given.text_column, given.label_column
    parts, label_names = read_parts(given.data, given.validation_data, given.test_data, *columns, **form)
    parts = with_validation(parts, label_names)
    changes = {name: options[name] for name in ("epochs", "batch_size") if options[name] is not None}
    print(", ".join(f"{len(texts)} texts for {name}" for name, (texts, _) in parts.items()), end=", ")
    print(listed(label_names))
    recipes = {}
    for name in methods:
        recipes[name] = adaptation.get_recipe(name, **changes)
        warn_of_few_steps(recipes[name], len(parts["train"][0]), name)
        print(describe_recipe(recipes[name], name, given.encoder))
    comparison = experiments.compare(
        lambda: tasks.TextClassifier.from_pretrained(given.encoder, label_names=label_names, head="new"),
        parts,
        recipes,
        seeds=given.seeds,
        baseline=given.baseline,
        results=results,
    )
    print(f"\n{comparison}")
    if markdown is not None:
        with atomic_file(markdown) as file:
            file.write(f"{comparison.to_markdown()}\n".encode())
    if plot is not None:
        with atomic_files(pathlib.Path(plot).parent, plot) as folder:
            comparison.plot().savefig(folder / pathlib.Path(plot).name)


def _check_picture(path):
    """Raises an error if matplotlib does not support the format that the name of a picture specifies."""
    from matplotlib.figure import Figure

    formats = Figure().canvas.get_supported_filetypes()
    suffix = pathlib.Path(path).suffix.removeprefix(".").lower()
    if suffix and suffix not in formats:  # Without a suffix, matplotlib adds one.
        raise ValueError(f"Expected a picture in one of the formats {sorted(formats)}. Received: --plot={path}")

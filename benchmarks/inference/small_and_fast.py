"""Time of exported classifiers in each format, beside Transformers on torch and on ONNX Runtime.

    pip install -e .[litert,onnx,benchmarks]
    python -m benchmarks.inference.make_exports --data-dir DIR --output made
    python -m benchmarks.inference.small_and_fast --exports made/trec6 --threads 1

All contenders take the same prepared ids, of 1 and of 32 packaged questions, padded to the longest, and return logits.
Those of Transformers have random weights and the same shape, which is read from the export's file: `torch` in float32,
`torch int8` with `quantize_dynamic` of the linear layers, and `onnx int8 of Transformers`, its graph with the dynamic
quantization of ONNX Runtime, per channel. `--length 128` takes that many random ids instead.
"""

import pathlib
import tempfile

import numpy as np

from benchmarks import harness

SIZES = (1, 32)
NAMES = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}  # of Transformers


def savedmodel(exports, threads, length):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    import tensorflow_text  # noqa: F401

    served = tf.saved_model.load(f"{exports}/savedmodel")
    function = served.signatures["tokens"]
    return by_size(exports, length, lambda ids: function(**ids), tf.constant)


def portable(name):
    def contender(exports, threads, length):
        from keras_transfer.serving.exported import FORMATS

        run = FORMATS[name.partition("-")[0]].open_model(pathlib.Path(exports, name), threads)

        return by_size(exports, length, run)

    return contender


def on_torch(exports, threads, length, quantized=False):
    import torch

    model = transformers_model(exports, threads)
    if quantized:
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)

    def compute(ids):
        with torch.inference_mode():
            return model(**ids).logits

    return by_size(exports, length, compute, torch.tensor, NAMES)


def on_torch_int8(exports, threads, length):
    return on_torch(exports, threads, length, quantized=True)


def transformers_onnx_int8(exports, threads, length):
    import onnxruntime
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = transformers_model(exports, threads)
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{name}.onnx" for name in ("float", "int8")]
        example = {name: torch.ones((2, 8), dtype=torch.int64) for name in NAMES.values()}
        axes = {name: {0: "batch", 1: "length"} for name in NAMES.values()}
        torch.onnx.export(
            model,
            (example,),
            files[0],
            input_names=list(example),
            output_names=["logits"],
            dynamic_axes={**axes, "logits": {0: "batch"}},
            opset_version=17,
            dynamo=False,
        )
        quantize_dynamic(*files, per_channel=True, weight_type=QuantType.QInt8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(files[1], options, providers=["CPUExecutionProvider"])
    return by_size(exports, length, lambda ids: session.run(None, ids), lambda values: values.astype("int64"), NAMES)


def transformers_model(exports, threads):
    """Returns a classifier of Transformers of the shape of the model that was exported."""
    import json
    import zipfile

    import torch
    import transformers

    torch.set_num_threads(threads)
    with zipfile.ZipFile(pathlib.Path(exports) / "model.keras") as file:
        sizes = json.loads(file.read("config.json"))["config"]["encoder"]["config"]
    config = transformers.BertConfig(
        vocab_size=sizes["vocabulary_size"],
        num_hidden_layers=sizes["num_layers"],
        num_attention_heads=sizes["num_heads"],
        hidden_size=sizes["hidden_dim"],
        intermediate_size=sizes["intermediate_dim"],
        num_labels=6,
    )
    return transformers.BertForSequenceClassification(config).eval()


def by_size(exports, length, compute, convert=np.asarray, names=None):
    """Returns the measures of a contender: `compute` of the ids of 1 and 32 texts."""
    import tokenizers

    from keras_transfer.datasets import load_demo_questions

    tokenizer = tokenizers.Tokenizer.from_file(f"{exports}/litert/tokenizer.json")
    tokenizer.enable_padding()
    measures = {}
    for size in SIZES:
        rows = tokenizer.encode_batch(load_demo_questions().train.texts[:size])
        ids = {"token_ids": [row.ids for row in rows], "segment_ids": [row.type_ids for row in rows]}
        ids["padding_mask"] = [row.attention_mask for row in rows]
        if length:
            ids = {name: np.ones((size, length)) for name in ids}
            ids["token_ids"] = np.random.default_rng(0).integers(1000, 20000, (size, length))
            ids["segment_ids"] *= 0
        prepared = {(names or {}).get(name, name): convert(np.array(values, "int32")) for name, values in ids.items()}
        measures[f"{size} text{'s' * (size > 1)}"] = lambda prepared=prepared: compute(prepared)
    return measures


CONTENDERS = {
    "SavedModel": savedmodel,
    **{name: portable(name) for name in ("litert", "litert-float16", "litert-int8", "onnx", "onnx-int8")},
    "torch": on_torch,
    "torch int8": on_torch_int8,
    "onnx int8 of Transformers": transformers_onnx_int8,
}
OPTIONS = {
    "exports": {"required": True, "help": "folder of a task that make_exports has written"},
    "threads": {"type": int, "default": 1},
    "length": {"type": int, "default": 0, "help": "number of random ids of a text; 0 for the packaged questions"},
}

if __name__ == "__main__":
    harness.main(__doc__, CONTENDERS, options=OPTIONS)

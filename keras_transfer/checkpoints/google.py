"""Google's TensorFlow checkpoints (`bert_config.json`, `bert_model.ckpt.*`), read without a session."""

import re

from keras_transfer.checkpoints.architecture import architecture_of
from keras_transfer.checkpoints.building import Format
from keras_transfer.checkpoints.tensors import expect, raising, read_json
from keras_transfer.core.lazy import tf

# Variables of the optimizer in a checkpoint of the pretraining.
_OPTIMIZER = re.compile(r"(adam_m|adam_v|global_step|lamb_m|lamb_v|beta1_power|beta2_power)$")


class GoogleFolder(Format):
    """A folder with a TensorFlow checkpoint of BERT."""

    def __init__(self, folder):
        super().__init__(folder)
        self.config = read_json(folder / "bert_config.json")
        self.architecture = architecture_of(self.config, folder, default="bert")

    @staticmethod
    def recognises(folder):
        return (folder / "bert_config.json").exists()

    def readers(self):
        prefix = _prefix(self.folder)
        with raising(f"{prefix} must be a TensorFlow checkpoint."):
            reader = tf.train.load_checkpoint(str(prefix))
            names = [name for name in reader.get_variable_to_shape_map() if not _OPTIMIZER.search(name)]
        return {_torch_name(name): lambda name=name: _read(reader, name) for name in names}


def _prefix(folder):
    found = sorted(path.with_suffix("") for path in folder.glob("*.ckpt*.index"))
    preferred = [path for path in found if path.name == "bert_model.ckpt"] or found
    rule = f"{folder} must contain exactly one checkpoint, such as bert_model.ckpt.index and its data file."
    expect(len(preferred) == 1, rule, [path.name for path in found])
    return preferred[0]


def _torch_name(name):
    """`bert/encoder/layer_0/output/dense/kernel` -> `bert.encoder.layer.0.output.dense.weight`."""
    name = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name)
    name = re.sub(r"/output_(weight|bias)s?$", r"/\1", name)  # of a head
    name = re.sub(r"(_embeddings|/kernel)$", lambda match: match[1].replace("/kernel", "") + "/weight", name)
    return name.replace("/", ".")


def _read(reader, name):
    with raising(f"The checkpoint is damaged. The tensor {name} cannot be read."):
        tensor = reader.get_tensor(name)
    return tensor.T if name.endswith("/kernel") else tensor

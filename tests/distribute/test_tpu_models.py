"""All tasks, encoders and backbones have a training step that suits a TPU, as far as can be seen without one."""

import keras
import numpy as np
import pytest

from keras_transfer import encoders, tasks
from keras_transfer.distribute import check_tpu_ready
from tests.tasks.dialogue import test_dialogue_model as dialogue
from tests.tasks.questions import test_span_extractor as questions
from tests.tasks.sequence_to_sequence import test_seq2seq_lm as sequence_to_sequence
from tests.tasks.test_tasks import CASES

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch is refused"),
]
ROWS, LENGTH = 16, 8

# What makes a task, its data and its labels.
TASKS = {
    name: (make, x * 4 if isinstance(x, list) else tuple(part * 4 for part in x), y and y * 4)
    for name, (make, x, y, *_) in CASES.items()
}
TASKS |= {
    "answers": (questions.extractor, *questions.examples(ROWS, seed=0)),
    "replies": (dialogue.model, dialogue.EXAMPLES * 4, None),
    "one text from another": (sequence_to_sequence.model, *sequence_to_sequence.texts(ROWS)),
}
FAST = ("classes", "words", "next tokens")

SIZES = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
OF_LSTMS = {"vocabulary_size": 12, "embedding_dim": 4, "units": 6, "num_layers": 2}
OF_CHARACTERS = {"embedding_dim": 3, "filters": [(1, 4), (2, 6)], "projection_dim": 5, "units": 8, "max_characters": 6}
OF_WORDS = {"vocabulary_size": 12, "hidden_dim": 8, "trainable": True}
ENCODERS = {
    "AlbertEncoder": {**SIZES, "embedding_dim": 4},
    "BartEncoder": SIZES,
    "BertEncoder": SIZES,
    "DebertaV2Encoder": {**SIZES, "num_buckets": 4, "conv_kernel_size": 3},
    "DistilBertEncoder": SIZES,
    "ElectraEncoder": {**SIZES, "embedding_dim": 4},
    "GPT2Encoder": SIZES,
    "GPTEncoder": SIZES,
    "MPNetEncoder": SIZES,
    "ModernBertEncoder": {**SIZES, "window": 1, "global_attention_every": 2},
    "RobertaEncoder": SIZES,
    "T5Encoder": SIZES,
    "TransformerEncoder": {**SIZES, "further_inputs": ["attention_mask"]},
    "XLNetEncoder": {**SIZES, "two_streams": True},
    "XlmEncoder": {key: size for key, size in SIZES.items() if key != "intermediate_dim"} | {"num_languages": 3},
    "Bart": SIZES,
    "BartSingleText": SIZES,
    "MBart": SIZES,
    "Marian": SIZES,
    "Pegasus": SIZES,
    "T5": SIZES,
    "ComposedEncoderDecoder": None,
    "UniLM": None,
    "AWDLSTMEncoder": OF_LSTMS,
    "AWDQRNNEncoder": OF_LSTMS,
    "ElmoEncoder": OF_CHARACTERS,
    "WordVectorEncoder": OF_WORDS,
}
OF_DECODERS = {
    "vocabulary_size": 12,
    "num_layers": 1,
    "num_query_heads": 2,
    "num_key_value_heads": 1,
    "hidden_dim": 16,
    "intermediate_dim": 32,
}
OF_BERTS = {
    "vocabulary_size": 12,
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": 16,
}
BACKBONES = {
    "AlbertBackbone": {**OF_BERTS, "embedding_dim": 8},
    "BertBackbone": OF_BERTS,
    "DebertaV3Backbone": {**OF_BERTS, "bucket_size": 8},
    "DistilBertBackbone": OF_BERTS,
    "FNetBackbone": {key: size for key, size in OF_BERTS.items() if key != "num_heads"},
    "GPT2Backbone": OF_BERTS,
    "GemmaBackbone": {**OF_DECODERS, "head_dim": 8},
    "LlamaBackbone": OF_DECODERS,
    "MistralBackbone": OF_DECODERS,
    "OPTBackbone": OF_BERTS,
    "RobertaBackbone": OF_BERTS,
    "XLMRobertaBackbone": OF_BERTS,
}


@pytest.fixture(autouse=True)
def mixed_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in TASKS]
)
def test_a_task_is_ready(name):
    make, x, y = TASKS[name]
    model = make()
    model.compile(steps_per_execution=8)
    report = check_tpu_ready(model, (x, y))
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_ready(name):
    encoder = make(name)
    outputs = keras.tree.flatten(encoder.output)
    model = keras.Model(encoder.input, [keras.layers.Dense(2)(output) for output in outputs])
    model.compile("adam", "mse", steps_per_execution=8)
    x = {key: np.ones(shape_of(tensor), "int32") for key, tensor in encoder.input.items()}
    y = [np.ones((*shape_of(output)[:-1], 2), "float32") for output in outputs]
    report = check_tpu_ready(model, (x, y))
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")  # Llama's unused output embeddings
@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_of_keras_hub_is_ready(name):
    models = pytest.importorskip("keras_hub").models
    model = tasks.TextClassifier(getattr(models, name)(**BACKBONES[name]), num_classes=2)
    model.compile(steps_per_execution=8)
    ids = np.ones((ROWS, LENGTH), "int32")
    report = check_tpu_ready(model, (dict.fromkeys(model.encoder.input, ids), [0] * ROWS))
    assert report.ok, str(report)


def make(name):
    if name == "ComposedEncoderDecoder":
        decoder = encoders.GPT2Encoder(**SIZES)
        return encoders.ComposedEncoderDecoder(encoders.BertEncoder(**SIZES), decoder)
    if name == "UniLM":
        return encoders.UniLM(encoders.BertEncoder(**SIZES))
    return getattr(encoders, name)(**ENCODERS[name])


def shape_of(tensor):
    return ROWS, *(LENGTH if size is None else size for size in tensor.shape[1:])


def test_the_tables_have_all_encoders_and_tasks():
    bases = {"Encoder", "EncoderDecoder"}
    public = {name for name in encoders.__all__ if isinstance(getattr(encoders, name), type)}
    assert {name for name in public if issubclass(getattr(encoders, name), keras.Model)} - bases == set(ENCODERS)
    assert {type(make()).__name__ for make, *_ in TASKS.values()} == {
        name for name in tasks.__all__ if isinstance(cls := getattr(tasks, name), type) and issubclass(cls, tasks.Task)
    } - {"Task"}

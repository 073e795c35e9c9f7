"""Every argument of every task is kept in a checkpoint folder, named in a warning, or refused."""

import inspect

import pytest

from keras_transfer import generation, objectives, tasks
from keras_transfer.checkpoints.tensors import CheckpointError
from tests.helpers import logged
from tools.tiny_tasks import bidirectional_lm, encoder, preprocessor, seq2seq_lm

# From each task to the arguments of models that can be written, and to arguments that no checkpoint can contain.
CASES = {
    "TextClassifier": (
        [
            {"label_names": ["a", "b"], "multi_label": True, "thresholds": [0.2, 0.7], "dropout": 0.3},
            {"num_classes": 3, "windows": "mean"},
        ],
        {
            "scalar_mix": True,
            "siamese": True,
            "batch_norm": {"hidden_activation": "relu", "batch_norm": True},
            "hidden_dim": {"hidden_activation": "relu", "hidden_dim": 4},
            "hidden_dropout": {"hidden_activation": "relu", "hidden_dropout": 0.5},
        }
        | {
            "pooling": "mean",
            "hidden_activation": "relu",
            "hidden_norm": {"hidden_activation": "relu", "hidden_norm": True},
        },
    ),
    "TextRegressor": (
        [{"num_targets": 2, "dropout": 0.3, "windows": "mean"}],
        {
            "scalar_mix": True,
            "siamese": True,
            "pooling": "mean",
            "hidden_activation": "relu",
            "hidden_norm": {"hidden_activation": "relu", "hidden_norm": True},
        },
    ),
    "TokenClassifier": (
        [{"label_names": ["a", "b"], "dropout": 0.3}],
        {
            "scalar_mix": True,
            "crf": True,
            "hidden_activation": "relu",
            "hidden_norm": {"hidden_activation": "relu", "hidden_norm": True},
        },
    ),
    "MultipleChoice": (
        [{"dropout": 0.3}],
        {
            "scalar_mix": True,
            "pooling": "mean",
            "hidden_activation": "relu",
            "hidden_norm": {"hidden_activation": "relu", "hidden_norm": True},
        },
    ),
    "SpanExtractor": (
        [{"doc_stride": 5, "max_answer_length": 7, "no_answer_threshold": 0.5}, {"overlap": 3, "dropout": 0.0}],
        {"hidden_activation": "relu", "hidden_norm": {"hidden_activation": "relu", "hidden_norm": True}},
    ),
    "TextEmbedder": (
        [
            {"pooling": "first", "normalize": True, "truncate_dim": 2, "prompts": {"query": "a "}}
            | {"default_prompt_name": "query", "dense": [{"units": 3, "activation": "tanh"}]}
        ],
        {},
    ),
    "MaskedLM": (
        [{"objective": objectives.TokenMasking(0.3)}],
        {"activation": "relu", "layer_norm_epsilon": 0.1, "use_bias": False},
    ),
    "BertPretraining": (
        [{"objective": objectives.TokenMasking(0.3)}],
        {"dropout": 0.2, "activation": "relu", "layer_norm_epsilon": 0.1},
    ),
    "Seq2SeqLM": (
        [
            {"prefix": "a ", "max_new_tokens": 5, "start_token": 5, "language_model_weight": 0.5}
            | {"sampler": generation.TopK(2), "objective": objectives.SpanCorruption()}
        ],
        {},
    ),
    "BidirectionalLM": ([{"num_sampled": 2, "streams": 2, "dropout": 0.3}], {}),
}
# The files of the folder have these, and its tensors say whether the head shares the table of the encoder.
DATA = {"encoder", "preprocessor", "name", "target_preprocessor", "vocabulary_size", "tied"}


def make(name, **options):
    cls = getattr(tasks, name)
    if name in ("Seq2SeqLM", "BidirectionalLM"):
        model = seq2seq_lm() if name == "Seq2SeqLM" else bidirectional_lm()
        return cls(model.encoder, model.preprocessor, **options)
    if name == "TokenClassifier":
        options = {"label_names": ["x", "y"], **options}
    if name == "TextClassifier" and "num_classes" not in options:
        options = {"label_names": ["x", "y"], **options}
    return cls(encoder(), preprocessor(), **options)


def differs(found, value):
    if hasattr(value, "get_config") and found is not None:
        return found.get_config() != value.get_config()
    return found != value


@pytest.mark.parametrize("name", CASES)
def test_every_argument_is_kept_or_named_in_a_warning(name, tmp_path, caplog, eagerly):
    cls = getattr(tasks, name)
    for number, options in enumerate(CASES[name][0]):
        caplog.clear()
        model = make(name, **options)
        model.save_pretrained(tmp_path / str(number))
        warnings = logged(caplog, "A checkpoint does not contain")
        loaded = cls.from_pretrained(tmp_path / str(number))
        lost = {argument for argument in options if differs(getattr(loaded, argument), getattr(model, argument))}
        assert lost == {argument for argument in options if any(argument in message for message in warnings)}
        assert lost <= {"windows", "sampler", "objective"}


@pytest.mark.parametrize("name", CASES)
def test_an_argument_that_changes_the_head_is_refused(name, tmp_path):
    for argument, value in CASES[name][1].items():
        options = value if isinstance(value, dict) else {argument: value}
        with pytest.raises(CheckpointError, match="can be written|cannot be written"):
            make(name, **options).save_pretrained(tmp_path / argument)


@pytest.mark.parametrize("name", CASES)
def test_the_table_lists_every_argument(name):
    kept, refused = CASES[name]
    expected = {*inspect.signature(getattr(tasks, name).__init__).parameters} - DATA - {"self"}
    assert {argument for options in kept for argument in options} | refused.keys() == expected

"""The ladder of KerasHub's backbones and tasks, read off their layers."""

import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.tasks import TextClassifier

keras_hub = pytest.importorskip("keras_hub")

SIZES = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8}
WITH_POSITIONS = {**SIZES, "max_sequence_length": 10}
BLOCKS = [("transformer_layer_0", "block"), ("transformer_layer_1", "block")]
EMBEDDINGS = ("embeddings", "embeddings")

CASES = {
    "BertBackbone": (WITH_POSITIONS, [EMBEDDINGS, *BLOCKS, ("pooled_dense", "pooler")]),
    "RobertaBackbone": (WITH_POSITIONS, [EMBEDDINGS, *BLOCKS]),
    "DistilBertBackbone": (WITH_POSITIONS, [EMBEDDINGS, *BLOCKS]),
    "GPT2Backbone": (WITH_POSITIONS, [EMBEDDINGS, *BLOCKS, ("layer_norm", "other")]),
    # One block, called twice: its weights are there once.
    "AlbertBackbone": (
        {**WITH_POSITIONS, "embedding_dim": 4},
        [EMBEDDINGS, ("group_0_inner_layer_0", "block"), ("pooled_dense", "pooler")],
    ),
    "DebertaV3Backbone": (
        {**WITH_POSITIONS, "bucket_size": 4},
        [EMBEDDINGS, *((f"disentangled_attention_encoder_layer_{i}", "block") for i in range(2))],
    ),
    "T5Backbone": (
        SIZES,
        [
            EMBEDDINGS,
            *((f"transformer_encoder_layer_{i}", "block") for i in range(2)),
            ("encoder_output_layer_norm", "other"),
            *((f"transformer_decoder_layer_{i}", "block") for i in range(2)),
            ("decoder_output_layer_norm", "other"),
        ],
    ),
}


def assert_partition(model):
    ladder = layer_groups(model)
    held = [id(variable) for group in ladder for variable in group.variables]
    assert sorted(held) == sorted(id(weight) for weight in model.weights)
    return ladder


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")
def test_a_backbone_has_embeddings_then_its_blocks_in_order(name):
    arguments, expected = CASES[name]
    ladder = assert_partition(getattr(keras_hub.models, name)(**arguments))
    assert [(group.name, group.kind) for group in ladder] == expected
    assert all(group.pretrained for group in ladder)


def test_the_norm_and_the_segments_of_bert_are_with_its_embeddings():
    ladder = layer_groups(keras_hub.models.BertBackbone(**WITH_POSITIONS))
    names = {layer.name for layer in ladder[0].layers}
    assert names == {"token_embedding", "position_embedding", "segment_embedding", "embeddings_layer_norm"}


def test_deberta_s_relative_positions_are_embeddings():
    ladder = layer_groups(keras_hub.models.DebertaV3Backbone(**WITH_POSITIONS, bucket_size=4))
    assert "rel_embedding" in {layer.name for layer in ladder[0].layers}


@pytest.mark.parametrize(
    ("task", "backbone", "head"),
    [
        ("BertTextClassifier", "BertBackbone", ["logits"]),
        ("RobertaTextClassifier", "RobertaBackbone", ["pooled_dense", "logits"]),
    ],
)
def test_a_keras_hub_task_adds_a_head(task, backbone, head):
    arguments, expected = CASES[backbone]
    model = getattr(keras_hub.models, task)(getattr(keras_hub.models, backbone)(**arguments), num_classes=2)
    ladder = assert_partition(model)
    assert [(group.name, group.kind) for group in ladder] == [*expected, ("head", "head")]
    assert [group.pretrained for group in ladder] == [True] * len(expected) + [False]
    assert [layer.name for layer in ladder[-1].layers] == head


def test_our_classifier_over_a_keras_hub_backbone_adds_a_head():
    model = TextClassifier(keras_hub.models.GPT2Backbone(**WITH_POSITIONS), 2)
    ladder = assert_partition(model)
    assert [group.name for group in ladder] == ["embeddings", *(name for name, _ in BLOCKS), "layer_norm", "head"]
    assert [layer.name for layer in ladder[-1].layers] == ["logits"]


def test_a_tied_language_model_s_table_is_with_the_embeddings():
    backbone = keras_hub.models.GPT2Backbone(**WITH_POSITIONS)
    ladder = assert_partition(keras_hub.models.GPT2CausalLM(backbone))
    assert [group.name for group in ladder] == ["embeddings", *(name for name, _ in BLOCKS), "layer_norm"]

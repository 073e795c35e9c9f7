"""Layer groups of KerasHub's backbones and tasks."""

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
    # One block, which is called twice.
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
    groups = layer_groups(model)
    held = [id(variable) for group in groups for variable in group.variables]
    assert sorted(held) == sorted(id(weight) for weight in model.weights)
    return groups


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")
def test_a_backbone_has_embeddings_and_then_its_blocks(name):
    arguments, expected = CASES[name]
    groups = assert_partition(getattr(keras_hub.models, name)(**arguments))
    assert [(group.name, group.kind) for group in groups] == expected
    assert all(group.pretrained for group in groups)


def test_the_embeddings_include_norm_segments_and_relative_positions():
    groups = layer_groups(keras_hub.models.BertBackbone(**WITH_POSITIONS))
    names = {layer.name for layer in groups[0].layers}
    assert names == {"token_embedding", "position_embedding", "segment_embedding", "embeddings_layer_norm"}
    groups = layer_groups(keras_hub.models.DebertaV3Backbone(**WITH_POSITIONS, bucket_size=4))
    assert "rel_embedding" in {layer.name for layer in groups[0].layers}


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
    groups = assert_partition(model)
    assert [(group.name, group.kind) for group in groups] == [*expected, ("head", "head")]
    assert [group.pretrained for group in groups] == [True] * len(expected) + [False]
    assert [layer.name for layer in groups[-1].layers] == head


def test_our_classifier_over_a_keras_hub_backbone_adds_a_head():
    model = TextClassifier(keras_hub.models.GPT2Backbone(**WITH_POSITIONS), num_classes=2)
    groups = assert_partition(model)
    assert [group.name for group in groups] == ["embeddings", *(name for name, _ in BLOCKS), "layer_norm", "head"]
    assert [layer.name for layer in groups[-1].layers] == ["logits"]


def test_the_tied_table_of_a_language_model_is_in_the_embeddings():
    backbone = keras_hub.models.GPT2Backbone(**WITH_POSITIONS)
    groups = assert_partition(keras_hub.models.GPT2CausalLM(backbone))
    assert [group.name for group in groups] == ["embeddings", *(name for name, _ in BLOCKS), "layer_norm"]

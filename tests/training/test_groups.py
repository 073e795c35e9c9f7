"""Layer groups of our own models: a partition of the weights, from the embeddings over each block to the head."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import BertEncoder, TransformerEncoder
from keras_transfer.tasks import TextClassifier
from tests.errors import check_errors
from tests.helpers import encoder_inputs

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8}
SMALL |= {"max_sequence_length": 10}


def rows(groups):
    return [(group.name, group.kind, group.pretrained) for group in groups]


def assert_partition(model):
    """Checks that each weight is in exactly one group, and that depths, names and layers are right."""
    groups = layer_groups(model)
    paths = [id(variable) for group in groups for variable in group.variables]
    assert sorted(paths) == sorted(id(weight) for weight in model.weights)
    assert [group.depth for group in groups] == list(range(len(groups)))
    assert len({group.name for group in groups}) == len(groups)
    for group in groups:
        inside = {id(weight) for layer in group.layers for weight in layer.weights}
        assert not group.layers or {id(variable) for variable in group.variables} <= inside
        assert all(layer.weights for layer in group.layers)
    return groups


ENCODER_ROWS = [
    ("embeddings", "embeddings", True),
    ("block_0", "block", True),
    ("block_1", "block", True),
]


POOLER, HEAD = ("pooler", "pooler", True), ("head", "head", False)


@pytest.mark.parametrize(
    ("make", "above"),
    [
        (lambda: BertEncoder(**SMALL), [POOLER]),
        (lambda: BertEncoder(**SMALL, pooler=False, num_segments=0), []),
        (lambda: TransformerEncoder(**SMALL, norm="pre"), [("final_norm", "other", True)]),
        (lambda: TransformerEncoder(**SMALL), []),
        (lambda: TextClassifier(BertEncoder(**SMALL), num_classes=3), [POOLER, HEAD]),
        (lambda: TextClassifier(BertEncoder(**SMALL), num_classes=3, pooling="mean"), [HEAD]),
    ],
    ids=["BERT", "without a pooler", "pre-norm", "of the tutorial", "a classifier", "an unused pooler"],
)
def test_above_embeddings_and_blocks_are_the_pooler_or_the_last_norm_and_the_head(make, above):
    assert rows(assert_partition(make())) == [*ENCODER_ROWS, *above]


def test_the_groups_of_bert_have_its_layers():
    encoder = BertEncoder(**SMALL)
    groups = layer_groups(encoder)
    embeddings = [encoder.token_embedding, encoder.position_embedding, encoder.segment_embedding]
    assert groups[0].layers == [*embeddings, encoder.embeddings_norm]
    assert [group.layers for group in groups[1:]] == [[encoder.blocks[0]], [encoder.blocks[1]], [encoder.pooler]]


def test_the_head_of_a_classifier_is_its_last_layer():
    model = TextClassifier(BertEncoder(**SMALL), num_classes=3)
    [*_, head] = layer_groups(model)
    assert head.layers == [model.get_layer("logits")] and head.parameters == 4 * 3 + 3


@pytest.mark.slow
def test_seeds_metrics_and_optimizer_slots_are_not_weights():
    model = TextClassifier(BertEncoder(**SMALL), num_classes=2)
    before = rows(layer_groups(model)), [group.parameters for group in layer_groups(model)]
    model.compile()
    model.fit(encoder_inputs(model.encoder, [[5, 6], [7, 8]]), np.array([0, 1]), verbose=0)
    groups = assert_partition(model)
    assert (rows(groups), [group.parameters for group in groups]) == before
    assert not any("seed" in variable.path for group in groups for variable in group.variables)


def test_an_encoder_inside_a_functional_model_keeps_its_groups():
    encoder = BertEncoder(**SMALL)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    x = keras.layers.Dense(5, activation="relu", name="wide")(encoder(inputs)["pooled_output"])
    model = keras.Model(inputs, keras.layers.Dense(2, name="narrow")(x))
    groups = assert_partition(model)
    assert rows(groups) == [*ENCODER_ROWS, POOLER, HEAD]
    assert [layer.name for layer in groups[-1].layers] == ["wide", "narrow"]


def test_a_tower_beside_the_encoder_is_not_pretrained():
    encoder = TransformerEncoder(**SMALL)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    features = keras.Input((3,), name="features")
    tower = keras.layers.Dense(4, name="tower_out")(keras.layers.Dense(4, name="tower_in")(features))
    joined = keras.layers.Concatenate()([encoder(inputs)["sequence_output"][:, 0], tower])
    model = keras.Model([inputs, features], keras.layers.Dense(2, name="logits")(joined))
    groups = assert_partition(model)
    assert rows(groups) == [*ENCODER_ROWS, HEAD]
    assert {layer.name for layer in groups[-1].layers} == {"tower_in", "tower_out", "logits"}


def test_two_encoders_in_one_model_keep_their_groups_and_share_a_head():
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")}
    outputs = []
    for i in range(2):
        encoder = TransformerEncoder(**SMALL, name=f"encoder_{i}")
        outputs.append(keras.layers.Dense(4, name=f"projection_{i}")(encoder(inputs)["sequence_output"][:, 0]))
    model = keras.Model(inputs, keras.layers.Dense(2, name="logits")(keras.layers.Add()(outputs)))
    groups = assert_partition(model)
    names = ["embeddings", "block_0", "block_1", "embeddings_1", "block_0_1", "block_1_1", "head"]
    assert [group.name for group in groups] == names
    assert {layer.name for layer in groups[-1].layers} == {"projection_0", "projection_1", "logits"}


def test_an_encoder_called_twice_counts_once():
    encoder = TransformerEncoder(**SMALL)
    pair = [{n: keras.Input((None,), dtype="int32", name=f"{n}_{i}") for n in encoder.input} for i in range(2)]
    vectors = [encoder(inputs)["sequence_output"][:, 0] for inputs in pair]
    model = keras.Model(pair, keras.layers.Dense(2)(keras.layers.Concatenate()(vectors)))
    assert rows(assert_partition(model)) == [*ENCODER_ROWS, HEAD]


def test_a_task_inside_another_model_keeps_its_groups():
    task = TextClassifier(BertEncoder(**SMALL), num_classes=3)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in task.encoder.input}
    model = keras.Model(inputs, keras.layers.Dense(1, name="last")(task(inputs)))
    groups = assert_partition(model)
    assert rows(groups) == [*ENCODER_ROWS, POOLER, HEAD]
    assert [layer.name for layer in groups[-1].layers] == ["logits", "last"]


def test_an_encoder_inside_a_subclassed_model_keeps_its_groups():
    class Probe(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder = TransformerEncoder(**SMALL)
            self.out = keras.layers.Dense(2, name="out")
            self.scale = self.add_weight(shape=(), name="scale")

        def call(self, inputs):
            return self.scale * self.out(self.encoder(inputs)["sequence_output"][:, 0])

    model = Probe()
    model(encoder_inputs(model.encoder, [[5, 6]]))
    groups = assert_partition(model)
    assert rows(groups) == [*ENCODER_ROWS, HEAD, ("other", "other", False)]
    assert groups[-1].variables == [model.scale]
    assert groups[-1].layers == []


def test_each_layer_of_a_plain_model_is_a_group_and_the_last_is_the_head():
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(10, 4, name="words"),
            keras.layers.LSTM(3, name="lstm"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(2, name="logits"),
        ]
    )
    expected = [("words", "embeddings", True), ("lstm", "other", True), ("logits", "head", False)]
    assert rows(assert_partition(model)) == expected


def test_an_autoencoder_with_an_attribute_encoder_loses_no_weights():
    class Autoencoder(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="down")])
            self.decoder = keras.layers.Dense(4, name="up")

        def call(self, inputs):
            return self.decoder(self.encoder(inputs))

    model = Autoencoder()
    model(np.zeros((1, 4), "float32"))
    assert rows(assert_partition(model)) == [("down", "other", True), ("up", "head", False)]


def test_nested_models_are_opened():
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(4, name="b")])
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="first"), inner, keras.layers.Dense(2)])
    assert [group.name for group in assert_partition(model)][:3] == ["first", "a", "b"]


def test_layers_of_the_same_name_get_free_numbers():
    inner = [
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="dense")]),
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="dense")]),
    ]
    first = keras.layers.Dense(4, name="dense_1")
    model = keras.Sequential([keras.Input((4,)), first, *inner, keras.layers.Dense(2, name="logits")])
    assert [group.name for group in assert_partition(model)] == ["dense_1", "dense", "dense_2", "logits"]


def test_a_tied_weight_is_in_the_lowest_group_that_uses_it():
    embedding = keras.layers.ReversibleEmbedding(10, 4, name="words")
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Dense(4, name="middle")(embedding(inputs))
    model = keras.Model(inputs, embedding(x, reverse=True))
    groups = assert_partition(model)
    assert [(group.name, len(group.variables)) for group in groups] == [("words", 1), ("middle", 2)]


def test_a_single_layer_is_a_single_group():
    dense = keras.layers.Dense(2, name="dense")
    dense.build((None, 3))
    assert rows(layer_groups(dense)) == [("dense", "other", True)]


def test_batch_normalization_statistics_are_weights_that_never_train():
    model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(2)])
    norm = assert_partition(model)[0]
    assert (norm.parameters, norm.trainable_parameters) == (16, 8)


def test_the_groups_print_as_a_table():
    model = TextClassifier(TransformerEncoder(**{**SMALL, "vocabulary_size": 1000}), num_classes=3)
    model.get_layer("block_0").trainable = False
    assert (
        str(layer_groups(model))
        == """\
depth  group       kind        pretrained  parameters  trainable
----------------------------------------------------------------
    0  embeddings  embeddings  yes              4,040      4,040
    1  block_0     block       yes                172          0
    2  block_1     block       yes                172        172
    3  head        head        no                  15         15
----------------------------------------------------------------
       total                                    4,399      4,227"""
    )


MISTAKES = {
    "no list": ({"low": "dense"}, "must be a list of `(name, regex)` with unique names. Received: groups={'low'"),
    "empty": ([], "Received: groups=[]"),
    "a string": ("dense", "Received: groups='dense'"),
    "no pai": ([("low",)], "Received: ('low',)"),
    "a string for a pai": (["ab"], "Received: 'ab'"),
    "no name": ([(1, "dense")], "Received: (1, 'dense')"),
    "no expression": ([("low", None)], "Received: ('low', None)"),
    "twice": ([("low", "kernel"), ("low", "bias")], "Received: two groups with the name 'low'"),
    "no regular expression": ([("low", "(")], "Received: ('low', '('), which is not a regular expression: missing"),
}


DENSE = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
test_a_mistake_in_the_users_groups_is_a_clear_error = check_errors(
    MISTAKES, call=lambda groups: layer_groups(DENSE, groups)
)
test_a_model_without_weights_and_other_objects_are_errors = check_errors(
    (keras.Sequential([keras.layers.Dense(2)]), "must have weights. Build or call it first. Received: model=<Seq"),
    (keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.1)]), "`model` must have weights"),
    ([], "`model` must be a Keras model or layer. Received: model=[]"),
    call=layer_groups,
)

"""The cost of a frozen group on TensorFlow, counted in the graph that runs."""

import keras
import tensorflow as tf

from keras_transfer.callbacks import Stage, StagedTraining
from tests.training.runs.staging_models import fit, make

# TensorFlow traces the gradients of all weights and prunes the graph afterwards. The tests count operations in the
# graph that runs.


def test_frozen_groups_below_have_no_backward_pass(tmp_path):
    # Forward one product per layer; backward one for each kernel that trains, and one for each layer above the lowest
    # of these, through which gradients pass.
    stages = [Stage("head", steps=4), Stage(["top", "head"], steps=4), Stage("all")]
    assert products_in_steps(stages, tmp_path) == [4 + 1, 4 + 2 + 1, 4 + 4 + 3]


def test_a_frozen_group_above_a_trained_one_only_passes_gradients_through(tmp_path):
    stages = [Stage(["low", "head"], steps=4), Stage("low", steps=4), Stage("all")]
    assert products_in_steps(stages, tmp_path) == [4 + 2 + 3, 4 + 1 + 3, 4 + 4 + 3]


def products_in_steps(stages, folder):
    """The number of matrix products in the step of each stage."""
    writer = tf.summary.create_file_writer(str(folder))

    class Trace(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            tf.summary.trace_on(graph=True, profiler=False)

        def on_train_batch_end(self, batch, logs=None):
            with writer.as_default():
                tf.summary.trace_export("step", step=callback.stage)

    callback, counts = StagedTraining(stages), {}
    fit(make(run_eagerly=False, jit_compile=False), callback, Trace(), epochs=3)
    writer.close()
    for record in tf.data.TFRecordDataset([str(path) for path in folder.iterdir()]):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            run = tf.compat.v1.RunMetadata.FromString(value.tensor.string_val[0])
            nodes = [node.op for graph in run.function_graphs for node in graph.post_optimization_graph.node]
            counts[event.step] = counts.get(event.step, 0) + sum(op in ("MatMul", "_FusedMatMul") for op in nodes)
    assert list(counts) == list(range(len(stages)))
    return list(counts.values())

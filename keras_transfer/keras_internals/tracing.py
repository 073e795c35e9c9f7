"""TensorFlow code for tasks and layers, which cannot import it: one trace for all shapes, or for all equal layers."""

import keras

from keras_transfer.core.lazy import tf


def trace_predict(model, batch):
    """Traces Keras's function for `predict` on TensorFlow for any number of rows and any length, but for one rank.

    Keras would trace it up to three times: for the first batch, for one of another length, and for the short last one.
    """
    if keras.backend.backend() != "tensorflow" or model.run_eagerly or model.steps_per_execution > 1:
        return
    if tf.config.functions_run_eagerly():
        return
    if tf.distribute.has_strategy() or model.distribute_strategy is not tf.distribute.get_strategy():
        return  # Replicas trace a function of their own, and TPUs require static shapes.
    tensors = model.input if isinstance(model.input, dict) else {tensor.name: tensor for tensor in model.inputs}

    def spec(values, name=None):
        if isinstance(values, dict):
            return {name: spec(each, name) for name, each in values.items()}
        if isinstance(values, (list, tuple)):
            return type(values)(map(spec, values, tensors))
        shape = [None, *values.shape[1:]]
        known = tensors[name].shape if name in tensors else [None, None, *shape[2:]]
        for axis in range(1, min(len(shape), len(known))):
            if known[-axis] is None:
                shape[-axis] = None  # From behind: rows of several texts have one more axis in front.
        return tf.TensorSpec(shape, keras.backend.standardize_dtype(values.dtype))

    specs = tuple(map(spec, batch))
    ranks = [len(values.shape) for values in keras.tree.flatten(batch[0])]  # Two ranks would become an unknown one.
    model.make_predict_function(force=getattr(model.predict_function, "traced_ranks", ranks) != ranks)
    function = model.predict_function
    if getattr(function, "traced_specs", None) != specs:  # Asking TensorFlow takes longer than the model for one text.
        function.get_concrete_function([specs])
    function.traced_ranks, function.traced_specs = ranks, specs


def predict_batch(model, inputs):
    """Returns the outputs of a model for one batch of prepared inputs, from one trace for batches of all shapes."""
    trace_predict(model, (inputs,))
    return keras.Model.predict_on_batch(model, inputs)


def in_plain_graph():
    """Returns whether TensorFlow traces a function that runs on one device."""
    return keras.backend.backend() == "tensorflow" and not tf.executing_eagerly() and not tf.distribute.has_strategy()


def call_shared(function, key, *structures):
    """Returns what a function of tensors returns, which the graph that is being traced has only once under a key.

    The graph keeps what was traced, not the function, because the layers of the function keep the graph alive.
    """
    traced = tf.compat.v1.get_default_graph().get_collection_ref("keras_transfer/functions")
    structures = keras.tree.map_structure(tf.convert_to_tensor, structures)
    key = key, tuple((value.dtype, str(value.shape)) for value in keras.tree.flatten(structures))
    if key not in dict(traced):
        traced.append((key, tf.function(function, autograph=False).get_concrete_function(*structures)))
    return dict(traced)[key](*structures)

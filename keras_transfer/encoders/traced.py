"""What Keras has traced or compiled for a model, which is discarded once the layers of the model have changed."""

import weakref

from keras_transfer.keras_internals import layer_tracking


def _made_again(name):
    """Returns a method that makes one of Keras's functions, after those of other layers have been discarded."""

    def make(self, force=False):
        self.discard_if_changed()
        return getattr(super(TracesAgain, self), name)(force=force)

    return make


class TracesAgain:
    """A mixin for `Encoder` and `Task`, whose functions are made again after quantization or a change of adapters.

    Models share layers, and any of them can change these. Each model therefore compares its layers with those for
    which its functions were made, whenever it uses one.
    """

    _traced_layers = None

    def discard_if_changed(self):
        """Discards what was made for this model if its layers have changed since."""
        layers = [
            # `active` are the adapters that an `Adapted` applies. Layers that were removed must not be kept alive.
            (
                weakref.ref(layer),
                getattr(layer, "active", None),
                layer.quantization_mode,
                getattr(layer, "lora_enabled", False),
            )
            for layer in layer_tracking.layers_in(self)
        ]
        if layers == self._traced_layers:
            return
        if self._traced_layers is not None:
            self.train_function = self.test_function = self.predict_function = None
            getattr(self, "compiled_generators", {}).clear()
        object.__setattr__(self, "_traced_layers", layers)  # Keras must not track these layers a second time.

    make_train_function, make_test_function, make_predict_function = map(
        _made_again, ("make_train_function", "make_test_function", "make_predict_function")
    )

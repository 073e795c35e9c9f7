"""What Keras has traced or compiled for a model, which is discarded once the layers of the model have changed."""

import collections
import weakref

from keras_transfer.keras_internals import layer_tracking

_DERIVED = 8


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

    def derived(self, name, make):
        """Returns a model of the layers of this one, such as one that scores texts. The eight used last are kept.

        Args:
            name: String or tuple. The name by which the model is kept, until the layers change.
            make: Function without arguments that returns the model.

        Returns:
            What `make` returns, or has returned before.
        """
        self.discard_if_changed()
        kept = self.derived_models.data
        model = kept.pop(name, None) or make()
        kept[name] = model  # The last one: the first has not been used for the longest time.
        if len(kept) > _DERIVED:
            kept.pop(next(iter(kept)), None)
        return model

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
        # Keras must not track these layers a second time. It would track a plain dict, and save the models in it.
        object.__setattr__(self, "_traced_layers", layers)
        object.__setattr__(self, "derived_models", collections.UserDict())

    make_train_function, make_test_function, make_predict_function = map(
        _made_again, ("make_train_function", "make_test_function", "make_predict_function")
    )

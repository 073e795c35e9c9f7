"""What hangs on an encoder beside its own weights: adapters, quantization, and what its checkpoint says."""

import keras

from keras_transfer.core.expect import expect
from keras_transfer.encoders.quantization import quantization_of, quantize_again
from keras_transfer.keras_internals import could_train, set_trainable
from keras_transfer.layers import show_old_places


class Attached:
    """What hangs on an encoder beside its own weights. Tasks ask it, and nothing else is set on an encoder.

    Args:
        encoder: `Encoder`.

    Attributes:
        adapters: Dict from names to lists of kinds, such as `adaptation.LoRA`.
        active: Tuple of the names of the adapters that are applied, in order.
        slots: List of the `Adapted`s in the order in which they were created.
        layout: Integer. It is 1 while files have adapters where version 0.1 had them, and otherwise 2.
        files: Dict from the names of a checkpoint's files to the settings in them that the encoder does not have. They
            are written back, and `generate` uses the ones that concern generation.
        report: The `CheckpointReport` of an encoder from a checkpoint, or `None`.
    """

    def __init__(self, encoder):
        self._encoder = encoder
        self.adapters, self.active, self.slots, self.layout = {}, (), [], 2
        self.files, self.report = {}, None
        self._same_blocks = lambda: None

    # === Adapters ===

    def add(self, name, kinds):
        """Adds adapters under a name, and makes them the active ones."""
        for kind in kinds:
            kind.attach(self._encoder, name)
        self.adapters[name] = list(kinds)
        self.activate([name])

    def activate(self, names):
        """Applies the adapters with these names, in this order, and no others."""
        for block in self._encoder.blocks if self.layout == 1 else ():
            vars(block).pop("adapters", None)  # `show_old_places` has set it.
        self.active, self.layout = tuple(names), 2
        for slot in self.slots:
            slot.activate(names)
        self._encoder.adapters_changed()

    def share_blocks(self, other):
        """Notes that another encoder consists of the same blocks, which a function returns, or `None` if it is gone."""
        self._same_blocks = other

    def check_shared_blocks(self):
        """Raises a `ValueError` if the blocks have adapters of another encoder, which also consists of them."""
        other = self._same_blocks()
        adapters = [] if other is None else list(other.adapters)
        rule = (
            f"The blocks of this encoder have adapters that belong to a `{type(other).__name__}`. Save and adapt that "
            "model, or call `remove_adapters` or `merge_adapters` with it first."
        )
        expect(not adapters, rule, encoder=self._encoder, adapters=adapters)

    # === Files ===

    def facts(self, names=None):
        """Returns what Keras does not compare when it loads the weights of the encoder, as a dict of JSON values.

        Args:
            names: List of the names of a task's classes, dict of these for several heads, or `None`.
        """
        operations = getattr(self._encoder, "operations", ())
        count = sum(bool(getattr(operation, "weights", ())) for operation in operations)
        return {"layers": count, "adapters": list(self.adapters), "label_names": names}

    def config(self):
        """Returns the part of the encoder's config that describes what hangs on it."""
        self.check_shared_blocks()
        found = {"checkpoint_settings": self.files} if self.files else {}
        if self.adapters:
            found["adapters"] = {
                name: [keras.saving.serialize_keras_object(kind) for kind in kinds]
                for name, kinds in self.adapters.items()
            }
            found["active_adapters"] = list(self.active)
            found["frozen"] = [weight.path for weight in self._encoder.weights if not weight.trainable]
            found["adapter_layout"] = self.layout
        return found | quantization_of(self._encoder)

    def restore(self, config):
        """Attaches to a new encoder what `config` returned."""
        quantize_again(self._encoder, config.get("quantization", ()))
        self.files, adapters = config.get("checkpoint_settings", {}), config.get("adapters", {})
        for name, kinds in adapters.items():
            self.add(name, [keras.saving.deserialize_keras_object(kind) for kind in kinds])
        self.activate(config.get("active_adapters", ()))
        if adapters:
            self.layout, frozen = config.get("adapter_layout", 1), set(config["frozen"])
            if self.layout == 1:
                show_old_places(self.slots)
            set_trainable(self._encoder, [weight for weight in could_train(self._encoder) if weight.path not in frozen])


IN_CONFIG = ("adapters", "active_adapters", "frozen", "adapter_layout", "checkpoint_settings", "quantization")


def attached_to(model):
    """Returns the `Attached` of an encoder, and an empty one for another model, such as a KerasHub backbone."""
    return getattr(model, "attached", None) or Attached(model)

"""What a task keeps in a `.keras` file besides its weights."""

import keras
import numpy as np

from keras_transfer.keras_internals import could_train, set_trainable

_ACTIVE = "active adapters "


class Saved:
    """A mixin for the config of a task, and for the heads of adapters that are not active."""

    def save_own_variables(self, store):
        """Adds the heads of adapters that are not active to a file."""
        self.check_adapters()
        super().save_own_variables(store)
        for name, values in self.adapter_heads.items():
            for i, value in enumerate(values):
                store[f"head {i:03} of {name}"] = value
        if self.given_adapters:
            store[_ACTIVE + "+".join(self.given_adapters)] = np.zeros(1, "float32")  # The name of the key counts.

    def load_own_variables(self, store):
        """Reads what `save_own_variables` writes.

        Raises:
            ValueError: If the head in the file belongs to other adapters than the model's head.
        """
        values, heads = {key: store[key] for key in list(store.keys())}, {}
        for key in [key for key in values if key.startswith(_ACTIVE)]:  # Older files have none.
            values.pop(key)
            active = key.removeprefix(_ACTIVE).split("+")
            if tuple(active) != self.given_adapters:
                raise ValueError(
                    "The head in the file belongs to other adapters than the model's head. Call "
                    f"`set_active_adapter(model, {active if len(active) > 1 else active[0]!r})` before you load it. "
                    f"Received: a file with the active adapters {active}, and a model with {list(self.given_adapters)}"
                )
        for key in sorted(key for key in values if key.startswith("head ")):
            name = key.split(" of ", 1)[1]
            heads.setdefault(name, []).append(np.array(values.pop(key)))
        super().load_own_variables(values)
        self.adapter_heads.update(heads)

    def get_config(self):
        self.check_adapters()
        if self.part is not None:
            self.part.refuse("saved")
        mix = {} if self.scalar_mix is None else {"scalar_mix": keras.saving.serialize_keras_object(self.scalar_mix)}
        kind = {} if self.fitted_on is None else {"fitted_on": self.fitted_on}
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "frozen": [variable.path for variable in self.weights if not variable.trainable],
            "name": self.name,
            **mix,
            **kind,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        frozen, kind = set(config.pop("frozen", ())), config.pop("fitted_on", None)
        for part in {"encoder", "preprocessor", "scalar_mix", "objective", "generator"} & set(config):
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects=custom_objects)
        task = cls(**config)
        task.fitted_on = kind
        return set_trainable(task, [weight for weight in could_train(task) if weight.path not in frozen])

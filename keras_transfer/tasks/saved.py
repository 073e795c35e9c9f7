"""What a task keeps in a `.keras` file besides its weights."""

import keras
import numpy as np

from keras_transfer.training.trainable import could_train, set_trainable


class Saved:
    """A mixin for the config of a task, and for the heads of adapters that are not active."""

    def save_own_variables(self, store):
        """Adds the heads of adapters that are not active to a file."""
        self.check_adapters()
        super().save_own_variables(store)
        for name, values in self.adapter_heads.items():
            for i, value in enumerate(values):
                store[f"head {i:03} of {name}"] = value

    def load_own_variables(self, store):
        """Reads what `save_own_variables` writes."""
        values, heads = {key: store[key] for key in list(store.keys())}, {}
        for key in sorted(key for key in values if key.startswith("head ")):
            name = key.split(" of ", 1)[1]
            heads.setdefault(name, []).append(np.array(values.pop(key)))
        super().load_own_variables(values)
        self.adapter_heads.update(heads)

    def get_config(self):
        self.check_adapters()
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

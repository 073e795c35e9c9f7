"""A config is what the constructor was given, and makes an equal object."""

import keras

from keras_transfer.core.saved_arguments import SavedByArguments


class Base(SavedByArguments):
    def __init__(self, size=1, *, seed=None):
        self.size, self.seed = size, seed


@keras.saving.register_keras_serializable(package="test_saved_arguments")
class Named(Base):
    assets = ("words",)

    def __init__(self, names=(), words=None, inner=None, **options):
        super().__init__(**options)
        self.names, self.words, self.inner = tuple(names), words, inner


def test_the_config_has_all_arguments_but_those_that_are_saved_as_files():
    assert Base(2).get_config() == {"size": 2, "seed": None}
    found = Named(("a", "b"), ["x"], seed=3).get_config()
    assert found == {"names": ["a", "b"], "inner": None, "size": 1, "seed": 3}


def test_objects_inside_are_saved_and_made_again():
    again = Named.from_config(Named(inner=Named(["c"], size=4)).get_config())
    assert (again.inner.names, again.inner.size, again.size) == (("c",), 4, 1)


def test_a_subclass_adds_an_argument_that_it_keeps_elsewhere():
    class Own(Base):
        def __init__(self, label, **options):
            super().__init__(**options)
            self._label = label

        def get_config(self):
            return {"label": self._label, **super().get_config()}

    assert Own("a", seed=3).get_config() == {"label": "a", "size": 1, "seed": 3}
